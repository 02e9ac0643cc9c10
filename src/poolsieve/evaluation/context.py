"""What schemes are evaluated with: networks, what their outputs are worth, and a mixture of known images."""

from __future__ import annotations

from dataclasses import dataclass

from poolsieve.bundles.recordings import Recordings
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.evaluation.scheme_runs import SchemeRun, run_scheme
from poolsieve.schemes import LikelihoodModel, Scheme
from poolsieve.schemes.cost_model import Price
from poolsieve.schemes.runner import Networks


@dataclass(frozen=True)
class EvaluationContext:
    """A mixture, and networks to judge it with.

    Attributes:
        networks: Most often `RecordedNetworks`; None where there are no images to try anything on, but a
            prevalence to set methods up for.
        likelihoods: What their outputs are worth.
        price: Multiply-adds of the networks.
        pool_sizes: Pool sizes that they read.
        gated: Whether features are multiplied by the gate before they are merged.
        mixture: What to judge.
        seed: Decides who shares a pool with whom.
        recordings: What the bundle's plans are made of, if it has any.
    """

    networks: Networks | None
    likelihoods: LikelihoodModel
    price: Price
    pool_sizes: tuple[int, ...]
    gated: bool
    mixture: Mixture
    seed: int
    recordings: Recordings | None = None

    @property
    def has_images(self) -> bool:
        """Whether anything can be tried here."""
        return self.networks is not None

    def run(self, scheme: Scheme) -> SchemeRun:
        """Judge the mixture by a scheme."""
        assert self.networks is not None, "there are no images to run a scheme on"
        return run_scheme(
            scheme,
            self.mixture,
            self.networks,
            self.likelihoods,
            self.price,
            gated=self.gated,
            seed=self.seed,
        )
