"""When labels are measured: once for every state of the files, also one that was there before."""

from __future__ import annotations

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
