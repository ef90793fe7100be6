"""People's labels through the graph: nothing yet, a sample drawn, sheets filled in, the evaluator measured."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn import metrics

from assets.alignment import ALIGN, CALIBRATION, DRAW, LABELS, METRICS, SAMPLE
from gavel.alignment.population import read_scores
from gavel.cli import main
from sensors.labels import label_sensors
from tests.e2e.conftest import ROOT, Project, failure_of

DAY = "2026-11-02"
PEOPLE = ["ann", "bob", "cem"]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A day of the bundled sample, judged by the rules."""
    folder = tmp_path_factory.mktemp("alignment")
    (folder / "logs").mkdir()
    with gzip.open(ROOT / "sample" / "logs" / f"{DAY}.jsonl.gz") as file:
        (folder / "logs" / f"{DAY}.jsonl").write_bytes(file.read())
    with dg.DagsterInstance.ephemeral() as instance:
        made = Project(folder, instance)
        made.write_suite(
            name="test",
            first_day=DAY,
            last_day=DAY,
            prompts=str(ROOT / "prompts"),
            sources=[{"name": "shop", "format": "jsonl", "path": "logs/{day}.jsonl"}],
            evaluator="judge",
            evaluators={"judge": {"backend": "heuristic"}},
            shards=1,
            alignment={
                "resamples": 300,
                "adjudicators": ["lead"],
                "sample": {
                    "size": 120,
                    "strata": ["intent", "status"],
                    "annotators": PEOPLE,
                    "overlap": 2,
                    "core": 15,
                },
            },
        )
        made.evaluate(DAY)
        yield made


def run(project: Project, job: str) -> dg.ExecuteInProcessResult:
    result = project.run(job)
    assert result.success, failure_of(result)
    return result


