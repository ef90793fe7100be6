"""BERTScore (Zhang et al. 2020): precision, recall and F1 of a text against another, by greedy matching of the
cosine similarities of their tokens' contextual embeddings, without idf weights.

Equal to the bert-score package on the same model and layer, with these differences: each distinct text is embedded
once, references stay embedded for the next system, and a text without tokens is undefined instead of 0. Needs the
extra `bertscore` (torch, transformers, bert-score).
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gavel.errors import FashionError

MISSING = "the extra `bertscore` is not installed; .venv/bin/pip install -c constraints.txt -e '.[bertscore]'"

_LONGEST = 512
"""Tokens of a text at most, where neither the tokenizer nor the model says so."""
_KEPT_REFERENCES = 20_000
_LEAST_FULL = 0.9
"""The shortest text of a batch, as a share of the longest."""
_PAIRS = 1_024
"""Pairs matched at once; their lengths are alike."""


@dataclass(frozen=True)
class Scores:
    """F1 of each pair, None where a text has no tokens; how many texts were cut to the model's length."""

    f1: list[float | None]
    truncated: int


def available() -> bool:
    """Whether the extra is installed."""
    return all(find_spec(name) is not None for name in ("torch", "transformers", "bert_score"))


def default_model(language: str) -> str:
    """The bert-score package's model for `language`; needs the extra."""
    from bert_score.utils import lang2model

    return str(lang2model[language])


def baseline_of(language: str, model: str, layer: int) -> float | None:
    """The package's baseline of F1; None where it has none for the language (such as Greek) or the model."""
    import bert_score

    folder = Path(bert_score.__file__).parent / "rescale_baseline" / language
    # Some stand under their owner's name, as microsoft/deberta-large.
    places = [folder / f"{name}.tsv" for name in (model.lstrip("/"), Path(model).name)]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        return None
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if int(row["LAYER"]) == layer:
                return float(row["F"])
    return None


def rescaled(f1: Sequence[float | None], baseline: float | None) -> list[float | None]:
    """F1 with `baseline` at 0 and 1 where it is; as it is where there is no baseline."""
    if baseline is None:
        return list(f1)
    return [None if value is None else (value - baseline) / (1 - baseline) for value in f1]


@lru_cache(maxsize=2)
def scorer_of(model: str, layer: int | None, batch_tokens: int) -> BertScorer:
    """The scorer, loaded once a process, so that all systems and languages share its references."""
    return BertScorer(model, layer, batch_tokens)


