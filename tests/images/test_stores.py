"""One set of facts for all object stores, each a server process with its interface."""

import io
import logging

import numpy as np
import pytest
from emulated_stores import AZURITE_KEY, BUCKET, running_store
from PIL import Image
from planted import moderator_by, write_images
from planted_runs import PlantedOpening, run_parts

from poolsieve.images import locations
from poolsieve.images.dataset_fetching import fetch_dataset
from poolsieve.images.datasets import load_dataset
from poolsieve.images.locations import Location
from poolsieve.images.sources import list_items, read_content


@pytest.fixture(scope="module", params=["s3", "gs", "az"])
def server(request):
    with running_store(request.param) as settings:
        yield request.param, settings


@pytest.fixture
def root(server, monkeypatch, request):
    """A folder of one's own in a bucket."""
    scheme, settings = server
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    locations._store.cache_clear()
    store, _ = locations._open(f"{scheme}://{BUCKET}")
    if scheme == "s3":
        import boto3

        boto3.client("s3").create_bucket(Bucket=BUCKET)
    elif scheme == "az":
        store.create_dir(BUCKET)
    yield Location(f"{scheme}://{BUCKET}/{request.node.originalname}")
    locations._store.cache_clear()


def png(colour):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(stream, format="png")
    return stream.getvalue()


RED, BLUE = png((255, 0, 0)), png((0, 0, 255))


def test_all_files_below_a_folder_are_listed_by_key_and_read(root):
    keys = ["a-1.png", "a/b/deep.png", "a/z ü?.png", "b.png"]
    for key in reversed(keys):
        (root / key).write_bytes(RED)
    Location(f"{root}-other/x.png").write_bytes(BLUE)
    items = list(list_items(f"{root}/"))
    assert [item.name for item in items] == [f"{root}/{key}" for key in keys]
    assert {item.size for item in items} == {len(RED)}
    assert all(read_content(item, None, 8).image is not None for item in items)
    assert root.names() == ["a-1.png", "b.png"]
    assert [root.kind(), (root / "b.png").kind(), (root / "none").kind()] == ["folder", "file", None]
    assert (root / "none").names() == []


def test_files_that_vanish_or_change_after_they_were_listed_are_errors(root):
    for name in ("changed", "gone", "kept"):
        (root / f"{name}.png").write_bytes(RED)
    items = list(list_items(str(root)))
    (root / "gone.png").remove()
    (root / "changed.png").write_bytes(BLUE)
    assert [read_content(item, None, 8).reason for item in items] == [
        "it has changed since it was listed",
        "the file does not exist (any more)",
        None,
    ]


def test_a_run_from_bucket_to_bucket_goes_on_and_can_begin_anew(root, tmp_path):
    write_images(tmp_path / "photos", np.isin(np.arange(230), [4, 77, 129]))
    for file in (tmp_path / "photos").iterdir():
        (root / "in" / file.name).write_bytes(file.read_bytes())
    opening = PlantedOpening("adaptive")
    folder, _ = run_parts(f"{root}/run", f"{root}/in", opening)
    expected = list(moderator_by("adaptive").moderate(tmp_path / "photos"))
    assert folder.finished
    found = list(folder.verdicts())
    assert [(v.sha256, v.status, v.score) for v in found] == [(v.sha256, v.status, v.score) for v in expected]
    for name in ("_SUCCESS", "parts/00000001.parquet"):
        (folder.location / name).remove()
    assert folder.parts() == [0, 2]
    assert list(run_parts(f"{root}/run", f"{root}/in", opening)[0].verdicts()) == found
    for neighbour in ("run-2/x", "run2"):
        (root / neighbour).write_bytes(b"kept")
    folder.clear()
    assert (folder.settings(), folder.parts(), folder.listed()) == (None, [], [])
    assert len(list(list_items(f"{root}/in"))) == 230
    assert [(root / neighbour).read_bytes() for neighbour in ("run-2/x", "run2")] == [b"kept"] * 2


def test_training_data_are_fetched_and_follow_the_store(root, tmp_path):
    (root / "flagged" / "r.png").write_bytes(RED)
    (root / "clear" / "b.png").write_bytes(BLUE)
    copy = fetch_dataset(str(root), tmp_path)
    assert sorted(load_dataset(copy, all_test=True, needed=["test"]).labels) == [0, 1]
    (root / "clear" / "b.png").write_bytes(png((0, 0, 254)))
    assert (fetch_dataset(str(root), tmp_path) / "clear" / "b.png").read_bytes() == png((0, 0, 254))


def test_what_is_not_there_is_said_with_the_remedy_and_no_secret(server, root, monkeypatch, caplog):
    with pytest.raises(OSError, match=r"cannot be listed.*STORAGE_EMULATOR_HOST") as told:
        next(Location(f"{server[0]}://no-such-bucket-here/x").files())
    with pytest.raises(FileNotFoundError, match="does not exist"):
        list_items(f"{root}/none/")
    if server[0] == "az":
        wrong = AZURITE_KEY.replace("E", "F", 1)
        monkeypatch.setenv("AZURE_STORAGE_KEY", wrong)
        locations._store.cache_clear()
        with caplog.at_level(logging.DEBUG), pytest.raises(OSError, match="cannot be") as told:
            list(list_items(str(root)))
        assert wrong not in str(told.value) + caplog.text
