"""How fast one system's MultiWOZ predictions are evaluated, against the same definition written plainly.

    python benchmarks/dialogue.py [SYSTEM ...]

Needs the MultiWOZ files (goals, references, states, databases, predictions) in $GAVEL_TEST_DATA/multiwoz
or ../shared/data/multiwoz. Both sides evaluate the whole file once, each in a process of its own that has
loaded the corpus, the predictions and every library, with nothing kept from before. Ours makes both
readings, the plain one only the reference's. The sides take turns, --rounds times, and the shortest time of
each counts: what else the machine does can only add. Both the clock's times and the processor's are
told, so that a busy machine can be told from a slower program. Prints a table and writes
benchmarks/results/dialogue.json; ends with 1 where a figure differs or the processor's ratio is below the target.
"""

from __future__ import annotations

import argparse
import gc
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
CLOCKS = ("seconds", "processor")


def measure(side: str, system: str) -> dict[str, Any]:
    """Evaluate `system` once in this process."""
    import plain_multiwoz
    import sacrebleu  # noqa: F401
    import sacremoses  # noqa: F401

    from gavel.dialogue.figures import FIGURES, value
    from gavel.dialogue.loading import load_corpus
    from gavel.dialogue.multiwoz import evaluate
    from gavel.dialogue.predictions import read_predictions
    from gavel.settings.dialogue import DialogueOptions

    corpus = load_corpus(DATA)
    predictions = read_predictions(DATA / "predictions" / f"{system}.json")
    turns = sum(map(len, predictions.dialogues.values()))
    gc.collect()  # what loading has left behind is nobody's evaluation
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
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is timed")
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "SYSTEM"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(*chosen.measure)))
        return 0
    if not DATA.exists():
        print(f"the MultiWOZ files are not there: {DATA}; set GAVEL_TEST_DATA", file=sys.stderr)
        return 2
    results = []
    print(f"{'':<10}{'':>7}{'by the clock, s':>22}{'':>8}{'of the processor, s':>24}")
    print(
        f"{'system':<10}{'turns':>7}" + f"{'plain':>12}{'gavel':>10}{'times':>9}" * 2 + "   figures"
    )
    for system in chosen.systems:
        runs: dict[str, list[dict[str, Any]]] = {"plain": [], "gavel": []}
        for _ in range(chosen.rounds):
            for side, measured in runs.items():
                measured.append(in_a_process(side, system))
        result = compared(system, runs)
        results.append(result)
        print(
            f"{system:<10}{result['turns']:>7,}"
            + "".join(
                f"{result['plain'][clock]:>12.2f}{result['gavel'][clock]:>10.3f}"
                f"{result['times'][clock]:>8.1f}x"
                for clock in CLOCKS
            )
            + ("   equal" if result["equal"] else "   DIFFERENT")
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"target": TARGET, "systems": results}, indent=1) + "\n")
    reached = all(result["times"]["processor"] >= TARGET for result in results)
    return 0 if reached and all(result["equal"] for result in results) else 1


def compared(system: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The shortest times of both sides, how many times shorter ours are, and whether figures are equal."""
    best = {
        side: {clock: min(run[clock] for run in measured) for clock in CLOCKS}
        for side, measured in runs.items()
    }
    plain, own = runs["plain"][0], runs["gavel"][0]
    return {
        "system": system,
        "turns": own["turns"],
        "rounds": len(runs["plain"]),
        **best,
        "times": {clock: best["plain"][clock] / best["gavel"][clock] for clock in CLOCKS},
        "equal": all(
            abs(own["figures"][name] - value) < 1e-6 for name, value in plain["figures"].items()
        ),
        "figures": own["figures"],
    }


if __name__ == "__main__":
    sys.exit(main())
