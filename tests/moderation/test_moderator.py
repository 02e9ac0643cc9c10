import hashlib
import shutil
import tracemalloc

import numpy as np
import pytest
from planted import (
    PlantedEngine,
    SomeInPools,
    planted_bundle,
    planted_moderator,
    planted_pixels,
    write_images,
)

from poolsieve.moderation import Moderator
from poolsieve.schemes import list_schemes, make_scheme

SCHEMES = list_schemes()


def truth_of(size, bad, seed=0):
    flags = np.zeros(size, dtype=bool)
    flags[np.random.default_rng(seed).choice(size, bad, replace=False)] = True
    return flags


def plain(verdicts):
    return [verdict.to_json() for verdict in verdicts]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_verdicts_come_in_order_and_tell_the_truth(tmp_path, scheme):
    truth = truth_of(230, 9)
    files = write_images(tmp_path / "photos", truth)
    moderator = planted_moderator(scheme)
    verdicts = list(moderator.moderate(tmp_path / "photos"))
    assert [verdict.path for verdict in verdicts] == [str(file) for file in files]
    assert [verdict.flagged for verdict in verdicts] == truth.tolist()
    assert [verdict.position for verdict in verdicts] == list(range(230))
    assert {verdict.seed for verdict in verdicts} == {7}
    assert {verdict.bundle for verdict in verdicts} == {"ab" * 32}
    assert {verdict.scheme for verdict in verdicts} == {str(moderator.scheme)}
    assert verdicts[5].sha256 == hashlib.sha256(files[5].read_bytes()).hexdigest()
    totals = moderator.totals
    assert (totals.images, totals.flagged, totals.errors) == (230, 9, 0)
    assert totals.estimated_prevalence().low <= 9 / 230 <= totals.estimated_prevalence().high


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_seed_gives_the_same_verdicts_another_seed_other_pools(scheme):
    pixels = planted_pixels(truth_of(150, 4))
    first, again, other = (list(planted_moderator(scheme, seed=seed).moderate(pixels)) for seed in (1, 1, 2))
    assert first == again
    assert [verdict.status for verdict in first] == [verdict.status for verdict in other]
    if first[0].pools:
        assert [verdict.pools for verdict in first] != [verdict.pools for verdict in other]


def test_a_chunk_of_chosen_pool_mates_has_a_note_and_is_no_unfinished_one():
    truth = np.concatenate([truth_of(100, 1), truth_of(100, 20)])
    moderator = planted_moderator("oneshot", engine=SomeInPools())
    verdicts = list(moderator.moderate(planted_pixels(truth)))
    assert [verdict.flagged for verdict in verdicts] == truth.tolist()
    assert {verdict.note for verdict in verdicts[:100]} == {None}
    (note,) = {verdict.note for verdict in verdicts[100:]}
    tested = sum(verdict.decided_by == "individual" for verdict in verdicts)
    assert note.endswith(f"so {tested} doubtful ones were tested individually")
    assert moderator.totals.meter.runs["retests"] == tested
    assert moderator.totals.unfinished == 0


def test_seeds_are_fresh_secrets_by_default():
    seeds = {planted_moderator(seed=None).seed for _ in range(5)}
    assert len(seeds) == 5
    with pytest.raises(ValueError, match="seed=-1, but it must lie between"):
        planted_moderator(seed=-1)


