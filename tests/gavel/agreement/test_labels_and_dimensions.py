"""Agreement of labels and numbers with a reference, against scikit-learn, scipy and values worked by hand."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from gavel.agreement import dimensions, labels
from gavel.agreement.bootstrap import Resampling
from gavel.agreement.dimensions import compare_dimensions, dimension_agreement
from gavel.agreement.labels import compare_labels, label_agreement

from .conftest import BANKING, CLINC, direct_assessments, needs
from .conftest import MLQE as DIRECT

FEW = Resampling(200)


def values(found: Any) -> dict[str, float | None]:
    return {name: estimate.value for name, estimate in found.figures.items()}


def test_cohens_kappa_worked_by_hand() -> None:
    # 20 and 15 agreed, 5 and 10 not: p_o = .7, p_e = .5 * .6 + .5 * .4 = .5
    one = ["yes"] * 25 + ["no"] * 25
    other = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = label_agreement(one, other, range(50), ["yes", "no"], FEW)
    assert values(found)["kappa"] == pytest.approx(0.4)
    assert values(found)["accuracy"] == pytest.approx(0.7)
    assert found.confusion == {
        ("no", "no"): 15,
        ("no", "yes"): 10,
        ("yes", "no"): 5,
        ("yes", "yes"): 20,
    }
    yes = found.classes[0]
    assert (yes.name, yes.support, yes.predicted) == ("yes", 25, 30)
    assert (yes.precision.value, yes.recall.value) == (pytest.approx(20 / 30), pytest.approx(0.8))
    assert yes.f1.value == pytest.approx(40 / 55)


def test_excluded_absent_and_invalid() -> None:
    reference = ["a", "a", "b", None, "b", "a"]
    given_ = ["a", "b", "b", "a", None, ""]
    found = label_agreement(reference, given_, range(6), ["a", "b", "c", "d"], FEW)
    assert (found.n, found.excluded, found.absent) == (4, 2, ("c", "d"))
    # An invalid verdict, "", is wrong and is no class.
    assert values(found)["accuracy"] == pytest.approx(2 / 4)
    assert values(found)["macro_f1"] == pytest.approx((2 / (3 + 1) + 2 / (1 + 2)) / 2)
    nowhere = found.classes[2]
    assert (nowhere.precision.value, nowhere.recall.value, nowhere.f1.value) == (None, None, None)
    assert nowhere.recall.reason == "no record of the sample has the class"
    with pytest.raises(ValueError, match="reference label 'x' is none of the 2 classes"):
        label_agreement(["x"], ["a"], [1], ["a", "b"], FEW)


@pytest.mark.parametrize(
    ("reference", "given_", "accuracy", "macro_f1", "kappa"),
    [
        ([], [], None, None, None),
        ([None, None], ["a", "b"], None, None, None),
        (["a"], ["a"], 1.0, 1.0, None),
        (["a"], ["b"], 0.0, 0.0, 0.0),
        (["a", "a", "a"], ["a", "a", "a"], 1.0, 1.0, None),
        (["a", "b"], ["a", "a"], 0.5, 1 / 3, 0.0),
    ],
)
def test_edges_of_labels(
    reference: list[str | None],
    given_: list[str | None],
    accuracy: float | None,
    macro_f1: float | None,
    kappa: float | None,
) -> None:
    found = label_agreement(reference, given_, range(len(reference)), ["a", "b"], FEW)
    expected = {"accuracy": accuracy, "macro_f1": macro_f1, "kappa": kappa}
    assert values(found) == {
        name: None if value is None else pytest.approx(value) for name, value in expected.items()
    }
    for name, estimate in found.figures.items():
        assert (estimate.reason is not None) == (estimate.low is None), name
    if kappa is None and accuracy is not None:
        assert "one class only" in str(found.figures["kappa"].reason)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=40)
)
def test_labels_as_scikit_learn_has_them(entries: list[tuple[str, str]]) -> None:
    truth, said = [t for t, _ in entries], [s for _, s in entries]
    found = label_agreement(truth, said, range(len(truth)), list("abcde"), Resampling(20))
    assert values(found)["accuracy"] == pytest.approx(metrics.accuracy_score(truth, said))
    macro = metrics.f1_score(truth, said, average="macro", zero_division=0)
    assert values(found)["macro_f1"] == pytest.approx(macro)
    if len({*truth, *said}) > 1:
        kappa = metrics.cohen_kappa_score(truth, said)
        assert values(found)["kappa"] == pytest.approx(kappa)
    parts = metrics.precision_recall_fscore_support(
        truth, said, labels=list("abcde"), zero_division=np.nan
    )
    for n, each in enumerate(found.classes):
        for own, theirs in zip((each.precision, each.recall), parts, strict=False):
            expected = None if np.isnan(theirs[n]) else pytest.approx(theirs[n])
            assert own.value == expected
        assert each.support == parts[3][n]
    assert found.absent == tuple(name for name in "abcde" if name not in truth)


def test_weights_are_as_if_each_record_stood_there_so_often() -> None:
    random = np.random.default_rng(5)
    times = random.integers(1, 4, 40)
    x, y = random.integers(1, 6, 40).astype(float), random.integers(1, 6, 40).astype(float)
    more = dimension_agreement(
        np.repeat(x, times).tolist(),
        np.repeat(y, times).tolist(),
        np.repeat(range(40), times).tolist(),
        FEW,
    )
    weighted = dimension_agreement(x.tolist(), y.tolist(), range(40), FEW, times.tolist())
    for name, estimate in weighted.figures.items():
        assert estimate.value == pytest.approx(more.figures[name].value), name
        assert estimate.low == pytest.approx(more.figures[name].low), name
    truth, said = [str(v) for v in x], [str(v) for v in y]
    classes = sorted({*truth, *said})
    labelled = label_agreement(truth, said, range(40), classes, FEW, times.tolist())
    long = label_agreement(
        np.repeat(truth, times).tolist(),
        np.repeat(said, times).tolist(),
        np.repeat(range(40), times).tolist(),
        classes,
        FEW,
    )
    assert values(labelled) == {k: pytest.approx(v) for k, v in values(long).items()}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([1.0, 2.5, 3.0, 4.5, 5.0])),
        min_size=2,
        max_size=30,
    )
)
def test_dimensions_as_scipy_has_them(entries: list[tuple[int, float]]) -> None:
    x, y = [float(a) for a, _ in entries], [b for _, b in entries]
    found = values(dimension_agreement(x, y, range(len(x)), Resampling(20)))
    assert found["mae"] == pytest.approx(np.mean(np.abs(np.subtract(y, x))))
    assert found["bias"] == pytest.approx(np.mean(np.subtract(y, x)), abs=1e-12)
    constant = len(set(x)) == 1 or len(set(y)) == 1
    for name, independent in (
        ("pearson", stats.pearsonr),
        ("spearman", stats.spearmanr),
        ("kendall", stats.kendalltau),
    ):
        expected = None if constant else pytest.approx(float(independent(x, y)[0]), abs=1e-9)
        assert found[name] == expected, name


def test_quadratic_kappa_worked_by_hand() -> None:
    # Errors 0, 1, 0, 2: sum of squares 5 of 4 records; every x against every y: 34 / 16.
    x, y = [1.0, 2.0, 3.0, 1.0], [1.0, 3.0, 3.0, 3.0]
    crossed = sum((a - b) ** 2 for a in x for b in y) / 16
    found = values(dimension_agreement(x, y, range(4), FEW))["quadratic_kappa"]
    assert found == pytest.approx(1 - (5 / 4) / crossed)
    assert found == pytest.approx(
        metrics.cohen_kappa_score([1, 2, 3, 1], [1, 3, 3, 3], weights="quadratic")
    )


@pytest.mark.parametrize(
    ("x", "y", "defined"),
    [
        ([], [], ()),
        ([None], [1.0], ()),
        ([3.0], [4.0], ("mae", "bias")),
        ([3.0], [3.0], ("mae", "bias")),
        ([3.0, 3.0, 3.0], [3.0, 3.0, 3.0], ("mae", "bias")),
        ([3.0, 3.0, 3.0], [1.0, 2.0, 3.0], ("mae", "bias", "quadratic_kappa")),
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], ("mae", "bias", "quadratic_kappa")),
        # Values that only rounding tells apart are the same.
        ([0.1 + 0.2, 0.3], [1.0, 2.0], ("mae", "bias", "quadratic_kappa")),
        ([1.0, 2.0, None], [2.0, 3.0, 5.0], dimensions.FIGURES),
    ],
)
def test_edges_of_dimensions(
    x: list[float | None], y: list[float | None], defined: tuple[str, ...]
) -> None:
    found = dimension_agreement(x, y, range(len(x)), FEW)
    for name, estimate in found.figures.items():
        assert (estimate.value is not None) == (name in defined), (name, estimate)
        assert (estimate.reason is not None) == (estimate.low is None), name
    assert found.excluded == len(x) - found.n
    with pytest.raises(ValueError, match="not finite"):
        dimension_agreement([float("nan")], [1.0], [0], FEW)


@needs(DIRECT)
def test_scores_between_the_grades_of_real_translations() -> None:
    ratings, model = direct_assessments("eten")
    mean = {item: float(np.mean(list(given_.values()))) for item, given_ in ratings.items()}
    items = list(mean)
    x, y = [mean[i] for i in items], [model[i] for i in items]
    found = dimension_agreement(x, y, items, Resampling(500)).figures
    assert found["pearson"].value == pytest.approx(stats.pearsonr(x, y)[0])
    assert found["spearman"].value == pytest.approx(stats.spearmanr(x, y)[0])
    assert found["kendall"].value == pytest.approx(stats.kendalltau(x, y)[0])
    # The interval by Fisher's transformation, for a correlation of about normal values.
    z = np.arctanh(found["pearson"].value)
    assert found["pearson"].low == pytest.approx(np.tanh(z - 1.96 / 997**0.5), abs=0.03)


def test_too_many_values_to_resample_exactly() -> None:
    random = np.random.default_rng(2)
    x = random.normal(size=3000)
    y = x + random.normal(size=3000)
    assert dimensions.MOST_PAIRS < 3000
    found = dimension_agreement(x.tolist(), y.tolist(), range(3000), Resampling(500)).figures
    assert found["spearman"].value == pytest.approx(stats.spearmanr(x, y)[0])
    assert found["kendall"].value == pytest.approx(stats.kendalltau(x, y)[0])
    # Unequal weights cannot be sorted away; nearly equal ones give nearly the same.
    nearly = np.ones(3000)
    nearly[0] = 1 + 1e-6
    weighted = dimension_agreement(
        x.tolist(), y.tolist(), range(3000), Resampling(100), nearly.tolist()
    )
    for name in ("spearman", "kendall"):
        assert weighted.figures[name].value == pytest.approx(found[name].value, abs=1e-6)
    # Of tau the standard error is about 2/3 sqrt((1 - tau^2) / n) here; the plain bootstrap agrees.
    drawn = [
        stats.kendalltau(x[rows], y[rows])[0]
        for rows in (random.integers(0, 3000, 3000) for _ in range(200))
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert found["kendall"].low == pytest.approx(low, abs=0.008)
    assert found["kendall"].high == pytest.approx(high, abs=0.008)


@needs(BANKING)
def test_77_intents() -> None:
    classes = json.loads((BANKING / "categories.json").read_text(encoding="utf-8"))
    with (BANKING / "test.csv").open(encoding="utf-8", newline="") as file:
        truth = [row["category"] for row in csv.DictReader(file)]
    random = np.random.default_rng(1)
    wrong = random.random(len(truth)) < 0.3
    said = [classes[random.integers(70)] if w else t for t, w in zip(truth, wrong, strict=True)]
    check(truth, said, classes)


@needs(CLINC)
def test_150_intents_and_out_of_scope() -> None:
    domains = json.loads((CLINC / "domains.json").read_text(encoding="utf-8"))
    classes = [*(intent for intents in domains.values() for intent in intents), "oos"]
    data = json.loads((CLINC / "data_full.json").read_text(encoding="utf-8"))
    truth = [intent for _, intent in data["test"] + data["oos_test"]]
    random = np.random.default_rng(1)
    wrong = random.random(len(truth)) < 0.3
    said = [classes[random.integers(151)] if w else t for t, w in zip(truth, wrong, strict=True)]
    check(truth, said, classes)
    by_domain = {intent: name for name, intents in domains.items() for intent in intents}
    check(
        [by_domain.get(t, "oos") for t in truth],
        [by_domain.get(s, "oos") for s in said],
        [*domains, "oos"],
    )


def check(truth: list[str], said: list[str], classes: list[str]) -> None:
    found = label_agreement(truth, said, range(len(truth)), classes, Resampling(300))
    report = metrics.classification_report(truth, said, output_dict=True, zero_division=np.nan)
    assert values(found)["accuracy"] == pytest.approx(report["accuracy"])
    assert values(found)["macro_f1"] == pytest.approx(report["macro avg"]["f1-score"])
    assert values(found)["kappa"] == pytest.approx(metrics.cohen_kappa_score(truth, said))
    for each in found.classes:
        assert each.recall.value == pytest.approx(report[each.name]["recall"])
        assert each.support == report[each.name]["support"]
    assert found.absent == ()
    accuracy = found.figures["accuracy"]
    half = 1.96 * (report["accuracy"] * (1 - report["accuracy"]) / len(truth)) ** 0.5
    assert accuracy.low == pytest.approx(report["accuracy"] - half, abs=half / 3)


def test_two_evaluators_are_compared_where_both_answered() -> None:
    found = compare_labels(
        ["a", "b", "a", None],
        ["a", "b", None, "a"],
        ["b", "b", "a", "a"],
        range(4),
        ["a", "b"],
        FEW,
    )
    assert set(found) == set(labels.FIGURES)
    assert (found["accuracy"].value, found["accuracy"].n) == (0.5, 2)
    nothing = compare_labels([None], ["a"], ["a"], [0], ["a"], FEW)["accuracy"]
    assert (nothing.value, nothing.p) == (None, None)
    assert nothing.reason is not None
    none = compare_dimensions([None], [1.0], [1.0], [0], FEW)["bias"]
    assert (none.value, none.reason) == (None, "no record has both values")
