"""What a matrix tells of its bad images: coherence, disjunctness and counting bounds (paper, appendix).

A design is k-disjunct if no image's pools are all among the pools of k other images; COMP then finds up to
k bad images without error when the readings are right (paper, appendix "Properties of good sensing
matrices"). An image that is in no pool at all is covered by no others at all, so such a design is not even
0-disjunct; its disjunctness is given as −1. The counting bounds, which say how few tests could suffice, are
those of "Recovery guarantees".
"""

from __future__ import annotations

import numpy as np

from poolsieve.designs.pooling import NO_IMAGE, Pooling

LARGEST_SEARCH_IMAGES = 256
LARGEST_SEARCH_WEIGHT = 12
"""The exact search is for designs up to this number of images and of pools per image."""
_BLOCK_ENTRIES = 2**22
"""Products of columns that are held at once, so that dense designs of many images fit into memory."""


def coherence(design: Pooling) -> int:
    """The most pools that any two images share: the largest dot product of two columns of Φ.

    This is what the paper's appendix calls mutual coherence.
    """
    if design.guarantees.single_overlap:
        # Without a 2×2 block of ones no two images share two pools, so no products are needed.
        return int(design.pool_sizes.max() > 1)
    return int(_largest_product(design, np.ones(design.images)))


def normalised_coherence(design: Pooling) -> float:
    """The largest cosine of the angle between two columns, 0 for images in no pool.

    This is the mutual coherence of compressed sensing; it is λ/c where every image is in c pools.
    """
    weights = design.image_weights
    if design.guarantees.equal_images:
        return coherence(design) / int(weights[0]) if weights[0] else 0.0
    return float(_largest_product(design, 1 / np.sqrt(np.maximum(weights, 1))))


def _largest_product(design: Pooling, scale: np.ndarray) -> float:
    """Largest dot product of two different columns, column j times scale[j]."""
    columns = (design.sparse * scale).tocsc()
    block = max(1, _BLOCK_ENTRIES // design.images)
    largest = 0.0
    for start in range(0, design.images, block):
        products = (columns[:, start : start + block].T @ columns).tocoo()
        others = products.row + start != products.col
        largest = max(largest, products.data[others].max(initial=0.0))
    return largest


def guaranteed_disjunctness(design: Pooling) -> int:
    """What follows from overlaps alone: ⌈c/λ⌉ − 1 for images in at least c pools, any two sharing at most λ.

    To cover c pools takes at least c/λ other images. With single overlaps this is c − 1, as in the paper.
    """
    lightest, shared = int(design.image_weights.min()), coherence(design)
    if lightest == 0:
        return -1
    return min(-(-lightest // shared), design.images) - 1 if shared else design.images - 1


def disjunctness_limit(design: Pooling) -> int | None:
    """What no design of this shape exceeds: c − 1 if it has fewer pools than images, else no limit (None).

    If it were c-disjunct with at most c pools per image, every image would have a pool to itself, since
    else one other image for each of its pools covers it; so there are at least as many pools as images.
    This is the bound of Erdős, Frankl and Füredi (1985, Prop. 2.1) with t = ⌈k/r⌉ = 1 for column weight k
    and r = k: a k-cover-free family over n elements has K ≤ C(n, 1)/C(k − 1, 0) = n members. The paper's
    appendix prints n/(k − 1) there, which is a slip; its conclusion needs only K ≤ n, and stands.
    """
    return design.pools_per_image - 1 if design.pool_count < design.images else None


def exact_disjunctness(design: Pooling) -> int | None:
    """The largest k for which the design is k-disjunct, by search for the smallest cover of any image.

    With single overlaps every other image covers at most one pool, so the answer needs no search and is
    given for every size. Otherwise the search is made for up to 256 images in up to 12 pools each, and
    larger designs get None. A design in which no image can be covered gets n − 1.
    """
    weights = design.image_weights
    if int(weights.min()) == 0:
        return -1
    if coherence(design) <= 1:
        alone = _holds_a_pool_alone(design)
        return design.images - 1 if alone.all() else int(weights[~alone].min()) - 1
    if design.images > LARGEST_SEARCH_IMAGES or int(weights.max()) > LARGEST_SEARCH_WEIGHT:
        return None
    fewest = design.images
    for image in np.argsort(weights, kind="stable"):
        fewest = _smallest_cover(design, int(image), fewest)
    return fewest - 1


def _holds_a_pool_alone(design: Pooling) -> np.ndarray:
    """For each image whether it has a pool to itself, so that nothing covers it.  # (n,) bool."""
    alone = np.zeros(design.images, dtype=bool)
    alone[design.pools[design.pool_sizes == 1, 0]] = True
    return alone


def _smallest_cover(design: Pooling, image: int, limit: int) -> int:
    """Fewest other images whose pools include all pools of `image`, or `limit` if it takes no fewer."""
    own = design.pools_of[image]
    own = own[own != NO_IMAGE]
    traces: dict[int, int] = {}  # other image -> which of these pools it is in, as bits
    for bit, pool in enumerate(own):
        for other in design.pools[pool].tolist():
            if other not in (NO_IMAGE, image):
                traces[other] = traces.get(other, 0) | 1 << bit
    useful = _maximal(set(traces.values()))
    everything = (1 << len(own)) - 1
    reached = {0}
    for count in range(1, limit):
        # Every cover meets the lowest open pool, so only the images in that pool need to be tried.
        reached = {
            covered | trace
            for covered in reached
            for trace in useful
            if trace & (everything & ~covered) & -(everything & ~covered)
        }
        if everything in reached:
            return count
        if not reached:
            return limit
    return limit


def _maximal(sets: set[int]) -> list[int]:
    """The sets (as bits) that are part of no other."""
    kept: list[int] = []
    for candidate in sorted(sets, key=int.bit_count, reverse=True):
        if all(candidate & ~other for other in kept):
            kept.append(candidate)
    return kept


def fewest_binary_tests(images: int, bad: int) -> int:
    """Fewest tests m that by yes or no tell all sets of up to k bad images apart: 2^m ≥ Σ_{i≤k} C(n, i)."""
    return (_possible_sets(images, bad) - 1).bit_length()


def fewest_quantitative_tests(images: int, bad: int) -> int:
    """The same for tests that count, with answers 0, …, k: (k + 1)^m ≥ Σ_{i≤k} C(n, i)."""
    sets = _possible_sets(images, bad)
    tests, outcomes = 0, 1
    while outcomes < sets:
        tests += 1
        outcomes *= bad + 1
    return tests


def _possible_sets(images: int, bad: int) -> int:
    """Number of sets of at most `bad` images, exactly."""
    if not 0 <= bad <= images:
        raise ValueError(f"the number of bad images is 0 to {images}, not {bad}")
    total = sets = 1
    for i in range(bad):  # C(n, i + 1) from C(n, i): far quicker than each anew
        sets = sets * (images - i) // (i + 1)
        total += sets
    return total
