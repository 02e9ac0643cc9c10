import gzip
import io
import logging
import os
import tarfile
import zipfile

import boto3
import pyarrow
import pytest
from PIL import Image
from s3_server import CREDENTIALS, running_server

from poolsieve.images import locations
from poolsieve.images.dataset_fetching import fetch_dataset
from poolsieve.images.datasets import load_dataset
from poolsieve.images.locations import Location, is_remote
from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import list_items, read_content


def png(colour):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(stream, format="png")
    return stream.getvalue()


RED, BLUE = png((255, 0, 0)), png((0, 0, 255))


@pytest.fixture(scope="module")
def server():
    with running_server() as address:
        yield address


@pytest.fixture
def bucket(server, monkeypatch, request):
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    locations._store.cache_clear()
    client = boto3.client("s3")
    name = f"b-{abs(hash(request.node.name)) % 10**9}"
    client.create_bucket(Bucket=name)
    yield lambda key, data: client.put_object(Bucket=name, Key=key, Body=data), f"s3://{name}", client
    locations._store.cache_clear()


def contents(source, **options):
    items = list_items(source, **options)
    found = read_ahead(items, lambda i, data: (i.name, read_content(i, data, 8)), threads=2, ahead=4)
    return dict(found)


def test_a_folder_of_a_bucket_is_listed_by_key_and_read(bucket):
    put, root, _ = bucket
    for key in ("up/b.png", "up/a/z ü?.png", "up/a-1.png", "up/.DS_Store", "other/x.png", "up/note.txt"):
        put(key, b"words" if key.endswith("txt") else RED)
    put("up/a/", b"")  # what some tools put in place of folders
    found = contents(f"{root}/up/")
    assert list(found) == [f"{root}/up/{name}" for name in ("a-1.png", "a/z ü?.png", "b.png", "note.txt")]
    assert [content.reason is None for content in found.values()] == [True, True, True, False]
    assert found[f"{root}/up/note.txt"].not_image
    assert list(contents(f"{root}/up")) == list(found)
    assert len(contents(root)) == 5


def test_the_whole_listing_is_never_held(bucket, monkeypatch):
    put, root, _ = bucket
    for number in range(25):
        put(f"up/{number:02}.png", RED)
    asked = []
    real = boto3.client

    def counting(*given, **options):
        made = real(*given, **options)
        listed = made.list_objects_v2

        def pages(**options):
            asked.append(options.get("ContinuationToken"))
            return listed(**{**options, "MaxKeys": 10})

        made.list_objects_v2 = pages
        return made

    monkeypatch.setattr(boto3, "client", counting)
    items = list_items(f"{root}/up")
    assert asked == []
    for wanted, pages in ((1, 1), (9, 1), (1, 2), (14, 3)):
        assert len([next(items) for _ in range(wanted)]) == wanted
        assert len(asked) == pages
    assert next(items, None) is None


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("slow-1.png", None),
        ("busy-1.png", None),
        ("down-1.png", "cannot be read"),
        ("secret-1.png", "cannot be read"),
    ],
)
def test_what_the_store_does_becomes_an_image_or_a_reason(bucket, key, reason):
    put, root, _ = bucket
    put(f"up/{key}", RED)
    put("up/fine.png", BLUE)
    found = contents(f"{root}/up")
    assert found[f"{root}/up/fine.png"].image is not None
    told = found[f"{root}/up/{key}"]
    assert (told.image is not None) == (reason is None)
    assert reason is None or (reason in told.reason and not told.not_image)


def test_keys_that_vanish_or_change_after_they_were_listed_are_errors(bucket):
    put, root, client = bucket
    for name in ("gone", "changed", "kept"):
        put(f"up/{name}.png", RED)
    items = list(list_items(f"{root}/up"))
    client.delete_object(Bucket=root[5:], Key="up/gone.png")
    put("up/changed.png", BLUE)
    told = [read_content(item, None, 8) for item in items]
    assert [content.reason for content in told] == [
        "it has changed since it was listed",
        "the file does not exist (any more)",
        None,
    ]


def test_tables_and_archives_lie_in_buckets_too(bucket, tmp_path):
    put, root, _ = bucket
    put("in/a.png", RED)
    put("list.csv", f"file\nin/a.png\n{root}/in/a.png\nin/none.png\n".encode())
    put("list.jsonl", b'{"path": "in/a.png"}\n')
    packed, plain, zipped = io.BytesIO(), io.BytesIO(), io.BytesIO()
    for stream, mode in ((packed, "w:gz"), (plain, "w")):
        with tarfile.open(fileobj=stream, mode=mode) as archive:
            info = tarfile.TarInfo("one.png")
            info.size = len(RED)
            archive.addfile(info, io.BytesIO(RED))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("one.png", RED)
        archive.writestr("two.png", BLUE)
    for name, stream in (("a.tar.gz", packed), ("a.tar", plain), ("a.zip", zipped)):
        put(name, stream.getvalue())
    found = contents(f"{root}/list.csv")
    assert [content.image is not None for content in found.values()] == [True, False]
    assert list(found) == [f"{root}/in/a.png", f"{root}/in/none.png"]
    (tmp_path / "here.csv").write_text(f"file\n{root}/in/a.png\n")
    for source, number in (
        (f"{root}/list.jsonl", 1),
        (tmp_path / "here.csv", 1),
        (f"{root}/a.tar", 1),
        (f"{root}/a.tar.gz", 1),
        (f"{root}/a.zip", 2),
        ([f"{root}/a.zip", f"{root}/in/a.png"], 3),
    ):
        found = contents(source)
        assert len(found) == number
        assert all(content.image is not None for content in found.values()), found


