"""How fast records are judged, end to end, beside what else could do it and beside the ceiling.

    python benchmarks/judging.py [--records 50000] [--rounds 2] [--no-peers] [--peers curator inspect_ai]

Everyone asks the same instant endpoint about the same records with the same prompts, one after another, each in a
process of its own; rounds are interleaved, and the best of each counts. A rate starts after the imports.

gavel       one shard, Parquet in, ledger and verdicts out, with the rubric of prompts/chat
openai      the bare transport of AsyncOpenAI over aiohttp, bodies of the same size, 64 in flight: the ceiling
curator     bespokelabs-curator, plain text in place of a schema (see peers/curator/client.py)
inspect_ai  with the schema; its answers are not even read (see peers/inspect_ai/client.py)

Peers judge fewer records, since it is a rate. They get the messages rendered. Prints a table, writes
benchmarks/results/judging.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environments import python_of
from processes import HERE, measured, served, verdict, write_results
from workload import body_bytes, chat_rubric, valid_answer, write_messages, write_shard

PEERS = {"curator": 10_000, "inspect_ai": 4_000}
"""Each peer and the most records it is given."""
TARGETS = {"openai": 0.6, "curator": 2.5, "inspect_ai": 12.0}
"""What Gavel's rate is to be at least, as a multiple of each other's."""

Run = Callable[[], dict[str, Any]]


def runs(folder: Path, base_url: str, records: int, peers: list[str]) -> dict[str, Run]:
    """What is to be measured, by name, each ready to run."""
    rubric = chat_rubric()
    write_shard(folder / "shard.parquet", records)
    write_messages(folder, rubric, min(records, max(PEERS.values())))

    def gavel() -> dict[str, Any]:
        shutil.rmtree(folder / "ledger", ignore_errors=True)
        return measured(HERE / "clients" / "judge_shard.py", [folder, base_url])

    def openai() -> dict[str, Any]:
        client = HERE / "clients" / "bare_openai.py"
        return measured(client, [base_url, records, body_bytes(rubric)])

    def peer(name: str, python: Path) -> dict[str, Any]:
        for kept in (name, "inspect"):
            shutil.rmtree(folder / kept, ignore_errors=True)
        client = HERE / "peers" / name / "client.py"
        return measured(client, [folder, base_url, min(records, PEERS[name])], python)

    found: dict[str, Run] = {"gavel": gavel, "openai": openai}
    for name in peers:
        try:
            python = python_of(name)
        except RuntimeError as error:
            print(f"{name} is left out: {error}")
        else:
            found[name] = lambda name=name, python=python: peer(name, python)
    return found


def interleaved(clients: dict[str, Run], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Every client once a round; one that fails is told about and left out."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in clients}
    for number in range(rounds):
        for name, run in clients.items():
            try:
                result = run()
            except RuntimeError as error:
                print(f"round {number + 1}, {name} failed: {error}", flush=True)
                continue
            found[name].append(result)
            print(f"round {number + 1}, {name}: {result['rate']:,.0f} records/s", flush=True)
    return {name: results for name, results in found.items() if results}


def best(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The run with the highest rate, with the least CPU time of any."""
    fastest = max(results, key=lambda result: result["rate"])
    return {**fastest, "cpu_ms": min(result["cpu_ms"] for result in results)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=[])
    options = parser.parse_args()
    with (
        served("instant_endpoint.py", json.dumps(valid_answer(chat_rubric()))) as base_url,
        tempfile.TemporaryDirectory(prefix="gavel-judging-") as name,
    ):
        clients = runs(Path(name), base_url, options.records, options.peers)
        every = interleaved(clients, options.rounds)
    table = {name: best(results) for name, results in every.items()}
    gavel = table["gavel"]
    print(
        f"\n{'':<11} {'records':>8} {'records/s':>10} {'CPU ms':>7} {'MiB':>6} {'gavel is':>9}  target"
    )
    for name, row in table.items():
        ratio = row["ratio"] = gavel["rate"] / row["rate"]
        row["cpu_ratio"] = row["cpu_ms"] / gavel["cpu_ms"]
        target = ""
        if name in TARGETS:
            row["target"], row["met"] = TARGETS[name], ratio >= TARGETS[name]
            target = f">= {TARGETS[name]:g}x: {verdict(row['met'])}"
        print(
            f"{name:<11} {row['records']:>8,} {row['rate']:>10,.0f} {row['cpu_ms']:>7.2f} "
            f"{row['peak_mib']:>6,.0f} {ratio:>8.2f}x  {target}"
        )
    write_results("judging", {"best": table, "rounds": every})


if __name__ == "__main__":
    main()
