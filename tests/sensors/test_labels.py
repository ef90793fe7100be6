"""When labels are measured: once for every state of the files, also one that was there before."""

from __future__ import annotations

import pytest

from sensors.labels import decide


def test_each_change_is_asked_for_once() -> None:
    assert decide(None, None) == (None, None)
    first, cursor = decide("a", None)
    assert first == "alignment|a|1"
    assert decide("a", cursor) == (None, cursor)
    second, cursor = decide("b", cursor)
    back, cursor = decide("a", cursor)
    gone, cursor = decide(None, cursor)
    assert (second, back, gone) == ("alignment|b|2", "alignment|a|3", "alignment|no labels|4")
    assert decide(None, cursor) == (None, cursor)


@pytest.mark.parametrize("corrupt", ["{", "7", '["a"]', '["a", "b"]', "null"])
def test_a_corrupt_cursor_asks_once_more_under_a_key_that_was_not_used(corrupt: str) -> None:
    key, cursor = decide("a", corrupt)
    assert key is not None
    assert key != decide("a", None)[0]
    assert decide("a", cursor) == (None, cursor)
