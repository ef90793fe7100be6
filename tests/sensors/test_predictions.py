"""Which prediction files a tick asks to evaluate."""

from __future__ import annotations

from sensors.predictions import Known, decide

HASHES = {"a": "h1", "b": "h2", "c": "h3"}


def test_new_changed_touched_and_gone() -> None:
    first = decide({"a": (1, 1), "b": (1, 1)}, {}, HASHES.__getitem__)
    assert first.run_keys == {"a": "dialogue|a|h1|1", "b": "dialogue|b|h2|1"}
    # The same again, without a look into the files.
    again = decide({"a": (1, 1), "b": (1, 1)}, first.known, {}.__getitem__)
    assert again.run_keys == {}
    assert again.known == first.known
    # Touched, with equal content: known anew, not evaluated anew.
    touched = decide({"a": (1, 2)}, first.known, HASHES.__getitem__)
    assert touched.run_keys == {}
    assert touched.known["a"] == Known(1, 2, "h1", 1)
    assert touched.known["b"] == first.known["b"]
    changed = decide({"a": (2, 3)}, touched.known, {"a": "h9"}.__getitem__)
    assert changed.run_keys == {"a": "dialogue|a|h9|2"}
    # Becoming what it once was is a change too, under a key of its own.
    back = decide({"a": (1, 4)}, changed.known, HASHES.__getitem__)
    assert back.run_keys == {"a": "dialogue|a|h1|3"}


def test_a_tick_is_bounded_and_the_next_goes_on() -> None:
    found = dict.fromkeys(HASHES, (1, 1))
    first = decide(found, {}, HASHES.__getitem__, most=2)
    assert list(first.run_keys) == ["a", "b"]
    second = decide(found, first.known, HASHES.__getitem__, most=2)
    assert list(second.run_keys) == ["c"]