class BertScorer:
    """A model that scores pairs of texts.

    `model` is a name that transformers knows or a local folder. `layer` is the hidden layer whose output counts;
    None is the package's default for the model. `batch_tokens` bounds what is embedded at once.

    Raises:
        FashionError: the extra or the model is missing, or a layer has to be given.
    """

    def __init__(self, model: str, layer: int | None = None, batch_tokens: int = 4096) -> None:
        if not available():
            raise FashionError(MISSING)
        import torch
        import transformers
        from bert_score.utils import model2layers

        self._torch = torch
        self.name = model
        layer = layer or model2layers.get(model)
        if layer is None:
            raise FashionError(
                f"BERTScore model {model}: the bert-score package knows no default layer of it; "
                f"set fashion.bertscore.layers: {{{model}: N}}"
            )
        self.layer: int = layer
        self._tokens = batch_tokens
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
            self._model = _model(transformers, model, layer)
        except (OSError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise FashionError(
                f"BERTScore model {model} cannot be loaded ({first}); name a local folder in "
                "fashion.bertscore.models, or make the model available offline"
            ) from error
        self._longest = _longest(self._tokenizer, self._model.config)
        # The package asks for a space before the first word of these; transformers 5 does not heed it.
        kinds = (transformers.GPT2Tokenizer, transformers.RobertaTokenizer)
        prefixed = isinstance(self._tokenizer, kinds)
        self._asked = {"add_prefix_space": True} if prefixed else {}
        self._special = [
            token
            for token in (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)
            if token is not None
        ]
        self._references: dict[str, Any] = {}

    @property
    def signature(self) -> str:
        """Everything that determines a score: model, its content's hash, layer, versions."""
        import bert_score
        import torch
        import transformers

        return (
            f"model:{Path(self.name).name}|hash:{self._hash}|layer:{self.layer}"
            f"|bert-score:{bert_score.__version__}|transformers:{transformers.__version__}|torch:{torch.__version__}"
        )

    @property
    def _hash(self) -> str:
        return _model_hash(self)

    def score(self, candidates: Sequence[str], references: Sequence[str]) -> Scores:
        """F1 of each candidate against the reference beside it.

        A text of whitespace alone has no tokens: F1 is None. A text longer than the model reads is cut and
        counted. Equal texts are embedded once; references are kept for the next call.
        """
        if len(candidates) != len(references):
            raise ValueError(f"{len(candidates)} candidates and {len(references)} references")
        wanted = [text for text in dict.fromkeys(references) if text not in self._references]
        if len(self._references) + len(wanted) > _KEPT_REFERENCES:
            self._references.clear()
            wanted = list(dict.fromkeys(references))
        # A candidate that is somebody's reference is embedded already.
        others = [text for text in dict.fromkeys(candidates) if text not in self._references]
        embedded = self._embed(list(dict.fromkeys([*wanted, *others])))
        self._references |= {text: embedded[text] for text in wanted}
        found = self._references | embedded
        scored: list[float | None] = [None] * len(candidates)
        places = [
            place
            for place, (one, other) in enumerate(zip(candidates, references, strict=True))
            if found[one] is not None and found[other] is not None
        ]
        places.sort(
            key=lambda p: (len(found[candidates[p]].tokens), len(found[references[p]].tokens))
        )
        for start in range(0, len(places), _PAIRS):
            batch = places[start : start + _PAIRS]
            values = self._match(
                [found[candidates[p]] for p in batch], [found[references[p]] for p in batch]
            )
            for place, value in zip(batch, values, strict=True):
                scored[place] = value
        cut = sum(found[t] is not None and found[t].cut for t in {*candidates, *references})
        return Scores(scored, cut)

    def _embed(self, texts: Sequence[str]) -> dict[str, Any]:
        """The tokens' embeddings of each text, of length 1; None for a text without words."""
        torch = self._torch
        told = {text: text.strip() for text in texts}
        full = [text for text in texts if told[text]]
        result: dict[str, Any] = dict.fromkeys(texts)
        if not full:
            return result
        ids = self._tokenizer(
            [told[text] for text in full], truncation=True, max_length=self._longest, **self._asked
        )["input_ids"]
        order = sorted(range(len(full)), key=lambda n: len(ids[n]), reverse=True)
        pad = self._tokenizer.pad_token_id or 0
        with torch.inference_mode():
            while order:
                longest = len(ids[order[0]])
                many = max(1, self._tokens // longest)
                # What is added to a short text to make it as long as the others costs as much as text.
                shorter = (n for n, at in enumerate(order) if len(ids[at]) < _LEAST_FULL * longest)
                many = min(many, next(shorter, many))
                batch, order = order[:many], order[many:]
                padded = torch.full((len(batch), longest), pad, dtype=torch.long)
                mask = torch.zeros((len(batch), longest), dtype=torch.long)
                for row, place in enumerate(batch):
                    length = len(ids[place])
                    padded[row, :length] = torch.tensor(ids[place])
                    mask[row, :length] = 1
                states = self._model(padded, attention_mask=mask)[0]
                states = torch.nn.functional.normalize(states, dim=-1)
                for row, place in enumerate(batch):
                    own = ids[place]
                    counts = torch.tensor([float(t not in self._special) for t in own])
                    kept = states[row, : len(own)].clone()
                    cut = len(own) >= self._longest
                    result[full[place]] = _Embedded(kept, counts, cut) if counts.any() else None
        return result

    def _match(
        self, candidates: Sequence[_Embedded], references: Sequence[_Embedded]
    ) -> list[float]:
        """F1 of pairs: the mean over each side's tokens of the best match on the other side.

        Special tokens can be matched, as in the package, but have no weight of their own.
        """
        torch = self._torch
        pad = torch.nn.utils.rnn.pad_sequence
        with torch.inference_mode():
            one = pad([c.tokens for c in candidates], batch_first=True)
            other = pad([r.tokens for r in references], batch_first=True)
            weight = pad([c.counts for c in candidates], batch_first=True)
            other_weight = pad([r.counts for r in references], batch_first=True)
            lengths = torch.tensor([len(c.tokens) for c in candidates])
            other_lengths = torch.tensor([len(r.tokens) for r in references])
            similarity = torch.bmm(one, other.transpose(1, 2))
            absent = torch.arange(one.shape[1])[None, :] >= lengths[:, None]
            other_absent = torch.arange(other.shape[1])[None, :] >= other_lengths[:, None]
            similarity.masked_fill_(absent[:, :, None], -2.0)
            similarity.masked_fill_(other_absent[:, None, :], -2.0)
            precision = (similarity.amax(2) * weight).sum(1) / weight.sum(1)
            recall = (similarity.amax(1) * other_weight).sum(1) / other_weight.sum(1)
            f1 = torch.nan_to_num(2 * precision * recall / (precision + recall), nan=0.0)
        return [float(value) for value in f1]


@dataclass(frozen=True, slots=True)
class _Embedded:
    """One text: a row of length 1 a token; 1 for tokens that count, 0 for special ones; whether it was cut."""

    tokens: Any
    counts: Any
    cut: bool


def _model(transformers: Any, name: str, layer: int) -> Any:
    """The encoder up to `layer`, without what comes after it."""
    config = transformers.AutoConfig.from_pretrained(name)
    if layer > config.num_hidden_layers:
        raise ValueError(f"layer {layer} of {config.num_hidden_layers}")
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # it warns of every layer that is left out
    transformers.logging.disable_progress_bar()
    try:
        model = transformers.AutoModel.from_pretrained(name, num_hidden_layers=layer)
    finally:
        transformers.logging.set_verbosity(level)
        transformers.logging.enable_progress_bar()
    if config.is_encoder_decoder:
        model = model.get_encoder()
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.float().eval()


def _longest(tokenizer: Any, config: Any) -> int:
    """Tokens of a text at most. A tokenizer that was never told says a number beyond any memory."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and config.model_type in ("roberta", "xlm-roberta", "camembert"):
        positions -= 2  # the first two positions are those of padding
    known = [
        n for n in (tokenizer.model_max_length, positions) if n is not None and 0 < n < 100_000
    ]
    return int(min(known)) if known else _LONGEST


@lru_cache(maxsize=8)
def _model_hash(scorer: BertScorer) -> str:
    """12 hex digits of the weights and the tokenizer, as they are used."""
    digest = hashlib.sha256()
    for name, tensor in sorted(scorer._model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    backend = getattr(scorer._tokenizer, "backend_tokenizer", None)
    digest.update(backend.to_str().encode() if backend is not None else b"")
    return digest.hexdigest()[:12]