@pytest.mark.parametrize("kind", ["csv", "jsonl", "tar"])
def test_large_tables_and_archives_are_read_as_they_are_asked_for(bucket, kind):
    put, root, _ = bucket
    names = [f"in/{number:06d}-{'x' * 60}.png" for number in range(400_000 if kind != "tar" else 0)]
    lines = {"csv": ["file", *names], "jsonl": [f'{{"path": "{name}"}}' for name in names], "tar": []}[kind]
    data = "\n".join(lines).encode()
    if kind == "tar":
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for number in range(300):
                info = tarfile.TarInfo(f"{number}.bin")
                info.size = 100_000
                archive.addfile(info, io.BytesIO(bytes(100_000)))
        data = packed.getvalue()
    put(f"large.{kind}", data)
    before = pyarrow.total_allocated_bytes()
    items = list_items(f"{root}/large.{kind}")
    first = next(items)
    assert first.name.endswith(("in/000000-" + "x" * 60 + ".png", "0.bin"))
    assert len(data) > 25_000_000
    assert pyarrow.total_allocated_bytes() - before < 10_000_000
    items.close()


def test_what_is_not_there_or_not_allowed_is_said_with_the_remedy(bucket):
    _, root, _ = bucket
    with pytest.raises(FileNotFoundError, match=r"none/.* does not exist"):
        list_items(f"{root}/none/")
    with pytest.raises(OSError, match=r"secret-x.*cannot be looked at.*AWS_ENDPOINT_URL"):
        list_items(f"{root}/secret-x")
    with pytest.raises(OSError, match="cannot be listed"):
        next(Location("s3://no-such-bucket-here/x").files())


def test_a_name_that_carries_a_secret_is_refused_without_repeating_it(caplog):
    with pytest.raises(ValueError, match="carries a secret") as told:
        list_items("s3://AKIA:topsecret@bucket/x")
    assert "topsecret" not in str(told.value)


def test_credentials_are_never_logged(bucket, caplog):
    put, root, _ = bucket
    put("up/secret-1.png", RED)
    with caplog.at_level(logging.INFO):
        (told,) = contents(f"{root}/up").values()
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in caplog.text + str(told.reason)


def test_a_run_leaves_out_what_it_writes_below_its_source(bucket):
    put, root, _ = bucket
    for key in ("up/a.png", "up/run-1/parts/0.parquet", "up/run-10/b.png"):
        put(key, RED)
    found = contents(f"{root}/up", outputs=OwnOutputs([f"{root}/up/run-1"]))
    assert list(found) == [f"{root}/up/a.png", f"{root}/up/run-10/b.png"]


@pytest.mark.parametrize("remote", [False, True])
def test_a_location_is_written_and_read_the_same_anywhere(bucket, tmp_path, remote):
    _, root, _ = bucket
    folder = Location(f"{root}/run") if remote else Location(str(tmp_path / "run"))
    assert folder.kind() is None
    assert folder.names() == []
    (folder / "parts" / "1").write_bytes(b"one")
    (folder / "b").write_bytes(b"two")
    (folder / "b").write_bytes(gzip.compress(b"two"))
    assert folder.kind() == "folder"
    assert (folder / "b").kind() == "file"
    assert gzip.decompress((folder / "b").read_bytes()) == b"two"
    assert (folder / "parts").names() == ["1"]
    with (folder / "parts" / "1").open() as stream:
        stream.seek(1)
        assert stream.read() == b"ne"


def test_only_stores_that_are_known_are_remote():
    assert is_remote("s3://b/k")
    assert is_remote("az://c")
    for name in ("s3:/b", "http://b/k", "photos/s3://b", "-", os.curdir):
        assert not is_remote(name)


def test_training_data_of_a_bucket_are_copied_once_and_follow_the_bucket(bucket, tmp_path):
    put, root, client = bucket
    name = root.removeprefix("s3://")
    put("d/flagged/r.png", RED)
    put("d/clear/b.png", BLUE)
    put("d/clear/gone.png", BLUE)
    put("d/list.csv", b"file,label\nflagged/r.png,1\n./clear/b.png,0\n")
    for source, images in ((f"{root}/d/", 3), (f"{root}/d/list.csv", 2)):
        copy = fetch_dataset(source, tmp_path)
        assert copy.name == source.rstrip("/").rpartition("/")[2]
        assert sorted(load_dataset(copy, all_test=True, needed=["test"]).labels) == [0] * (images - 1) + [1]
    folder = fetch_dataset(f"{root}/d", tmp_path)
    before = (folder / "flagged" / "r.png").stat().st_mtime_ns
    client.delete_object(Bucket=name, Key="d/clear/gone.png")
    put("d/clear/b.png", png((0, 255, 0)))
    assert fetch_dataset(f"{root}/d", tmp_path) == folder
    assert (folder / "flagged" / "r.png").stat().st_mtime_ns == before  # not fetched again
    assert (folder / "clear" / "b.png").read_bytes() == png((0, 255, 0))
    assert not (folder / "clear" / "gone.png").exists()
    put("d/out.csv", b"file,label\n../x.png,1\n")
    with pytest.raises(ValueError, match="leads out of"):
        fetch_dataset(f"{root}/d/out.csv", tmp_path)


def test_an_account_of_azure_must_be_named(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    with pytest.raises(ValueError, match="AZURE_STORAGE_ACCOUNT"):
        Location("az://b/a").kind()
