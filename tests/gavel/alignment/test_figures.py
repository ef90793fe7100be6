"""What the tables of alignment say of labels whose answer is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from gavel.alignment.evidence import PUBLISHED, Evidence, evidence
from gavel.alignment.figures import calibrations, metrics, plotted
from gavel.alignment.schema import SAMPLE

from .conftest import DAY, Scored, record

EMPTY = SAMPLE.empty_table()


def label(number: int, field: str, value: Any, annotator: str = "ann") -> dict[str, Any]:
    return {"row_id": f"{number:032x}", "field": field, "value": str(value), "annotator": annotator}


def gathered(
    scored: Scored, cells: list[dict[str, Any]], sample: pa.Table = EMPTY
) -> list[Evidence]:
    return list(evidence(scored.suite, scored.store, scored.labels(cells), sample))


def measured(
    scored: Scored, cells: list[dict[str, Any]], sample: pa.Table = EMPTY
) -> dict[tuple[str, str, str | None], dict[str, Any]]:
    table = metrics(gathered(scored, cells, sample), scored.store)
    return {(r["field"], r["figure"], r["key"]): r for r in table.to_pylist()}


def test_no_labels_are_no_figures(scored: Scored) -> None:
    assert gathered(scored, []) == []
    assert measured(scored, []) == {}
    assert calibrations([]).num_rows == 0
    assert plotted(metrics([], scored.store)) == {}


def test_errors_of_half_a_point_and_an_unresolved_record(scored: Scored) -> None:
    scored.score(
        [record(n) for n in range(29)] + [record(29, help=None, status="unresolved", score=None)]
    )
    cells = [label(n, "help", min(5, 2 + n % 5)) for n in range(20, 30)]
    found = measured(scored, cells)
    # 24 and 29 are the fives, of which the evaluator says 5; the last is unresolved.
    assert found["help", "bias", None]["value"] == pytest.approx(-8 / 9)
    assert (found["help", "bias", None]["n"], found["help", "bias", None]["excluded"]) == (9, 1)
    assert found["help", "mae", None]["value"] == pytest.approx(8 / 9)
    assert found["help", "settled_by", "single"]["value"] == 10
    alpha = found["help", "alpha_interval", None]
    assert (alpha["value"], alpha["excluded"]) == (None, 10)
    assert alpha["note"] == "no item has ratings of two annotators"
    ceiling = found["help", "ceiling_mae", None]
    assert (ceiling["value"], ceiling["note"]) == (None, "no record has both values")
    assert ("score", "mae", None) not in found


def test_the_score_follows_from_the_dimensions(scored: Scored) -> None:
    cells = []
    for n in range(10):
        cells += [label(n, "help", 1 + n % 5), label(n, "tone", 1.0)]
    cells += [label(0, "wit", 5), label(11, "help", 3)]
    found = measured(scored, cells)
    # Tone counts one third of a point less than people's: (2 h + 1) / 3 against (2 h + .5) / 3; with the
    # optional wit of the first record (2 + 1 + 5) / 4 against 2.5 / 3.
    bias = (9 * (-0.5 / 3) + 2.5 / 3 - 2) / 10
    assert found["score", "bias", None]["value"] == pytest.approx(bias)
    assert found["score", "bias", None]["n"] == 10


def test_the_share_that_is_acceptable_is_corrected(scored: Scored) -> None:
    # People buy more often than the evaluator says: every second of its returns is a purchase to them.
    cells = [label(n, "intent", "buy" if n % 3 or n % 2 else "Return") for n in range(24)]
    found = measured(scored, cells)
    assert found["intent", "naive_share", None]["value"] == pytest.approx(20 / 30)
    assert found["intent", "people_share", None]["value"] == pytest.approx(20 / 24)
    # Its labelled share is that of all, so that there is nothing to move people's share by.
    corrected = found["intent", "corrected_share", None]
    assert corrected["value"] == pytest.approx(20 / 24, abs=0.01)
    assert corrected["low"] < corrected["value"] < corrected["high"]
    assert found["intent", "corrected_share", DAY]["n"] == 24


def test_absent_classes_are_named_and_confusion_counted(scored: Scored) -> None:
    cells = [label(n, "intent", "buy") for n in range(6)]
    found = measured(scored, cells)
    assert found["intent", "accuracy", None]["value"] == pytest.approx(4 / 6)
    assert found["intent", "macro_f1", None]["note"].endswith(
        "1 classes absent from the labels: Return"
    )
    assert found["intent", "macro_f1", None]["value"] == pytest.approx((8 / 10 + 0) / 2)
    assert found["intent", "recall", "buy"]["n"] == 6
    assert found["intent", "recall", "Return"]["note"] == "no record of the sample has the class"
    assert found["intent", "confusion", "buy → Return"]["value"] == 2


def test_people_among_themselves_and_the_ceiling(scored: Scored) -> None:
    cells = []
    for n in range(12):
        cells.append(label(n, "intent", "buy" if n % 3 else "Return", "ann"))
        cells.append(label(n, "intent", "buy" if n % 3 else "Return", "bob"))
        cells.append(label(n, "intent", "buy", "cem"))
    found = measured(scored, cells)
    assert found["intent", "kappa_pair", "ann / bob"]["value"] == 1
    assert found["intent", "kappa_pair", "ann / cem"]["value"] == 0
    assert found["intent", "settled_by", "majority"]["value"] == 12
    assert found["intent", "accuracy", None]["value"] == 1
    # Of the 4 returns, ann and bob each face a tie, cem faces two returns and is wrong.
    assert found["intent", "ceiling_accuracy", None]["value"] == pytest.approx(24 / 28)
    assert found["intent", "ceiling_accuracy", None]["excluded"] == 8
    assert found["intent", "ceiling_evaluator_accuracy", None]["value"] == 1
    assert found["intent", "ceiling_gap_accuracy", None]["value"] == pytest.approx(4 / 28)


def chances(drawn: Mapping[int, tuple[int, float]]) -> pa.Table:
    """A sample of DAY by the numbers of its records: the round and the probability of each."""
    names = ("row_id", "task", "round", "inclusion_probability", "day", "days")
    return pa.Table.from_pylist(
        [
            dict(zip(names, (f"{n:032x}", "chat", round_, probability, DAY, [DAY]), strict=True))
            for n, (round_, probability) in drawn.items()
        ],
        schema=pa.schema([SAMPLE.field(name) for name in names]),
    )


def test_a_round_counts_by_its_labels_however_small_its_chances_were(scored: Scored) -> None:
    cells = [label(n, "help", 3) for n in range(5)]
    # One record of a first round that drew one in a hundred, four of a second that drew half.
    sample = chances({0: (1, 0.01), **dict.fromkeys((1, 2, 3), (2, 0.5)), 4: (2, 0.25)})
    found = measured(scored, cells, sample)["help", "bias", None]
    # The second was drawn from what the first had left, whose own record it stands beside.
    second = (1 * -2 + 2 * (-1 + 0 + 1) + 4 * 2) / 11
    assert found["value"] == pytest.approx((1 * -2 + 4 * second) / 5)


def test_a_stratum_used_up_by_the_first_round_keeps_its_place_in_the_second(scored: Scored) -> None:
    """The five with bias -2 are all drawn at first, with five of the others; then ten of the fifteen left."""
    sample = chances(
        {n: (1, 1.0 if n % 5 == 0 else 5 / 20) for n in (*range(0, 25, 5), 1, 2, 3, 4, 6)}
        | dict.fromkeys([n for n in range(7, 25) if n % 5][:10], (2, 10 / 15))
    )
    rows = [int(row["row_id"], 16) for row in sample.to_pylist()]
    cells = [label(n, "help", 3 if n % 5 == 0 else 1 + n % 5) for n in rows]
    found = measured(scored, cells, sample)["help", "bias", None]
    assert found["value"] == pytest.approx((5 * -2 + 20 * 0) / 25)
    # With 6 of 10 and 5 of 10 labelled, these stand for the others of their round.
    half = [cell for cell in cells if int(cell["row_id"], 16) % 2 == 0]
    found = measured(scored, half, sample)["help", "bias", None]
    assert found["n"] == 11
    assert found["value"] == pytest.approx((5 * -2 + 20 * 0) / 25)


def test_no_correction_leaves_the_scale(scored: Scored) -> None:
    # The evaluator says 1 where people say 5, and 4 of most others: 4 + 4 would be 8.
    scored.score([record(n, help=1.0 if n < 6 else 4.0) for n in range(30)])
    found = measured(scored, [label(n, "help", 5 if n else 4) for n in range(6)])
    corrected = found["help", "corrected_mean", None]
    assert corrected["value"] <= 5
    assert corrected["high"] <= 5


def test_days_count_by_their_records_whichever_round_could_draw_from_them(scored: Scored) -> None:
    later = "2026-11-03"
    scored.score([record(n, help=4.0) for n in range(30, 100)], day=later)
    first = chances(dict.fromkeys(range(5), (1, 5 / 30)))
    second = pa.Table.from_pylist(
        [row | {"day": later, "days": [DAY, later]} for row in chances(
            dict.fromkeys(range(30, 35), (2, 5 / 95))).to_pylist()],
        schema=first.schema,
    )  # fmt: skip
    # People agree with what is said of the 30 old records, and give the 70 new ones a point less.
    cells = [label(n, "help", 1 + n % 5) for n in range(5)]
    cells += [label(n, "help", 3) for n in range(30, 35)]
    found = measured(scored, cells, pa.concat_tables([first, second]))
    assert found["help", "bias", None]["value"] == pytest.approx((30 * 0 + 70 * 1) / 100)
    assert found["help", "people_mean", None]["value"] == pytest.approx((30 * 3 + 70 * 3) / 100)
    # With the first round alone, nothing is known of the later day.
    found = measured(scored, cells[:5], first)
    whole = found["help", "corrected_mean", None]
    assert whole["value"] == pytest.approx(3)
    assert "70 records are of days that nobody has labelled: left out" in whole["note"]


def test_labels_of_another_field_say_nothing_of_a_round(scored: Scored) -> None:
    sample = chances({0: (1, 1.0), 1: (1, 1.0), 2: (2, 0.5), 3: (2, 0.5)})
    cells = [label(n, "tone", 1.0) for n in range(4)] + [label(n, "help", 3) for n in (2, 3)]
    found = measured(scored, cells, sample)
    assert "round 1 has no labels of it" in found["help", "mae", None]["note"]
    assert "round 1" not in (found["tone", "mae", None]["note"] or "")


def test_a_round_without_labels_is_told_of(scored: Scored) -> None:
    sample = chances({0: (1, 0.5), 1: (2, 0.5), 2: (2, 0.25)})
    cells = [label(n, "help", 3) for n in (1, 2)]
    found = measured(scored, cells, sample)["help", "bias", None]
    assert found["value"] == pytest.approx((2 * -1 + 4 * 0) / 6)
    assert "round 1 has no labels of it, so nothing speaks for its records" in found["note"]


def test_days_of_few_effective_labels_are_corrected_by_those_of_all(scored: Scored) -> None:
    cells = [label(n, "help", min(5, 2 + n % 5)) for n in range(24)]
    # One record stands for as many as all others together.
    sample = chances({n: (1, 0.01 if n == 0 else 0.23) for n in range(24)})
    found = measured(scored, cells, sample)
    day, whole = (found["help", "corrected_mean", key] for key in (DAY, None))
    told = "which count as 4 by their unequal chances"
    assert day["note"].startswith(
        f"24 labelled records of the day, {told}: corrected by the errors"
    )
    assert whole["note"].startswith(f"24 labelled records, {told}: the interval may be too short")
    assert ("help", "people_mean", DAY) not in found


def test_chances_weigh_where_all_are_known(scored: Scored) -> None:
    cells = [label(n, "help", 3) for n in (0, 1, 2, 3)]
    sample = chances({n: (1, 0.1 if n == 0 else 0.5) for n in (0, 1, 2, 3)})
    weighted = measured(scored, cells, sample)["help", "bias", None]
    assert weighted["value"] == pytest.approx((10 * -2 + 2 * (-1 + 0 + 1)) / 16)
    some = measured(scored, cells, sample.slice(1))["help", "bias", None]
    assert some["value"] == pytest.approx((-2 - 1 + 0 + 1) / 4)
    assert "1 of 4 labelled records are not of the sample: unweighted" in some["note"]


def test_days_with_few_labels_are_corrected_by_those_of_all(scored: Scored) -> None:
    later = "2026-11-03"
    scored.score([record(n, help=4.0, conversation_id=None) for n in range(30, 60)], day=later)
    cells = [label(n, "help", min(5, 2 + n % 5)) for n in range(24)]
    cells += [label(n, "help", 5) for n in range(30, 33)]
    found = measured(scored, cells)
    assert found["help", "naive_mean", DAY]["value"] == pytest.approx(3)
    assert found["help", "people_mean", DAY]["n"] == 24
    assert found["help", "naive_mean", later]["value"] == 4
    few = found["help", "corrected_mean", later]
    mistakes = [min(5, 2 + n % 5) - (1 + n % 5) for n in range(24)] + [1] * 3
    assert few["value"] == pytest.approx(4 + sum(mistakes) / 27)
    assert few["note"].startswith(
        "3 labelled records of the day: corrected by the errors of all days"
    )
    assert few["low"] < few["value"] < few["high"]
    assert ("help", "people_mean", later) not in found
    assert found["help", "corrected_mean", None]["n"] == 27


def test_every_evaluator_is_measured_by_itself(scored: Scored) -> None:
    scored.score([record(n, evaluator="old" if n < 5 else "new") for n in range(30)])
    table = metrics(gathered(scored, [label(n, "help", 3) for n in range(20)]), scored.store)
    sizes = {
        row["evaluator"]: row["n"]
        for row in table.to_pylist()
        if (row["figure"], row["key"]) == ("mae", None)
    }
    assert sizes == {"old": 5, "new": 15, PUBLISHED: 20}
    means = {
        (row["evaluator"], row["figure"]): row
        for row in table.to_pylist()
        if row["key"] is None and row["field"] == "help"
    }
    given = [1 + n % 5 for n in range(30)]
    assert means[PUBLISHED, "naive_mean"]["value"] == pytest.approx(sum(given) / 30)
    assert means["old", "naive_mean"]["n"] == 5
    assert means[PUBLISHED, "corrected_mean"]["n"] == 20
    assert (PUBLISHED, "bias_effect") not in means
    of_new = next(
        r["value"] for r in table.to_pylist() if r["figure"] == "mae" and r["evaluator"] == "new"
    )
    assert plotted(table)["chat/help/mae"] == of_new


def test_a_bias_is_told_in_a_sentence(scored: Scored) -> None:
    # The evaluator gives a point more to German, and likes its own family.
    records = [
        record(
            n,
            help=float(2 + n % 3 + (n % 4 == 0)),
            response="x" * (7 * n % 50 + 1),
            agent_version="acme-4" if n % 2 else "other-1",
        )
        for n in range(80)
    ]
    scored.score(records)
    found = measured(scored, [label(n, "help", 2 + n % 3) for n in range(80)])
    german = found["help", "bias_effect", "language=de"]
    assert german["value"] == pytest.approx(1)
    assert "low" in german
    assert german["low"] is None or german["low"] > 0
    english = found["help", "bias_effect", "language=en"]
    assert english["value"] == pytest.approx(-1)
    own = found["help", "bias_effect", "own family"]
    # German are the multiples of four, all answered by another family.
    assert own["value"] == pytest.approx(-0.5, abs=0.01)
    assert (
        "at the same human score, an answer by the evaluator's own model family is put at"
        in own["note"]
    )
    length = found["help", "bias_effect", "length"]
    assert length["note"].startswith(
        "no bias by twice the length of the response is seen beyond chance"
    )


def test_confidence_is_held_against_being_right(scored: Scored) -> None:
    cells = [label(n, "intent", "buy") for n in range(30)]
    table = calibrations(gathered(scored, cells))
    found = {(r["figure"], r["key"]): r for r in table.to_pylist()}
    right = [n % 3 != 0 for n in range(30)]
    sure = [0.2 + 0.1 * (n % 8) for n in range(30)]
    brier = sum((p - r) ** 2 for p, r in zip(sure, right, strict=True)) / 30
    assert found["brier", None]["value"] == pytest.approx(brier)
    assert found["overconfidence", None]["value"] == pytest.approx(sum(sure) / 30 - 20 / 30)
    assert sum(r["n"] for (name, _), r in found.items() if name == "reliability") == 30
    assert found["brier_gain", None]["note"] == "15 records in a half; at least 20 are needed"
    # Where confidence is known by field, the field's own counts, and its expected score is measured too.
    sure_of = [
        {"field": "help", "confidence": 1.0, "expected": 2.5},
        {"field": "intent", "confidence": 0.25, "expected": None},
    ]
    scored.score([record(n, field_confidence=sure_of) for n in range(30)])
    cells += [label(n, "help", 3) for n in range(10)]
    table = calibrations(gathered(scored, cells))
    found = {(r["field"], r["figure"], r["key"]): r for r in table.to_pylist()}
    assert found["intent", "overconfidence", None]["value"] == pytest.approx(0.25 - 20 / 30)
    assert found["help", "overconfidence", None]["value"] == pytest.approx(1 - 2 / 10)
    figures = measured(scored, cells)
    assert figures["help", "expected_mae", None]["value"] == pytest.approx(0.5)
    assert ("intent", "expected_mae", None) not in figures

    none = record(1, confidence=None)
    scored.score([none])
    table = calibrations(gathered(scored, [label(1, "help", 3)]))
    (ece,) = [r for r in table.to_pylist() if r["figure"] == "ece"]
    assert (ece["value"], ece["excluded"]) == (None, 1)
    assert ece["note"] == "no record has a confidence and a label"
