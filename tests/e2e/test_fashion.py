"""The fashion benchmark from goals to leaderboard, over a real HTTP endpoint that plays all the parts."""

from __future__ import annotations

import csv
from collections import Counter
from typing import Any

import pyarrow.parquet as pq
import pytest

from assets.fashion import EVALUATE, MAKE, RANK, RESULTS, TRANSLATE, fashion_steps
from gavel.fashion.goals import Goal, make_goals
from gavel.fashion.vocabulary import load_vocabulary
from gavel.text.bertscore import available, scorer_of
from tests.e2e.conftest import ROOT, Project, failure_of
from tests.endpoint import Endpoint, Reply

from ..gavel.text.test_bertscore import tiny_bert
from .fashion_endpoint import Model, embed

LANGUAGES = ("en", "de", "fr", "el")


def settings(**changes: Any) -> dict[str, Any]:
    """21 conversations of each kind of customer, all parts played by models."""
    kinds = [(k, p) for k in ("item", "theme") for p in ("casual", "indecisive", "rude")]
    customers = {
        f"{kind}_{personality}": {"kind": kind, "personality": personality, "evaluator": "party"}
        for kind, personality in kinds
    }
    return {
        "evaluation": 21,
        "development": 7,
        "subsets": {"el": 5},
        "customers": {"template": {"kind": "template"}, **customers},
        "assistant": "party",
        "translator": "party",
        "verifier": "party",
        "turn_limit": 5,
        "to_verify": 4,
        "catalogue": 200,
        "resamples": 200,
        "embeddings": {"evaluator": "embedder"},
        "systems": {
            "good-III": {"kind": "model", "evaluator": "party", "prompt": "III"},
            "clumsy-I": {
                "kind": "model",
                "evaluator": "clumsy",
                "prompt": "I",
                "machine_usd_per_hour": 3.6,
            },
            "scripted": {"kind": "scripted"},
            "yake": {"kind": "yake"},
            "popularity": {"kind": "popularity"},
            "lorem": {"kind": "lorem"},
        },
        **changes,
    }


def goals(project: Project) -> list[Goal]:
    """The goals of the project's settings, in the order of their ids."""
    assert project.suite.fashion is not None
    return make_goals(project.suite.fashion, load_vocabulary(ROOT / "prompts" / "fashion"))


def configure(project: Project, url: str, **changes: Any) -> None:
    model = {
        "backend": "openai_compatible",
        "base_url": url,
        "prices": {"prompt": 1, "completion": 10},
    }
    project.write_suite(
        evaluators={
            "judge": {"backend": "heuristic"},
            "party": {**model, "model": "good"},
            "clumsy": {**model, "model": "clumsy"},
            "embedder": {**model, "model": "bag"},
        },
        fashion=settings(**changes),
    )


def run_all(project: Project) -> None:
    for job, partition in fashion_steps(project.suite):
        result = project.run(job, partition)
        assert result.success, f"{job} {partition}: {failure_of(result)}"


def table(project: Project, name: str, *partition: str) -> list[dict[str, Any]]:
    return pq.read_table(project.store.table(f"fashion/{name}", *partition)).to_pylist()


