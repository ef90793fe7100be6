"""A prediction file dropped into the folder: partition, run, leaderboard; and one that is malformed."""

from __future__ import annotations

import json
import shutil

import dagster as dg
import pyarrow.parquet as pq
import pytest

from assets.dialogue import EVALUATE, RANK, RESULTS, SYSTEMS
from assets.jobs import build_jobs
from gavel.dialogue.results import systems
from gavel.report.summary import standings
from sensors.predictions import prediction_sensors
from tests.e2e.conftest import ROOT, Project, failure_of

SAMPLE = ROOT / "sample" / "dialogue"


@pytest.fixture
def benchmark_project(project: Project) -> Project:
    shutil.copytree(SAMPLE / "corpus", project.folder / "corpus")
    (project.folder / "predictions").mkdir()
    project.write_suite(
        dialogue={"corpus": "corpus", "predictions": "predictions", "resamples": 200}
    )
    return project


def drop(project: Project, system: str, text: str | None = None) -> None:
    path = project.folder / "predictions" / f"{system}.json"
    path.write_text(text or (SAMPLE / "predictions" / f"{system}.json").read_text())


def tick(project: Project, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    """One tick of the sensor as the daemon does it: partitions are made before runs are asked for."""
    (sensor,) = prediction_sensors(project.suite, build_jobs(project.suite))
    with dg.build_sensor_context(
        instance=project.instance, cursor=cursor, definitions=project.definitions()
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    if isinstance(result, dg.SensorResult):
        for request in result.dynamic_partitions_requests or []:
            project.instance.add_dynamic_partitions(
                request.partitions_def_name, list(request.partition_keys)
            )
    return result


def run_all(project: Project, result: dg.SensorResult | dg.SkipReason) -> dict[str, str]:
    """Run what a tick asked for; what each failed with, by system."""
    assert isinstance(result, dg.SensorResult)
    failures = {}
    for request in result.run_requests or []:
        run = project.run(str(request.job_name), request.partition_key)
        if not run.success:
            failures[str(request.partition_key)] = failure_of(run)
    return failures


def ranked(project: Project) -> dict[tuple[str, str, str], float]:
    rows = pq.read_table(project.store.table("dialogue/leaderboard")).to_pylist()
    return {(row["system"], row["reading"], row["figure"]): row["value"] for row in rows}


def test_a_dropped_file_becomes_a_partition_and_shows_on_the_leaderboard(
    benchmark_project: Project,
) -> None:
    project = benchmark_project
    assert isinstance(tick(project), dg.SkipReason)
    drop(project, "careful")
    drop(project, "booker")
    first = tick(project)
    assert project.instance.get_dynamic_partitions(str(SYSTEMS.name)) == ["booker", "careful"]
    assert run_all(project, first) == {}
    assert ranked(project)["careful", "strict", "inform"] == 100
    assert ranked(project)["booker", "dstc8", "book"] == 75
    assert isinstance(first, dg.SensorResult)
    assert isinstance(tick(project, first.cursor), dg.SkipReason)

    drop(project, "hasty")
    second = tick(project, first.cursor)
    assert run_all(project, second) == {}
    found = ranked(project)
    # Two of six dialogues are served; of the five in the file it is two.
    assert found["hasty", "strict", "inform"] == pytest.approx(100 / 3)
    assert found["hasty", "reference", "inform"] == pytest.approx(40)
    pairs = pq.read_table(project.store.table("dialogue/comparisons")).to_pylist()
    assert {(p["first"], p["second"]) for p in pairs} == {("careful", "hasty")}
    page = (project.store.root / "dialogue" / "leaderboard.html").read_text()
    assert "hasty" in page
    failed = (project.store.root / "dialogue" / "pages" / "hasty" / "lin0001.html").read_text()
    assert "what was offered does not satisfy the goal" in failed


def test_a_malformed_file_is_one_clear_error_and_harms_nobody(benchmark_project: Project) -> None:
    project = benchmark_project
    drop(project, "careful")
    first = tick(project)
    assert run_all(project, first) == {}
    before = ranked(project)
    turns = [{"response": "x"}, {"response": 7}]
    drop(project, "broken", json.dumps({"lin0001": turns}))
    drop(project, "stranger", json.dumps({"lin9999": [{"response": "x"}]}))
    drop(project, "a name, with a comma", "{}")
    assert isinstance(first, dg.SensorResult)
    second = tick(project, first.cursor)
    failures = run_all(project, second)
    assert set(failures) == {"broken", "stranger"}
    assert "dialogue 'lin0001', turn 2: response must be text, found a number" in failures["broken"]
    assert "1 dialogues are not in the corpus: lin9999" in failures["stranger"]
    assert ranked(project) == before

    # Mended, it is evaluated; and the others are still there.
    drop(project, "broken", (SAMPLE / "predictions" / "wordy.json").read_text())
    assert isinstance(second, dg.SensorResult)
    assert run_all(project, tick(project, second.cursor)) == {}
    assert ranked(project)["broken", "strict", "entity_consistency"] == pytest.approx(600 / 7)
    assert {system for system, _, _ in ranked(project)} == {"careful", "broken"}


def asked(result: dg.SensorResult | dg.SkipReason) -> list[tuple[str | None, str | None, str]]:
    assert isinstance(result, dg.SensorResult)
    return [
        (request.job_name, request.partition_key, request.tags["gavel/cause"])
        for request in result.run_requests or []
    ]


def test_what_the_corpus_or_the_options_change_is_evaluated_anew(
    benchmark_project: Project,
) -> None:
    project = benchmark_project
    section = project.settings["dialogue"]
    for system in ("careful", "hasty"):
        drop(project, system)
    first = tick(project)
    assert run_all(project, first) == {}
    assert isinstance(first, dg.SensorResult)
    assert isinstance(tick(project, first.cursor), dg.SkipReason)
    # A cursor that was lost or is corrupt asks for nothing either: the results know what they were made from.
    for corrupt in ("{", "7", '{"files": 7}'):
        assert isinstance(tick(project, corrupt), dg.SkipReason)
    assert isinstance(tick(project), dg.SkipReason)

    project.write_suite(dialogue=section | {"systems": {"hasty": {"missing_dialogues": "skip"}}})
    second = tick(project, first.cursor)
    assert asked(second) == [(EVALUATE, "hasty", "options")]
    assert isinstance(second, dg.SensorResult)
    # Asked for once, while the run is at work.
    waiting = tick(project, second.cursor)
    assert isinstance(waiting, dg.SkipReason)
    assert waiting.skip_message is not None
    assert waiting.skip_message.endswith("hasty")
    assert run_all(project, second) == {}
    assert ranked(project)["hasty", "strict", "inform"] == pytest.approx(40)

    states = project.folder / "corpus" / "states.json"
    states.write_text(states.read_text() + "\n")
    third = tick(project, second.cursor)
    assert asked(third) == [(EVALUATE, "careful", "corpus"), (EVALUATE, "hasty", "corpus")]
    assert run_all(project, third) == {}

    # What the ranking alone depends on makes the leaderboard alone.
    project.write_suite(dialogue=project.settings["dialogue"] | {"resamples": 300})
    assert isinstance(third, dg.SensorResult)
    fourth = tick(project, third.cursor)
    assert asked(fourth) == [(RANK, None, "settings")]
    assert run_all(project, fourth) == {}
    rows = pq.read_table(project.store.table("dialogue/leaderboard")).to_pylist()
    assert all("|resamples:300|" in row["signature"] for row in rows)
    assert not any(row["outdated"] for row in rows)
    assert isinstance(fourth, dg.SensorResult)
    assert isinstance(tick(project, fourth.cursor), dg.SkipReason)


def test_what_could_not_be_made_anew_is_marked(benchmark_project: Project) -> None:
    project = benchmark_project
    drop(project, "careful")
    drop(project, "hasty")
    first = tick(project)
    assert run_all(project, first) == {}
    good = (SAMPLE / "predictions" / "careful.json").read_text()
    drop(project, "careful", "{")
    assert isinstance(first, dg.SensorResult)
    second = tick(project, first.cursor)
    assert "is no JSON" in run_all(project, second)["careful"]
    assert project.run(RANK).success
    rows = pq.read_table(project.store.table("dialogue/leaderboard")).to_pylist()
    assert {row["system"] for row in rows if row["outdated"]} == {"careful"}
    # Failed and unchanged it is not asked for again; as it was before, it is what its results are of.
    assert isinstance(second, dg.SensorResult)
    assert isinstance(tick(project, second.cursor), dg.SkipReason)
    drop(project, "careful", good)
    assert isinstance(tick(project, second.cursor), dg.SkipReason)


def test_a_system_whose_file_is_gone_is_marked_compared_with_none_and_can_be_taken_off(
    benchmark_project: Project,
) -> None:
    project = benchmark_project
    for system in ("careful", "hasty", "wordy"):
        drop(project, system)
    first = tick(project)
    assert run_all(project, first) == {}
    (project.folder / "predictions" / "hasty.json").unlink()
    assert isinstance(first, dg.SensorResult)
    second = tick(project, first.cursor)
    assert asked(second) == [(RANK, None, "systems")]
    assert run_all(project, second) == {}
    rows = pq.read_table(project.store.table("dialogue/leaderboard")).to_pylist()
    assert {row["system"] for row in rows if row["gone"]} == {"hasty"}
    pairs = pq.read_table(project.store.table("dialogue/comparisons")).to_pylist()
    assert {(p["first"], p["second"]) for p in pairs} == {("careful", "wordy")}
    page = (project.store.root / "dialogue" / "leaderboard.html").read_text()
    assert "its prediction file is gone" in page
    console = standings(project.suite, project.store)
    assert "\n* hasty: its prediction file is gone\n" in console
    assert "hasty, strict *" in console
    assert "careful, strict *" not in console

    for ending in ("parquet", "json"):
        (project.store.root / "dialogue" / "results" / f"hasty.{ending}").unlink()
    assert isinstance(second, dg.SensorResult)
    third = tick(project, second.cursor)
    assert asked(third) == [(RANK, None, "systems")]
    assert run_all(project, third) == {}
    assert {system for system, _, _ in ranked(project)} == {"careful", "wordy"}
    assert isinstance(third, dg.SensorResult)
    assert isinstance(tick(project, third.cursor), dg.SkipReason)


def warned(project: Project) -> str:
    """What the check of the ratings warns of when the leaderboard is made anew."""
    run = project.run(RANK)
    (found,) = (c for c in run.get_asset_check_evaluations() if c.check_name == "ratings")
    assert not found.passed
    return str(found.description)


def test_bad_ratings_are_a_warning_and_hold_nobody_back(benchmark_project: Project) -> None:
    project = benchmark_project
    path = project.folder / "ratings.csv"
    path.write_text("system,item,rater,rating\ncareful,d1,x,\ncareful,d1,x,4\nnobody,d1,x,1\n")
    project.write_suite(dialogue=project.settings["dialogue"] | {"ratings": "ratings.csv"})
    drop(project, "careful")
    assert run_all(project, tick(project)) == {}
    assert ranked(project)["careful", "people", "human_rating"] == 4
    assert ("nobody", "people", "human_rating") not in ranked(project)
    for told in (
        "line 2: rating is ''; accepted: a number from 1 to 5",
        "line 4: system is 'nobody'",
    ):
        assert told in warned(project)
    path.unlink()
    assert warned(project).endswith("; the leaderboard is without ratings")
    assert ranked(project)["careful", "strict", "inform"] == 100


def test_a_suite_that_is_broken_or_has_lost_the_section_is_a_reason(
    benchmark_project: Project,
) -> None:
    project = benchmark_project
    (sensor,) = prediction_sensors(project.suite, build_jobs(project.suite))
    settings = project.settings.pop("dialogue")
    for dialogue, told in [
        (None, "the suite has no section dialogue any more"),
        (settings | {"corpsu": "x"}, "corpsu"),
    ]:
        project.write_suite(**({} if dialogue is None else {"dialogue": dialogue}))
        with dg.build_sensor_context(instance=project.instance) as context:
            result = sensor(context)
        assert isinstance(result, dg.SkipReason)
        assert result.skip_message is not None
        assert told in result.skip_message


def test_a_file_that_cannot_name_a_system_is_told(benchmark_project: Project) -> None:
    project = benchmark_project
    drop(project, "careful")
    drop(project, "a name, with a comma", "{}")
    assert project.suite.dialogue is not None
    found, (refused,) = systems(project.suite, project.suite.dialogue)
    assert found == ["careful"]
    assert refused.endswith(
        "a name, with a comma.json: 'a name, with a comma' cannot name a system; "
        "accepted: letters, digits, _ . and -"
    )


def test_equal_predictions_give_an_equal_data_version(benchmark_project: Project) -> None:
    project = benchmark_project
    drop(project, "careful")
    project.instance.add_dynamic_partitions(str(SYSTEMS.name), ["careful"])
    versions = []
    for _ in range(2):
        assert project.run(EVALUATE, "careful").success
        event = project.instance.get_latest_materialization_event(RESULTS)
        assert event is not None
        assert event.asset_materialization is not None
        versions.append((event.asset_materialization.tags or {})["dagster/data_version"])
    assert versions[0] == versions[1]


def test_a_suite_without_the_section_has_no_dialogue_group(project: Project) -> None:
    assert prediction_sensors(project.suite, build_jobs(project.suite)) == []
    assert all(
        key.path[0] != "dialogue" for a in project.definitions().assets or [] for key in a.keys
    )
