"""The ledger keeps every answer once it has it, whoever is killed and whoever writes beside."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gavel.errors import StoreError
from gavel.inference import ledger as ledger_module
from gavel.inference.ledger import Ledger, compact, recover, segments
from gavel.inference.request import Answer

from .conftest import answers, kept

WRITER = """
import sys, time
from pathlib import Path
from gavel.inference.ledger import Ledger
from gavel.inference.request import Answer

folder, prefix = Path(sys.argv[1]), sys.argv[2]
with Ledger.open(folder, prefix, "other") as ledger:
    for n in range(10**9):
        ledger.append([Answer(f"{prefix}{n}", 1, text="x" * 3000)])
        print(n, flush=True)
        sys.stdin.readline()
"""


@contextmanager
def writer(folder: Path, prefix: str = "w") -> Iterator[subprocess.Popen[str]]:
    """Another process that appends to the ledger: one answer for each line it is sent."""
    command = [sys.executable, "-c", WRITER, str(folder), prefix]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "0\n"
            yield process
        finally:
            process.kill()


def open_ledger(folder: Path, run_id: str = "run", worker: str = "worker") -> Any:
    return Ledger.open(folder, run_id, worker)


def test_an_answer_comes_back_as_it_was_appended(folder: Path) -> None:
    whole = Answer(
        "h",
        2,
        text="Größe \0 💡",
        finish_reason="stop",
        refusal="r",
        failure="timeout",
        detail="d",
        retries=["http_429", "timeout"],
        prompt_tokens=1,
        completion_tokens=2,
        latency_ms=1.5,
        model_revision="m@1",
        answered_at=1_793_620_800.25,
    )
    with open_ledger(folder) as ledger:
        ledger.append([whole, Answer("empty", 1)])
    empty, row = kept(folder)
    assert row.pop("answered_at").timestamp() == 1_793_620_800.25
    assert (row.pop("run_id"), row.pop("worker")) == ("run", "worker")
    assert row == {name: getattr(whole, name) for name in row}
    assert (empty["text"], empty["prompt_tokens"], empty["retries"]) == (None, None, [])


def test_answers_are_known_by_hash_and_attempt_also_to_the_writer_itself(folder: Path) -> None:
    with open_ledger(folder) as ledger:
        assert ledger.answered() == set()
        ledger.append([Answer("a", 1), Answer("a", 2), Answer("b", 1)])
        assert ledger.answered() == {("a", 1), ("a", 2), ("b", 1)}
    with open_ledger(folder) as ledger:
        assert ledger.answered() == {("a", 1), ("a", 2), ("b", 1)}


def test_a_long_tail_is_sealed_on_the_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_SEGMENT_ROWS", 10)
    with open_ledger(folder) as ledger:
        for n in range(25):
            ledger.append(answers(n, n + 1))
        assert [pq.read_metadata(s).num_rows for s in segments(folder)] == [10, 10]
    assert len(kept(folder)) == 25
    assert sorted(p.suffix for p in folder.iterdir()) == [".parquet"] * 3


def test_an_empty_ledger_leaves_no_file(folder: Path) -> None:
    with open_ledger(folder):
        pass
    assert list(folder.iterdir()) == []
    assert kept(folder) == []


def test_what_a_killed_writer_had_appended_is_recovered(folder: Path) -> None:
    with writer(folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n" * 9_000)  # it appends as fast as it can
        process.stdin.flush()
        promised = [process.stdout.readline() for _ in range(200)]
        os.kill(process.pid, signal.SIGKILL)
        promised += process.stdout.readlines()
    numbers = [0, *(int(line) for line in promised if line.endswith("\n"))]
    with open_ledger(folder) as ledger:
        known = ledger.answered()
    assert {f"w{n}" for n in numbers} <= {key for key, _ in known}
    assert len(known) <= len(numbers) + 1, "one may have been written and not yet told of"
    assert {len(row["text"]) for row in kept(folder)} == {3000}
    assert not list(folder.glob("*.tail"))


def test_the_tail_of_a_live_writer_is_left_alone(folder: Path) -> None:
    with writer(folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        (tail,) = folder.glob("*.tail")
        before = tail.read_bytes()
        with open_ledger(folder) as ledger:
            assert ledger.answered() == set()
        recover(folder)
        assert tail.read_bytes() == before
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n", "it goes on"
    recover(folder)
    assert [row["request_hash"] for row in kept(folder)] == ["w0", "w1"]


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (lambda data: data, 3),
        (lambda data: data[:-1], 2),
        (lambda data: data[:-40], 2),
        (lambda data: data + b'{"request_hash": "h9", "te', 3),
        (lambda data: data + b"\0" * 4096, 3),
        (lambda data: data.replace(b'"h1"', b'"h1', 1), 2),
        (lambda data: b"", 0),
    ],
    ids=["whole", "no line end", "torn", "half a line", "zeros", "garbled", "empty"],
)
def test_a_line_that_a_crash_cut_or_garbled_is_ignored(
    folder: Path, damage: Any, left: int
) -> None:
    with open_ledger(folder) as ledger:
        ledger.append(answers(0, 3))
        (tail,) = folder.glob("*.tail")
        content = tail.read_bytes()
    for segment in segments(folder):
        segment.unlink()
    (folder / "killed.tail").write_bytes(damage(content))
    with open_ledger(folder) as ledger:
        assert len(ledger.answered()) == left
        ledger.append(answers(5, 6))
    assert len(kept(folder)) == left + 1


def test_many_recover_the_same_tails_at_once(folder: Path) -> None:
    with open_ledger(folder) as ledger:
        ledger.append(answers(0, 50))
        (tail,) = folder.glob("*.tail")
        content = tail.read_bytes()
    for n in range(60):
        (folder / f"{n}.tail").write_bytes(content.replace(b'"h', f'"t{n}h'.encode()))
    errors: list[BaseException] = []

    def run() -> None:
        try:
            recover(folder)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    rows = sum(pq.read_metadata(segment).num_rows for segment in segments(folder))
    assert rows == 50 * 61, "each tail is sealed by one of them"
    assert not list(folder.glob("*.tail"))


def test_two_writers_have_a_tail_each(folder: Path) -> None:
    with open_ledger(folder, "one", "0") as one, open_ledger(folder, "two", "1") as two:
        for n in range(20):
            one.append(answers(n, n + 1))
            two.append(answers(n + 10, n + 11))
        one.seal()
        two.append(answers(90, 91))
    rows = kept(folder)
    assert [row["request_hash"] for row in rows] == sorted([f"h{n}" for n in [*range(30), 90]])
    assert sum(pq.read_metadata(s).num_rows for s in segments(folder)) == 41


def test_a_second_run_of_the_same_worker_is_refused_until_the_first_has_ended(folder: Path) -> None:
    with writer(folder) as process, writer(folder / "elsewhere"):
        with pytest.raises(StoreError, match="another run is asking for other already; wait"):
            open_ledger(folder, worker="other").__enter__()
        with open_ledger(folder, worker="0"):
            pass
        process.kill()
        process.wait()
        with open_ledger(folder, worker="other") as ledger:
            assert ledger.answered() == {("w0", 1)}
    assert not list(folder.glob("*.lock"))


def test_a_request_that_failed_on_its_way_is_asked_again_and_its_answer_counts(
    folder: Path,
) -> None:
    with open_ledger(folder) as ledger:
        ledger.append(
            [
                Answer("timed out", 1, failure="timeout", answered_at=100.0),
                Answer("lost", 1, failure="transport", answered_at=100.0),
                Answer("too long", 1, failure="context_overflow", answered_at=100.0),
            ]
        )
        assert ledger.answered() == {("too long", 1)}
        ledger.append([Answer("lost", 1, text="found", answered_at=200.0)])
    assert [row["text"] for row in kept(folder)] == ["found", None, None]
    assert compact(folder)
    assert [row["text"] for row in kept(folder)] == ["found", None, None]


def test_of_a_key_given_twice_the_first_received_counts(folder: Path) -> None:
    for text, at in (("late", 200.0), ("first", 100.0), ("last", 300.0)):
        with open_ledger(folder, text) as ledger:
            ledger.append([Answer("h", 1, text=text, answered_at=at), Answer(text, 1)])
    (row,) = [row for row in kept(folder) if row["request_hash"] == "h"]
    assert row["text"] == "first"
    assert len(kept(folder)) == 4


def test_compaction_leaves_one_segment_with_each_answer_once(folder: Path) -> None:
    for n in range(4):
        with open_ledger(folder, f"run {n}") as ledger:
            ledger.append(answers(n * 10, n * 10 + 20, retries=["http_500"]))
            ledger.append([Answer("h5", n + 1)])
    before = kept(folder)
    compact(folder)
    (segment,) = segments(folder)
    assert pq.read_table(segment).to_pylist() == before == kept(folder)
    assert len(before) == 50 + 3
    compact(folder)
    assert segments(folder) == [segment]


def test_a_compaction_cut_short_repeats_answers_but_loses_none(folder: Path) -> None:
    for n in range(3):
        with open_ledger(folder) as ledger:
            ledger.append(answers(n * 10, n * 10 + 10))
    before = kept(folder)
    spared = segments(folder)[1].read_bytes()
    compact(folder)
    (folder / "spared.parquet").write_bytes(spared)
    assert kept(folder) == before
    compact(folder)
    assert kept(folder) == before


def test_an_open_ledger_is_not_compacted_under_its_reader(folder: Path) -> None:
    for n in range(3):
        with open_ledger(folder) as ledger:
            ledger.append(answers(n * 10, n * 10 + 10))
    before = segments(folder)
    with open_ledger(folder, worker="0"), open_ledger(folder, worker="1"):
        assert not compact(folder)
        assert segments(folder) == before
    assert compact(folder)
    assert len(segments(folder)) == 1


class _Disk:
    """A file on a disk with room for so many bytes more."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: bytes) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._file.write(data[: self._room])
        self._room -= taken
        return int(taken)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_full_disk_is_one_sentence_and_costs_only_the_answer_that_did_not_fit(
    folder: Path,
) -> None:
    def fill() -> None:
        with open_ledger(folder) as ledger:
            ledger.append(answers(0, 2))
            ledger._tail = _Disk(ledger._tail, 30)
            ledger.append(answers(2, 4))

    with pytest.raises(StoreError, match="the disk is full") as raised:
        fill()
    assert str(folder) in str(raised.value)
    assert [row["request_hash"] for row in kept(folder)] == ["h0", "h1"]


def test_a_write_that_takes_a_part_is_finished(folder: Path) -> None:
    class Stuttering(_Disk):
        def write(self, data: bytes) -> int:
            return int(self._file.write(data[:7]))

    with open_ledger(folder) as ledger:
        ledger._tail = Stuttering(ledger._tail, 0)
        ledger.append(answers(0, 3))
    assert [row["text"] for row in kept(folder)] == ["text 0", "text 1", "text 2"]
