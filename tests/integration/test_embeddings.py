"""Embeddings over HTTP: through the ledger, retried, and told plainly where they cannot be had."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gavel.errors import EvaluatorOutage, EvaluatorRefused, FashionError
from gavel.inference.embeddings import OpenAIEmbeddings
from gavel.inference.ledger import Ledger
from gavel.inference.openai_compatible import OpenAICompatible
from gavel.settings.judging import Evaluator
from gavel.text.embeddings import embed
from tests.endpoint import Endpoint, Reply


def evaluator(url: str, **changes: object) -> Evaluator:
    settings = {"backend": "openai_compatible", "model": "bag", "base_url": url, "retries": 1}
    return Evaluator.model_validate(settings | changes)


def nothing(_: object) -> Reply:
    return Reply(status=500)


def test_vectors_come_in_order_and_once(tmp_path: Path) -> None:
    with Endpoint(nothing, embed=lambda text: [float(len(text)), 1.0]) as endpoint:
        texts = [f"{n:03}" * (n % 5 + 1) for n in range(60)]
        for run in ("a", "b"):
            with Ledger.open(tmp_path, run, "w") as ledger:
                found = embed(texts, evaluator(endpoint.url), ledger)
            for text, vector in found.items():
                assert vector[0] / vector[1] == pytest.approx(len(text))
        assert endpoint.embedded == Counter(set(texts))


def test_a_passing_fault_is_retried(tmp_path: Path) -> None:
    tries: Counter[str] = Counter()

    def late(text: str) -> list[float] | Reply:
        tries[text] += 1
        return [1.0, 2.0] if tries[text] > 1 else Reply(status=503, headers={"Retry-After": "0"})

    with Endpoint(nothing, embed=late) as endpoint, Ledger.open(tmp_path, "r", "w") as ledger:
        assert set(embed(["a", "b"], evaluator(endpoint.url), ledger)) == {"a", "b"}


@pytest.mark.parametrize(
    "reply",
    [Reply(body={"data": []}), Reply(body="not json"), Reply(body={"data": [{"embedding": []}]})],
)
def test_a_reply_that_is_no_embedding_is_told(tmp_path: Path, reply: Reply) -> None:
    def mostly(text: str) -> list[float] | Reply:
        return reply if text == "odd" else [1.0]

    with (
        Endpoint(nothing, embed=mostly) as endpoint,
        Ledger.open(tmp_path, "r", "w") as ledger,
        pytest.raises(FashionError, match="embedding of 'odd': transport: bad_reply"),
    ):
        embed([*"abcdefgh", "odd"], evaluator(endpoint.url), ledger)


def test_an_endpoint_without_embeddings_refuses(tmp_path: Path) -> None:
    with (
        Endpoint(nothing) as endpoint,
        Ledger.open(tmp_path, "r", "w") as ledger,
        pytest.raises(EvaluatorRefused, match="HTTP 404"),
    ):
        embed(["a"], evaluator(endpoint.url), ledger)


def test_an_endpoint_that_is_down_is_an_outage(tmp_path: Path) -> None:
    with Ledger.open(tmp_path, "r", "w") as ledger, pytest.raises(EvaluatorOutage):
        embed(["a"], evaluator("http://127.0.0.1:9/v1"), ledger)


def test_each_route_is_probed_by_its_own_question() -> None:
    with Endpoint(lambda ask: Reply("OK"), embed=lambda text: [1.0]) as endpoint:
        OpenAIEmbeddings(evaluator(endpoint.url)).probe()
        assert endpoint.embedded == {"Are you there?": 1}
        OpenAICompatible(evaluator(endpoint.url)).probe()
        assert endpoint.total == 1
