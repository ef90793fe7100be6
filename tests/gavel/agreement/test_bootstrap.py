"""The bootstrap against one written out record by record, and the paired tests against worked values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from gavel.agreement.bootstrap import (
    Floats,
    Resampling,
    by_cluster,
    cluster_codes,
    difference,
    estimate,
    holm,
    mcnemar,
)
from gavel.agreement.dimensions import compare_dimensions, dimension_agreement
from gavel.agreement.labels import compare_labels, label_agreement

FEW = Resampling(400, 0.9, 3)


def mean(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 1] / sums[..., 0])


def with_ones(values: Sequence[float]) -> Floats:
    return np.stack([np.ones(len(values)), np.asarray(values, np.float64)], axis=1)


def plain_bca(
    figure: Callable[[list[int]], float], clusters: Sequence[int], resampling: Resampling
) -> tuple[float, float]:
    """BCa as Efron & Tibshirani 1993, ch. 14, have it: lists of records, one resample after another."""
    codes = cluster_codes(clusters).tolist()
    members = [[n for n, c in enumerate(codes) if c == k] for k in range(max(codes) + 1)]
    random = np.random.default_rng(resampling.seed)
    drawn = []
    rows = min(250, resampling.resamples)
    for start in range(0, resampling.resamples, rows):
        count = min(rows, resampling.resamples - start)
        for chosen in random.integers(0, len(members), (count, len(members))).tolist():
            drawn.append(figure([n for k in chosen for n in members[k]]))
    point = figure(list(range(len(codes))))
    below = np.mean([(d < point - 1e-12) + 0.5 * (abs(d - point) <= 1e-12) for d in drawn])
    z0 = stats.norm.ppf(below)
    left = np.array(
        [figure([n for n, c in enumerate(codes) if c != k]) for k in range(len(members))]
    )
    spread = left.mean() - left
    a = (spread**3).sum() / (6 * (spread**2).sum() ** 1.5)
    ends = []
    for tail in ((1 - resampling.confidence) / 2, (1 + resampling.confidence) / 2):
        z = z0 + stats.norm.ppf(tail)
        ends.append(float(np.quantile(drawn, stats.norm.cdf(z0 + z / (1 - a * z)))))
    return ends[0], ends[1]


RANDOM = np.random.default_rng(11)
N = 90
CLUSTERS = RANDOM.integers(0, 40, N).tolist()
X = RANDOM.integers(1, 6, N).astype(float)
Y = np.clip(X + RANDOM.integers(-1, 2, N), 1, 5)
NAMES = np.array(["a", "b", "c"])
TRUTH = RANDOM.integers(0, 3, N)
GIVEN = np.where(RANDOM.random(N) < 0.7, TRUTH, RANDOM.integers(0, 3, N))


@pytest.mark.parametrize(
    ("name", "independent"),
    [
        ("pearson", lambda x, y: stats.pearsonr(x, y)[0]),
        ("spearman", lambda x, y: stats.spearmanr(x, y)[0]),
        ("kendall", lambda x, y: stats.kendalltau(x, y)[0]),
        ("mae", lambda x, y: metrics.mean_absolute_error(x, y)),
        ("bias", lambda x, y: float(np.mean(y - x))),
        (
            "quadratic_kappa",
            lambda x, y: metrics.cohen_kappa_score(
                x.astype(int), y.astype(int), labels=[1, 2, 3, 4, 5], weights="quadratic"
            ),
        ),
    ],
)
def test_dimensions_are_resampled_as_record_by_record(
    name: str, independent: Callable[[Floats, Floats], float]
) -> None:
    found = dimension_agreement(X.tolist(), Y.tolist(), CLUSTERS, FEW).figures[name]
    assert found.value == pytest.approx(independent(X, Y))
    low, high = plain_bca(lambda rows: float(independent(X[rows], Y[rows])), CLUSTERS, FEW)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))
    assert (found.n, found.clusters) == (N, len(set(CLUSTERS)))


@pytest.mark.parametrize(
    ("name", "independent"),
    [
        ("accuracy", metrics.accuracy_score),
        ("macro_f1", lambda t, g: metrics.f1_score(t, g, average="macro")),
        ("kappa", metrics.cohen_kappa_score),
    ],
)
def test_labels_are_resampled_as_record_by_record(
    name: str, independent: Callable[..., float]
) -> None:
    truth, given_ = NAMES[TRUTH].tolist(), NAMES[GIVEN].tolist()
    found = label_agreement(truth, given_, CLUSTERS, ["a", "b", "c"], FEW).figures[name]
    assert found.value == pytest.approx(independent(TRUTH, GIVEN))
    low, high = plain_bca(lambda rows: float(independent(TRUTH[rows], GIVEN[rows])), CLUSTERS, FEW)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_conversations_are_resampled_not_rows() -> None:
    random = np.random.default_rng(11)
    values = np.repeat(random.normal(size=50), 20)
    whole = np.repeat(np.arange(50), 20).tolist()
    sums = by_cluster(with_ones(values), whole)
    clustered = estimate(sums, mean, ["none"], FEW, 1000)[0]
    alone = estimate(with_ones(values), mean, ["none"], FEW, 1000)[0]
    assert clustered.low is not None
    assert clustered.high is not None
    assert alone.low is not None
    assert alone.high is not None
    # Twenty equal rows a conversation tell no more than one: the interval is sqrt(20) times as wide.
    ratio = (clustered.high - clustered.low) / (alone.high - alone.low)
    assert ratio == pytest.approx(20**0.5, rel=0.2)


def test_more_clusters_than_groups_of_the_jackknife() -> None:
    random = np.random.default_rng(11)
    values = random.exponential(size=3000)
    found = estimate(with_ones(values), mean, ["none"], Resampling(2000), 3000)[0]
    independent = stats.bootstrap((values,), np.mean, n_resamples=4000, method="BCa", rng=1)
    interval = independent.confidence_interval
    assert found.low == pytest.approx(interval.low, abs=0.004)
    assert found.high == pytest.approx(interval.high, abs=0.004)


@pytest.mark.parametrize(
    ("values", "clusters", "told"),
    [
        ([], [], "none"),
        ([2.0], [1], "one conversation is no sample"),
        ([2.0, 3.0], [1, 1], "one conversation is no sample"),
        ([2.0, 2.0, 2.0], [1, 2, 3], "every resample gives the same value"),
    ],
)
def test_what_cannot_be_resampled_says_why(
    values: list[float], clusters: list[int], told: str
) -> None:
    found = estimate(by_cluster(with_ones(values), clusters), mean, ["none"], FEW, len(values))[0]
    assert (found.low, found.high) == (None, None)
    assert found.reason is not None
    assert told in found.reason
    assert found.value == (np.mean(values) if values else None)


def test_a_figure_undefined_in_many_resamples_has_no_interval() -> None:
    rare = with_ones([0.0] * 30)
    rare[0] = [1, 5]
    rare[1:, 0] = 0
    found = estimate(rare, mean, ["none"], FEW, 30)[0]
    assert found.value == 5
    assert found.low is None
    assert found.reason is not None
    assert "of the resamples leave it undefined" in found.reason


def test_paired_differences() -> None:
    random = np.random.default_rng(11)
    worse = np.clip(Y + random.integers(-2, 3, N), 1, 5)
    found = compare_dimensions(X.tolist(), Y.tolist(), worse.tolist(), CLUSTERS, FEW)
    assert found["pearson"].value == pytest.approx(
        stats.pearsonr(X, Y)[0] - stats.pearsonr(X, worse)[0]
    )
    assert found["kendall"].value == pytest.approx(
        stats.kendalltau(X, Y)[0] - stats.kendalltau(X, worse)[0]
    )
    assert found["pearson"].p is not None
    assert found["pearson"].p < 0.02
    same = compare_dimensions(X.tolist(), Y.tolist(), Y.tolist(), CLUSTERS, FEW)["mae"]
    assert (same.value, same.low, same.p) == (0, None, 1)
    truth, said = NAMES[TRUTH].tolist(), NAMES[GIVEN].tolist()
    constant = ["a"] * N
    labels = compare_labels(truth, said, constant, CLUSTERS, ["a", "b", "c"], FEW)
    assert labels["macro_f1"].value == pytest.approx(
        metrics.f1_score(truth, said, average="macro")
        - metrics.f1_score(truth, constant, average="macro")
    )
    assert labels["macro_f1"].p == pytest.approx(2 / 401)


def test_the_two_p_values_agree_where_both_hold() -> None:
    random = np.random.default_rng(11)
    first = random.random(400) < 0.75
    second = random.random(400) < 0.70
    by = {
        test: difference(
            with_ones(first), with_ones(second), mean, ["none"], Resampling(4000), 400, test=test
        )[0]
        for test in ("bootstrap", "randomisation")
    }
    assert by["bootstrap"].p == pytest.approx(by["randomisation"].p, abs=0.03)
    exact = mcnemar(first.tolist(), second.tolist())
    assert by["randomisation"].p == pytest.approx(exact.p, abs=0.04)


@pytest.mark.parametrize(
    ("resamples", "pairs", "made"),
    [(1000, 0, 1000), (1000, 5, 1000), (1000, 55, 11_000), (1000, 1225, 20_000), (9000, 6, 9000)],
)
def test_resamples_grow_with_the_pairs_up_to_a_bound(resamples: int, pairs: int, made: int) -> None:
    assert Resampling(resamples, 0.9, 3).for_pairs(pairs) == Resampling(made, 0.9, 3)


@pytest.mark.parametrize(
    ("first_only", "second_only", "p"),
    # Twice the binomial tail: 2 * (1 + 10 + 45) / 2**10, and 2 * 1 / 2**6.
    [(8, 2, 112 / 1024), (0, 6, 2 / 64), (3, 3, 1.0), (0, 0, None)],
)
def test_mcnemar(first_only: int, second_only: int, p: float | None) -> None:
    first = [True] * first_only + [False] * second_only + [True, False] * 5
    second = [False] * first_only + [True] * second_only + [True, False] * 5
    found = mcnemar(first, second)
    assert (found.first_only, found.second_only) == (first_only, second_only)
    assert found.p == (None if p is None else pytest.approx(p))
    assert (found.reason is None) == (p is not None)


@pytest.mark.parametrize(
    ("values", "corrected"),
    [
        ([], []),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.01, None, 0.04, 0.03], [0.03, None, 0.06, 0.06]),
        ([0.9, 0.8], [1.0, 1.0]),
        ([None], [None]),
    ],
)
def test_holm(values: list[float | None], corrected: list[float | None]) -> None:
    assert holm(values) == [None if p is None else pytest.approx(p) for p in corrected]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_the_order_and_never_lowers(values: list[float]) -> None:
    corrected = [p for p in holm(values) if p is not None]
    assert all(c >= v for c, v in zip(corrected, values, strict=True))
    ranked = [c for _, c in sorted(zip(values, corrected, strict=True))]
    assert all(a <= b for a, b in pairwise(ranked))
