"""What the Dagster UI shows of a day, asked of a real webserver over the instance that the day ran on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Project
from tests.e2e.test_daily import CHAT, DAY, ROWS, TRANSLATION, write_day
from tests.ports import free_port

STANDING = ("no_partitions_left_failed", "no_days_incomplete", "no_older_days_stale")
"""Checks that the daily inventory runs, not the run that makes the asset."""

QUERY = """
{ assetNodes {
    assetKey { path } groupName description kinds opVersion
    owners { ... on TeamAssetOwner { team } }
    partitionDefinition { type }
    assetChecksOrError { ... on AssetChecks { checks {
        name blocking description
        executionForLatestMaterialization { status evaluation { success partition } } } } }
    assetMaterializations(limit: 1) { partition metadataEntries {
        label __typename
        ... on IntMetadataEntry { intValue }
        ... on FloatMetadataEntry { floatValue }
        ... on TableSchemaMetadataEntry { schema { columns { name type description } } } } } } }
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The asset nodes by key, after `gavel-evaluate` ran a day in a process of its own."""
    folder = tmp_path_factory.mktemp("project")
    home = folder / ".dagster"
    home.mkdir()
    for name in ("definitions.py", "workspace.yaml"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copy(ROOT / "dagster.yaml", home)
    shutil.copytree(ROOT / "prompts", folder / "prompts")
    (folder / "logs").mkdir()
    project = Project(folder, None)  # type: ignore[arg-type]
    project.write_suite(
        name="ui",
        first_day=DAY,
        last_day="2026-11-03",
        sources=[{"name": "shop", "format": "jsonl", "path": "logs/{day}.jsonl"}],
        evaluator="judge",
        evaluators={"judge": {"backend": "heuristic"}},
        shards=2,
    )
    write_day(project, ROWS)
    environment = {**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, str(ROOT / "evaluate.py"), DAY],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert f"records        {CHAT + TRANSLATION:>8}" in ran.stdout
    port = free_port()
    server = subprocess.Popen(
        [str(Path(sys.executable).with_name("dagster-webserver")), "-w", "workspace.yaml",
         "-h", "127.0.0.1", "-p", str(port)],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        found = _ask(f"http://127.0.0.1:{port}/graphql", deadline=time.monotonic() + 120)
        yield {"/".join(n["assetKey"]["path"]): n for n in found["data"]["assetNodes"]}
    finally:
        server.terminate()
        server.wait(20)


def _ask(url: str, deadline: float) -> Any:
    body = json.dumps({"query": QUERY}).encode()
    while True:
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)
        except urllib.error.URLError:
            assert time.monotonic() < deadline, "the webserver did not come up"
            time.sleep(0.5)


def metadata(node: dict[str, Any]) -> dict[str, Any]:
    return {e["label"]: e for e in node["assetMaterializations"][0]["metadataEntries"]}


def of_the_day(nodes: dict[str, Any]) -> dict[str, Any]:
    """The assets that evaluating a day makes: not what people's labels are held against."""
    return {k: n for k, n in nodes.items() if n["groupName"] not in ("alignment", "benchmark")}


def test_every_asset_is_described(nodes: dict[str, Any]) -> None:
    chain = (
        "rubric",
        "shards",
        "verdicts",
        "invalid",
        "regenerated",
        "scores",
        "published",
        "quality",
    )
    expected = {f"{task}/{name}" for task in ("chat", "translation") for name in chain}
    expected |= {"logs/raw", "logs/clean", "logs/rejected", "audit/events", "report/daily"}
    expected |= {f"alignment/{n}" for n in ("labels", "sample", "metrics", "calibration")}
    expected |= {f"benchmark/{n}" for n in ("records", "verdicts", "table", "comparisons")}
    assert set(nodes) == expected
    for key, node in nodes.items():
        assert node["description"], key
        assert node["kinds"], key
        assert node["owners"] == [{"team": "evaluation"}], key
        assert node["opVersion"], key
    groups = {node["groupName"] for node in nodes.values()}
    assert groups == {"logs", "chat", "translation", "report", "alignment", "benchmark"}
    assert nodes["chat/verdicts"]["partitionDefinition"]["type"] == "MULTIPARTITIONED"
    assert nodes["chat/scores"]["partitionDefinition"]["type"] == "TIME_WINDOW"


def test_tables_show_rows_columns_and_their_meaning(nodes: dict[str, Any]) -> None:
    shown = metadata(nodes["chat/scores"])
    assert shown["dagster/row_count"]["intValue"] == CHAT
    columns = {c["name"]: c for c in shown["dagster/column_schema"]["schema"]["columns"]}
    assert columns["helpfulness"]["type"] == "double"
    for key, node in of_the_day(nodes).items():
        if "dagster/column_schema" in (entries := metadata(node)):
            for column in entries["dagster/column_schema"]["schema"]["columns"]:
                assert column["description"], f"{key}: {column['name']}"


def test_checks_ran_for_the_day_and_passed(nodes: dict[str, Any]) -> None:
    for key, node in of_the_day(nodes).items():
        for check in node["assetChecksOrError"]["checks"]:
            if check["name"] in STANDING:
                continue
            evaluation = check["executionForLatestMaterialization"]["evaluation"]
            assert evaluation["success"], f"{key}: {check['name']}"
            assert check["description"], f"{key}: {check['name']}"
            if key != "chat/rubric" and key != "translation/rubric":
                assert evaluation["partition"].startswith(DAY), f"{key}: {check['name']}"
    blocking = {
        check["name"]
        for node in nodes.values()
        for check in node["assetChecksOrError"]["checks"]
        if check["blocking"]
    }
    assert blocking >= {
        "raw_is_clean_plus_rejected",
        "clean_is_sum_of_shards",
        "shard_is_valid_plus_invalid",
        "invalid_is_repaired_plus_unresolved",
        "one_score_a_record",
    }


def test_figures_are_numbers_that_the_ui_can_plot(nodes: dict[str, Any]) -> None:
    quality, verdicts = metadata(nodes["chat/quality"]), metadata(nodes["chat/verdicts"])
    assert 1 <= quality["mean_helpfulness"]["floatValue"] <= 5
    assert quality["invalid_rate"]["floatValue"] == 0
    for figure in ("requests_sent", "requests_saved", "latency_p95_ms", "records_per_second"):
        assert verdicts[figure]["__typename"] in ("IntMetadataEntry", "FloatMetadataEntry"), figure
