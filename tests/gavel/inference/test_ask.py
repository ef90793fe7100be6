"""Asking: equal requests are sent once, known ones not at all, and the counts add up."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavel.errors import EvaluatorOutage, StoreError
from gavel.inference.ask import ask
from gavel.inference.budget import Spending
from gavel.inference.ledger import Ledger
from gavel.inference.request import Answer, Decoding, Message, Question, Request
from gavel.inference.rules import Rules
from gavel.settings.judging import Prices
from gavel.settings.operation import Budget

from .conftest import kept

QUESTION = Question("m", Decoding(0.0, 1), "s")


def request(text: str, attempt: int = 1) -> Request:
    return QUESTION.request((Message("user", text),), attempt)


class Recording:
    """A backend that answers in batches, backwards, and fails after so many answers."""

    def __init__(self, batch: int = 3, fails_after: int | None = None) -> None:
        self.sent: Counter[tuple[str, int]] = Counter()
        self.closed = False
        self._batch = batch
        self._left = fails_after

    def answers(self, requests: Iterable[Request]) -> Generator[list[Answer], None, None]:
        waiting: list[Answer] = []
        try:
            for one in requests:
                if self._left == 0:
                    raise EvaluatorOutage("down")
                self.sent[one.key] += 1
                waiting.append(Answer(*one.key, text=one.messages[0].content, retries=["timeout"]))
                if self._left is not None:
                    self._left -= 1
                if len(waiting) == self._batch or self._left == 0:
                    yield waiting[::-1]
                    waiting = []
            if waiting:
                yield waiting[::-1]
        finally:
            self.closed = True

    def probe(self) -> None:
        pass


texts = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 2)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(streams=st.lists(texts, min_size=1, max_size=3), batch=st.integers(1, 5))
def test_every_request_is_repeated_or_known_or_sent_and_sent_once_ever(
    streams: list[list[tuple[str, int]]], batch: int
) -> None:
    backend = Recording(batch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        earlier: set[tuple[str, int]] = set()
        for stream in streams:
            with Ledger.open(path, "run", "worker") as ledger:
                asked = ask((request(*one) for one in stream), backend, ledger)
            new = set(stream) - earlier
            assert asked.requests == len(stream)
            assert asked.requests == asked.repeated + asked.known + asked.sent
            assert asked.sent == asked.answered == asked.retries == len(new)
            assert asked.known == sum(one in earlier for one in stream)
            assert asked.saved == len(stream) - len(new)
            earlier |= set(stream)
        assert backend.sent == Counter(request(*one).key for one in earlier)
        rows = kept(path)
    by_key = {(row["request_hash"], row["attempt"]): row["text"] for row in rows}
    assert len(rows) == len(by_key)
    assert by_key == {request(*one).key: one[0] for one in earlier}


def test_what_came_before_an_outage_is_kept_and_not_asked_again(folder: Path) -> None:
    requests = [request(str(n)) for n in range(10)]
    with Ledger.open(folder, "run", "worker") as ledger:
        with pytest.raises(EvaluatorOutage):
            ask(requests, Recording(fails_after=7), ledger)
        backend = Recording()
        asked = ask(requests, backend, ledger)
    assert (asked.known, asked.sent) == (7, 3)
    assert set(backend.sent) == {one.key for one in requests[7:]}


def test_an_outage_is_told_though_its_spending_cannot_be_kept(folder: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "spending"
    blocked.write_text("a file where a folder should be")
    spending = Spending(blocked, Budget(), Prices(), ZoneInfo("UTC"))
    requests = [request(str(n)) for n in range(10)]
    with Ledger.open(folder, "run", "worker") as ledger:
        with pytest.raises(EvaluatorOutage, match="down"):
            ask(requests, Recording(fails_after=3), ledger, spending=spending)
        with pytest.raises(StoreError, match=r"spending.*cannot be written"):
            ask(requests, Recording(), ledger, spending=spending)


def test_requests_are_pulled_only_as_they_are_answered(folder: Path) -> None:
    pulled = 0

    def requests() -> Iterable[Request]:
        nonlocal pulled
        for n in range(100):
            pulled += 1
            yield request(str(n))

    seen: list[tuple[int, int]] = []
    with Ledger.open(folder, "run", "worker") as ledger:
        ask(
            requests(), Recording(5), ledger, lambda asked, _: seen.append((asked.answered, pulled))
        )
    assert seen == [(n, n) for n in range(5, 101, 5)]


def test_an_answer_is_in_the_ledger_before_anyone_is_told_of_it(folder: Path) -> None:
    def progress(_: object, answers: list[Answer]) -> None:
        (tail,) = folder.glob("*.tail")
        assert all(answer.request_hash in tail.read_text() for answer in answers)

    with Ledger.open(folder, "run", "worker") as ledger:
        ask([request("a"), request("b")], Recording(), ledger, progress)


def test_an_error_while_asking_closes_the_backend_at_once(folder: Path) -> None:
    backend = Recording()
    error: BaseException | None = None

    def progress(*_: object) -> None:
        raise RuntimeError("broken")

    with Ledger.open(folder, "run", "worker") as ledger:
        try:
            ask((request(str(n)) for n in range(10)), backend, ledger, progress)
        except RuntimeError as caught:
            error = caught
    assert error is not None, "it is held, and with it every frame it went through"
    assert backend.closed
    assert len(kept(folder)) == 3


def test_a_rule_answers_every_request_in_batches(folder: Path) -> None:
    rules = Rules(lambda one: one.messages[0].content.upper(), "upper-1")
    with Ledger.open(folder, "run", "worker") as ledger:
        asked = ask((request(f"t{n}") for n in range(1203)), rules, ledger)
    rows = kept(folder)
    assert asked.sent == len(rows) == 1203
    assert {row["text"] for row in rows} == {f"T{n}" for n in range(1203)}
    assert {row["model_revision"] for row in rows} == {"upper-1"}
