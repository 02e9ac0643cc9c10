import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import duckdb
import numpy as np
import planted_runs
import pytest
from planted import moderator_by, write_images
from planted_runs import InlinePool, PlantedOpening, run_parts, settings_for

import poolsieve
from poolsieve.distributed import RunFolder, run_verdicts
from poolsieve.distributed.local_workers import LocalPool
from poolsieve.distributed.segment_judging import SegmentJudge
from poolsieve.distributed.worker_pool import WorkersFailedError

IMAGES = 700
LIMIT = 120.0


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "photos"
    bad = np.zeros(IMAGES, dtype=bool)
    bad[[230, 231, 232, 300, 400, 650, 699]] = True  # none in the pilot of `auto`
    write_images(folder, bad)
    (folder / "0050.png").write_bytes(b"")
    return folder


def local(opening, out, workers):
    return lambda: LocalPool(opening, str(out), workers, 1)


def wait_until(happened):
    end = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("way", ["adaptive", "dorfman", "glance"])
def test_a_run_in_parts_has_the_verdicts_of_a_plain_one(photos, tmp_path, way):
    folder, run = run_parts(tmp_path / "run", photos, PlantedOpening(way), segment=2)
    plain = list(moderator_by(way).moderate(photos))
    assert list(folder.verdicts()) == plain
    assert folder.finished
    assert run.totals.images == IMAGES
    assert run.totals.errors == 1
    assert run.totals.flagged == sum(verdict.flagged for verdict in plain)


@pytest.mark.parametrize("way", ["auto", "adaptive", "dorfman", "glance"])
def test_any_number_of_workers_gives_the_same_table(photos, tmp_path, way):
    opening = PlantedOpening(way)
    folder, run = run_parts(tmp_path / "one", photos, opening)
    other, spread = run_parts(tmp_path / "two", photos, opening, local(opening, tmp_path / "two", 2))
    assert list(other.verdicts()) == list(folder.verdicts())
    assert spread.totals.plan_changes() == run.totals.plan_changes()
    if way == "auto":
        schemes = [verdict.scheme.partition("(")[0] for verdict in folder.verdicts()]
        assert (schemes[0], schemes[-1]) == ("adaptive", "glance")  # the pilot is cautious
        assert "from chunk 1 on" in run.totals.plan_changes()[0]


def test_killed_workers_are_replaced_and_nothing_is_lost_or_twice(photos, tmp_path):
    opening = PlantedOpening("adaptive", delay=0.2, notes=str(tmp_path))
    expected = list(run_parts(tmp_path / "calm", photos, PlantedOpening("adaptive"))[0].verdicts())
    pool = LocalPool(opening, str(tmp_path / "run"), 2, 1)
    killed, real = [], pool.wait

    def wait(timeout):
        done = real(timeout)
        if done and len(killed) < 3 and len(killed) == pool.deaths:  # the last one was noticed
            worker = next(iter(pool._tasks))
            killed.append(worker.process.pid)
            os.kill(worker.process.pid, signal.SIGKILL)
        return done

    pool.wait = wait
    folder, _ = run_parts(tmp_path / "run", photos, opening, lambda: pool)
    assert 1 <= pool.deaths <= len(killed)
    assert list(folder.verdicts()) == expected


def test_a_part_that_another_worker_has_written_is_not_judged_or_written_again(photos, tmp_path):
    opening = PlantedOpening("adaptive", notes=str(tmp_path))
    folder, _ = run_parts(tmp_path / "run", photos, opening)
    before = (tmp_path / "run" / "parts" / "00000001.parquet").stat().st_mtime_ns
    judge = SegmentJudge(opening, str(folder), 1)
    judge._moderator = None  # it would be needed to judge
    assert judge.judge(1, None) == folder.state(1)
    assert (tmp_path / "run" / "parts" / "00000001.parquet").stat().st_mtime_ns == before


