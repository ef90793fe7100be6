"""The databases of MultiWOZ: which entities satisfy a set of constraints.

Every pair of slot and value is looked up once and kept as a mask of rows, so that a query is an
intersection of kept masks: an evaluation asks the same few questions thousands
of times, and the fuzzy scan of names is what its time goes to otherwise.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from gavel.dialogue.fuzzy import similar
from gavel.dialogue.normalise import DONTCARE, minutes, slot_name, value
from gavel.errors import CorpusError

SEARCHED = ("restaurant", "hotel", "attraction", "train")
"""The domains that have entities to be offered; the others match by themselves."""

NAME_RATIO = 90
"""The partial ratio from which a name, food or station counts as the one in the database."""

ONE_LETTER = 1
"""Values this long or shorter are part of nearly every name, so that they match nearly everything."""

_FUZZY = {
    "hotel": ("name",),
    "attraction": ("name",),
    "restaurant": ("name", "food"),
    "train": ("departure", "destination"),
}
# Columns that are no constraint, whatever a state says.
_IGNORED = {
    "attraction": {"location", "openhours"},
    "hotel": {"location", "price", "takesbookings"},
    "restaurant": {"location", "introduction", "signature"},
    "train": set[str](),
}

Entities = frozenset[str]
Rows = NDArray[np.bool_]
_Column = tuple[Mapping[str | None, int], NDArray[np.intp]]
OneLetter = Literal["equal", "fuzzy"]


class Database:
    """The entities of every domain that has any, as rows of text."""

    def __init__(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.rows = {
            domain: [_row(domain, row) for row in rows.get(domain, ())] for domain in SEARCHED
        }
        # The first row says which columns there are, as in the reference.
        self.columns = {
            domain: frozenset(table[0]) if table else frozenset()
            for domain, table in self.rows.items()
        }
        self._ids = {
            domain: np.array([entity_id(domain, row) for row in table], dtype=object)
            for domain, table in self.rows.items()
        }
        self._columns: dict[tuple[str, str], _Column] = {}
        self._matching: dict[tuple[str, str, str, OneLetter], Rows] = {}
        self._results: dict[tuple[Any, ...], Entities] = {}

    def query(
        self,
        domain: str,
        constraints: Mapping[str, str | None],
        one_letter: OneLetter = "fuzzy",
    ) -> Entities:
        """The ids of the entities of `domain` that satisfy every one of `constraints`.

        Slots that are no column, null and "do not care" constrain nothing, and an unknown entry of
        the database (`?`) satisfies anything. Names, food and stations match from a partial ratio of
        90; arrive and leave are bounds; the rest is equality. Trains of the same id are one entity.
        """
        if domain not in SEARCHED:
            return frozenset()
        asked = tuple(
            (slot, given)
            for slot, given in constraints.items()
            if given is not None and given not in DONTCARE and slot in self.columns[domain]
        )
        key = (domain, one_letter, *sorted(asked))
        if (known := self._results.get(key)) is None:
            rows = np.ones(len(self.rows[domain]), dtype=bool)
            for slot, given in asked:
                rows &= self._rows(domain, slot, given, one_letter)
            known = frozenset(self._ids[domain][rows].tolist())
            self._results[key] = known
        return known

    def _rows(self, domain: str, slot: str, given: str, one_letter: OneLetter) -> Rows:
        """The rows of `domain` that one slot's value admits."""
        key = (domain, slot, given, one_letter)
        if (known := self._matching.get(key)) is None:
            cells, numbers = self._column(domain, slot)
            admitted = _admitted(domain, slot, str(value(slot, given)), cells, one_letter)
            fits = np.zeros(len(cells), dtype=bool)
            fits[[cells[cell] for cell in ("?", *admitted) if cell in cells]] = True
            known = self._matching[key] = fits[numbers]
        return known

    def _column(self, domain: str, slot: str) -> _Column:
        """The distinct cells of a column, numbered, and the number of each row's."""
        if (column := self._columns.get((domain, slot))) is None:
            cells: dict[str | None, int] = {}
            numbers = [cells.setdefault(row.get(slot), len(cells)) for row in self.rows[domain]]
            column = self._columns[domain, slot] = cells, np.array(numbers)
        return column


def _admitted(
    domain: str, slot: str, given: str, column: Iterable[str | None], one_letter: OneLetter
) -> Iterable[str]:
    if slot in ("arrive", "leave"):
        bound = minutes(given)
        within = operator.le if slot == "arrive" else operator.ge
        return [cell for cell in column if cell is not None and within(minutes(cell), bound)]
    if slot in _FUZZY[domain] and not (one_letter == "equal" and len(given) <= ONE_LETTER):
        return similar(given, [cell for cell in column if cell is not None], NAME_RATIO)
    return [given]


def one_letter_slots(domain: str, constraints: Mapping[str, str | None]) -> list[str]:
    """The slots whose value of one letter would match every name that holds it."""
    found = []
    for slot in _FUZZY.get(domain, ()):
        if (given := constraints.get(slot)) and len(given) <= ONE_LETTER:
            found.append(slot)
    return found


def entity_id(domain: str, row: Mapping[str, str]) -> str:
    """What identifies an entity: its id, or a train's."""
    return row["trainid" if domain == "train" else "id"]


def load_database(folder: Path) -> Database:
    """The databases in `folder`: `{domain}_db.json` or `{domain}.json`, each a list of entities.

    Raises:
        CorpusError: a file is missing, or is no list of objects with an id.
    """
    return Database({domain: load_rows(folder, domain) for domain in SEARCHED})


def load_rows(folder: Path, domain: str) -> list[dict[str, Any]]:
    """The entities of one domain, in the order that booking references count them.

    Raises:
        CorpusError: the file is missing, or is no list of objects with an id.
    """
    names = (f"{domain}_db.json", f"{domain}.json")
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise CorpusError(f"{folder}: holds neither {' nor '.join(names)}")
    try:
        rows = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read as JSON ({error})") from error
    key = "trainID" if domain == "train" else "id"
    if not isinstance(rows, list) or not all(isinstance(r, dict) and key in r for r in rows):
        raise CorpusError(f"{path}: must be a list of objects, each with {key!r}")
    return rows


def _row(domain: str, row: Mapping[str, Any]) -> dict[str, str]:
    kept = {name: cell for name, cell in row.items() if name not in _IGNORED[domain]}
    return {slot_name(name): str(cell) for name, cell in kept.items()}
