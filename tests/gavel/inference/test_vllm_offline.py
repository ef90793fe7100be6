"""What can be told of vLLM in process without vLLM; the rest is tests/vllm."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gavel.errors import MissingExtra, SuiteError
from gavel.inference.request import Decoding, Message, Question
from gavel.inference.vllm_offline import VLLMOffline, _parameters
from gavel.judge.backends import judge_of
from gavel.judge.rubric import load_rubric
from gavel.settings.judging import Evaluator
from gavel.suite import Suite, load_suite

ROOT = Path(__file__).parents[3]
SUITE = """
first_day: 2026-11-02
prompts: {prompts}
sources: [{{name: shop, format: jsonl, path: "{{day}}.jsonl"}}]
evaluator: judge
evaluators: {{judge: {{backend: {backend}}}}}
"""


def suite_with(folder: Path, backend: str) -> Suite:
    file = folder / "suite.yaml"
    file.write_text(SUITE.format(prompts=ROOT / "prompts", backend=backend))
    return load_suite(file)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_it_one_sentence_says_what_to_install() -> None:
    backend = VLLMOffline(Evaluator(backend="vllm_offline", model="m"))
    question = Question("m", Decoding(0.0, 5), "system")
    request = question.request((Message("user", "x"),), 1)
    with pytest.raises(MissingExtra, match=r"need the extra vllm.*pip install -e '.\[vllm\]'"):
        list(backend.answers([request]))
    with pytest.raises(MissingExtra):
        backend.probe()


def test_probabilities_are_asked_for_by_vllms_own_name() -> None:
    extra = (("logprobs", True), ("top_logprobs", 5), ("top_p", 0.9))
    assert _parameters(Decoding(0.1, 20, 7, extra)) == {
        "temperature": 0.1,
        "max_tokens": 20,
        "seed": 7,
        "logprobs": 5,
        "top_p": 0.9,
    }


def test_the_quantisation_is_part_of_the_model(tmp_path: Path) -> None:
    rubric = load_rubric(ROOT / "prompts" / "translation")
    whole, fewer = (
        judge_of(suite_with(tmp_path, f"vllm_offline, model: m{more}"), "translation", rubric)
        for more in ("", ", quantization: awq")
    )
    assert (whole.evaluator.model, fewer.evaluator.model) == ("m", "m (awq)")
    assert whole.config_hash != fewer.config_hash
    assert isinstance(fewer.backend, VLLMOffline)


@pytest.mark.parametrize(
    ("backend", "sentence"),
    [
        ("vllm_offline", "backend vllm_offline needs `model`"),
        ("heuristic, quantization: awq", "quantization and engine are for backend vllm_offline"),
    ],
)
def test_a_wrong_setting_is_a_sentence(tmp_path: Path, backend: str, sentence: str) -> None:
    with pytest.raises(SuiteError, match=sentence):
        suite_with(tmp_path, backend)
