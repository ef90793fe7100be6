"""The steps from table to table: what a person decides, what a translator spoils, and what is accounted for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gavel.fashion import benchmark
from gavel.fashion.benchmark import (
    Bench,
    write_goals,
    write_language,
    write_simulated,
    write_verified,
)
from gavel.fashion.scripted import Scripts
from gavel.fashion.simulate import Ground
from gavel.inference.request import Request
from gavel.store.files import Store


def table(bench: Bench, name: str, *partition: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(
        bench.store.table(f"fashion/{name}", *partition)
    ).to_pylist()
    return rows


def removed(bench: Bench, language: str) -> dict[str, list[str]]:
    """What was removed of a language with its grounds; all that was selected is accounted for."""
    made = write_language(bench, language)
    ids = {row["id"] for row in table(bench, "conversations", language)}
    assert (made.kept, made.selected) == (len(ids), made.kept + made.lost)
    rows = table(bench, "removed", language)
    assert all(row["reasons"] for row in rows)
    return {row["id"]: row["grounds"] for row in rows}


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(ground: Callable[..., Ground], tmp_path: Path) -> MakeBench:
    """A bench with settings of one's own, and people's decisions as lines of CSV."""

    def made(*decisions: str, **settings: Any) -> Bench:
        path = tmp_path / "decisions.csv"
        path.write_text("\n".join(["id,language,decision,reason", *decisions]))
        own = ground(decisions=str(path), subsets={}, **settings)
        done = Bench(own, Store(tmp_path / "data"), "run")
        write_goals(done)
        write_simulated(done)
        write_verified(done)
        return done

    return made


def test_a_spoiled_translation_keeps_nothing(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "As an AI language model I cannot translate this. Error 500"
    spoiled = json.dumps({"translation": text})
    monkeypatch.setattr(benchmark, "scripted_translator", lambda *_: lambda request: spoiled)
    grounds = removed(bench(), "de")
    assert len(grounds) == 14
    assert all(set(found) == {"error_text"} for found in grounds.values())


def test_what_was_never_said_cannot_be_kept(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Scripts.customer

    def broken(self: Scripts, request: Request) -> str:
        switches = request.subject.goal.id == "e00001"
        return "ASSISTANT: hello" if switches else whole(self, request)

    monkeypatch.setattr(Scripts, "customer", broken)
    made = bench("e00001,,keep,looks fine")
    assert removed(made, "en") == {"e00001": ["wrong_format"]}
    assert removed(made, "de") == {}
    assert all(row["customer"] for row in table(made, "conversations", "en"))
    (reasons,) = [row["reasons"] for row in table(made, "verified") if row["id"] == "e00001"]
    assert reasons[-1] == "a person keeps it (looks fine), but it holds no message"


@pytest.mark.parametrize(
    ("decisions", "kept", "told"),
    [
        ([], {"en", "de"}, set()),
        # What is removed in English is not translated, and told there.
        (["e00001,,remove,odd"], set(), {"en"}),
        (["e00001,en,remove,odd"], set(), {"en"}),
        (["e00001,de,remove,odd"], {"en"}, {"de"}),
        # A decision for the language wins over one for English, or for all.
        (["e00001,,remove,odd", "e00001,de,keep,good German"], {"de"}, {"en"}),
        (["e00001,en,remove,odd", "e00001,de,keep,good German"], {"de"}, {"en"}),
        (["e00001,,keep,fine", "e00001,de,remove,odd"], {"en"}, {"de"}),
    ],
)
def test_decisions_hold_for_a_language_or_for_all(
    decisions: list[str], kept: set[str], told: set[str], bench: MakeBench
) -> None:
    made = bench(*decisions)
    for language in ("en", "de"):
        assert removed(made, language) == ({"e00001": ["person"]} if language in told else {})
        ids = {row["id"] for row in table(made, "conversations", language)}
        assert ("e00001" in ids) is (language in kept)
