"""A backend that answers by a rule instead of a model: baselines and scripted parties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gavel.inference.request import Answer, Request

_BATCH = 500


class Rules:
    """Answers each request with `rule(request)`, the text a model would have written.

    `revision` names the version of the rule, as a server would name its model's.
    """

    def __init__(self, rule: Callable[[Request], str], revision: str) -> None:
        self._rule = rule
        self._revision = revision

    def answers(self, requests: Iterable[Request]) -> Iterator[list[Answer]]:
        """Yield the rule's answers in mini-batches, in the order of the requests."""
        batch: list[Answer] = []
        for request in requests:
            batch.append(
                Answer(
                    request.request_hash,
                    request.attempt,
                    text=self._rule(request),
                    finish_reason="stop",
                    prompt_tokens=0,
                    completion_tokens=0,
                    latency_ms=0.0,
                    model_revision=self._revision,
                )
            )
            if len(batch) == _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def probe(self) -> None:
        """A rule can always be asked."""