def test_from_goals_to_leaderboard_with_models_that_misbehave(project: Project) -> None:
    model = Model(throttles=True)
    configure(project, "http://127.0.0.1:9")
    items = [g for g in goals(project) if g.customer_kind == "item" and g.split == "evaluation"]
    model.slips = dict(
        zip(
            (g.text for g in items),
            (
                *("always malformed", "malformed at first", "switches roles", "error text"),
                *("never ends", "wants something else", "looks odd"),
            ),
            strict=False,
        )
    )
    assert len(model.slips) == 7
    with Endpoint(model, embed=embed) as endpoint:
        configure(project, endpoint.url)
        decided = [("id", "language", "decision", "reason")]
        decided += [
            (items[6].id, "", "keep", "it is fine"),
            ("e00001", "de", "remove", "clumsy German"),
        ]
        with (project.folder / "decisions.csv").open("w", newline="") as file:
            csv.writer(file).writerows(decided)
        project.write_suite(fashion=settings(decisions="decisions.csv"))
        run_all(project)
        asked, embedded = endpoint.total, endpoint.embedded.total()
        # Everything once more asks for nothing.
        run_all(project)
        assert endpoint.total == asked
        assert endpoint.embedded.total() == embedded
    assert set(model.parts) == {"customer", "action", "query", "translation", "check"}

    verified = {row["id"]: row for row in table(project, "verified")}
    assert len(verified) == 28
    found: Any = [
        (verified[g.id]["kept"], verified[g.id]["decided_by"], verified[g.id]["grounds"])
        for g in items[:7]
    ]
    assert found == [
        (False, "rules", ["wrong_format"]),
        (True, "rules", []),
        (False, "rules", ["wrong_format"]),
        (False, "rules", found[3][2]),
        (False, "rules", found[4][2]),
        (False, "rules", found[5][2]),
        (True, "person", ["unfaithful"]),
    ]
    assert "error_text" in found[3][2]
    assert "customer_behaviour" in found[4][2]
    assert "unfaithful" in found[5][2]
    assert "role_switch" in " ".join(verified[items[2].id]["reasons"])
    assert all(row["reasons"] for row in verified.values() if not row["kept"])
    simulated = {row["id"]: row for row in table(project, "simulated")}
    assert set(simulated[items[1].id]["failures"]) == {"malformed_action"}

    sets = {language: table(project, "conversations", language) for language in LANGUAGES}
    kept = {i for i, row in verified.items() if row["kept"]}
    assert {row["id"] for row in sets["en"]} == kept
    assert {row["id"] for row in sets["de"]} == kept - {"e00001"}
    assert {row["id"] for row in table(project, "removed", "de")} == {"e00001"}
    assert Counter(split for split, _ in {(r["split"], r["id"]) for r in sets["el"]}) == {
        "evaluation": 5
    }
    assert all(row["customer"].startswith("french: ") for row in sets["fr"])
    english = {(row["id"], row["turn"]): row["queries"] for row in sets["en"]}
    assert all(row["queries"] == english[row["id"], row["turn"]] for row in sets["fr"])
    sample = list(csv.DictReader((project.store.root / "fashion/to_verify/fr.csv").open()))
    assert len(sample) == 4
    assert sample[0]["decision"] == ""
    assert "french: " in sample[0]["conversation"]

    clumsy = table(project, "results", "en", "clumsy-I")
    failures = {code for row in clumsy for code in row["failures"]}
    assert failures >= {
        "prefix",
        "role_switch",
        "malformed_action",
        "no_query",
        "empty_query",
        "url",
    }
    # Asked again, the model mends what cannot be used.
    assert all(row["outcome"] == "replayed" for row in clumsy if row["mode"] == "assistant")
    good = table(project, "results", "en", "good-III")
    assert not {code for row in good for code in row["failures"]} - {"no_query"}
    assert all(row["cost_usd"] > 0 for row in good if row["requests"])

    board = {
        (r["mode"], r["language"], r["system"], r["figure"], r["key"]): r
        for r in table(project, "leaderboard")
    }
    for language in LANGUAGES:
        assert board["query", language, "scripted", "cost_usd", ""]["value"] == 0
        assert board["assistant", language, "good-III", "similarity", ""]["value"] > 0
        # 100 tokens read at 1 dollar and 20 written at 10 dollars a million, a request.
        good_cost = board["assistant", language, "good-III", "cost_usd", ""]["value"]
        requests = board["assistant", language, "good-III", "requests", ""]["value"]
        assert good_cost == pytest.approx(requests * 300 / 1e6)
        clumsy_cost = board["assistant", language, "clumsy-I", "cost_usd", ""]["value"]
        seconds = board["assistant", language, "clumsy-I", "seconds", ""]["value"]
        assert clumsy_cost == pytest.approx(seconds * 0.001)
    assert (
        board["query", "en", "yake", "similarity", ""]["value"]
        > board["query", "en", "popularity", "similarity", ""]["value"]
    )
    page = (project.store.root / "fashion" / "leaderboard.html").read_text()
    assert "role_switch" in page
    assert "Published, other data" in page


