"""The backend for any server that speaks OpenAI's embeddings, through the same dispatch as completions.

An answer's text is the vector: base64 of little-endian 32-bit floats.
"""

from __future__ import annotations

import base64

import numpy as np
import orjson
from numpy.typing import ArrayLike, NDArray

from gavel.inference.dispatch import TransportFault
from gavel.inference.openai_compatible import OpenAICompatible
from gavel.inference.request import Answer, Request
from gavel.settings.judging import Evaluator

Vector = NDArray[np.float32]


class OpenAIEmbeddings(OpenAICompatible):
    """Asks `evaluator.base_url` for the embedding of a request's one user message."""

    _route = "/embeddings"

    def __init__(self, evaluator: Evaluator) -> None:
        super().__init__(evaluator.model_copy(update={"structured_output": "none"}))

    def _body(self, request: Request, mode: str) -> bytes:
        text = request.messages[0].content
        return orjson.dumps({"model": request.question.model, "input": [text]})

    def _read(self, request: Request, content: bytes) -> Answer:
        try:
            reply = orjson.loads(content)
            vector = np.asarray(reply["data"][0]["embedding"], dtype=np.float32)
            if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
                raise ValueError(vector.shape)
            tokens = (reply.get("usage") or {}).get("prompt_tokens")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            shown = content[:80].decode("utf-8", "replace")
            raise TransportFault("bad_reply", f"no embedding: {shown!r}") from error
        return Answer(
            request.request_hash,
            request.attempt,
            text=encoded(vector),
            finish_reason="stop",
            prompt_tokens=tokens if isinstance(tokens, int) else None,
            completion_tokens=0,
            model_revision=str(reply.get("model") or "") or None,
        )


def encoded(vector: ArrayLike) -> str:
    """A vector as the text of an answer."""
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def decoded(text: str) -> Vector:
    """The vector in the text of an answer."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32)
