"""Reading suite.yaml: what is wrong is told with file, key, what was found and what is accepted."""

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gavel.errors import SuiteError
from gavel.settings.judging import Evaluator, Prices
from gavel.settings.operation import Quality
from gavel.suite import Suite, load_suite

GOOD = """\
first_day: 2026-11-02
sources: [{name: shop, format: jsonl, path: "logs/{day}.jsonl"}]
evaluator: baseline
evaluators: {baseline: {backend: heuristic}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for task in ("chat", "translation"):
        (tmp_path / "prompts" / task).mkdir(parents=True)
        (tmp_path / "prompts" / task / "rubric.yaml").touch()
    return tmp_path


def load(folder: Path, text: str) -> Suite:
    file = folder / "suite.yaml"
    file.write_text(text, encoding="utf-8")
    return load_suite(file)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(SuiteError) as caught:
        load(folder, text)
    sentence = str(caught.value)
    assert sentence.startswith(f"{folder / 'suite.yaml'}: ")
    return sentence


def test_four_keys_make_a_suite_and_the_rest_has_good_defaults(folder: Path) -> None:
    suite = load(folder, GOOD)
    assert suite.first_day == dt.date(2026, 11, 2)
    assert suite.last_day is None
    assert (suite.zone, suite.shards, suite.regeneration_attempts) == (ZoneInfo("UTC"), 4, 3)
    assert suite.task_names() == ["chat", "translation"]
    assert suite.quality == Quality(normalise="zscore", window_days=7)
    name, evaluator = suite.evaluator_of("chat")
    assert (name, evaluator.backend, evaluator.retries) == ("baseline", "heuristic", 3)
    assert (evaluator.temperature, evaluator.prices) == (0.005, Prices(prompt=0, completion=0))


def test_relative_paths_start_from_the_folder_of_the_file(folder: Path) -> None:
    suite = load(folder, GOOD)
    assert suite.path("data/x") == folder / "data" / "x"
    assert suite.path("/data/x") == Path("/data/x")


def test_a_task_may_have_its_own_evaluator(folder: Path) -> None:
    other = "evaluators: {baseline: {backend: heuristic}, strict: {backend: heuristic, seed: 3}}\n"
    text = GOOD.replace("evaluators: {baseline: {backend: heuristic}}\n", other)
    suite = load(folder, text + "tasks: {translation: {evaluator: strict}}")
    assert suite.evaluator_of("chat")[0] == "baseline"
    assert suite.evaluator_of("translation") == ("strict", Evaluator(backend="heuristic", seed=3))


def test_the_file_is_named_by_argument_then_environment_then_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(folder, GOOD)
    other = folder / "other.yaml"
    other.write_text(GOOD + "name: other")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GAVEL_SUITE", raising=False)
    assert load_suite().file == folder / "suite.yaml"
    monkeypatch.setenv("GAVEL_SUITE", str(other))
    assert load_suite().name == "other"
    assert load_suite("suite.yaml").name == "gavel"


def test_a_missing_file_is_told_with_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(
        SuiteError, match=r"absent\.yaml: cannot be read \(No such file .*GAVEL_SUITE"
    ):
        load_suite(tmp_path / "absent.yaml")


SOURCE = 'sources: [{name: shop, format: jsonl, path: "logs/{day}.jsonl"}]'
WRONG = {
    "empty": (GOOD, "", ["holds nothing; accepted"]),
    "a list": (GOOD, "[1]", ["holds a list; accepted"]),
    "broken": (GOOD, "a: [", ["is not valid YAML", "line 2"]),
    "a tab": ("first_day: ", "\tfirst_day: ", ["is not valid YAML", "line 1"]),
    "no such day": ("2026-11-02", "2026-02-30", ["is not valid YAML", "day is out of range"]),
    "key twice": ("evaluator: b", "evaluator: x\nevaluator: b", ["'evaluator'", "more than once"]),
    "braces": ("evaluator: baseline", "evaluator: {{ x }}", ["is not valid YAML", "quotes"]),
    "unknown key": (
        "evaluator: b",
        "shard: 4\nevaluator: b",
        ["shard: is not a setting", "shards"],
    ),
    "unknown source key": ("name: shop", "nom: a, name: shop", ["sources.0.nom", "date_column"]),
    "unknown evaluator key": (
        "{backend",
        "{url: x, backend",
        ["evaluators.baseline.url", "base_url"],
    ),
    "missing key": ("first_day: 2026-11-02", "", ["first_day: is missing"]),
    "wrong type": (
        "evaluator: b",
        "shards: many\nevaluator: b",
        ["shards: found 'many'", "integer"],
    ),
    "out of bounds": ("evaluator: b", "shards: 0\nevaluator: b", ["shards: found 0", "equal to 1"]),
    "bad choice": (
        "jsonl,",
        "xml,",
        ["sources.0.format: found 'xml'", "'jsonl', 'csv', 'parquet' or 'bigquery'"],
    ),
    "bad backend": (
        "heuristic",
        "gpt",
        ["evaluators.baseline.backend: found 'gpt'", "'heuristic'"],
    ),
    "no source": (SOURCE, "sources: []", ["sources: found []", "at least 1"]),
    "unknown evaluator": (
        "evaluator: baseline",
        "evaluator: judge",
        ["evaluator is 'judge'", "accepted: baseline"],
    ),
    "unknown evaluator of a task": (
        "evaluator: b",
        "tasks: {chat: {evaluator: judge}}\nevaluator: b",
        ["tasks.chat.evaluator is 'judge'", "accepted: baseline"],
    ),
    "unknown task": (
        "evaluator: b",
        "tasks: {chit: {}}\nevaluator: b",
        ["tasks.chit", "prompts/chit/rubric.yaml", "accepted: chat, translation"],
    ),
    "no prompts": (
        "evaluator: b",
        "prompts: none\nevaluator: b",
        ["prompts: no folder of", "/none holds a rubric.yaml"],
    ),
    "no such zone": (
        "evaluator: b",
        "timezone: Berlin\nevaluator: b",
        ["timezone: 'Berlin'", "such as UTC or Europe/Berlin"],
    ),
    "zone is a folder": ("evaluator: b", "timezone: Europe\nevaluator: b", ["timezone: 'Europe'"]),
    "zone climbs": ("evaluator: b", "timezone: ../UTC\nevaluator: b", ["timezone: '../UTC'"]),
    "days not told apart": (
        "{day}.jsonl",
        "all.jsonl",
        ["sources.0: path 'logs/all.jsonl' holds no {day} and date_column is not set"],
    ),
    "no table": (
        SOURCE,
        "sources: [{name: a, format: bigquery, path: logs, date_column: d}]",
        ["path 'logs' is no table of BigQuery", "project.dataset.table"],
    ),
    "a table without days": (
        SOURCE,
        "sources: [{name: a, format: bigquery, path: p.d.t}]",
        ["format bigquery needs date_column"],
    ),
    "a query of a file": (
        'path: "logs',
        'query: SELECT 1, path: "logs',
        ["query and only are for format bigquery", "'jsonl'"],
    ),
    "no dataset": (
        "evaluator: b",
        "warehouse: bigquery://project\nevaluator: b",
        ["warehouse is 'bigquery://project'", "bigquery://project/dataset"],
    ),
    "two sources of a name": (
        SOURCE,
        'sources: [{name: a, format: csv, path: "{day}"}, {name: a, format: csv, path: "x{day}"}]',
        ["sources repeat the name a"],
    ),
    "no base_url": (
        "{backend: heuristic}",
        "{backend: openai_compatible, model: m}",
        ["evaluators.baseline", "needs `base_url`"],
    ),
    "no model": (
        "{backend: heuristic}",
        "{backend: openai_compatible, base_url: http://h/v1}",
        ["evaluators.baseline", "needs `model`"],
    ),
}


@pytest.mark.parametrize(("old", "new", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_setting_is_told_in_a_sentence(
    folder: Path, old: str, new: str, words: list[str]
) -> None:
    assert old in GOOD
    sentence = refusal(folder, GOOD.replace(old, new, 1))
    assert [word for word in words if word not in sentence] == [], sentence


def test_every_wrong_setting_is_told_at_once_a_line_each(folder: Path) -> None:
    sentence = refusal(folder, GOOD + "shards: 0\nregeneration_attempts: 11\n")
    assert [line.split(": ")[1] for line in sentence.splitlines()] == [
        "shards",
        "regeneration_attempts",
    ]


def test_bytes_that_are_no_text_are_told(folder: Path) -> None:
    (folder / "suite.yaml").write_bytes(b"name: \xff")
    with pytest.raises(SuiteError, match=r"suite\.yaml: is not valid YAML: .*utf-8"):
        load_suite(folder / "suite.yaml")


@pytest.mark.parametrize("name", ["customer-support", "Chat", "1st", "mein task"])
def test_a_task_folder_that_cannot_name_a_table_is_told(folder: Path, name: str) -> None:
    (folder / "prompts" / name).mkdir()
    (folder / "prompts" / name / "rubric.yaml").touch()
    assert f"prompts/{name} cannot name a task; accepted: lower-case" in refusal(folder, GOOD)


def test_a_folder_without_a_rubric_is_no_task(folder: Path) -> None:
    (folder / "prompts" / "dialogue").mkdir()
    assert load(folder, GOOD).task_names() == ["chat", "translation"]


TIERED = """\
first_day: 2026-11-02
sources: [{name: shop, format: jsonl, path: "logs/{day}.jsonl"}]
evaluator: small
evaluators:
  small: {backend: heuristic}
  medium: {backend: heuristic}
  large: {backend: heuristic}
