"""A bucket on an emulator of Cloud Storage, and machines that work on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gavel.store import bucket as module
from gavel.store.bucket import CACHE_VARIABLE, EMULATOR_VARIABLE, copy_of
from tests.ports import free_port

from .servers import Way, bigquery, cloud_storage


@pytest.fixture(scope="session")
def storage_port() -> Iterator[int]:
    port = free_port()
    with cloud_storage(port):
        yield port


@dataclass
class Place:
    """A bucket, the way to it, and the machine that this process plays."""

    name: str
    way: Way
    folder: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def uri(self) -> str:
        return f"gs://{self.name}"

    def copy(self, name: str) -> Path:
        """Where this machine has the copy of object `name`."""
        return copy_of(f"{self.uri}/{name}")

    def on_machine(self, name: str) -> None:
        """Go on as a process on the machine `name`, which has seen nothing yet."""
        self.monkeypatch.setenv(CACHE_VARIABLE, str(self.folder / name))
        self.monkeypatch.setattr(module, "_seen", {})

    @property
    def bucket(self) -> Any:
        from google.cloud import storage

        return storage.Client().bucket(self.name)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """The content of every object, by its name."""
        blobs = self.bucket.list_blobs(prefix=prefix)
        return {blob.name: blob.download_as_bytes() for blob in blobs}

    def upload(self, folder: Path, prefix: str) -> None:
        """Put every file under `folder` into the bucket."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = f"{prefix}{path.relative_to(folder).as_posix()}"
                self.bucket.blob(name).upload_from_filename(str(path))


@pytest.fixture
def place(storage_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    from google.cloud import storage

    way = Way(storage_port)
    monkeypatch.setenv(EMULATOR_VARIABLE, way.url)
    monkeypatch.setattr(module, "PATIENCE", 5.0)
    module._client.cache_clear()
    found = Place(f"bucket-{uuid.uuid4().hex[:8]}", way, tmp_path, monkeypatch)
    storage.Client().create_bucket(found.name)
    found.on_machine("first")
    yield found
    module._client.cache_clear()
    way.close()


@pytest.fixture(scope="session")
def bigquery_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with bigquery(tmp_path_factory.mktemp("bigquery")) as environment:
        yield environment


@pytest.fixture
def client(bigquery_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of BigQuery, on the emulator, to which everything else in the test goes too."""
    from gavel.logs import bigquery as source
    from resources.bigquery import connect

    from .servers import PROJECT

    for name, value in bigquery_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(source, "_partitions_seen", {})
    with connect(PROJECT, "EU") as found:
        yield found
