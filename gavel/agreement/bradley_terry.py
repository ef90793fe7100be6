"""Ranking from comparisons in pairs: Bradley and Terry (1952, Biometrika 39).

System i beats j with probability s_i / (s_i + s_j). Strengths are the maximum of the likelihood, found by the
minorisation of Hunter (2004, Ann. Stat. 32), on many tables of comparisons at once. They are given as logarithms
with mean 0; the difference of two is the log-odds that one beats the other. A tie is half a win for each.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csgraph

from gavel.agreement.bootstrap import Floats

_MOST_STEPS = 10_000
_PRECISION = 1e-10


def strengths(wins: Floats) -> Floats:
    """The log strengths of tables of comparisons: shape (..., systems, systems) to (..., systems).

    `wins[..., i, j]` is how often i beat j. NaN for a table that has no finite maximum: some systems never lost
    to, or were never compared with, the others (Ford 1957).
    """
    systems = wins.shape[-1]
    tables = wins.reshape(-1, systems, systems)
    found = np.full((len(tables), systems), np.nan)
    connected = np.array([is_connected(table) for table in tables], dtype=bool)
    if connected.any():
        found[connected] = _fitted(tables[connected])
    return found.reshape(wins.shape[:-1])


def is_connected(wins: Floats) -> bool:
    """Whether every system has beaten every other, directly or by way of others."""
    if len(wins) < 2:
        return False
    parts, _ = csgraph.connected_components(wins > 0, directed=True, connection="strong")
    return bool(parts == 1)


def _fitted(wins: Floats) -> Floats:
    games = wins + np.swapaxes(wins, -1, -2)
    won = wins.sum(axis=-1)
    strength = np.ones_like(won)
    for _ in range(_MOST_STEPS):
        together = strength[..., :, None] + strength[..., None, :]
        better = won / (games / together).sum(axis=-1)
        better /= np.exp(np.log(better).mean(axis=-1, keepdims=True))
        moved = np.abs(np.log(better / strength)).max()
        strength = better
        if moved < _PRECISION:
            break
    return np.asarray(np.log(strength))
