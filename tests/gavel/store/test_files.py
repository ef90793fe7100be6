"""A file appears whole or not at all."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gavel.errors import StoreError
from gavel.store.files import Store, replacing

from .conftest import python

HALF_WRITTEN = """
import sys, time
from pathlib import Path
from gavel.store.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "day" / "table.parquet"
    path.parent.mkdir()
    path.write_bytes(b"old")
    return path


def test_the_new_content_replaces_the_old_whole(file: Path) -> None:
    with replacing(file) as temporary:
        temporary.write_bytes(b"new")
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"
    assert names(file.parent) == ["table.parquet"]


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    with replacing(tmp_path / "a" / "b" / "c") as temporary:
        temporary.write_bytes(b"x")
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"x"


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), OSError("odd")], ids=repr)
def test_an_error_keeps_the_old_content(file: Path, error: BaseException) -> None:
    def write() -> None:
        with replacing(file) as temporary:
            temporary.write_bytes(b"half")
            raise error

    with pytest.raises(type(error)) as caught:
        write()
    assert caught.value is error
    assert file.read_bytes() == b"old"
    assert names(file.parent) == ["table.parquet"]


def test_a_killed_writer_leaves_the_old_content_and_the_next_one_cleans_up(file: Path) -> None:
    with python(HALF_WRITTEN, file) as process:
        process.kill()
        process.wait()
    assert file.read_bytes() == b"old"
    assert len(names(file.parent)) == 2, "SIGKILL leaves the temporary file"
    with replacing(file) as temporary:
        temporary.write_bytes(b"new")
    assert names(file.parent) == ["table.parquet"]
    assert file.read_bytes() == b"new"


def test_a_writer_does_not_disturb_another_of_the_same_file(file: Path) -> None:
    with python(HALF_WRITTEN, file), replacing(file) as temporary:
        temporary.write_bytes(b"new")
        assert len([n for n in names(file.parent) if n.endswith(".tmp")]) == 2
    assert file.read_bytes() == b"new"


def test_two_threads_of_a_process_do_not_disturb_one_another(file: Path) -> None:
    barrier = threading.Barrier(2)
    failures: list[BaseException] = []

    def write(content: bytes) -> None:
        try:
            with replacing(file) as temporary:
                temporary.write_bytes(content)
                barrier.wait(10)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(letter * 1000,)) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert file.read_bytes() in (b"a" * 1000, b"b" * 1000)


def test_only_the_temporaries_of_the_same_file_are_cleaned(file: Path) -> None:
    other = file.with_name(".other.parquet.1.tmp")
    other.touch()
    with replacing(file) as temporary:
        temporary.write_bytes(b"new")
    assert other.exists()


def test_a_full_disk_is_a_sentence_and_keeps_the_old_content(tiny_disk: Path) -> None:
    file = tiny_disk / "table.parquet"
    file.write_bytes(b"old")
    with (
        pytest.raises(
            StoreError, match=r"table\.parquet: the disk is full; .*nothing was replaced"
        ),
        replacing(file) as temporary,
    ):
        temporary.write_bytes(bytes(4 << 20))
    assert file.read_bytes() == b"old"
    assert names(tiny_disk) == ["table.parquet"]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_limit_on_the_size_of_files_is_a_sentence(file: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"ulimit -f"),
        largest_file(1000),
        replacing(file) as temporary,
    ):
        temporary.write_bytes(bytes(2000))
    assert file.read_bytes() == b"old"


def test_a_folder_that_is_a_file_is_a_sentence(file: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"), replacing(file / "day.parquet"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write_is_a_sentence(file: Path) -> None:
    file.parent.chmod(0o500)
    with pytest.raises(StoreError, match="make the folder writable"), replacing(file):
        pass


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (("chat/rubric",), "chat/rubric.parquet"),
        (("chat/scores", "2026-11-02"), "chat/scores/2026-11-02.parquet"),
        (("chat/shards", "2026-11-02", "3"), "chat/shards/2026-11-02/3.parquet"),
    ],
)
def test_each_table_and_partition_has_its_place(
    tmp_path: Path, parts: tuple[str], path: str
) -> None:
    assert Store(tmp_path).table(*parts) == tmp_path / path


def test_a_missing_table_is_told_with_what_to_materialise(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(
        StoreError, match=r"materialise the asset chat/shards, partition 2026-11-02\|0,"
    ):
        store.existing("chat/shards", "2026-11-02", "0")
    with pytest.raises(StoreError, match="materialise the asset chat/rubric first"):
        store.existing("chat/rubric")
