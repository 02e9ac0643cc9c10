"""Schemes: lists of stages that decide about chunks of images, all on the same runner and cost meter."""

from poolsieve.schemes.cost_model import CostMeter, Part, register_part
from poolsieve.schemes.decoded_pools import DecodedPools
from poolsieve.schemes.dorfman_pools import DisjointPools
from poolsieve.schemes.glance_look import Glance
from poolsieve.schemes.head_look import Head
from poolsieve.schemes.individual import Test
from poolsieve.schemes.likelihood_model import LikelihoodModel
from poolsieve.schemes.look import Look
from poolsieve.schemes.pool_stage import PoolStage
from poolsieve.schemes.pools import Pools
from poolsieve.schemes.prevalence import Prevalence, PrevalenceEstimator
from poolsieve.schemes.runner import Chunk
from poolsieve.schemes.scheme import Scheme, list_schemes, make_scheme
from poolsieve.schemes.scheme_checks import check_scheme
from poolsieve.schemes.stages import Decision, Stage, Undecided, list_stages, make_stage, register_stage

__all__ = [
    "Chunk",
    "CostMeter",
    "Decision",
    "DecodedPools",
    "DisjointPools",
    "Glance",
    "Head",
    "LikelihoodModel",
    "Look",
    "Part",
    "PoolStage",
    "Pools",
    "Prevalence",
    "PrevalenceEstimator",
    "Scheme",
    "Stage",
    "Test",
    "Undecided",
    "check_scheme",
    "list_schemes",
    "list_stages",
    "make_scheme",
    "make_stage",
    "register_part",
    "register_stage",
]