def warnings(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """What the checks of a run warned about, by check."""
    return {
        f"{c.asset_key.to_user_string()}: {c.check_name}": str(c.description)
        for c in result.get_asset_check_evaluations()
        if not c.passed
    }


def table(project: Project, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(project.store.table(f"alignment/{name}")).to_pylist()
    return rows


def metadata(project: Project, key: dg.AssetKey) -> dict[str, Any]:
    event = project.instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    return {k: v.value for k, v in event.asset_materialization.metadata.items()}


def figure(
    rows: list[dict[str, Any]], field: str, name: str, key: str | None = None, task: str = "chat"
) -> dict[str, Any]:
    (found,) = [
        row for row in rows if (row["field"], row["figure"], row["key"]) == (field, name, key)
    ]
    return found


def resize(project: Project, size: int) -> None:
    alignment = project.settings["alignment"]
    project.write_suite(alignment={**alignment, "sample": {**alignment["sample"], "size": size}})


def tick(project: Project, cursor: str | None) -> dg.SensorResult | dg.SkipReason:
    (sensor,) = label_sensors(project.suite)
    with dg.build_sensor_context(instance=project.instance, cursor=cursor) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def test_without_labels_the_assets_say_what_is_missing(evaluated: Project) -> None:
    assert isinstance(tick(evaluated, None), dg.SkipReason)
    result = run(evaluated, ALIGN)
    told = warnings(result)
    assert set(told) == {
        "alignment/labels: provided",
        "alignment/metrics: measured",
        "alignment/calibration: measured",
    }
    for sentence in told.values():
        assert "no labels yet: materialise alignment/sample" in sentence
        assert str(evaluated.folder / "labels") in sentence
    for name in ("labels", "metrics", "calibration"):
        assert table(evaluated, name) == []


def test_the_sample_is_stratified_blind_shared_out_and_stays(evaluated: Project) -> None:
    run(evaluated, DRAW)
    drawn = table(evaluated, "sample")
    chat = [row for row in drawn if row["task"] == "chat"]
    assert len(chat) == 120
    scores = read_scores(evaluated.store, "chat", ["row_id", "intent", "status"]).to_pylist()
    strata = {row["row_id"]: f"intent={row['intent']}, status={row['status']}" for row in scores}
    sizes: dict[str, int] = {}
    for stratum in strata.values():
        sizes[stratum] = sizes.get(stratum, 0) + 1
    taken: dict[str, int] = {}
    for row in chat:
        assert row["stratum"] == strata[row["row_id"]]
        taken[row["stratum"]] = taken.get(row["stratum"], 0) + 1
    for row in chat:
        stratum = row["stratum"]
        assert row["inclusion_probability"] == pytest.approx(taken[stratum] / sizes[stratum])
    # Equal numbers but for small strata, which are taken whole.
    whole = {s for s in sizes if taken.get(s) == sizes[s]}
    assert max(taken.values()) - min(taken[s] for s in taken if s not in whole) <= 1
    assert sum(1 / row["inclusion_probability"] for row in chat) == pytest.approx(len(scores))
    core = [row for row in chat if row["core"]]
    assert len(core) == 15
    assert all(row["annotators"] == PEOPLE for row in core)
    assert all(len(set(row["annotators"])) == 2 for row in chat if not row["core"])
    loads = [sum(name in row["annotators"] for row in chat) for name in PEOPLE]
    assert max(loads) - min(loads) <= 1

    sheets = Path(metadata(evaluated, SAMPLE)["sheets"])
    assert sorted(path.name for path in (sheets / "chat").iterdir()) == [
        *("ann.csv", "bob.csv", "cem.csv", "guide.md", "label_studio.json", "label_studio.xml"),
    ]
    for path in sheets.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8-sig")
            assert not any(
                word in text for word in ("heuristic", "baseline", "stratum=", "status=")
            )
    rows = list(
        csv.DictReader((sheets / "chat" / "ann.csv").open(encoding="utf-8-sig", newline=""))
    )
    assert len(rows) == loads[0]
    assert all(row["helpfulness"] == row["intent"] == "" for row in rows)
    blinded = set(rows[0]) - {"row_id", "annotator", "task", "comment"}
    assert blinded.isdisjoint({"score", "confidence", "evaluator", "model", "rationale", "status"})

    before = sheets / "chat" / "ann.csv"
    content = before.read_bytes()
    resize(evaluated, 130)
    told = warnings(run(evaluated, DRAW))
    assert (
        "chat: alignment.sample has changed since round 1 was drawn"
        in told["alignment/sample: drawn"]
    )
    assert table(evaluated, "sample") == drawn
    assert before.read_bytes() == content
    resize(evaluated, 120)


def people_label(project: Project) -> dict[str, dict[str, dict[str, Any]]]:
    """Fill in the sheets; annotator -> row_id -> field -> value. People are kinder and sometimes err."""
    random = np.random.default_rng(4)
    wanted = ["row_id", "intent", "product_group", "helpfulness", "clarity"]
    scores = {r["row_id"]: r for r in read_scores(project.store, "chat", wanted).to_pylist()}
    truth: dict[str, dict[str, Any]] = {}
    intents = sorted({r["intent"] for r in scores.values() if r["intent"]})
    for row_id, row in scores.items():
        wrong = random.random() < 0.2
        truth[row_id] = {
            "intent": intents[random.integers(len(intents))]
            if wrong or not row["intent"]
            else row["intent"],
            "helpfulness": float(np.clip((row["helpfulness"] or 3) + random.integers(0, 3), 1, 5)),
        }
    given: dict[str, dict[str, dict[str, Any]]] = {}
    sheets = project.store.root / "alignment" / "sheets" / "chat"
    (project.folder / "labels").mkdir(exist_ok=True)
    for name in PEOPLE:
        with (sheets / f"{name}.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            own = truth[row["row_id"]]
            shift = random.integers(-1, 2) if random.random() < 0.3 else 0
            row["helpfulness"] = f"{np.clip(own['helpfulness'] + shift, 1, 5):g}"
            row["intent"] = intents[0] if random.random() < 0.1 else own["intent"]
            row["comment"] = "fine"
            given.setdefault(name, {})[row["row_id"]] = {
                "helpfulness": float(row["helpfulness"]),
                "intent": row["intent"],
            }
        with (project.folder / "labels" / f"{name}.csv").open(
            "w", encoding="utf-8", newline=""
        ) as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    return given


def test_labels_are_read_and_the_evaluator_is_measured(evaluated: Project) -> None:
    run(evaluated, DRAW)
    given = people_label(evaluated)
    first = tick(evaluated, None)
    assert isinstance(first, dg.SensorResult)
    (request,) = first.run_requests or []
    assert request.run_key is not None
    assert isinstance(tick(evaluated, first.cursor), dg.SkipReason)

    # Labels that cannot be used, each told by its line.
    some = next(iter(given["ann"]))
    bad = [
        {"row_id": "f" * 32, "annotator": "ann", "field": "helpfulness", "value": 3},
        {"row_id": some, "annotator": "ann", "field": "helpfulness", "value": 9},
        {"row_id": some, "annotator": "ann", "field": "intent", "value": "no such intent"},
        {"row_id": some, "annotator": "ann", "field": "helpfulness", "value": 1},
        {"row_id": some, "annotator": "lead", "field": "helpfulness", "value": 5},
    ]
    extra = evaluated.folder / "labels" / "extra.jsonl"
    extra.write_text("".join(json.dumps(row) + "\n" for row in bad) + "{\n", encoding="utf-8")
    assert isinstance(tick(evaluated, first.cursor), dg.SensorResult)

    result = run(evaluated, ALIGN)
    labels = table(evaluated, "labels")
    rejected = {
        (row["line"], reason)
        for row in labels
        for reason in row["reasons"]
        if row["file"] == str(extra)
    }
    assert rejected == {
        (1, "unknown_row_id"),
        (2, "outside_rubric"),
        (3, "outside_rubric"),
        (6, "unparseable_line"),
    }
    # The fourth stands, being later than the sheet's; the sheet's is the repeated one.
    repeated = [row for row in labels if "duplicate_annotator" in row["reasons"]]
    assert [(r["row_id"], r["field"], r["file"]) for r in repeated] == [
        (some, "helpfulness", str(evaluated.folder / "labels" / "ann.csv"))
    ]
    told = warnings(result)["alignment/labels: usable"]
    assert f"{extra}, line 2: helpfulness is 9; accepted: whole numbers from 1 to 5" in told
    sheets_hold = sum(2 * len(rows) for rows in given.values())
    assert len(labels) == sheets_hold + 6
    given["ann"][some]["helpfulness"] = 1.0

    rows = table(evaluated, "metrics")
    scores = {
        r["row_id"]: r
        for r in read_scores(
            evaluated.store, "chat", ["row_id", "intent", "helpfulness"]
        ).to_pylist()
    }
    chance = {r["row_id"]: r["inclusion_probability"] for r in table(evaluated, "sample")}
    human: dict[str, list[float]] = {}
    for own in given.values():
        for row_id, values in own.items():
            human.setdefault(row_id, []).append(values["helpfulness"])
    mean = {row_id: float(np.mean(values)) for row_id, values in human.items()}
    mean[some] = 5.0  # the lead decides
    kept = [row_id for row_id in mean if scores[row_id]["helpfulness"] is not None]
    weights = np.array([1 / chance[row_id] for row_id in kept])
    x = np.array([mean[row_id] for row_id in kept])
    y = np.array([scores[row_id]["helpfulness"] for row_id in kept])
    bias = figure(rows, "helpfulness", "bias")
    assert bias["value"] == pytest.approx(np.average(y - x, weights=weights))
    assert bias["low"] < bias["value"] < bias["high"]
    assert (bias["n"], bias["excluded"]) == (len(kept), len(mean) - len(kept))
    centred = [v - np.average(v, weights=weights) for v in (x, y)]
    pearson = (weights * centred[0] * centred[1]).sum() / np.sqrt(
        (weights * centred[0] ** 2).sum() * (weights * centred[1] ** 2).sum()
    )
    assert figure(rows, "helpfulness", "pearson")["value"] == pytest.approx(pearson)

    corrected = figure(rows, "helpfulness", "corrected_mean")
    naive = figure(rows, "helpfulness", "naive_mean")
    # People are kinder, of which the evaluator's own narrow interval shows nothing.
    assert corrected["value"] - naive["value"] == pytest.approx(-bias["value"], abs=0.2)
    assert corrected["low"] > naive["high"]
    assert figure(rows, "helpfulness", "corrected_mean", DAY)["value"] == pytest.approx(
        corrected["value"]
    )

    shared = [r for r in given["ann"] if r in given["bob"]]
    kappa = metrics.cohen_kappa_score(
        *[[given[who][r]["intent"] for r in shared] for who in ("ann", "bob")]
    )
    assert figure(rows, "intent", "kappa_pair", "ann / bob")["value"] == pytest.approx(kappa)
    for name in (
        "accuracy",
        "macro_f1",
        "alpha_nominal",
        "ceiling_accuracy",
        "ceiling_gap_accuracy",
    ):
        found = figure(rows, "intent", name)
        assert found["low"] <= found["value"] <= found["high"], name
    length = figure(rows, "helpfulness", "bias_effect", "length")
    assert length["note"].startswith(("no bias by twice the length", "at the same human score"))
    plotted = metadata(evaluated, METRICS)
    assert plotted["chat/helpfulness/pearson"] == pytest.approx(pearson)
    assert plotted["chat/intent/accuracy"] == figure(rows, "intent", "accuracy")["value"]
    assert {c.name for c in plotted["dagster/column_schema"].columns if not c.description} == set()

    calibrated = table(evaluated, "calibration")
    brier = figure(calibrated, "intent", "brier")
    assert 0 <= brier["value"] <= 1
    assert "chat/intent/ece" in metadata(evaluated, CALIBRATION)
    bins = [r for r in calibrated if r["figure"] == "reliability" and r["field"] == "intent"]
    assert sum(r["n"] for r in bins) == brier["n"]


def test_a_data_version_says_whether_labels_changed(evaluated: Project) -> None:
    versions = []
    for _ in range(2):
        assert evaluated.run(ALIGN).success
        event = evaluated.instance.get_latest_materialization_event(METRICS)
        assert event is not None
        assert event.asset_materialization is not None
        versions.append((event.asset_materialization.tags or {})["dagster/data_version"])
    assert versions[0] == versions[1]
    assert evaluated.instance.get_latest_materialization_event(LABELS) is not None


def test_a_label_studio_round_trip_by_the_command(
    evaluated: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = ["--suite", str(evaluated.folder / "suite.yaml")]
    assert main([*suite, "sheets", str(tmp_path / "out")]) == 0
    tasks = json.loads((tmp_path / "out" / "chat" / "label_studio.json").read_text())
    assert set(tasks[0]["data"]) <= {
        "row_id",
        "task",
        "language",
        "prompt",
        "response",
        "reference",
    }
    for task in tasks[:3]:
        task["annotations"] = [
            {
                "completed_by": {"id": 4, "email": "dee@shop.example"},
                "was_cancelled": False,
                "updated_at": "2026-11-05T10:00:00.123456Z",
                "result": [
                    {
                        "from_name": "helpfulness",
                        "to_name": "response",
                        "type": "number",
                        "value": {"number": 4},
                    },
                    {
                        "from_name": "intent",
                        "to_name": "response",
                        "type": "choices",
                        "value": {"choices": ["order_status"]},
                    },
                    {
                        "from_name": "tone",
                        "to_name": "response",
                        "type": "number",
                        "value": {"number": 4},
                    },
                ],
            },
            {"completed_by": 9, "was_cancelled": True, "result": []},
        ]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks), encoding="utf-8")
    capsys.readouterr()
    main([*suite, "labels", "--check", str(export)])
    told = capsys.readouterr().out
    assert "'tone' is no field of chat; accepted: helpfulness, clarity" in told
    assert not (evaluated.folder / "labels" / "export.json").exists()
    assert main([*suite, "labels", str(export)]) == 0
    assert (evaluated.folder / "labels" / "export.json").read_bytes() == export.read_bytes()
    assert evaluated.run(ALIGN).success
    own = [row for row in table(evaluated, "labels") if row["annotator"] == "dee@shop.example"]
    assert sum(row["status"] == "valid" for row in own) >= 3
    assert str(own[0]["time"]).startswith("2026-11-05 10:00:00.123456")
    (tmp_path / "x.txt").write_text("")
    assert main([*suite, "labels", str(tmp_path / "x.txt")]) == 2
    assert "is no label file; accepted: .csv, .jsonl, .json, .parquet" in capsys.readouterr().err
