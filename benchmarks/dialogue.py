"""How fast one system's MultiWOZ predictions are evaluated, against the same definition written plainly.

    python benchmarks/dialogue.py [SYSTEM ...]

Needs the MultiWOZ files (goals, references, states, databases, predictions) in $GAVEL_TEST_DATA/multiwoz
or ../shared/data/multiwoz. Both sides evaluate the whole file once, each in a process of its own that has
loaded the corpus, the predictions and every library, with nothing kept from before; times are of the
processor, since the machine may have other things to do. Ours makes both readings, the plain one only the
reference's. Prints a table and writes benchmarks/results/dialogue.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("GAVEL_TEST_DATA") or ROOT.parent / "shared" / "data") / "multiwoz"
RESULTS = Path(__file__).parent / "results" / "dialogue.json"
DOMAINS = {"ubar": "state", "soloist": "slots", "dots": "state", "labes": "state"}
TARGET = 20
REPEATS = 3


def measure(side: str, system: str) -> dict[str, Any]:
    """Evaluate `system` once in this process."""
    import plain_multiwoz
    import sacrebleu  # noqa: F401
    import sacremoses  # noqa: F401

    from gavel.dialogue.figures import FIGURES, value
    from gavel.dialogue.loading import load_corpus
    from gavel.dialogue.multiwoz import evaluate
    from gavel.dialogue.predictions import read_predictions
    from gavel.suite import DialogueOptions

    corpus = load_corpus(DATA)
    predictions = read_predictions(DATA / "predictions" / f"{system}.json")
    turns = sum(map(len, predictions.dialogues.values()))
    started, processor = time.perf_counter(), time.process_time()
    if side == "plain":
        figures = plain_multiwoz.evaluate(predictions, corpus, DOMAINS[system])
    else:
        options = DialogueOptions(active_domains=DOMAINS[system])
        rows = evaluate(predictions, corpus, options).rows
        reference = [row for row in rows if row["reading"] == "reference"]
        figures = {
            figure.name: value(figure, reference)
            for figure in FIGURES
            if figure.name in ("inform", "success", "bleu", "joint_goal", "slot_f1")
            and figure.track == "multiwoz"
        }
    return {
        "turns": turns,
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - processor,
        "figures": figures,
    }


def in_a_process(side: str, system: str) -> dict[str, Any]:
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", side, system],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=["ubar", "soloist"])
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "SYSTEM"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(*chosen.measure)))
        return 0
    if not DATA.exists():
        print(f"the MultiWOZ files are not there: {DATA}; set GAVEL_TEST_DATA", file=sys.stderr)
        return 2
    results, equal = [], True
    print(f"{'system':<10}{'turns':>7}{'plain, s':>10}{'gavel, s':>10}{'times':>8}   figures")
    for system in chosen.systems:
        plain = in_a_process("plain", system)
        # The shortest of a few: what else the machine does can only add.
        own = min(
            (in_a_process("gavel", system) for _ in range(REPEATS)), key=lambda r: r["processor"]
        )
        same = all(
            abs(own["figures"][name] - value) < 1e-6 for name, value in plain["figures"].items()
        )
        equal &= same
        times = plain["processor"] / own["processor"]
        results.append({"system": system, "plain": plain, "gavel": own, "times": times})
        print(
            f"{system:<10}{own['turns']:>7,}{plain['processor']:>10.2f}{own['processor']:>10.2f}"
            f"{times:>7.1f}x   {'equal' if same else 'DIFFERENT'}"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"target": TARGET, "systems": results}, indent=1) + "\n")
    return 0 if equal and all(result["times"] >= TARGET for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
