"""Which domains a system's turn is about.

A name or number in a response counts for the active domains only. Systems say them, or write slots
with the domain's prefix, or they are guessed from what changed in the belief state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from gavel.dialogue.corpus import State
from gavel.dialogue.normalise import DOMAINS

_SLOT = re.compile(r"\[([\w\s\d]+)\]")


@lru_cache(maxsize=100_000)
def from_slots(response: str) -> tuple[str, ...]:
    """The domains that prefix the slots of a delexicalised response: `[hotel_name]` is of hotel."""
    found = dict.fromkeys(slot.split("_")[0] for slot in _SLOT.findall(response.lower()))
    return tuple(domain for domain in found if domain in DOMAINS)


def from_states(states: Sequence[State]) -> list[tuple[str, ...]]:
    """At most one domain for each turn of a dialogue, guessed from the changes of the state.

    The domain stays while its state is among those that changed. When others changed, it becomes the
    one of them with most slots. When nothing changes after a turn in which several did, the
    conversation is taken to turn to another of those. (Nekvinda and Dušek 2021, section 4.)
    """
    domains: list[tuple[str, ...]] = []
    current: str | None = None
    before: State = {}
    changed_before: list[str] = []
    for state in states:
        changed = [
            domain
            for domain, slots in state.items()
            if slots is not (old := before.get(domain, {})) and slots.items() - old.items()
        ]
        if changed:
            if current not in changed:
                current = max(changed, key=lambda domain: len(state[domain]))
        elif current is None:
            domains.append(())
            continue
        elif len(changed_before) > 1:
            others = [d for d in changed_before if d in state and d != current]
            current = others[0] if others else current
        before, changed_before = state, changed
        domains.append((current,) if current is not None else ())
    return domains
