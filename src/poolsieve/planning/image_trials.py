"""Ways to decide about every image by itself, tried on recorded images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from poolsieve.planning.trial import Trial, bounds_for
from poolsieve.recordings import Recordings


def individual_trial(recordings: Recordings) -> Trial:
    """Every image tested."""
    return _image_trial(
        recordings, "individual", {}, None, np.zeros(len(recordings.bad)), np.zeros(1), head=False
    )


def cascade_trial(recordings: Recordings, prevalence: float) -> Trial:
    """The head clears images, the individual network decides about the rest."""
    assert recordings.heads is not None
    values = recordings.heads + logit(prevalence)
    return _image_trial(
        recordings,
        "cascade",
        {"prevalence": prevalence},
        "clear_below",
        values,
        bounds_for(values[~recordings.bad]),
        head=True,
    )


def glance_trial(recordings: Recordings, prevalence: float) -> Trial:
    """A glance clears images, the whole network decides about the rest."""
    assert recordings.glances is not None
    values = recordings.glances + logit(prevalence)
    parameters = {"prevalence": prevalence}
    bounds = bounds_for(values[~recordings.bad])
    trial = _image_trial(recordings, "glance", parameters, "clear_below", values, bounds, head=False)
    return replace(trial, glance=True)


def _image_trial(
    recordings: Recordings,
    scheme: str,
    parameters: dict[str, Any],
    bound_name: str | None,
    values: NDArray[np.float64],
    bounds: NDArray[np.float64],
    *,
    head: bool,
) -> Trial:
    number = len(recordings.bad)
    return Trial(
        scheme,
        parameters,
        bound_name,
        np.arange(number),
        values.astype(np.float64),
        np.zeros(number, dtype=np.intp),
        np.ones((1, 1)),
        np.zeros(number, dtype=bool),
        np.zeros(number, dtype=bool),
        pools=np.zeros(number),
        head=head,
        tests=True,
        bounds=bounds,
        complexity=0 if scheme == "individual" else 1,
    )
