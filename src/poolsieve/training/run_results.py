"""Figures of a trained model on the test split."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from poolsieve.calibration import confusion_counts
from poolsieve.networks import multiply_adds
from poolsieve.networks.trained import TrainedModel
from poolsieve.outliers import OutlierReadings
from poolsieve.statistics import auc
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import auc_of_one, badness
from poolsieve.training.sampling import PoolBatch, seeded_pools
from poolsieve.training.settings import TrainingSettings
from poolsieve.training.validation import counted, judge_images


def measure(
    model: TrainedModel,
    inputs: CachedInputs,
    settings: TrainingSettings,
    outliers: OutlierReadings | None = None,
    glances: NDArray[np.float32] | None = None,
) -> dict[str, Any]:
    """All figures of a model on one split, as plain values for `results.json`."""
    labels = inputs.labels
    images = judge_images(model, inputs, outliers)
    margin = images.margin
    probability = expit(margin.astype(np.float64))
    counting = {}
    for size, network in sorted(model.counting.items()):
        numbers = settings.pool_numbers(size, settings.test_pools)
        pools = seeded_pools(labels, numbers, settings.seed, "test")
        logits, read = counted(network, inputs, pools, None if outliers is None else outliers.counting[size])
        counting[str(size)] = _counting_figures(logits, pools, probability[pools.members].sum(axis=1), read)
    cost = multiply_adds(model.backbone, model.gate, model.glance, model.tree)
    return {
        "images": {"flagged": int(labels.sum()), "ordinary": int((labels == 0).sum())},
        "individual": {
            "auc": auc(margin, labels),
            "sensitivity": float(np.mean(margin[labels == 1] > 0)),
            "specificity": float(np.mean(margin[labels == 0] <= 0)),
            "sensitivity_at_985": sensitivity_at(margin, labels, 0.985),
        },
        "head": {"auc": auc(images.head, labels)},
        **({} if glances is None else {"glance": {"auc": auc(glances, labels)}}),
        "counting": counting,
        "cost": {
            "front_share": cost.front_share,
            "gate_share": cost.gate_share,
            "glance_share": cost.glance / cost.whole,
            "multiply_adds": vars(cost),
        },
    }


def sensitivity_at(scores: NDArray[np.float32], labels: NDArray[np.int64], specificity: float) -> float:
    """Share of bad images above the lowest threshold that leaves this share of the clear ones alone."""
    threshold = np.quantile(scores[labels == 0], specificity, method="inverted_cdf")
    return float(np.mean(scores[labels == 1] > threshold))


def _counting_figures(
    logits: NDArray[np.float32], pools: PoolBatch, summed: NDArray[np.float64], read: NDArray[np.int64]
) -> dict[str, Any]:
    """Figures of the counts that a network reads, beside those of an ideal reader.

    That one rounds the individual network's probabilities, `summed` over each pool's images.
    """
    counts, size = pools.counts, logits.shape[1] - 1
    ideal = np.clip(np.rint(summed), 0, size).astype(np.int64)
    hits = {"exact": read == counts, "within_one": np.abs(read - counts) <= 1, "ideal_exact": ideal == counts}
    per_count = [
        {"count": count, "pools": int(np.sum(counts == count))}
        | {name: float(np.mean(hit[counts == count])) for name, hit in hits.items()}
        for count in np.unique(counts).tolist()
    ]
    figures: dict[str, Any] = {
        "pools": len(counts),
        **{name: float(np.mean(hit)) for name, hit in hits.items()},
        "per_count": per_count,
        "confusion": confusion_counts(counts, read, size).tolist(),
    }
    told = auc_of_one(badness(logits), counts)
    if told is not None:
        figures["auc_0_1"] = told
        figures["ideal_auc_0_1"] = auc_of_one(summed, counts)
        figures["pools_0_1"] = int((counts <= 1).sum())
    return figures


USEFUL_AUC = 0.8
"""AUC of pools with one bad image against clean ones below which pools are of little use."""


def table_lines(results: dict[str, Any]) -> list[str]:
    """The figures as a small table for people."""
    individual, images = results["individual"], results["images"]
    lines = [
        f"test images: {images['flagged']} flagged, {images['ordinary']} ordinary",
        f"individual network: AUC {individual['auc']:.4f}, sensitivity {individual['sensitivity']:.3f}, "
        f"specificity {individual['specificity']:.3f} (at specificity .985: sensitivity "
        f"{individual['sensitivity_at_985']:.3f}); cheap head: AUC {results['head']['auc']:.4f}",
        f"cost: front {results['cost']['front_share']:.3f} of an individual test, "
        f"gate with head {results['cost']['gate_share']:.3f}",
    ]
    if "glance" in results:
        lines.append(
            f"glance: AUC {results['glance']['auc']:.4f} at {results['cost']['glance_share']:.3f} of an "
            "individual test"
        )
    for size, figures in results["counting"].items():
        lines.append(
            f"pools of {size}: {figures['pools']} pools, exact {figures['exact']:.3f}, within one "
            f"{figures['within_one']:.3f} (ideal reader exact {figures['ideal_exact']:.3f})"
        )
        if "auc_0_1" in figures:
            lines.append(
                f"  0 against 1 bad image: AUC {figures['auc_0_1']:.4f}, ideal reader "
                f"{figures['ideal_auc_0_1']:.4f} ({figures['pools_0_1']} pools)"
            )
        lines.append("  bad  pools  exact  within one  ideal exact")
        lines += [
            f"  {row['count']:3d}  {row['pools']:5d}  {row['exact']:.3f}  {row['within_one']:10.3f}  "
            f"{row['ideal_exact']:11.3f}"
            for row in figures["per_count"]
        ]
        if figures.get("auc_0_1", 1.0) < USEFUL_AUC:
            schemes = "glance, cascade" if "glance" in results else "cascade"
            lines.append(
                f"  pools of {size} with one bad image are hardly told from clean ones and will miss much: "
                f"train longer or on more images, or moderate with --scheme {schemes} or individual"
            )
    return lines