def test_a_worker_that_outlives_its_driver_does_not_write_over_the_part_of_the_next(photos, tmp_path):
    opening = PlantedOpening("adaptive")
    whole, _ = run_parts(tmp_path / "whole", photos, opening)
    folder = RunFolder(str(tmp_path / "run"))
    folder.begin(settings_for(photos, opening))
    folder.write_listing(1, whole.read_listing(1))
    outliving, following = (SegmentJudge(opening, str(folder), 1) for _ in range(2))
    real, times = outliving._moderator.judge_chunk, []

    def judge_chunk(prepared, run):
        verdicts = real(prepared, run)
        following.judge(1, None)  # the driver was killed and begun again, and its worker was faster
        times.append((tmp_path / "run" / "parts" / "00000001.parquet").stat())
        return verdicts

    outliving._moderator.judge_chunk = judge_chunk
    outliving.judge(1, None)
    after = (tmp_path / "run" / "parts" / "00000001.parquet").stat()
    assert [(one.st_ino, one.st_mtime_ns) for one in times] == [(after.st_ino, after.st_mtime_ns)]
    assert list(folder.verdicts()) == [v for v in whole.verdicts() if 100 <= v.position < 200]


DRIVER = """
import sys
import planted_runs
from poolsieve.distributed.local_workers import LocalPool

if __name__ == "__main__":
    out, photos, notes = sys.argv[1:]
    opening = planted_runs.PlantedOpening("auto", delay=0.3, notes=notes)
    planted_runs.run_parts(out, photos, opening, lambda: LocalPool(opening, out, 2, 1))
"""


