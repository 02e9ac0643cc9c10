import json
from pathlib import Path

import boto3
import numpy as np
import pytest
from planted import write_images
from planted_runs import PlantedOpening
from s3_server import CREDENTIALS, running_server
from typer.testing import CliRunner

from poolsieve import distributed
from poolsieve.cli.main import app
from poolsieve.cli.review import _judged
from poolsieve.distributed import run_verdicts
from poolsieve.images import locations
from poolsieve.review.finished_run import open_run


@pytest.fixture
def command(monkeypatch):
    """The command in this process; its workers open planted networks."""
    monkeypatch.setattr(
        distributed,
        "BundleOpening",
        lambda bundle, options: PlantedOpening(options["scheme"], options=options),
    )

    def call(*arguments):
        return CliRunner().invoke(app, [*map(str, arguments)])

    return call


@pytest.fixture
def photos(tmp_path):
    write_images(tmp_path / "photos", np.isin(np.arange(230), [4, 77, 129]))
    return tmp_path / "photos"


def moderate(command, source, out, *more):
    return command("moderate", source, "--bundle", "planted", "--on", "local", "--out", out, *more)


def test_a_run_is_judged_reported_and_not_judged_twice(command, photos, tmp_path):
    run, page = tmp_path / "run-1", tmp_path / "page.html"
    options = ("--scheme", "adaptive", "--segment", 1)
    result = moderate(command, photos, run, *options, "--report", page, "--explain", photos / "0004.png")
    assert result.exit_code == 0, result.output
    for words in ("230", "with all workers", "of testing every image", f"wrote {run}", "0004.png: flagged"):
        assert words in result.output.replace("\n", ""), words
    assert "0077.png" in page.read_text()
    seed = json.loads((run / "run.json").read_text())["seed"]
    assert {verdict.seed for verdict in run_verdicts(str(run))} == {seed}
    again = moderate(command, photos, run, *options)
    assert again.exit_code == 0
    assert "is finished already" in again.output
    told = command("report", run)
    assert told.exit_code == 0, told.output
    assert "0129.png" in (run / "report.html").read_text()
    new = tmp_path / "run-2"
    (photos / "new.png").write_bytes((photos / "0004.png").read_bytes() + b"more")
    as_json = moderate(command, photos, new, *options, "--since", run, "--json")
    summary = json.loads(as_json.stdout)
    assert (summary["images"], summary["flagged"], summary["out"]) == (1, 1, str(new))


def test_a_run_goes_on_only_with_the_same_options(command, photos, tmp_path):
    run = tmp_path / "run"
    options = ("--scheme", "glance", "--segment", 1)
    assert moderate(command, photos, run, *options).exit_code == 0
    (run / "_SUCCESS").unlink()
    (run / "parts" / "00000001.parquet").unlink()
    for more, words in (
        (("--seed", "5"), "is a run with seed"),
        (("--threshold", "0.3"), "is a run with other options"),
    ):
        result = moderate(command, photos, run, *options, *more)
        assert words in str(result.exception), more
    assert len(list(run_verdicts(str(run)))) == 130
    assert moderate(command, photos, run, *options).exit_code == 0
    assert len(list(run_verdicts(str(run)))) == 230
    result = moderate(command, photos, run, "--scheme", "adaptive", "--force", "--quiet")
    assert result.exit_code == 0
    assert {v.scheme.partition("(")[0] for v in run_verdicts(str(run))} == {"adaptive"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--on", "local", "--out", "{photos}"), "and is no run; name a new or an empty folder"),
        (("--on", "local", "--out", "{photos}/0001.png"), "is a file; with --on, verdicts go to a folder"),
        (("--on", "local", "--segment", "0", "--out", "{photos}-run"), "a segment has at least one chunk"),
        (("--since", "run-1", "--out", "{photos}.csv"), "--since is for runs in parts"),
        (("--out", "s3://bucket/v.csv"), "to write to an object store, add --on local"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(command, photos, arguments, words):
    given = [argument.format(photos=photos) for argument in arguments]
    result = command("moderate", photos, "--bundle", "planted", "--scheme", "adaptive", *given)
    assert words in str(result.exception)
    assert len(list(photos.iterdir())) <= 231  # and the lock


def test_results_below_a_source_are_not_judged_by_the_next_run(command, photos, tmp_path):
    assert moderate(command, photos, photos / "run-1", "--scheme", "glance").exit_code == 0
    assert moderate(command, photos, tmp_path / "run-2", "--scheme", "glance").exit_code == 0
    assert len(list(run_verdicts(str(tmp_path / "run-2")))) == 230


def test_a_source_without_images_is_said(command, tmp_path):
    (tmp_path / "empty").mkdir()
    result = moderate(command, tmp_path / "empty", tmp_path / "run", "--scheme", "glance")
    assert result.exit_code == 0
    assert "no image was found in" in " ".join(result.output.split())


def test_images_and_verdicts_may_both_lie_in_a_bucket(command, photos, tmp_path, monkeypatch):
    with running_server() as address:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        locations._store.cache_clear()
        client = boto3.client("s3")
        client.create_bucket(Bucket="uploads")
        for file in sorted(photos.iterdir())[:130]:
            client.put_object(Bucket="uploads", Key=f"in/{file.name}", Body=file.read_bytes())
        options = ("--scheme", "adaptive", "--segment", 1, "--workers", 2, "--seed", 3)
        result = moderate(command, "s3://uploads/in/", "s3://uploads/in/run-1/", *options)
        assert result.exit_code == 0, result.output
        kept = list(run_verdicts("s3://uploads/in/run-1"))
        assert "another" not in result.output
        written = [result.output.encode()]
        for entry in client.list_objects_v2(Bucket="uploads", Prefix="in/run-1/")["Contents"]:
            written.append(client.get_object(Bucket="uploads", Key=entry["Key"])["Body"].read())
        assert len(written) > 4
        assert not any(CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() in content for content in written)
        page = tmp_path / "page.html"
        assert command("report", "s3://uploads/in/run-1", "--out", page).exit_code == 0
        assert "0077.png" in page.read_text()
        judged = _judged("s3://uploads/in/run-1/", None)
        store, loaded = open_run(judged, tmp_path / "r.sqlite", rate=0.0, rng=np.random.default_rng(0))
        store.close()
        assert (loaded.tasks, loaded.missing) == (sum(verdict.flagged for verdict in kept), 0)
        again = moderate(command, "s3://uploads/in/", "s3://uploads/in/run-1", *options, "--force")
        assert again.exit_code == 0, again.output
        assert list(run_verdicts("s3://uploads/in/run-1")) == kept
    locations._store.cache_clear()
    here = tmp_path / "here"
    assert moderate(command, photos, here, *options).exit_code == 0
    local = [verdict for verdict in run_verdicts(str(here)) if verdict.position < 100]
    for remote, verdict in zip(kept[:100], local, strict=True):
        assert remote.path == f"s3://uploads/in/{Path(verdict.path).name}"
        assert (remote.sha256, remote.status, remote.score) == (verdict.sha256, verdict.status, verdict.score)
