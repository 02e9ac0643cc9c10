"""Files of object stores by key, a page at a time, with the version that each has.

pyarrow, which reads and writes them, lists a folder as a whole and without versions, and misses the folders
in it on Google's store; so the clients of the stores' makers list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

ATTEMPTS = 5
"""Times that a request is made before its failure counts."""
VERSIONS = {"s3": "ETag", "gs": "generation", "az": "ETag"}
"""What changes whenever a file does, as the files' metadata call it."""


@dataclass(frozen=True)
class StoredFile:
    """A file in an object store, as it was listed.

    Attributes:
        name: With the store: `s3://bucket/key`.
        size: Bytes.
        version: The ETag or generation that it had; None if it was named and not listed.
    """

    name: str
    size: int
    version: str | None


def list_stored(scheme: str, bucket: str, key: str, below: bool) -> Iterator[StoredFile]:
    """The files of a folder, in the order of their keys.

    Args:
        scheme: "s3", "gs" or "az".
        bucket: Bucket or container.
        key: Of the folder, without a slash at its end.
        below: With those of all folders below it.

    Raises:
        OSError: The store does not list it.
        ImportError: The store's client is not installed.
    """
    entries = _LISTINGS[scheme](bucket, f"{key}/" if key else "", below)
    for name, size, version in entries:
        if not name.endswith("/"):  # what some tools put in place of folders
            yield StoredFile(f"{scheme}://{bucket}/{name}", size, version)


def _list_s3(bucket: str, prefix: str, below: bool) -> Iterator[tuple[str, int, str]]:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise ImportError("listing s3:// needs boto3: pip install 'poolsieve[s3]'") from None
    config = Config(retries={"mode": "standard", "max_attempts": ATTEMPTS})
    try:
        pages = boto3.client("s3", config=config).get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=bucket, Prefix=prefix, **({} if below else {"Delimiter": "/"})):
            for entry in page.get("Contents", ()):
                yield entry["Key"], entry["Size"], entry["ETag"]
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from None


def _list_gs(bucket: str, prefix: str, below: bool) -> Iterator[tuple[str, int, str]]:
    try:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage import Client
    except ImportError:
        raise ImportError("listing gs:// needs Google's client: pip install 'poolsieve[gs]'") from None
    wanted = "items(name,size,generation),nextPageToken"
    try:
        for blob in Client(project=None).list_blobs(
            bucket, prefix=prefix, delimiter=None if below else "/", fields=wanted
        ):
            yield blob.name, blob.size, str(blob.generation)
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(str(error)) from None


def _list_az(container: str, prefix: str, below: bool) -> Iterator[tuple[str, int, str]]:
    try:
        from azure.core.exceptions import AzureError
        from azure.identity import DefaultAzureCredential
        from azure.storage.blob import ContainerClient
    except ImportError:
        raise ImportError("listing az:// needs Azure's client: pip install 'poolsieve[az]'") from None
    account = AzureAccount.from_environment()
    try:
        client = ContainerClient(
            account.endpoint or f"https://{account.name}.blob.core.windows.net",
            container,
            credential=account.key or DefaultAzureCredential(),
            retry_total=ATTEMPTS - 1,
        )
        ask: Callable[..., Any] = client.list_blobs if below else client.walk_blobs
        for blob in ask(name_starts_with=prefix, include=["metadata"]):
            if "etag" in blob and "hdi_isfolder" not in (blob.metadata or {}):  # as accounts with folders do
                yield blob.name, blob.size, f'"{blob.etag}"'
    except AzureError as error:
        raise OSError(str(error).partition("\n")[0]) from None


_LISTINGS: dict[str, Callable[[str, str, bool], Iterator[tuple[str, int, str]]]] = {
    "s3": _list_s3,
    "gs": _list_gs,
    "az": _list_az,
}


@dataclass(frozen=True)
class AzureAccount:
    """A storage account of Azure.

    Attributes:
        name: Its name.
        key: Its key; None where the machine's role or a login tells who asks.
        endpoint: Where it is served if not by Azure, with the account's name at its end.
    """

    name: str
    key: str | None
    endpoint: str | None

    @classmethod
    def from_environment(cls) -> AzureAccount:
        """As variables of the environment say.

        Raises:
            ValueError: They name none.
        """
        name = os.environ.get("AZURE_STORAGE_ACCOUNT")
        if not name:
            raise ValueError("az:// needs the storage account's name in AZURE_STORAGE_ACCOUNT")
        server = os.environ.get("AZURE_STORAGE_ENDPOINT")
        endpoint = f"{server.rstrip('/')}/{name}" if server else None
        return cls(name, os.environ.get("AZURE_STORAGE_KEY"), endpoint)

    def options(self) -> dict[str, Any]:
        """As pyarrow takes them."""
        if self.endpoint is None:
            return {"account_key": self.key}
        scheme, _, rest = self.endpoint.partition("://")
        server = rest.partition("/")[0]
        return {
            "account_key": self.key,
            **{f"{kind}_storage_authority": server for kind in ("blob", "dfs")},
            **{f"{kind}_storage_scheme": scheme for kind in ("blob", "dfs")},
        }
