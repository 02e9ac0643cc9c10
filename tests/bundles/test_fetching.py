import shutil
from pathlib import Path

import boto3
import pytest
from altered_bundles import put, sign
from s3_server import CREDENTIALS, running_server

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.bundles.loading import SHIPPED
from poolsieve.images import locations


@pytest.fixture(scope="module")
def store():
    with running_server() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": address}.items():
            patch.setenv(name, value)
        locations._store.cache_clear()
        client = boto3.client("s3")
        client.create_bucket(Bucket="bundles")
        for file in filter(Path.is_file, (SHIPPED / "cars").rglob("*")):
            name = file.relative_to(SHIPPED).as_posix()
            client.put_object(Bucket="bundles", Key=f"v1/{name}", Body=file.read_bytes())
        yield client
        locations._store.cache_clear()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "poolsieve" / "bundles"


def test_a_bundle_in_a_bucket_is_fetched_once_and_verified(store, cache):
    bundle = load_bundle("s3://bundles/v1/cars/")
    assert (bundle.name, bundle.hash) == ("cars", load_bundle("cars").hash)
    assert bundle.path == cache / bundle.hash / "cars"
    store.put_object(Bucket="bundles", Key="v1/cars/front.onnx", Body=b"other")
    try:
        assert load_bundle("s3://bundles/v1/cars").path == bundle.path  # from the cache
        bundle.path.joinpath("front.onnx").write_bytes(b"damaged")
        with pytest.raises(ValueError, match=r"front\.onnx is damaged"):
            load_bundle("s3://bundles/v1/cars")
    finally:
        store.put_object(
            Bucket="bundles", Key="v1/cars/front.onnx", Body=(SHIPPED / "cars/front.onnx").read_bytes()
        )


def test_a_bundle_whose_files_do_not_fit_its_configuration_is_refused_and_not_kept(store):
    graph = (SHIPPED / "cars/front.onnx").read_bytes()
    store.put_object(Bucket="bundles", Key="v1/cars/front.onnx", Body=graph[:-1] + b"x")
    try:
        with pytest.raises(ValueError, match=r"front\.onnx is damaged: its hash"):
            load_bundle("s3://bundles/v1/cars")
    finally:
        store.put_object(Bucket="bundles", Key="v1/cars/front.onnx", Body=graph)
    load_bundle("s3://bundles/v1/cars")


@pytest.fixture
def stored(store, holder):
    """Puts a bundle that holds editions into the bucket, as it is then; gives its name there."""

    def put_there(name):
        for file in holder.rglob("*"):
            if file.is_file():
                key = f"{name}/{file.relative_to(holder).as_posix()}"
                store.put_object(Bucket="bundles", Key=key, Body=file.read_bytes())
        return f"s3://bundles/{name}"

    return put_there


def test_a_bundle_comes_with_its_editions(stored, holder):
    fetched = load_bundle(stored("whole"))
    assert verify_bundle(fetched.path) == []
    assert fetched.hash == load_bundle(holder).hash
    for edition in ("int8", "binary"):
        assert fetched.edition(edition).hash == load_bundle(holder).edition(edition).hash
        assert fetched.edition(edition).name == "whole"


def test_a_damaged_edition_is_refused_and_nothing_kept(stored, holder, cache):
    put(holder / "int8" / "head.onnx", (holder / "int8" / "front.onnx").read_bytes())
    name = stored("damaged")
    with pytest.raises(ValueError, match=rf"{name}/int8/head\.onnx"):
        load_bundle(name)
    assert not list(cache.rglob("*.onnx"))


@pytest.mark.parametrize("content", [b"[" * 99999, b"{}", b"no json"])
def test_an_edition_that_says_nothing_of_itself_is_refused(stored, holder, content):
    put(holder / "int8" / "config.json", content)
    sign(holder, "int8/config.json")
    name = stored(f"foreign-{len(content)}")
    with pytest.raises(ValueError, match=rf"{name}/int8/config\.json: "):
        load_bundle(name)


def test_editions_of_editions_are_not_followed(stored, holder, cache):
    shutil.copytree(holder / "binary", holder / "int8" / "binary")
    sign(holder / "int8", "binary/config.json")
    sign(holder, "int8/config.json")
    with pytest.raises(ValueError, match="an edition holds no editions itself"):
        load_bundle(stored("nested"))
    assert not list(cache.rglob("*.onnx"))


def test_a_folder_without_a_bundle_is_said_to_be_none(store):
    with pytest.raises(ValueError, match=r"s3://bundles/none is no bundle: it has no config\.json"):
        load_bundle("s3://bundles/none")
