"""Moderation with real networks on every engine that is installed."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from drawn_firearms.photographs import load_photographs, photograph_view
from made_bundles import CASES
from typer.testing import CliRunner

from poolsieve.cli.main import app
from poolsieve.engines import list_engines, open_engine
from poolsieve.images import plain_view, read_image
from poolsieve.moderation import Moderator
from poolsieve.schemes import list_schemes, make_scheme

FILES = 45


@pytest.fixture(scope="module")
def bundle(made):
    return made("lite0-gated").bundle


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    real = list(load_photographs().values())
    for number in range(FILES):
        photograph_view(real[number % len(real)], 120, rng).save(folder / f"{number:03d}.jpg")
    (folder / "020.jpg").write_bytes((folder / "020.jpg").read_bytes()[:500])
    return folder


@pytest.fixture(scope="module")
def engines(bundle):
    return {name: open_engine(bundle, name, threads=1) for name in list_engines()}


def moderator(bundle, engine, scheme):
    # The bundle reads pools of 2 and 4 only, so the paper's 4 pools for each image are too many.
    options = {"pools_per_image": 2} if scheme == "oneshot" else {}
    return Moderator(bundle, engine, make_scheme(scheme, bundle.config.pool_sizes, **options), seed=3)


def test_the_individual_scheme_equals_the_network_run_by_hand(bundle, photos, engines):
    verdicts = list(Moderator.load(bundle.path, scheme="individual", threads=1).moderate(photos))
    config, engine = bundle.config, engines[list_engines()[0]]
    for verdict in verdicts:
        if verdict.status == "error":
            assert verdict.path.endswith("020.jpg")
            continue
        image = read_image(verdict.path, at_least=config.input_size)
        pixels = plain_view(image, config.input_size, config.resize_mode)[None]
        logits = engine.individual(engine.front(pixels).features).logits
        score = np.exp(bundle.calibration.individual.log_probabilities(logits)[0, 1])
        assert verdict.score == pytest.approx(score, abs=1e-4)
        assert verdict.flagged == (score > 0.5)


@pytest.mark.parametrize("scheme", [*list_schemes(), "two sizes"])
def test_the_command_and_python_give_the_same_verdicts_for_the_same_seed(bundle, photos, tmp_path, scheme):
    options = {"pools_per_image": 2} if scheme == "oneshot" else {}
    if scheme == "two sizes":
        scheme, options = "adaptive", {"pool_size": 2, "large_below": 0.01, "large_pool_size": 4}
        options |= {"pools_per_image": 1, "test_above": 0.9}
    judge = Moderator.load(bundle.path, scheme=scheme, seed=11, threads=1, **options)
    by_python = [json.loads(json.dumps(verdict.to_json())) for verdict in judge.moderate(str(photos))]
    out = tmp_path / "v.jsonl"
    arguments = ["moderate", str(photos), "--bundle", str(bundle.path), "--out", str(out), "--seed", "11"]
    arguments += ["--scheme", scheme, "--threads", "1"]
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    assert CliRunner().invoke(app, arguments).exit_code == 1  # one image is damaged
    assert [json.loads(line) for line in out.read_text().splitlines()] == by_python


def test_half_precision_is_an_option(bundle, photos):
    exact = list(Moderator.load(bundle.path, engine="torch", scheme="individual").moderate(photos))
    try:
        judge = Moderator.load(bundle.path, engine="torch", scheme="individual", precision="low")
    except ValueError as error:
        pytest.skip(f"this processor dies of it: {error}")
    low = list(judge.moderate(photos))
    scores = [(one.score, two.score) for one, two in zip(exact, low, strict=True) if one.score is not None]
    assert 0 < np.mean([abs(one - two) for one, two in scores]) < 0.05


def test_half_precision_is_refused_where_there_is_none(bundle, photos, tmp_path):
    arguments = ["moderate", str(photos), "--bundle", str(bundle.path), "--out", str(tmp_path / "v.csv")]
    refused = CliRunner().invoke(app, [*arguments, "--engine", "onnxruntime", "--precision", "low"])
    assert "onnxruntime computes in fp32" in str(refused.exception)


@pytest.mark.parametrize("case", CASES)
def test_every_engine_gives_the_same_verdicts(made, photos, case, capsys):
    """Of every bundle, by every scheme; torch can rebuild only backbones that have a name."""
    bundle = made(case).bundle
    names = [name for name in list_engines() if name != "torch" or bundle.config.backbone != "tiny"]
    opened = {name: open_engine(bundle, name, threads=1) for name in names}
    largest = dict.fromkeys(names[1:], 0.0)
    files = sorted(photos.iterdir())[: FILES if case == "lite0-gated" else 24]
    for scheme in list_schemes():
        first, *others = (list(moderator(bundle, opened[name], scheme).moderate(files)) for name in names)
        assert len(first) == len(files)
        assert first[20].status == "error"
        assert {verdict.status for verdict in first} > {"error"}
        for name, verdicts in zip(names[1:], others, strict=True):
            for one, other in zip(first, verdicts, strict=True):
                assert (one.status, one.decided_by) == (other.status, other.decided_by), scheme
                assert [pool.members for pool in one.pools] == [pool.members for pool in other.pools]
                if one.score is not None:
                    largest[name] = max(largest[name], abs(one.score - other.score))
    with capsys.disabled():
        shown = ", ".join(f"{name} {value:.1e}" for name, value in largest.items())
        print(f"\n{case}: largest difference of scores from {names[0]}: {shown}")
    assert max(largest.values()) < 1e-3


@pytest.mark.parametrize("scheme", list_schemes())
def test_what_is_compiled_ahead_is_what_a_scheme_uses(bundle, photos, scheme, monkeypatch):
    engine, used = open_engine(bundle, list_engines()[0], threads=1), []
    compiled = engine._compile
    monkeypatch.setattr(engine, "_compile", lambda file: used.append(file) or compiled(file))
    judge = moderator(bundle, engine, scheme)
    list(judge.moderate(photos))
    needed = judge.scheme.graphs(bundle.config)
    if scheme == "oneshot" and judge.totals.meter.runs["retests"]:
        needed.append("individual.onnx")  # for what surprising pools leave in doubt
    assert used == needed[: len(used)]
    if judge.totals.meter.runs["retests"] or scheme == "oneshot":  # else all images were cleared before
        assert used == needed


@pytest.mark.parametrize("scheme", ["dorfman", "oneshot", "adaptive"])
def test_the_meter_follows_the_law_on_real_networks(bundle, photos, engines, scheme):
    judge = moderator(bundle, next(iter(engines.values())), scheme)
    list(judge.moderate(photos))
    meter, cost = judge.totals.meter, bundle.config.cost
    n, f = FILES - 1, cost.front_share
    expected = f + cost.gate_share + (meter.runs["pools"] + meter.runs["retests"]) / n * (1 - f)
    assert meter.images == n
    assert meter.share == pytest.approx(expected, rel=1e-12)


def assert_eight_threads_get_the_verdicts_of_one(moderators, files):
    """Whole sources, single images and a stream at once; all moderators have one engine and one seed."""
    expected = list(moderators[0].moderate(files))
    single = [moderators[0].judge(file) for file in files[:10]]

    def work(number):
        judge = moderators[number % len(moderators)]
        if number % 4 == 1:
            return [judge.judge(file) for file in files[:10]] == single
        if number % 4 == 2:
            with judge.stream(longest_wait=None) as stream:
                futures = [stream.submit(file.read_bytes(), name=str(file)) for file in files]
            return [future.result() for future in futures] == expected
        return list(judge.moderate(files)) == expected

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [True] * 8


@pytest.mark.parametrize("scheme", ["individual", "adaptive"])
@pytest.mark.parametrize("name", list_engines())
def test_threads_may_share_an_engine(bundle, photos, engines, name, scheme):
    moderators = [moderator(bundle, engines[name], scheme) for _ in range(8)]
    assert_eight_threads_get_the_verdicts_of_one(moderators, sorted(photos.iterdir())[:24])


@pytest.mark.parametrize("scheme", ["individual", "auto"])
def test_threads_may_share_a_moderator(photos, scheme):
    chunk = {"chunk": 6} if scheme == "individual" else {}
    shared = Moderator.load("firearms", scheme=scheme, seed=3, **chunk)
    assert_eight_threads_get_the_verdicts_of_one([shared], sorted(photos.iterdir())[:20])
