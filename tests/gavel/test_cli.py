"""The command `gavel`: a check of the settings, and one record's whole way."""

import hashlib
import json
import shutil
import subprocess
import sys
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
    "loud": {"prompt": "\x1b[31mRED\x07", "response": "\u202eTHGIR\x9b2J"},
}
TWICE = {"record_id": "plain", "prompt": "Do you sell white paint?", "response": "Said before."}


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
    lines.append(json.dumps(common | TWICE))
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
    assert f"shop: files of {DAY} to {DAY}, 1 in all\n" in shown.out
    assert shown.out.endswith("suite.yaml: is in order\n")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("jsonl, path", "jsonl, columns: {promt: prompt}, path"), "'promt' is not a field"),
        (("jsonl, path", "jsonl, columns: {prompt: asked}, path"), "no column 'asked'"),
        (("jsonl, path", "jsonl, task: talk, path"), "sources.shop.task: 'talk' is not a task"),
        (("logs/{day}", "log/{day}"), "sources.shop.path: there is no file"),
        (("shards: 1", "last_day: 2026-11-01"), "last_day 2026-11-01 is before first_day"),
        (("shards: 1", "store: suite.yaml/x"), "suite.yaml is no folder"),
        (("shards: 1", "warehouse: data"), "warehouse and store are both 'data'"),
        (
            (
                "{baseline: {backend: heuristic}}",
                "{baseline: {backend: heuristic}, large: {backend: heuristic}}\n"
                "tasks: {chat: {escalation: {evaluator: large, high_risk: [{mood: bad}]}}}",
            ),
            "tasks.chat.escalation.high_risk: 'mood' is no column of a record or verdict",
        ),
        (
            ("shards: 1", "shards: 1\nbenchmark: {pairs: pairs.jsonl}"),
            "prompts/benchmark/pairwise/rubric.yaml is missing",
        ),
        (("heuristic}", "openai_compatible, model: m, base_url: localhost}"), "'localhost'"),
        (("heuristic}", "vllm_offline, model: m}"), "need the extra vllm"),
        (("heuristic}", 'openai_compatible, model: m, base_url: "http://[::1"}'), "'http://[::1'"),
    ],
)
def test_check_looks_at_what_the_settings_point_to(
    project: Path, tmp_path: Path, capsys: Output, change: tuple[str, str], sentence: str
) -> None:
    for name in ("prompts", "logs"):
        shutil.copytree(project / name, tmp_path / name)
    (tmp_path / "suite.yaml").write_text(SUITE.replace(*change))
    assert run(tmp_path, "check") == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert "Traceback" not in shown.err


def test_check_knows_that_a_release_would_be_refused(
    project: Path, tmp_path: Path, capsys: Output
) -> None:
    for name in ("prompts", "logs", "data"):
        shutil.copytree(project / name, tmp_path / name)
    (tmp_path / "suite.yaml").write_text(SUITE)
    judge = tmp_path / "prompts" / "chat" / "judge.j2"
    judge.write_text(judge.read_text().replace("strict", "kind"))
    assert run(tmp_path, "check") == 2
    told = capsys.readouterr().err
    assert "prompts/chat: version 1 of chat was released with another content (judge.j2: " in told


def test_check_misses_a_field_that_no_line_of_json_has(
    project: Path, tmp_path: Path, capsys: Output
) -> None:
    shutil.copytree(project / "prompts", tmp_path / "prompts")
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "logs").mkdir()
    content = (project / "logs" / f"{DAY}.jsonl").read_text().replace('"prompt"', '"asked"')
    (tmp_path / "logs" / f"{DAY}.jsonl").write_text(content)
    assert run(tmp_path, "check") == 2
    assert "sources.shop.columns.prompt: no column of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("suite.yaml", "a: [", "suite.yaml: is not valid YAML"),
        ("prompts/chat/rubric.yaml", "task: talk", "rubric.yaml: "),
        ("prompts/chat/labels.yaml", "intent: {values: {}}", "labels.yaml: intent.values"),
        ("prompts/chat/judge.j2", "{{ x }}", "judge.j2: has no block 'system'"),
        (
            "prompts/chat/judge.j2",
            "{% block system %}Judge.{% endblock %}{% block user %}{{ record.response }}{% endblock %}",
            "judge.j2: shows record.response as it is",
        ),
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


def test_where_else_a_row_id_stands_is_told_and_a_day_can_be_chosen(
    project: Path, capsys: Output
) -> None:
    assert run(project, "explain", row_id("plain").upper(), "--day", DAY) == 0
    head = capsys.readouterr().out.split("\n\n")[0]
    duplicate = f"{DAY}: rejected (duplicate_record_id), logs/{DAY}.jsonl, line 5"
    assert head.endswith(f"the same row_id stands at {duplicate}")
    assert run(project, "explain", row_id("plain"), "--day", "2026-11-03") == 2
    told = capsys.readouterr().err
    assert "no record and no rejected row of 2026-11-03 has the row_id" in told
    assert f"{DAY}: a record, logs/{DAY}.jsonl, line 1\n{duplicate}" in told


def test_what_a_terminal_would_obey_is_spelt_out(project: Path, capsys: Output) -> None:
    assert run(project, "explain", row_id("loud")) == 0
    text = capsys.readouterr().out
    assert "prompt: \\x1b[31mRED\\x07" in text
    assert "response: \\u202eTHGIR\\x9b2J" in text
    assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_a_warehouse_in_use_hides_only_the_publication(project: Path, capsys: Output) -> None:
    holder = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", holder, str(project / "data" / "warehouse.duckdb")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert run(project, "explain", row_id("plain")) == 0
        process.communicate("\n")
    found = parts(capsys.readouterr().out)
    assert "status: valid" in found["Score"]
    assert found["Publication"].startswith("not known: ")
    assert "another process has held it for 2 s" in found["Publication"]


def test_a_reader_that_leaves_early_brings_no_traceback(project: Path) -> None:
    command = [sys.executable, "-m", "gavel.cli", "--suite", str(project / "suite.yaml")]
    command += ["explain", row_id("plain")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141


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


def test_check_reads_peoples_decisions_and_tells_of_missing_models(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(project / "prompts" / "chat", tmp_path / "prompts" / "chat")
    shutil.copytree(PROMPTS / "fashion", tmp_path / "prompts" / "fashion")
    (tmp_path / "models" / "here").mkdir(parents=True)
    shutil.copytree(project / "logs", tmp_path / "logs")
    suite = tmp_path / "suite.yaml"
    suite.write_text(f"{SUITE}fashion: {{decisions: none.csv}}\n")
    assert main(["--suite", str(suite), "check"]) == 2
    assert "none.csv: cannot be read" in capsys.readouterr().err
    models = "{default: models/here, de: models/gone}"
    suite.write_text(f"{SUITE}fashion: {{bertscore: {{models: {models}}}}}\n")
    assert main(["--suite", str(suite), "check"]) == 0
    told = capsys.readouterr().out
    assert "fashion.bertscore.models.de: " in told
    assert "models/gone is no folder; 'models/gone' is taken for a model's name" in told
    assert "models.default" not in told