tasks:
  chat:
    panel: {members: [medium], aggregate: mean}
    escalation:
      evaluator: large
      below_confidence: 0.5
      above_disagreement: 0.3
      high_risk: [{language: [de, fr], helpfulness: {at_most: 2}}, {out_of_coverage: true}]
      audit_share: 0.02
"""


def test_a_task_can_have_a_panel_and_a_larger_evaluator(folder: Path) -> None:
    suite = load(folder, TIERED)
    assert suite.settings_of("chat").others == ["medium", "large"]
    assert suite.settings_of("translation").others == []
    assert suite.benchmarked() == ["small", "medium", "large", "majority", "constant"]
    escalation = suite.settings_of("chat").escalation
    assert escalation is not None
    assert escalation.high_risk[0]["language"] == ["de", "fr"]
    assert escalation.high_risk[1]["out_of_coverage"] is True


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("members: [medium]", "members: [huge]", ["tasks.chat is 'huge'", "large, medium, small"]),
        ("evaluator: large", "evaluator: huge", ["tasks.chat is 'huge'"]),
        ("members: [medium]", "members: [small]", ["tasks.chat asks 'small' more than once"]),
        ("members: [medium]", "members: [large]", ["tasks.chat asks 'large' more than once"]),
        ("members: [medium]", "members: []", ["tasks.chat.panel.members"]),
        ("aggregate: mean", "aggregate: best", ["tasks.chat.panel.aggregate", "'best'"]),
        (
            "panel: {members: [medium], aggregate: mean}",
            "evaluator: small",
            ["tasks.chat", "above_disagreement is set and there is no panel"],
        ),
        ("audit_share: 0.02", "audit_share: 2", ["tasks.chat.escalation.audit_share", "found 2"]),
        ("audit_share: 0.02", "audit: 2", ["escalation.audit: is not a setting", "audit_share"]),
        (
            "at_most: 2",
            "under: 2",
            ["escalation.high_risk.0.helpfulness: found {'under': 2}; accepted: a value, a list"],
        ),
        ("{at_most: 2}", "[]", ["escalation.high_risk.0.helpfulness: found []"]),
        ("{at_most: 2}", "{at_most: two}", ["found {'at_most': 'two'}; accepted"]),
        (
            "evaluators:",
            "evaluators:\n  majority: {backend: heuristic}",
            ["'majority' cannot name an evaluator"],
        ),
        ("evaluators:", "evaluators:\n  a/b: {backend: heuristic}", ["'a/b'", "accepted: letters"]),
    ],
)
def test_wrong_tiers_are_told_in_a_sentence(
    folder: Path, old: str, new: str, words: list[str]
) -> None:
    assert old in TIERED
    sentence = refusal(folder, TIERED.replace(old, new, 1))
    assert [word for word in words if word not in sentence] == [], sentence


def test_pairs_and_a_task_cannot_share_a_rubric(folder: Path) -> None:
    (folder / "prompts" / "pairwise").mkdir()
    (folder / "prompts" / "pairwise" / "rubric.yaml").touch()
    assert "pairwise" in load(folder, GOOD).task_names()
    sentence = refusal(folder, GOOD + "benchmark: {pairs: pairs.jsonl}\n")
    assert "cannot be a task beside benchmark.pairs" in sentence


FASHION = GOOD.replace(
    "baseline: {backend: heuristic}",
    "baseline: {backend: heuristic}, m: {backend: openai_compatible, model: m, base_url: http://x/v1}",
)


def test_the_fashion_section_has_good_defaults(folder: Path) -> None:
    fashion = load(folder, f"{FASHION}fashion: {{}}").fashion
    assert fashion is not None
    assert (fashion.evaluation, fashion.development, fashion.subsets) == (1334, 1062, {"el": 87})
    assert fashion.languages == ["en", "de", "fr", "el"]
    assert len(fashion.customers) == 7
    assert list(fashion.systems) == ["scripted", "yake", "popularity", "lorem"]
    assert fashion.evaluators() == {}
    assert load(folder, GOOD).fashion is None


@pytest.mark.parametrize(
    ("section", "told"),
    [
        (
            "assistant: gpt",
            "is 'gpt', which is no model under evaluators; accepted: scripted, m",
        ),
        ("assistant: baseline", "fashion.assistant is 'baseline', which is no model"),
        ("verifier: gpt", "fashion.verifier is 'gpt'"),
        ("verifier: scripted", "'scripted', which is no model under evaluators; accepted: m"),
        ("embeddings: {evaluator: scripted}", "which is no model under evaluators; accepted: m"),
        (
            "systems: {a: {kind: model, evaluator: scripted}}",
            "fashion.systems.a.evaluator is 'scripted', which is no model under evaluators; accepted: m",
        ),
        ("subsets: {gr: 10}", "'gr' is no language that is translated to; accepted: de, fr, el"),
        ("subsets: {en: 10}", "'en' is no language that is translated to"),
        ("subsets: {el: -5}", "fashion.subsets.el"),
        ("subsets: {el: 0}", "fashion.subsets.el"),
        ("customers: {a: {kind: template, share: .inf}}", "fashion.customers.a.share"),
        (
            "systems: {a: {kind: lorem, machine_usd_per_hour: .inf}}",
            "fashion.systems.a.machine_usd_per_hour",
        ),
        ("systems: {..: {kind: lorem}}", "'..' cannot name a partition"),
        ("systems: {.a: {kind: lorem}}", "no dot at the beginning"),
        ("split: development, development: 0", "there is no conversation; raise development"),
        ("languages: [de]", "each once, and en"),
        ("languages: [en, it]", "fashion.languages.1"),
        ("customers: {a: {kind: item}}", "kind item with personality None"),
        ("customers: {a: {kind: template, personality: rude}}", "a template has none"),
        ("customers: {a: {kind: template, evaluator: m}}", "a template customer is scripted"),
        ("customers: {}", "fashion.customers"),
        ("systems: {a: {kind: model}}", "a model needs `evaluator`"),
        ("systems: {a: {kind: yake, evaluator: m}}", "a rule has none"),
        ("systems: {a: {kind: lorem, modes: [assistant]}}", "lorem writes queries only"),
        ("systems: {a b: {kind: lorem}}", "'a b' cannot name a partition"),
        ("systems: {a: {kind: model, evaluator: m, prompt: IV}}", "fashion.systems.a.prompt"),
        ("colour: red", "colour: is not a setting; accepted: evaluation, development"),
        ("bertscore: {model: x}", "bertscore.model: is not a setting; accepted: enabled, models"),
    ],
)
def test_what_is_wrong_with_the_fashion_section_is_told(
    folder: Path, section: str, told: str
) -> None:
    assert told in refusal(folder, f"{FASHION}fashion: {{{section}}}")
