"""Corrected means: a published implementation, limits, and coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gavel.agreement.prediction_powered import corrected_mean, effective_size

NORMAL = 1.959964


@pytest.mark.parametrize(
    ("power", "value", "half"),
    # ppi-python 0.2.3, ppi_mean_ci on the same numbers; its variances divide by n, ours by n - 1.
    [
        (1.0, 2.6977742962665534, 0.05521304006744776),
        (0.5, 2.702787050500951, 0.04762246935226866),
        (None, 2.7011453647980717, 0.04490790661099053),
    ],
)
def test_against_a_published_implementation(power: float | None, value: float, half: float) -> None:
    k = np.arange(2400)
    f = 3 + 1.2 * np.sin(k * 0.7) + 0.4 * np.cos(k * 2.3)
    y = f[:400] * 0.8 + 0.3 + 0.5 * np.sin(k[:400] * 1.9)
    found = corrected_mean(
        y.tolist(),
        f[:400].tolist(),
        f[400:].tolist(),
        labelled_clusters=range(400),
        all_clusters=range(400, 2400),
        power=power,
    ).corrected
    assert found.value == pytest.approx(value, abs=3e-5)
    assert found.high is not None
    assert found.value is not None
    own = (found.high - found.value) / stats.t.ppf(0.975, 399)
    assert own * NORMAL == pytest.approx(half, rel=3e-3)


@pytest.mark.parametrize("clustered", [False, True])
def test_95_per_cent_are_95_per_cent_where_the_naive_interval_fails(clustered: bool) -> None:
    """An evaluator that is half a point too generous to bad answers; conversations resemble each other."""
    random = np.random.default_rng(20)
    truth, draws, labelled, every = 3.0, 2000, 60, 600
    turns = 3 if clustered else 1
    hit = naive = narrower = 0
    for _ in range(draws):
        names = np.repeat(np.arange(every), turns)
        quality = np.repeat(random.normal(0, 0.8, every), turns) + random.normal(
            0, 0.6, every * turns
        )
        y = truth + quality
        f = y + 0.5 - 0.2 * quality + np.repeat(random.normal(0, 0.3, every), turns)
        people = names < labelled
        found = corrected_mean(
            y[people],
            f[people],
            f,
            labelled_clusters=names[people].tolist(),
            all_clusters=names.tolist(),
        )
        low, high = found.corrected.low, found.corrected.high
        assert low is not None
        assert high is not None
        hit += low <= truth <= high
        assert found.naive.low is not None
        assert found.naive.high is not None
        naive += found.naive.low <= truth <= found.naive.high
        assert found.people.low is not None
        assert found.people.high is not None
        narrower += high - low < found.people.high - found.people.low
    assert 0.93 <= hit / draws <= 0.97
    assert naive / draws < 0.01
    # It is worth it: the interval is narrower than of the labelled alone.
    assert narrower / draws > 0.99


def test_unequal_chances_of_being_labelled_are_made_good() -> None:
    """Bad answers are labelled five times as often; weights undo it, and their coverage holds."""
    random = np.random.default_rng(21)
    draws, hit, unweighted = 2000, 0, 0
    for _ in range(draws):
        y = random.choice([1.0, 2.0, 3.0, 4.0, 5.0], 500)
        f = np.clip(y + random.choice([0.0, 1.0], 500), 1, 5)
        chance = np.where(f <= 2, 0.4, 0.08)
        labelled = random.random(500) < chance
        everyone = corrected_mean(
            y[labelled],
            f[labelled],
            f,
            labelled_clusters=np.flatnonzero(labelled).tolist(),
            all_clusters=range(500),
            weights=(1 / chance[labelled]).tolist(),
        ).corrected
        assert everyone.low is not None
        assert everyone.high is not None
        hit += everyone.low <= 3.0 <= everyone.high
        plain = corrected_mean(
            y[labelled],
            f[labelled],
            f,
            labelled_clusters=np.flatnonzero(labelled).tolist(),
            all_clusters=range(500),
        ).people
        assert plain.low is not None
        assert plain.high is not None
        unweighted += plain.low <= 3.0 <= plain.high
    assert 0.93 <= hit / draws <= 0.97
    assert unweighted / draws < 0.6


def test_a_few_heavy_records_give_a_wider_interval_and_a_share_stays_one() -> None:
    """The bound of Student's t is that of the effective number, by Kish's formula."""
    human, weights = [1.0, 0.0, 1.0, 1.0, 1.0], [6.0, 1.0, 1.0, 1.0, 1.0]
    assert effective_size(weights) == 100 / 40
    assert effective_size([3.0] * 7) == pytest.approx(7)
    assert effective_size([]) == 0
    found = corrected_mean(
        human,
        human,
        human,
        labelled_clusters=range(5),
        all_clusters=range(5),
        weights=weights,
        within=(0.0, 1.0),
    ).people
    off = np.array(weights) / 10 * (np.array(human) - 0.9)
    half = stats.t.ppf(0.975, 1.5) * (5 / 4 * off @ off) ** 0.5
    assert found.low == pytest.approx(max(0.0, 0.9 - half))
    assert (found.value, found.high) == (pytest.approx(0.9), 1.0)


def test_a_useless_evaluator_is_given_no_power_and_a_perfect_one_all() -> None:
    random = np.random.default_rng(1)
    everyone = random.normal(3, 1, 5000)
    y = everyone[:50]
    opposed = corrected_mean(
        y, -y, -everyone, labelled_clusters=range(50), all_clusters=range(5000)
    )
    assert opposed.power == pytest.approx(0)
    assert opposed.corrected == opposed.people
    perfect = corrected_mean(y, y, everyone, labelled_clusters=range(50), all_clusters=range(5000))
    assert perfect.power == pytest.approx(1, abs=0.01)
    assert perfect.corrected.value == pytest.approx(everyone.mean(), abs=0.001)
    assert perfect.corrected.low == pytest.approx(perfect.naive.low, abs=0.003)


@pytest.mark.parametrize(
    ("human", "labelled", "rest", "clusters", "value", "told"),
    [
        ([], [], [4.0, 5.0], [], None, "no record has a value"),
        ([3.0], [4.0], [4.0, 5.0], [0], 3.0, "one conversation"),
        ([3.0, 4.0], [4.0, 4.0], [], [0, 1], 3.5, None),
        ([3.0, 3.0], [4.0, 4.0], [4.0, 4.0], [0, 1], 3.0, "every value is the same"),
    ],
)
def test_edges(
    human: list[float],
    labelled: list[float],
    rest: list[float],
    clusters: list[int],
    value: float | None,
    told: str | None,
) -> None:
    found = corrected_mean(
        human,
        labelled,
        rest,
        labelled_clusters=clusters,
        all_clusters=range(10, 10 + len(rest)),
    ).corrected
    assert found.value == value
    assert (found.low is None) == (told is not None)
    assert told is None or told in str(found.reason)
    with pytest.raises(ValueError, match="not finite"):
        corrected_mean([float("nan")], [1.0], [], labelled_clusters=[0], all_clusters=[])
