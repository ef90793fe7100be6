"""Embeddings: of length 1, kept in the ledger, alike for like meanings in four languages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gavel.errors import FashionError
from gavel.inference.embeddings import decoded, encoded
from gavel.inference.ledger import Ledger
from gavel.text import embeddings
from gavel.text.embeddings import LONGEST, embed


def test_a_vector_survives_the_ledger_bit_by_bit() -> None:
    vector = np.array([0.1, -2.5, 3e-8], dtype=np.float32)
    assert (decoded(encoded(vector)) == vector).all()


def test_texts_are_embedded_once_and_blank_ones_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Model:
        def query(self, texts: list[str]) -> list[list[float]]:
            asked.extend(texts)
            return [[3.0, 4.0]] * len(texts)

    monkeypatch.setattr(embeddings, "_model", Model)
    for _ in range(2):
        with Ledger.open(tmp_path, "run", "w") as ledger:
            found = embed(["a", "b", "a", "", " \n", "x" * 5000], None, ledger)
        assert set(found) == {"a", "b", "x" * 5000}
        assert found["a"] == pytest.approx([0.6, 0.8])
    assert asked == ["a", "b", "x" * LONGEST]


def test_vectors_of_another_length_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model:
        def query(self, texts: list[str]) -> list[list[float]]:
            return [[1.0] * (3 if text == "b" else 2) for text in texts]

    monkeypatch.setattr(embeddings, "_model", Model)
    with Ledger.open(tmp_path, "run", "w") as ledger:
        told = rf"embedding of 'b': 3 numbers, where other texts have 2: .* remove {tmp_path}"
        with pytest.raises(FashionError, match=told):
            embed(["a", "b"], None, ledger)


def test_the_embedded_model_reads_four_languages(tmp_path: Path) -> None:
    shoes = ["black shoes", "schwarze Schuhe", "chaussures noires", "μαύρα παπούτσια"]
    with Ledger.open(tmp_path, "run", "w") as ledger:
        found = embed([*shoes, "the history of the railway"], None, ledger)
    other = found["the history of the railway"]
    for text in shoes[1:]:
        assert found[shoes[0]] @ found[text] > found[shoes[0]] @ other
        assert np.linalg.norm(found[text]) == pytest.approx(1)
