"""The backend that runs the model in this process, by vLLM: batch work on a GPU node, without HTTP."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import orjson

from gavel.errors import EvaluatorOutage, EvaluatorRefused, MissingExtra, missing_extra
from gavel.inference.openai_compatible import token_logprobs
from gavel.inference.request import Answer, Decoding, Request
from gavel.settings.judging import Evaluator

BATCH = 512
"""Requests given to the engine at once: enough to keep it busy, and at most what a kill can cost."""

_SCHEMAS = {"backend": "guidance", "disable_any_whitespace": True}
"""How answers are held to their schema: other ways let control characters through, or spend tokens on spaces."""

_DEAD = ("EngineDeadError", "EngineGenerateError")
_INVALID = "VLLMValidationError"
"""vLLM's own errors, by name, since its versions keep them in different places."""


class VLLMOffline:
    """Asks `evaluator.model`, loaded once a process with `quantization` and the other arguments of `engine`.

    Answers come in batches. A prompt longer than the model's context is found by halving the batch that fails,
    so that it fails alone.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        # The quantisation is part of the name that answers are kept under, not of the weights'.
        self._model = evaluator.model.removesuffix(f" ({evaluator.quantization})")
        arguments = {"structured_outputs_config": _SCHEMAS, **evaluator.engine}
        if evaluator.quantization is not None:
            arguments["quantization"] = evaluator.quantization
        self._arguments = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)

    def answers(self, requests: Iterable[Request]) -> Iterator[list[Answer]]:
        """Yield the answers of each batch, in the order of its requests.

        Raises:
            MissingExtra: vLLM is not installed.
            EvaluatorRefused: the model cannot be loaded, or takes no such setting.
            EvaluatorOutage: the engine died.
        """
        waiting = iter(requests)
        while batch := list(islice(waiting, BATCH)):
            model, revision = _engine(self._model, self._arguments)
            yield self._answered(model, revision, batch)

    def probe(self) -> None:
        """Return where vLLM is installed: to load a model only to see whether it loads would take minutes."""
        if importlib.util.find_spec("vllm") is None:
            raise _missing()

    def _answered(self, model: Any, revision: str, batch: Sequence[Request]) -> list[Answer]:
        started = time.monotonic()
        conversations = [
            [{"role": m.role, "content": m.content} for m in (r.question.system, *r.messages)]
            for r in batch
        ]
        try:
            outputs = model.chat(conversations, [self._sampling(r) for r in batch], use_tqdm=False)
        except Exception as error:
            name = type(error).__name__
            if name in _DEAD:
                _engine.cache_clear()
                raise EvaluatorOutage(
                    f"vLLM in process (model {self._evaluator.model}): the engine died ({_short(error)}); the "
                    "answers kept so far stay: run again"
                ) from error
            if not isinstance(error, ValueError) and name != _INVALID:
                raise
            if len(batch) > 1:
                # The engine does not say which prompt of the batch it is.
                half = len(batch) // 2
                parts = (batch[:half], batch[half:])
                return [a for part in parts for a in self._answered(model, revision, part)]
            if "context length" not in str(error):
                raise EvaluatorRefused(
                    f"vLLM in process (model {self._evaluator.model}): refuses a request ({_short(error)}); check "
                    "the evaluator's settings in suite.yaml"
                ) from error
            return [_too_long(batch[0], revision, error)]
        seconds = (time.monotonic() - started) / len(batch)
        return [
            _answer(request, output, revision, 1000 * seconds)
            for request, output in zip(batch, outputs, strict=True)
        ]

    def _sampling(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        decoding, schema = request.question.decoding, request.question.schema
        held = None if schema is None else StructuredOutputsParams(json=dict(schema))
        try:
            return SamplingParams(structured_outputs=held, **_parameters(decoding))
        except TypeError as error:
            raise EvaluatorRefused(
                f"extra_body of the evaluator holds what vLLM does not take in process ({_short(error)}); "
                "accepted: the parameters of its SamplingParams, such as top_p"
            ) from error


def _missing() -> MissingExtra:
    # It wants an older numpy than the constraints have.
    return missing_extra("evaluators with the backend vllm_offline", "vllm", options="")


def _parameters(decoding: Decoding) -> Mapping[str, Any]:
    """The decoding as vLLM's SamplingParams names it, where probabilities of tokens go by another name."""
    extra = dict(decoding.extra)
    if extra.pop("logprobs", False):
        extra["logprobs"] = extra.pop("top_logprobs", 0)
    return {
        "temperature": decoding.temperature,
        "max_tokens": decoding.max_tokens,
        "seed": decoding.seed,
        **extra,
    }


def _logprobs(completion: Any) -> str | None:
    """The log-probabilities of an answer's tokens as the ledger keeps them; None where they were not asked for."""
    if completion.logprobs is None:
        return None
    content = []
    for token, among in zip(completion.token_ids, completion.logprobs, strict=True):
        others = [{"token": o.decoded_token, "logprob": o.logprob} for o in among.values()]
        own = among[token]
        content.append({"token": own.decoded_token, "logprob": own.logprob, "top_logprobs": others})
    return token_logprobs({"content": content})


@lru_cache(maxsize=1)
def _engine(model: str, arguments: bytes) -> tuple[Any, str]:
    """The loaded model and its revision, kept: loading takes a minute or more.

    Raises:
        MissingExtra, EvaluatorRefused: as `VLLMOffline.answers`.
    """
    try:
        import vllm
    except ImportError as error:
        raise _missing() from error
    try:
        loaded = vllm.LLM(model=model, **orjson.loads(arguments))
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        raise EvaluatorRefused(
            f"vLLM in process: the model {model} cannot be loaded ({_short(error)}); check `model`, "
            "`quantization` and `engine`, and that the GPU has room for it"
        ) from error
    commit = getattr(loaded.llm_engine.model_config.hf_config, "_commit_hash", None)
    return loaded, f"{model}{f'@{commit}' if commit else ''} vllm {vllm.__version__}"


def _answer(request: Request, output: Any, revision: str, latency_ms: float) -> Answer:
    completion = output.outputs[0]
    return Answer(
        request.request_hash,
        request.attempt,
        text=completion.text,
        finish_reason=completion.finish_reason,
        prompt_tokens=len(output.prompt_token_ids or ()),
        completion_tokens=len(completion.token_ids),
        latency_ms=latency_ms,
        model_revision=revision,
        logprobs=_logprobs(completion),
    )


def _too_long(request: Request, revision: str, error: Exception) -> Answer:
    return Answer(
        request.request_hash,
        request.attempt,
        failure="context_overflow",
        detail=_short(error),
        model_revision=revision,
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