def test_chunks_of_one_run_are_dealt_differently():
    chunks = list(planted_moderator("adaptive").moderate_chunks(planted_pixels(np.zeros(200))))
    first, second = ({frozenset(m % 100 for m in p.members) for v in c for p in v.pools} for c in chunks)
    assert first != second


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_damaged_image_gets_a_reason_and_changes_no_other_verdict(tmp_path, scheme):
    truth = truth_of(120, 6)
    files = write_images(tmp_path / "photos", truth)
    sound = list(planted_moderator(scheme).moderate(tmp_path / "photos"))
    for number, damage in ((3, b""), (50, files[50].read_bytes()[:50]), (110, b"no image")):
        files[number].write_bytes(damage)
    found = list(planted_moderator(scheme).moderate(tmp_path / "photos"))
    assert [verdict.path for verdict in found] == [str(file) for file in files]
    for number, reason in ((3, "the file is empty"), (50, "damaged or truncated"), (110, "not a JPEG")):
        assert found[number].status == "error"
        assert reason in found[number].reason
        assert found[number].score is None
    others = [k for k in range(120) if k not in (3, 50, 110)]
    assert [found[k].status for k in others] == [sound[k].status for k in others]
    lost = {3, 50, 110}
    for k in others:  # the same neighbours, but for the lost ones
        mates = [{m for p in v.pools for m in p.members} - lost - {k} for v in (sound[k], found[k])]
        assert mates[0] == mates[1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_only_damaged_images(tmp_path, scheme):
    for number in range(5):
        (tmp_path / f"{number}.jpg").write_bytes(b"nothing")
    moderator = planted_moderator(scheme)
    assert [verdict.status for verdict in moderator.moderate(tmp_path)] == ["error"] * 5
    assert moderator.totals.errors == 5
    assert moderator.totals.meter.multiply_adds == 0
    assert moderator.totals.estimated_prevalence() is None


def test_records_hold_what_explains_the_verdict():
    truth = truth_of(100, 2)
    verdicts = list(planted_moderator("adaptive").moderate(planted_pixels(truth)))
    bad = verdicts[int(np.flatnonzero(truth)[0])]
    assert bad.decided_by == "individual"
    assert bad.pool_score > 0.5
    assert len(bad.pools) == 2
    for pool in bad.pools:
        assert bad.position in pool.members
        assert pool.count == truth[list(pool.members)].sum()
        assert sum(pool.probabilities) == pytest.approx(1, abs=1e-4)
    text = "\n".join(bad.explain({v.position: v.path for v in verdicts}))
    assert "array[" in text
    assert "tested on its own: score 1.0" in text
    assert "seed 7" in text
    clear = verdicts[int(np.flatnonzero(~truth)[0])]
    assert clear.decided_by == "pools"


def test_the_individual_scheme_is_the_individual_network_run_by_hand():
    engine, bundle = PlantedEngine(confidence=1.3), planted_bundle()
    pixels = planted_pixels(truth_of(70, 20))
    verdicts = list(planted_moderator("individual", engine=engine).moderate(pixels))
    logits = engine.individual(engine.front(pixels).features).logits
    by_hand = np.exp(bundle.calibration.individual.log_probabilities(logits)[:, 1])
    assert np.allclose([verdict.score for verdict in verdicts], by_hand, atol=1e-6)


def test_a_chunk_without_a_design_is_refused_at_once():
    with pytest.raises(ValueError, match="no balanced design"):
        planted_moderator("adaptive", chunk=9)


def test_going_on_in_a_changed_source_is_refused(tmp_path):
    write_images(tmp_path, truth_of(30, 1))
    moderator = planted_moderator("individual", chunk=10)
    names = [verdict.path for verdict in moderator.moderate(tmp_path)]
    assert [len(c) for c in moderator.moderate_chunks(tmp_path, done=names[:10])] == [10, 10]
    (tmp_path / "0004.png").unlink()
    with pytest.raises(ValueError, match=r"image 4 was .*0004.png and is now .*0005.png"):
        moderator.moderate_chunks(tmp_path, done=names[:10])
    with pytest.raises(ValueError, match="has more now"):
        moderator.moderate_chunks(names, done=names[:13])


def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    (file,) = write_images(tmp_path, [True])
    moderator = planted_moderator("individual", chunk=20)
    held = {}
    tracemalloc.start()
    for count, _ in enumerate(moderator.moderate(str(file) for _ in range(450)), 1):
        if count in (200, 400):  # both in the middle of the run, when reading is far ahead
            held[count] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held[400] - held[200] < 40_000  # 200 images alone would be as much, and their records four times


def test_leaving_early_is_fine(tmp_path):
    write_images(tmp_path / "photos", truth_of(50, 1))
    verdicts = planted_moderator("individual", chunk=5).moderate(tmp_path / "photos")
    assert next(verdicts).position == 0
    verdicts.close()
    shutil.rmtree(tmp_path / "photos")


def test_loading_needs_a_bundle(tmp_path):
    with pytest.raises(ValueError, match="no bundle"):
        Moderator.load(tmp_path / "none")


def test_every_scheme_is_made_from_the_bundles_pool_sizes():
    assert make_scheme("adaptive", (4, 16)).get("pool_size") == 16