def test_an_outage_keeps_every_turn_and_the_next_run_goes_on(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gavel.inference.dispatch._BACKOFF", 0.01)
    model = Model()
    calls = Counter[str]()

    def fails_late(ask: Any) -> Reply:
        calls["all"] += 1
        model.down = calls["all"] > 60 and not calls["mended"]
        return model(ask)

    with Endpoint(fails_late, embed=embed) as endpoint:
        configure(project, endpoint.url)
        broken = project.run(MAKE)
        assert not broken.success
        assert "run again when the endpoint is back" in failure_of(
            broken
        ) or "tries failed" in failure_of(broken)
        before = Counter(endpoint.answered)
        assert 0 < before.total() <= 60
        calls["mended"] = 1
        assert project.run(MAKE).success
        # No turn that was answered is asked for again.
        assert all(endpoint.answered[key] == 1 for key in before)
        whole = table(project, "simulated")
        fresh_total = len(endpoint.answered)
    assert endpoint.answered.total() == fresh_total
    with Endpoint(Model(), embed=embed) as other:
        project.write_suite(store="elsewhere")
        configure(project, other.url)
        assert project.run(MAKE).success
    assert table(project, "simulated") == whole


def small(**changes: Any) -> dict[str, Any]:
    return {"evaluation": 14, "development": 0, "subsets": {}, "resamples": 100, **changes}


def test_scripted_sides_need_no_endpoint_and_equal_runs_have_equal_versions(
    project: Project,
) -> None:
    project.write_suite(fashion=small(languages=["en", "el"]))
    versions = []
    for _ in range(2):
        run_all(project)
        events = project.instance.get_latest_materialization_event(RESULTS)
        assert events is not None
        assert events.asset_materialization is not None
        versions.append((events.asset_materialization.tags or {})["dagster/data_version"])
    assert versions[0] == versions[1]
    board = table(project, "leaderboard")
    assert {row["language"] for row in board} == {"en", "el"}
    missing = [r for r in board if r["figure"] == "bertscore" and r["value"] is None]
    assert all(row["reason"] for row in missing)


def test_figures_of_other_data_or_settings_are_marked(project: Project) -> None:
    systems = {"yake": {"kind": "yake"}, "lorem": {"kind": "lorem"}}
    changes: dict[str, Any] = {"languages": ["en", "de"], "systems": systems}
    project.write_suite(fashion=small(**changes))
    run_all(project)

    def outdated() -> set[tuple[str, str]]:
        assert project.run(RANK).success
        return {
            (r["language"], r["system"]) for r in table(project, "leaderboard") if r["outdated"]
        }

    assert outdated() == set()
    # Other conversations: all are outdated, until they are evaluated on them.
    project.write_suite(fashion=small(seed=9, **changes))
    steps = fashion_steps(project.suite)
    for step in [s for s in steps if s[0] in (MAKE, TRANSLATE)]:
        assert project.run(*step).success
    assert len(outdated()) == 4
    for step in [s for s in steps if s[0] == EVALUATE and "yake" in str(s[1])]:
        assert project.run(*step).success
    assert outdated() == {("en", "lorem"), ("de", "lorem")}
    # Another setting that figures depend on.
    project.write_suite(fashion=small(seed=9, queries="best", **changes))
    assert len(outdated()) == 4


def test_what_is_wrong_is_one_sentence(project: Project) -> None:
    project.write_suite(fashion=small(decisions="none.csv"))
    result = project.run(MAKE)
    assert not result.success
    assert "none.csv: cannot be read" in failure_of(result)
    (project.folder / "d.csv").write_text("id,decision\nx99,keep\n")
    project.write_suite(fashion=small(decisions="d.csv"))
    assert "'x99' is no conversation of fashion/simulated" in failure_of(project.run(MAKE))
    project.write_suite(fashion=small())
    early = project.run(TRANSLATE, "de")
    assert "materialise the asset fashion/verified first" in failure_of(early)
    assert project.run(MAKE).success
    assert project.run(TRANSLATE, "de").success
    project.write_suite(
        fashion=small(
            bertscore={"models": {"default": "no/such/model"}, "layers": {"no/such/model": 1}}
        )
    )

    if available():
        steps = [s for s in fashion_steps(project.suite) if s[0] == EVALUATE and "de" in str(s[1])]
        assert "cannot be loaded" in failure_of(project.run(*steps[0]))
    assert project.run(RANK).success


def test_a_suite_without_the_section_has_no_fashion_group(project: Project) -> None:
    assert fashion_steps(project.suite) == []
    assert all(
        key.path[0] != "fashion" for a in project.definitions().assets or [] for key in a.keys
    )


@pytest.mark.skipif(not available(), reason="needs the extra `bertscore`")
def test_bertscore_by_a_local_model_stands_on_the_leaderboard(project: Project) -> None:
    folder = project.folder / "models" / "tiny"
    folder.mkdir(parents=True)
    tiny_bert(folder)
    model = "models/tiny"
    project.write_suite(
        fashion=small(
            languages=["en", "de"], bertscore={"models": {"default": model}, "layers": {model: 2}}
        )
    )
    run_all(project)
    found = {
        (r["language"], r["system"]): r
        for r in table(project, "leaderboard")
        if r["mode"] == "query" and r["figure"] == "bertscore"
    }
    assert len(found) == 8
    assert found["en", "scripted"]["value"] > found["en", "lorem"]["value"]
    assert found["de", "yake"]["published"] == 84.0
    assert "model:tiny|hash:" in found["en", "yake"]["signature"]
    # One model and its goals serve all systems and languages.
    assert scorer_of.cache_info().misses == 1


def test_a_verifier_that_never_answers_is_told(project: Project) -> None:
    with Endpoint(lambda ask: Reply("I would rather not."), embed=embed) as endpoint:
        configure(project, endpoint.url)
        project.write_suite(fashion=small(verifier="party"))
        result = project.run(MAKE)
        assert result.success
    (made,) = result.asset_materializations_for_node("fashion__verified")
    counted = {name: made.metadata[name].value for name in ("kept", "removed", "unanswered")}
    assert counted == {"kept": 14, "removed": 0, "unanswered": 14}
