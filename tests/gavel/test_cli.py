"""The command `gavel`: a check of the settings, and one record's whole way."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gavel.cli import main
from gavel.inference.ledger import Ledger
from gavel.inference.request import Request
from gavel.inference.rules import Rules
from gavel.judge.backends import judge_of
from gavel.judge.evaluate import judge_shard, regenerate
from gavel.judge.heuristic import REVISION, judge_by_rule
from gavel.judge.releases import release
from gavel.judge.rubric import load_rubric
from gavel.judge.scores import merge_scores
from gavel.judge.worklist import write_invalid
from gavel.logs.clean import clean, write_raw
from gavel.logs.shards import write_shard
from gavel.store.files import Store
from gavel.store.warehouse import Warehouse
from gavel.suite import load_suite

PROMPTS = Path(__file__).parents[2] / "prompts"
DAY = "2026-11-02"
SUITE = """\
first_day: 2026-11-02
sources: [{name: shop, format: jsonl, path: "logs/{day}.jsonl"}]
evaluator: baseline
evaluators: {baseline: {backend: heuristic}}
shards: 1
"""
ROWS = {
    "plain": {"prompt": "Do you sell white paint?", "response": "Yes, in aisle 3."},
    "repaired": {"prompt": "Where is my ORDER-77?", "response": "It arrives on Friday."},
    "rejected": {"prompt": " ", "response": "Hello?"},
}


def row_id(name: str) -> str:
    return hashlib.sha256(f"shop\x1f{name}".encode()).hexdigest()[:32]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day of chat from log to warehouse; the record `repaired` is judged badly at first."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(PROMPTS / "chat", folder / "prompts" / "chat")
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "logs").mkdir()
    common = {
        "user_id": "u",
        "conversation_id": "c",
        "start_time": f"{DAY}T10:00:00Z",
        "task": "chat",
    }
    lines = [json.dumps({"record_id": name, **common, **row}) for name, row in ROWS.items()]
    (folder / "logs" / f"{DAY}.jsonl").write_text("\n".join(lines))

    suite = load_suite(folder / "suite.yaml")
    store, day = Store(folder / "data"), suite.first_day
    raw, cleaned, rejected = (
        store.table(f"logs/{name}", DAY) for name in ("raw", "clean", "rejected")
    )
    write_raw(suite, day, raw)
    clean(suite, raw, cleaned, rejected, ["chat"])
    rubric = load_rubric(folder / "prompts" / "chat")
    release(store, rubric)
    shard, verdicts, invalid, again = (
        store.table(f"chat/{name}", DAY, "0")
        for name in ("shards", "verdicts", "invalid", "regenerated")
    )
    write_shard(cleaned, "chat", 1, 0, shard)

    def badly_at_first(request: Request) -> str:
        bad = request.attempt == 1 and "ORDER-77" in request.messages[0].content
        return '{"helpfulness": 98989}' if bad else judge_by_rule(request)

    judge = replace(judge_of(suite, "chat", rubric), backend=Rules(badly_at_first, REVISION))
    with Ledger.open(store.ledger(f"chat/{DAY}"), "run-1", "0") as ledger:
        judge_shard(judge, shard, ledger, verdicts)
        write_invalid(verdicts, invalid)
        regenerate(judge, shard, invalid, ledger, again, 3)
    scores = store.table("chat/scores", DAY)
    merge_scores(suite, rubric, [shard], [verdicts], [again], scores)
    Warehouse(folder / "data" / "warehouse.duckdb").publish("chat", DAY, scores)
    return folder


Output = pytest.CaptureFixture[str]


def run(project: Path, *arguments: str) -> int:
    return main(["--suite", str(project / "suite.yaml"), *arguments])


def parts(text: str) -> dict[str, str]:
    """What stands under each heading."""
    sections = (section.split("\n", 1) for section in ("\n" + text).split("\n== ")[1:])
    return {section[0]: section[1] for section in sections}


def test_check_says_what_each_task_is_judged_with(project: Path, capsys: Output) -> None:
    assert run(project, "check") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "chat: version 1, 8 dimensions, 4 labels, " in shown.out
    assert "judged by baseline (heuristic, heuristic-1)" in shown.out
    assert shown.out.endswith("suite.yaml: is in order\n")


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("suite.yaml", "a: [", "suite.yaml: is not valid YAML"),
        ("prompts/chat/rubric.yaml", "task: talk", "rubric.yaml: "),
        ("prompts/chat/labels.yaml", "intent: {values: {}}", "labels.yaml: intent.values"),
        ("prompts/chat/judge.j2", "{{ x }}", "judge.j2: has no block 'system'"),
        (
            "prompts/chat/repair.j2",
            "{% block user %}{{ x }}{% endblock %}",
            "repair.j2: 'x' is undefined",
        ),
    ],
)
def test_check_tells_what_is_wrong_without_a_traceback(
    project: Path, tmp_path: Path, capsys: Output, file: str, content: str, sentence: str
) -> None:
    for name in ("prompts", "suite.yaml"):
        copy = shutil.copytree if name == "prompts" else shutil.copy
        copy(project / name, tmp_path / name)
    (tmp_path / file).write_text(content)
    assert run(tmp_path, "check") == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("gavel: ")
    assert sentence in shown.err
    assert "Traceback" not in shown.err
    assert "is in order" not in shown.out


def test_a_missing_suite_is_told(tmp_path: Path, capsys: Output) -> None:
    assert run(tmp_path, "check") == 2
    assert "suite.yaml: cannot be read" in capsys.readouterr().err


def test_a_record_is_explained_from_its_source_row_to_its_publication(
    project: Path, capsys: Output
) -> None:
    assert run(project, "explain", row_id("plain")) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"row_id {row_id('plain')}, day {DAY}, task chat\n")
    found = parts(text)
    source, *rest = found
    assert source.endswith("2026-11-02.jsonl, line 1")
    assert rest == ["Record", "Shard 0, row 0", "Attempt 1: valid", "Score", "Publication"]
    assert '"prompt": "Do you sell white paint?"' in found[source]
    assert "prompt: Do you sell white paint?" in found["Record"]
    attempt = found["Attempt 1: valid"]
    assert "system message:\n    You are a strict, fair judge." in attempt
    assert 'user message:\n    <record>\n    prompt: "Do you sell white paint?"' in attempt
    assert 'raw response:\n    {"rationale": "Rule-based baseline' in attempt
    for name in ("request_hash", "rubric_hash", "config_hash", "run_id: run-1"):
        assert f"\n  {name}" in attempt
    assert "status: valid" in found["Score"]
    assert "attempts: 1" in found["Score"]
    assert found["Publication"].strip() == f"published under {DAY}"


def test_a_regenerated_record_shows_every_attempt_and_what_the_evaluator_was_told(
    project: Path, capsys: Output
) -> None:
    assert run(project, "explain", row_id("repaired")) == 0
    found = parts(capsys.readouterr().out)
    first, second = found["Attempt 1: invalid"], found["Attempt 2: valid"]
    assert 'raw response:\n    {"helpfulness": 98989}' in first
    assert "faults: ['out_of_range'" in first
    assert 'assistant message:\n    {"helpfulness": 98989}' in second
    assert "- out_of_range: a number is outside its scale" in second
    assert "regenerated: True" in found["Score"]


def test_a_prompt_that_would_differ_now_is_marked(
    project: Path, tmp_path: Path, capsys: Output
) -> None:
    other = tmp_path / "suite.yaml"
    other.write_text(
        SUITE.replace("heuristic}}", "heuristic, seed: 8}}")
        + f"store: {project / 'data'}\nprompts: {project / 'prompts'}\n"
        + f"warehouse: {project / 'data' / 'warehouse.duckdb'}\n"
    )
    assert main(["--suite", str(other), "explain", row_id("plain")]) == 0
    assert "user message (rubric or settings have changed since" in capsys.readouterr().out


def test_a_rejected_row_is_explained_by_its_reasons(project: Path, capsys: Output) -> None:
    assert run(project, "explain", row_id("rejected")) == 0
    found = parts(capsys.readouterr().out)
    assert "Rejected: empty_prompt" in found
    assert any('"response": "Hello?"' in body for body in found.values())
    assert "Score" not in found


@pytest.mark.parametrize("unknown", ["0" * 32, "plain", "' OR true --", ""])
def test_an_unknown_row_id_is_told_in_a_sentence(
    project: Path, capsys: Output, unknown: str
) -> None:
    assert run(project, "explain", unknown) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"gavel: no record and no rejected row has the row_id {unknown!r}")
    assert "accepted: 32 hex digits" in shown.err
    assert "Traceback" not in shown.err


def test_before_anything_was_ingested_a_row_id_is_unknown(
    project: Path, tmp_path: Path, capsys: Output
) -> None:
    shutil.copytree(project / "prompts", tmp_path / "prompts")
    (tmp_path / "suite.yaml").write_text(SUITE)
    assert run(tmp_path, "explain", row_id("plain")) == 2
    assert "of a day that was ingested" in capsys.readouterr().err
