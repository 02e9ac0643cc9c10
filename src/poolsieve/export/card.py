"""The model card of a bundle: what it is for, what it was made of, how good it is, where it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poolsieve.bundles.config import BundleConfig
from poolsieve.calibration import Calibration
from poolsieve.outliers import OutlierReadings
from poolsieve.statistics import Estimate, auc_from_counts, proportion

_BINARY = "- Pools are read as clean or not; how many images of a pool are bad is not counted."
_MERGES = {
    "gated": "a gated maximum",
    "max": "the plain maximum",
    "tree": "the plain maximum, at several depths",
}
_SHARED = "- One counting network serves all pool sizes; it was trained on pools of each."


def model_card(
    config: BundleConfig,
    calibration: Calibration,
    results: Mapping[str, Any] | None,
    settings: Mapping[str, Any] | None,
    outliers: OutlierReadings | None = None,
    notes: str = "",
) -> str:
    """The card as Markdown.

    Args:
        config: The bundle's configuration; its files are not looked at.
        calibration: Its calibration.
        results: Figures on test data, if there are any.
        settings: Settings of the training, if known.
        outliers: How outputs are read, if by the density of features.
        notes: Further sections, as Markdown.
    """
    sizes = ", ".join(map(str, config.pool_sizes))
    cost = config.cost
    lines = [
        f"# {config.task}: a poolsieve bundle",
        "",
        f"Finds images {_what(config)} (task `{config.task}`), one image at a time or in pools of {sizes}.",
        "",
        "## Networks",
        "",
        f"- Backbone {config.backbone} at {config.input_size // config.shrink} px, cut after `{config.cut}`; "
        f"front features {' × '.join(map(str, config.feature_shape))}.",
        *_resize_mode_lines(config),
        f"- Pools are merged by {_MERGES[config.merge]}.",
        *([_BINARY] if config.readings == "binary" else []),
        *([_SHARED] if config.counting == "shared" else []),
        f"- One individual test costs {cost.whole / 1e6:.1f} million multiply-adds; the front is "
        f"{cost.front_share:.1%} of it, the gate with the cheap head another {cost.gate_share:.1%}.",
        *_glance_lines(config),
        f"- Weights are stored as {config.precision}.",
        "",
        "## Data",
        "",
        *_data_lines(config, results, settings),
        "",
        "## Results",
        "",
        *(_result_lines(results) if results is not None else ["No test results came with the training run."]),
        _calibration_line(calibration),
        *_outlier_lines(outliers),
        "",
        "## Intended use",
        "",
        "Sorting out the images of a large collection that a person should look at. Every flag can be "
        "explained from the pools that the image was in and from its individual test.",
        "",
        "## Limits",
        "",
        "- The figures hold for images like those of the test data. Measure on your own before you rely on "
        "them.",
        "- A flag is a reason to look, not a proof; a clear image is not certified. Do not take action "
        "against a person on a verdict alone.",
        "- Pools of a design share images, and their errors go together: do not reckon with figures of pools "
        "as if they were independent.",
        "- Images that were changed to deceive the network are not covered by any figure here.",
        "",
        *([notes.strip(), ""] if notes.strip() else []),
    ]
    return "\n".join(lines)


def _resize_mode_lines(config: BundleConfig) -> list[str]:
    shapes = config.training_shapes
    if config.resize_mode == "stretch" and shapes is not None and shapes.all_square:
        return ["- Trained on squares; photographs are stretched to squares."]
    how = "padding with zeros" if config.resize_mode == "pad" else "stretching"
    lines = [f"- Images are made square by {how}."]
    if shapes is not None:
        lines.append(f"- Shapes: {shapes.misfit(config.resize_mode) or shapes.describe()}.")
    return lines


def _what(config: BundleConfig) -> str:
    if config.kind == "outlier":
        return "that are off-topic: unlike the on-topic ones that it has learnt, whatever else they show"
    return "of the kind that it was trained to flag"


def _outlier_lines(outliers: OutlierReadings | None) -> list[str]:
    """How densities are read, for a bundle that reads them."""
    if outliers is None:
        return []
    readings = {"single images": outliers.individual}
    readings |= {f"pools of {size}": reading for size, reading in outliers.counting.items()}
    lines = ["", "## How off-topic images are told", ""]
    for name, reading in readings.items():
        mixture = reading.mixture
        how = (
            "the density alone decides, by the histogram of scores"
            if reading.by_density
            else f"combined logit = {reading.logit_weight:.2f} × the network's own output + "
            f"{reading.score_weight:.2f} × log-likelihood of the score"
        )
        lines.append(
            f"- Of {name}: a mixture of {mixture.clusters} Gaussians ({mixture.covariance} covariances, "
            f"{mixture.dimensions} of {mixture.width} directions); {how}."
        )
    return lines


def _glance_lines(config: BundleConfig) -> list[str]:
    if config.joined:
        return _joined_lines(config)
    if config.glance is None:
        return []
    size = config.input_size // config.glance.shrink
    part = (
        "all of the backbone" if config.glance.stop is None else f"the backbone up to `{config.glance.stop}`"
    )
    return [
        f"- A glance at {size} px ({part}, with weights of its own) costs "
        f"{config.cost.glance_share:.1%} of an individual test; images that it clears need no more."
    ]


def _joined_lines(config: BundleConfig) -> list[str]:
    return [
        f"- Front, gate, head and pools look at images of {config.input_size // config.shrink} px. What they "
        f"leave is tested by a network of its own at {config.input_size} px, from pixels on.",
        f"- The glance is the rest of the small network: it goes on from the front, for "
        f"{config.cost.glance_share:.1%} of an individual test.",
    ]


def _data_lines(
    config: BundleConfig, results: Mapping[str, Any] | None, settings: Mapping[str, Any] | None
) -> list[str]:
    lines = []
    if results is not None:
        images = results["images"]
        lines.append(f"- Tested on {images['flagged']} images to flag and {images['ordinary']} others.")
    for size, prior in config.training_prior.items():
        shares = ", ".join(f"{share:.1%}" for share in prior)
        lines.append(f"- Trained on pools of {size} of which {shares} held 0 … {size} images to flag.")
    if settings is not None:
        front = {"frozen": "kept as pretrained", "tuned": f"tuned after `{settings.get('tune_from')}`"}
        how = front.get(str(settings.get("front")), "trained as a whole")
        lines.append(f"- The front was {how}; seed {settings.get('seed')}.")
    return lines


def _result_lines(results: Mapping[str, Any]) -> list[str]:
    """Figures with 95% intervals: Wilson's for shares, Hanley and McNeil's (1982) for areas under curves."""
    bad, good = int(results["images"]["flagged"]), int(results["images"]["ordinary"])
    individual = results["individual"]
    lines = [
        "On test data, with 95% intervals. Those of pools take pools as independent, though many share "
        "images of the test data. Sensitivity and specificity are at even odds before calibration, which "
        "moves them: where flagged images are the fewer in the validation data, more are missed.",
        "",
        "| | value | interval |",
        "|---|---|---|",
        _auc_row("individual network, AUC", individual["auc"], bad, good),
        _share_row("individual network, sensitivity", individual["sensitivity"], bad),
        _share_row("individual network, specificity", individual["specificity"], good),
        _auc_row("cheap head, AUC", results["head"]["auc"], bad, good),
    ]
    if "glance" in results:
        lines.append(_auc_row("glance, AUC", results["glance"]["auc"], bad, good))
    for size, figures in results["counting"].items():
        pools = int(figures["pools"])
        if "auc_0_1" in figures:
            held = {row["count"]: int(row["pools"]) for row in figures["per_count"]}
            name = f"pools of {size}, one bad image against none, AUC"
            lines.append(_auc_row(name, figures["auc_0_1"], held[1], held[0]))
        lines.append(_share_row(f"pools of {size}, count exact", figures["exact"], pools))
        lines.append(_share_row(f"pools of {size}, within one", figures["within_one"], pools))
        for row in figures["per_count"][:3]:
            name = f"pools of {size} with {row['count']} bad, count exact"
            lines.append(_share_row(name, row["exact"], int(row["pools"])))
    return [*lines, ""]


def _share_row(name: str, value: float, total: int) -> str:
    return _row(name, proportion(round(value * total), total))


def _auc_row(name: str, auc: float, bad: int, good: int) -> str:
    return _row(name, auc_from_counts(auc, bad, good))


def _row(name: str, found: Estimate) -> str:
    return f"| {name} | {found.value:.4f} | {found.low:.4f} to {found.high:.4f} |"


def _calibration_line(calibration: Calibration) -> str:
    head = calibration.head_roc
    beside = "" if head is None else f", cheap head AUC {head.auc:.4f}"
    return f"On validation data: individual network AUC {calibration.individual_roc.auc:.4f}{beside}."
