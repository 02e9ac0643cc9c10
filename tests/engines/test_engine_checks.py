"""Every engine keeps the contract, and the suite that says so notices all kinds of breakage."""

import threading

import numpy as np
import pytest

from poolsieve.bundles import load_bundle
from poolsieve.engines import NetworkOutput, check_engine, list_engines, open_engine
from poolsieve.engines.engine import FrontFeatures, HeadOutput
from poolsieve.engines.engine_checks import IMAGES, all_outputs, noise_images
from poolsieve.engines.onnxruntime_engine import OnnxRuntimeEngine


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", list_engines())
def test_every_engine_keeps_the_contract_on_every_bundle(case, name):
    if name == "torch" and case.bundle.config.backbone == "tiny":
        pytest.skip("torch can rebuild only backbones that have a name")
    check_engine(open_engine(case.bundle, name, threads=1))


@pytest.mark.parametrize("batch_size", [1, 4, 64])
@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_it_does_so_whatever_goes_through_a_graph_at_once(made, name, batch_size):
    check_engine(open_engine(made("tiny-gated").bundle, name, threads=1, batch_size=batch_size))


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_the_number_of_threads_changes_no_bit(name):
    """So workers of a run in parts may have as many as there are processors for them."""
    bundle = load_bundle("firearms")
    images = noise_images(bundle.config, IMAGES, 1)
    one, three = (all_outputs(open_engine(bundle, name, threads=count), images) for count in (1, 3))
    assert one.keys() == three.keys()
    for output, values in one.items():
        np.testing.assert_array_equal(three[output], values, err_msg=output)


class GivesDoubles(OnnxRuntimeEngine):
    def front(self, images):
        return FrontFeatures(super().front(images).features.astype(np.float64))

    def head(self, features):
        return super().head(features.astype(np.float32))

    def individual(self, features):
        return super().individual(features.astype(np.float32))

    def glance(self, images):
        return super().glance(images).astype(np.float64)

    def pooled(self, features, gate, pools, pool_size):
        return super().pooled(features.astype(np.float32), gate, pools, pool_size)


class GivesOneOutputMore(OnnxRuntimeEngine):
    def pooled(self, *given):
        output = super().pooled(*given)
        return NetworkOutput(np.pad(output.logits, ((0, 0), (0, 1))), output.vectors)


class GivesTuples(OnnxRuntimeEngine):
    def head(self, features):
        output = super().head(features)
        return output.gate, output.logits


class GivesInfinities(OnnxRuntimeEngine):
    def individual(self, features):
        output = super().individual(features)
        output.logits[:1] = np.inf
        return output


class OpensGatesTooFar(OnnxRuntimeEngine):
    def head(self, features):
        output = super().head(features)
        return HeadOutput(output.gate * 100, output.logits)


class Normalises(OnnxRuntimeEngine):
    """By the mean of all rows of a call."""

    def individual(self, features):
        output = super().individual(features)
        return NetworkOutput(
            output.logits - (output.logits.mean(axis=0) if len(output.logits) else 0), output.vectors
        )


class Sorts(OnnxRuntimeEngine):
    def glance(self, images):
        return np.sort(super().glance(images))


class Wavers(OnnxRuntimeEngine):
    def glance(self, images):
        return super().glance(images) + np.float32(1e-6 * np.random.default_rng().integers(1, 10**6))


class FailsOfNothing(OnnxRuntimeEngine):
    def front(self, images):
        return FrontFeatures(super().front(images).features if len(images) else np.empty((0, 1), np.float32))


class Paints(OnnxRuntimeEngine):
    def glance(self, images):
        logits = super().glance(images)
        if images.flags.writeable:
            images[0] = 0
        return logits


class HasOneBuffer(OnnxRuntimeEngine):
    """All outputs of the front lie in the same memory."""

    buffer = np.zeros(1 << 22, dtype=np.float32)

    def front(self, images):
        features = super().front(images).features
        shared = self.buffer[: features.size].reshape(features.shape)
        shared[:] = features
        return FrontFeatures(shared)


class HasOneBufferForMany(HasOneBuffer):
    def front(self, images):
        return super().front(images) if len(images) > 100 else OnnxRuntimeEngine.front(self, images)


class CountsEmptyPlaces(OnnxRuntimeEngine):
    def pooled(self, features, gate, pools, pool_size):
        output = super().pooled(features, gate, pools, pool_size)
        output.logits[:, 0] += (np.asarray(pools) < 0).sum(axis=1)
        return output


class TakesFloats(OnnxRuntimeEngine):
    def front(self, images):
        return super().front(images.astype(np.uint8))


class TakesAnyPool(OnnxRuntimeEngine):
    def pooled(self, features, gate, pools, pool_size):
        return super().pooled(features, gate, np.minimum(pools, len(features) - 1), pool_size)


class BreaksOffWithoutAGate(OnnxRuntimeEngine):
    def pooled(self, features, gate, pools, pool_size):
        return super().pooled(features, gate[: len(features)], pools, pool_size)


class SharesABuffer(OnnxRuntimeEngine):
    """Threads write their images where others still read theirs."""

    def front(self, images):
        if images.shape[1:] != (32, 32, 3) or images.dtype != np.uint8:
            return super().front(images)
        self.images = images
        threading.Event().wait(0.001)  # others may come now
        return super().front(self.images if len(self.images) == len(images) else images)


BROKEN = [
    (GivesDoubles, "features are float32; not float64"),
    (GivesOneOutputMore, r"logits of pools of 2 have shape \(7, 3\); not \(7, 4\)"),
    (GivesTuples, "`head` gives a HeadOutput"),
    (GivesInfinities, "individual logits are finite"),
    (OpensGatesTooFar, "gates lie between 0 and 1"),
    (Normalises, "individual logits do not depend on what else is asked for"),
    (Sorts, "glance logits do not depend on what else is asked for, nor on the order"),
    (Wavers, "the same images give the same bits; glance logits differ"),
    (FailsOfNothing, "0 rows of features can be asked for"),
    (Paints, "images are not changed"),
    (HasOneBuffer, "features that were given out stay as they were"),
    (HasOneBufferForMany, "features that were given out stay as they were"),
    (CountsEmptyPlaces, "a pool of one image is that image, however it is written; in pools of 2"),
    (TakesFloats, "images as floats must be refused with a ValueError"),
    (TakesAnyPool, "a pool with an image that is not there must be refused with a ValueError"),
    (BreaksOffWithoutAGate, "a missing gate must be refused with a ValueError, not TypeError"),
    (SharesABuffer, "threads may share an engine; .*features.* differ"),
]


@pytest.mark.parametrize(("kind", "words"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_suite_says_what_a_broken_engine_breaks(made, kind, words):
    with pytest.raises(AssertionError, match=f"^contract broken: {words}"):
        check_engine(kind(made("tiny-gated").bundle, threads=1))
