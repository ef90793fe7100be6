"""Which dialogue systems a tick asks to evaluate, and which files it reads."""

from __future__ import annotations

import os
from pathlib import Path

from gavel.store.manifests import Manifest
from sensors.predictions import RANKING, Contents, decide

OLD, NEW = {"predictions": "h1", "options": "o1"}, {"predictions": "h2", "options": "o1"}


def made(signature: dict[str, str], at: str = "12:00") -> Manifest:
    return Manifest(signature, "run", at)


def test_new_changed_and_unchanged() -> None:
    decision = decide(
        {"a": OLD, "b": NEW, "c": OLD | {"options": "o2"}, "d": OLD},
        {"a": made(OLD), "b": made(OLD), "c": made(OLD), "d": None},
        {},
    )
    assert {system: wish.causes for system, wish in decision.wishes.items()} == {
        "b": ("predictions",),
        "c": ("options",),
        "d": ("never made",),
    }
    assert decision.awaited == []


def test_a_state_of_the_world_is_asked_for_once() -> None:
    first = decide({"a": NEW}, {"a": made(OLD)}, {}).wishes["a"]
    again = decide({"a": NEW}, {"a": made(OLD)}, {"a": first.run_key})
    assert (again.wishes, again.awaited) == ({}, ["a"])
    # Becoming what it once was is a change too, under a key of its own: a key that was used is skipped.
    back = decide({"a": OLD}, {"a": made(NEW, "12:01")}, {"a": first.run_key}).wishes["a"]
    forth = decide({"a": NEW}, {"a": made(OLD, "12:02")}, {"a": back.run_key}).wishes["a"]
    assert len({first.run_key, back.run_key, forth.run_key}) == 3


def test_the_leaderboard_is_made_anew_where_only_its_settings_changed() -> None:
    ranking, ranked = {"settings": "s2"}, made({"settings": "s1"})
    decision = decide({RANKING: ranking, "a": OLD}, {RANKING: ranked, "a": made(OLD)}, {})
    assert decision.wishes[RANKING].run_key.startswith("dialogue leaderboard | ")
    assert list(decision.wishes) == [RANKING]


def test_a_tick_is_bounded_and_the_next_goes_on() -> None:
    wanted = dict.fromkeys("abc", OLD)
    first = decide(wanted, {}, {}, most=2)
    assert list(first.wishes) == ["a", "b"]
    keys = {system: wish.run_key for system, wish in first.wishes.items()}
    second = decide(wanted, {}, keys, most=2)
    assert (list(second.wishes), second.awaited) == (["c"], ["a", "b"])


def test_a_file_is_read_only_where_size_or_time_differ(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("one")
    read: list[str] = []

    def content(file: Path) -> str:
        read.append(file.name)
        return file.read_text()

    first = Contents({}, content)
    assert [first(path), first(path)] == ["one", "one"]
    second = Contents(first.seen, content)
    assert second(path) == "one"
    assert read == ["a.json"]
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    assert Contents(second.seen, content)(path) == "two"
    assert read == ["a.json", "a.json"]