def test_a_killed_driver_takes_its_workers_along_and_the_run_goes_on(photos, tmp_path):
    expected = list(run_parts(tmp_path / "calm", photos, PlantedOpening("auto"))[0].verdicts())
    (tmp_path / "driver.py").write_text(DRIVER)
    notes, out = tmp_path / "notes", tmp_path / "run"
    notes.mkdir()
    here = Path(planted_runs.__file__).parent
    paths = [str(Path(poolsieve.__file__).parents[1]), str(here)]
    driver = subprocess.Popen(
        [sys.executable, str(tmp_path / "driver.py"), str(out), str(photos), str(notes)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    try:
        wait_until(lambda: RunFolder(str(out)).parts() or driver.poll() is not None)
    finally:
        driver.kill()
        driver.wait()
    wait_until(lambda: not any(is_alive(path.name) for path in notes.iterdir()))
    folder = RunFolder(str(out))
    parts = {path: path.stat().st_mtime_ns for path in (out / "parts").glob("*.parquet")}
    assert parts
    assert not folder.finished
    run_parts(out, photos, PlantedOpening("auto"))
    assert list(folder.verdicts()) == expected
    assert folder.finished
    assert all(path.stat().st_mtime_ns == before for path, before in parts.items())  # not done again


def test_a_segment_that_kills_every_worker_ends_the_run_with_its_number(photos, tmp_path):
    class Deadly(InlinePool):
        def _events(self, workers, timeout):
            from poolsieve.distributed.worker_pool import Event

            self._queue.clear()
            return [Event(worker) for worker in workers]

    opening = PlantedOpening("glance")
    with pytest.raises(WorkersFailedError, match="5 workers died of segment 0"):
        run_parts(tmp_path / "run", photos, opening, lambda: Deadly(opening, str(tmp_path / "run")))
    assert not RunFolder(str(tmp_path / "run")).finished


def test_what_a_worker_cannot_do_is_said_in_its_words(photos, tmp_path):
    opening = PlantedOpening("no such way")
    folder = RunFolder(str(tmp_path / "run"))
    folder.begin(settings_for(photos, PlantedOpening("adaptive")))
    pool = LocalPool(opening, str(folder), 1, 1)
    try:
        with pytest.raises(WorkersFailedError, match="unexpected KeyError in a worker: 'no such way'"):
            run_parts(folder, photos, PlantedOpening("adaptive"), lambda: pool)
    finally:
        pool.close()


def test_a_stopped_listing_goes_on_and_is_never_changed(photos, tmp_path):
    opening = PlantedOpening("glance")
    folder = RunFolder(str(tmp_path / "run"))
    folder.begin(settings_for(photos, opening))
    whole, _ = run_parts(tmp_path / "whole", photos, opening)
    for segment in (0, 1):
        folder.write_listing(segment, whole.read_listing(segment))
    run_parts(tmp_path / "run", photos, opening)
    assert list(folder.verdicts()) == list(whole.verdicts())
    gone = RunFolder(str(tmp_path / "gone"))
    gone.begin(settings_for(photos / "0001.png", opening))
    gone.write_listing(0, whole.read_listing(0))
    with pytest.raises(ValueError, match="is not in the source any more; start anew with --force"):
        run_parts(tmp_path / "gone", photos, opening)


def test_only_what_is_new_by_content_is_judged_after_an_earlier_run(photos, tmp_path):
    opening = PlantedOpening("glance")
    source = tmp_path / "source"
    write_images(source, np.arange(40) == 3)
    (source / "0010.png").write_bytes(b"")
    run_parts(tmp_path / "r1", source, opening)
    (source / "0003.png").rename(source / "renamed.png")
    (source / "0010.png").write_bytes((photos / "0230.png").read_bytes())
    (source / "new.png").write_bytes((photos / "0400.png").read_bytes())
    second, _ = run_parts(tmp_path / "r2", source, opening, since=str(tmp_path / "r1"))
    assert [(Path(v.path).name, v.status) for v in second.verdicts()] == [
        ("0010.png", "flagged"),
        ("new.png", "flagged"),
    ]
    (source / "newer.png").write_bytes((photos / "0650.png").read_bytes())
    third, _ = run_parts(tmp_path / "r3", source, opening, since=str(tmp_path / "r2"))
    assert [Path(v.path).name for v in third.verdicts()] == ["newer.png"]  # r2 goes back to r1
    with pytest.raises(ValueError, match="r9 is no run"):
        run_parts(tmp_path / "r4", source, opening, since=str(tmp_path / "r9"))


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_members_of_archives_are_judged_by_several_workers(photos, tmp_path, kind):
    files = sorted(photos.iterdir())[:320]
    archive = tmp_path / f"photos.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for file in files:
                packed.write(file, file.name)
    else:
        with tarfile.open(archive, "w:gz") as packed:
            for file in files:
                packed.add(file, file.name)
    source = [str(archive), str(photos / "0400.png"), str(tmp_path / "none.png")]
    opening = PlantedOpening("adaptive")
    folder, run = run_parts(tmp_path / "run", source, opening, local(opening, tmp_path / "run", 2))
    assert list(folder.verdicts()) == list(moderator_by("adaptive").moderate(source))
    assert run.totals.errors == 2


def test_names_that_are_no_text_and_lines_that_are_no_paths_keep_their_place(tmp_path):
    odd = tmp_path / os.fsdecode(b"caf\xe9.png")
    odd.write_bytes(b"")
    source = [str(odd), str(tmp_path / "list.csv")]
    (tmp_path / "list.csv").write_text("file\n" + "x" * 20_000 + "\n")
    folder, _ = run_parts(tmp_path / "run", source, PlantedOpening("glance"))
    assert [(v.status, v.reason) for v in folder.verdicts()] == [
        ("error", "the file is empty"),
        ("error", f"a path of {20_001 + len(str(tmp_path)):,} characters"),
    ]
    assert folder.read_listing(0)[0].name == str(odd)


def test_the_result_is_read_by_others_as_it_is(photos, tmp_path):
    run_parts(tmp_path / "run", photos, PlantedOpening("adaptive"))
    query = f"SELECT status, count(*) FROM '{tmp_path}/run/parts/*.parquet' GROUP BY status ORDER BY status"
    assert duckdb.sql(query).fetchall() == [("clear", 692), ("error", 1), ("flagged", 7)]
    assert len(list(run_verdicts(str(tmp_path / "run")))) == IMAGES
    with pytest.raises(ValueError, match=r"is no run.* --on local --out"):
        run_verdicts(str(photos.parent / "none"))


def test_an_empty_source_is_a_finished_run_without_parts(tmp_path):
    (tmp_path / "empty").mkdir()
    folder, run = run_parts(tmp_path / "run", tmp_path / "empty", PlantedOpening("auto"))
    assert folder.finished
    assert list(folder.verdicts()) == []
    assert run.totals.images == 0
