"""A run outlives a call: what it learnt goes on, and its chunks may be made by hand."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from planted import WAYS, moderator_by, planted_pixels, write_images


def truth_of(number):
    return np.random.default_rng(3).permutation(number) < number // 12


@pytest.mark.parametrize("way", WAYS)
def test_several_sources_share_a_run(way, tmp_path):
    moderator = moderator_by(way)
    run = moderator.new_run()
    size = moderator.chunk_size(run)
    pixels = list(planted_pixels(truth_of(3 * size)))
    together = list(moderator_by(way).moderate(pixels))
    apart = [
        verdict
        for part in (pixels[:size], pixels[size : 2 * size], pixels[2 * size :])
        for verdict in moderator.moderate(part, run=run)
    ]
    assert [(v.position, v.chunk, v.status, v.score, v.pools) for v in apart] == [
        (v.position, v.chunk, v.status, v.score, v.pools) for v in together
    ]
    assert run.totals.images == 3 * size
    assert (run.chunk, run.position) == (3, 3 * size)


@pytest.mark.parametrize("way", WAYS)
def test_threads_may_prepare_while_one_judges(way, tmp_path):
    plain, moderator = moderator_by(way), moderator_by(way)
    run = moderator.new_run()
    size = moderator.chunk_size(run)
    files = write_images(tmp_path, truth_of(2 * size + 5))
    files[7].write_bytes(b"not an image")
    expected = list(plain.moderate([str(file) for file in files]))
    with ThreadPoolExecutor(4) as threads:
        prepared = list(threads.map(lambda file: moderator.prepare(str(file)), files))
    found = [
        verdict
        for begin in range(0, len(files), size)
        for verdict in moderator.judge_chunk(prepared[begin : begin + size], run)
    ]
    assert found == expected
    assert run.totals.state()["meter"]["runs"] == plain.totals.state()["meter"]["runs"]
    assert run.totals.errors == 1


def test_what_auto_has_learnt_goes_on_to_the_next_source():
    moderator = moderator_by("auto")
    run = moderator.new_run()
    many_bad = list(planted_pixels(np.arange(312) % 3 == 0))
    list(moderator.moderate(many_bad, run=run))
    switched = run.totals.controller.plan
    assert switched.prevalence > moderator.new_run().totals.controller.plan.prevalence
    list(moderator.moderate(many_bad[:104], run=run))
    assert run.totals.controller.plan is switched
    with moderator.stream(run=run, longest_wait=None) as stream:
        future = stream.submit(many_bad[0])
    assert future.result().scheme == str(run.totals.controller.scheme)
    assert run.totals.images == 312 + 104 + 1
