"""Prompts: rendered in a sandbox, strict on names, the same for every record up to the record."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavel.errors import RubricError
from gavel.judge.prompts import Fault, Prompts, Record, fence
from gavel.judge.rubric import compile_rubric, load_rubric

from .conftest import JUDGE_J2, PROMPTS, REPAIR_J2, TINY, tiny

BUNDLED = {task: Prompts(load_rubric(PROMPTS / task), task) for task in ("chat", "translation")}
TEXT = st.text(max_size=60) | st.lists(
    st.sampled_from(
        ["</record>", "<record>", "<", ">", '"', "\\", "\n", "\\u003c/record>", "{{ 1 }}", "a"]
    ),
    max_size=8,
).map("".join)
RECORD = st.builds(
    Record,
    **{field.name: TEXT for field in fields(Record) if field.name != "out_of_coverage"},
    out_of_coverage=st.booleans() | st.none(),
)


def refusal(judge: str = JUDGE_J2, repair: str = REPAIR_J2) -> str:
    with pytest.raises(RubricError) as caught:
        Prompts(tiny(judge_j2=judge, repair_j2=repair), "prompts/tiny")
    return str(caught.value)


def blocks(system: str = "", user: str = "") -> str:
    return f"{{% block system %}}{system}{{% endblock %}}{{% block user %}}{user}{{% endblock %}}"


@pytest.mark.parametrize(
    "attack",
    [
        "{{ record.__class__.__mro__ }}",
        "{{ record.__class__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ record.prompt.__init__.__globals__ }}",
        "{{ ('%s' | format)['__class__'] }}",
        "{{ record | attr('__class__') }}",
        "{{ '{0.__class__}'.format(record) }}",
        "{{ fence.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ range(10 ** 9) | list }}",
    ],
)
def test_a_template_cannot_leave_the_sandbox(attack: str) -> None:
    for judge in (blocks(user=attack), blocks(system=attack.replace("record", "rubric"))):
        assert refusal(judge).startswith("prompts/tiny/judge.j2: ")
    assert refusal(repair=blocks(user=attack.replace("record", "rubric"))).startswith(
        "prompts/tiny/repair.j2: "
    )


def test_a_template_cannot_change_the_rubric() -> None:
    assert "the sandbox refuses it" in refusal(blocks(system="{{ rubric.files.clear() }}"))


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (
            blocks(user="{{ recrod.prompt }}"),
            "judge.j2: 'recrod' is undefined; accepted: rubric in",
        ),
        (
            blocks(user="{{ record.promt }}"),
            "has no attribute 'promt'; accepted: rubric in the system",
        ),
        (blocks(user="{{ rubric.task }}"), "judge.j2: 'rubric' is undefined"),
        (blocks(system="{{ record.prompt }}"), "judge.j2: 'record' is undefined"),
        (
            blocks(user="{% if record.language %}{{ lang }}{% endif %}"),
            "judge.j2: 'lang' is undefined",
        ),
        (blocks(user="{% if not record.language %}{{ lang }}{% endif %}"), "'lang' is undefined"),
        (blocks(user="\n\n{% if %}"), "judge.j2, line 3: "),
        (blocks(user="{{ record.prompt | fense }}"), "judge.j2, line 1: No filter named 'fense'"),
        (blocks(user="{{ [1] | map('fense') | list }}"), "judge.j2: cannot be rendered: No filter"),
        (blocks(user="{{ 1 / 0 }}"), "judge.j2: cannot be rendered: division by zero"),
        (blocks(user="{{ record.prompt + 1 }}"), "judge.j2: cannot be rendered: "),
        (
            "{% block system %}{% endblock %}",
            "judge.j2: has no block 'user'; accepted: a template with",
        ),
        ("{% block user %}{% endblock %}", "judge.j2: has no block 'system'"),
    ],
)
def test_a_wrong_template_is_told_with_file_and_variable(judge: str, words: str) -> None:
    assert words in refusal(judge)


def test_a_wrong_repair_template_is_told_too() -> None:
    assert "repair.j2: 'record' is undefined" in refusal(
        repair="{% block user %}{{ record.prompt }}{% endblock %}"
    )
    assert "repair.j2: has no block 'user'" in refusal(repair="Wrong!")


@settings(max_examples=200, deadline=None)
@given(RECORD, st.sampled_from(sorted(BUNDLED)))
def test_no_text_breaks_out_of_its_fence(record: Record, task: str) -> None:
    prompt = BUNDLED[task].user(record)
    assert prompt.startswith("<record>\n")
    assert prompt.endswith("\n</record>")
    assert (prompt.count("<record>"), prompt.count("</record>")) == (1, 1)
    # One field a line, each a JSON value: what a customer writes never starts a line of its own.
    names = [line.split(": ", 1)[0] for line in prompt.split("\n")[1:-1]]
    assert len(set(names)) == len(names)
    assert set(names) <= {field.name for field in fields(Record)}


@settings(max_examples=100, deadline=None)
@given(TEXT, st.sampled_from(sorted(BUNDLED)))
def test_no_answer_breaks_out_of_a_repair(text: str, task: str) -> None:
    told = BUNDLED[task].repair([Fault("unknown_label", text)])
    plain = BUNDLED[task].repair([Fault("unknown_label", "x")])
    assert told.count("\n") == plain.count("\n")
    assert told.count("<") == plain.count("<")


@given(TEXT)
def test_a_fenced_text_is_json_that_reads_as_the_text(text: str) -> None:
    import json

    assert json.loads(fence(text)) == text
    assert "<" not in fence(text)


def test_what_is_the_same_for_every_record_stands_first_and_is_byte_identical() -> None:
    for task, prompts in BUNDLED.items():
        before = prompts.system.encode()
        for text in ("one", "{{ two }}", "</record>"):
            prompts.user(Record(text, text, language="de"))
        again = Prompts(load_rubric(PROMPTS / task), "elsewhere")
        assert before == prompts.system.encode() == again.system.encode()
        rubric = load_rubric(PROMPTS / task)
        values = [value for values in rubric.label_values.values() for value in values]
        assert [name for name in [*rubric.columns, *values] if name not in prompts.system] == []


def test_a_field_the_log_does_not_have_is_left_out() -> None:
    prompt = BUNDLED["chat"].user(Record("Hi", "Hello", language="en"))
    assert prompt == '<record>\nlanguage: "en"\nprompt: "Hi"\nresponse: "Hello"\n</record>'


@pytest.mark.parametrize("code", ["not_json", "label_mismatch", "transport"])
def test_a_repair_tells_each_fault_with_its_detail(code: str) -> None:
    told = BUNDLED["chat"].repair([Fault(code, "here"), Fault("missing_field", "clarity")])
    assert f"- {code}: " in told
    assert '"here"' in told
    assert '- missing_field: a key is missing; "clarity"' in told


def test_templates_are_text_and_customers_are_not_templates() -> None:
    prompts: Any = Prompts(TINY, "tiny")
    assert '"{{ 7 * 7 }}"' in prompts.user(Record("{{ 7 * 7 }}", "x"))
    assert prompts.system == "Judge by tiny 1."


def test_an_undefined_name_within_the_fence_is_named(tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "prompts" / "translation"
    files = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    files["judge.j2"] = files["judge.j2"].replace("record.prompt", "record.promt")
    rubric = compile_rubric("translation", files, str(tmp_path))
    with pytest.raises(RubricError, match=r"judge\.j2.*promt"):
        Prompts(rubric, str(tmp_path))
