import os
import signal

import numpy as np
import planted_runs
import pytest
from planted import write_images
from planted_runs import PlantedOpening, run_parts

from poolsieve.distributed.ray_workers import RayPool, RayResources
from poolsieve.distributed.worker_pool import WorkersFailedError


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "photos"
    write_images(folder, np.isin(np.arange(620), [230, 231, 300, 400, 600]))
    return folder


def test_actors_give_the_table_of_one_process_also_when_one_is_killed(cluster, photos, tmp_path):
    notes, out = tmp_path / "notes", tmp_path / "run"
    notes.mkdir()
    opening = PlantedOpening("auto", delay=0.1, notes=str(notes))
    expected, calm = run_parts(tmp_path / "calm", photos, PlantedOpening("auto"))
    pool = RayPool(opening, str(out), 2, 1, RayResources(cpus=0.5))
    killed, real = [], pool.wait

    def wait(timeout):
        done = real(timeout)
        if done and not killed:
            killed.append(int(next(notes.iterdir()).name))
            os.kill(killed[0], signal.SIGKILL)
        return done

    pool.wait = wait
    folder, run = run_parts(out, photos, opening, lambda: pool)
    assert list(folder.verdicts()) == list(expected.verdicts())
    assert pool.deaths == 1
    assert run.totals.plan_changes() == calm.totals.plan_changes()
    assert cluster.is_initialized()  # it was not started by the pool


@pytest.mark.parametrize("way", ["auto", "adaptive", "dorfman", "glance"])
def test_any_number_of_actors_gives_the_table_of_one_process(cluster, photos, tmp_path, way):
    opening = PlantedOpening(way)
    expected = list(run_parts(tmp_path / "calm", photos, opening, segment=2)[0].verdicts())
    for actors in (1, 2):
        out = str(tmp_path / f"run-{actors}")
        pool = RayPool(opening, out, actors, 1, RayResources(cpus=0.5))
        folder, _ = run_parts(out, photos, opening, lambda pool=pool: pool, segment=2)
        assert list(folder.verdicts()) == expected


def test_what_an_actor_cannot_do_is_said(cluster, photos, tmp_path):
    out = tmp_path / "run"
    planted_runs.RunFolder(str(out)).begin(planted_runs.settings_for(photos, PlantedOpening("glance")))
    opening = PlantedOpening("no such way")
    with pytest.raises(WorkersFailedError, match="no such way"):
        run_parts(
            out, photos, PlantedOpening("glance"), lambda: RayPool(opening, str(out), 1, 1, RayResources())
        )


def test_one_processor_is_kept_free_for_ray(cluster):
    for size, resources in (
        (2, RayResources()),
        (None, RayResources(cpus=2)),
        (1, RayResources(gpus=1)),
    ):
        with pytest.raises(ValueError, match="one processor must stay free for Ray"):
            RayPool(PlantedOpening(), "run", size, None, resources)
    assert RayPool(PlantedOpening(), "run", None, None, RayResources(cpus=0.25))._size == 4


@pytest.mark.parametrize(
    ("address", "words"),
    [(None, "be started on this machine: slow"), ("a:1", "be reached at a:1: slow")],
)
def test_a_ray_that_does_not_start_is_said(cluster, monkeypatch, address, words):
    def failing(**options):
        raise Exception("slow")

    monkeypatch.setattr(cluster, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "init", failing)
    with pytest.raises(WorkersFailedError, match=words):
        RayPool(PlantedOpening(), "run", 1, 1, RayResources(address=address))
