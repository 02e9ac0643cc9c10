"""How few tests could suffice: the counting bounds of the paper's appendix "Recovery guarantees"."""

from __future__ import annotations


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
