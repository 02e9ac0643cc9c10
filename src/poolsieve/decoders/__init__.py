"""Decoders: which images are bad, from what the pools say."""

from poolsieve.decoders.bayes import MAP, BeliefPropagation
from poolsieve.decoders.binary_decoders import COMP, DD, NCOMP, SCOMP
from poolsieve.decoders.classo import CLasso
from poolsieve.decoders.decoder import (
    Choice,
    Decoder,
    Decoding,
    Instance,
    Interval,
    decoder_name,
    list_decoders,
    make_decoder,
    parameter,
    register_decoder,
)
from poolsieve.decoders.decoder_checks import check_decoder
from poolsieve.decoders.mip import MIP
from poolsieve.decoders.noise import CountNoise, LatentNoise
from poolsieve.decoders.plugins import load_plugin
from poolsieve.decoders.quantitative import GreedyCounts, QuantitativeThreshold
from poolsieve.decoders.readings import Readings, remove_training_prior
from poolsieve.decoders.text_form import DecoderChoice, parse_decoder
from poolsieve.decoders.tuning import Tuned, TuningPoint, tune

__all__ = [
    "COMP",
    "DD",
    "MAP",
    "MIP",
    "NCOMP",
    "SCOMP",
    "BeliefPropagation",
    "CLasso",
    "Choice",
    "CountNoise",
    "Decoder",
    "DecoderChoice",
    "Decoding",
    "GreedyCounts",
    "Instance",
    "Interval",
    "LatentNoise",
    "QuantitativeThreshold",
    "Readings",
    "Tuned",
    "TuningPoint",
    "check_decoder",
    "decoder_name",
    "list_decoders",
    "load_plugin",
    "make_decoder",
    "parameter",
    "parse_decoder",
    "register_decoder",
    "remove_training_prior",
    "tune",
]
