"""Prints docs/tables.md: `python -m gavel.reference > docs/tables.md`. A test holds the two equal."""

from __future__ import annotations

from gavel.alignment.schema import FIGURES, LABELS, SAMPLE
from gavel.alignment.schema import REASONS as UNUSABLE
from gavel.benchmark.pairs import PAIRS
from gavel.benchmark.ranking import RANKING
from gavel.benchmark.records import benchmark_schema
from gavel.benchmark.table import COMPARISONS as TESTS
from gavel.benchmark.table import TABLE
from gavel.columns import reference
from gavel.dialogue.inform import REASONS as FAILURES
from gavel.dialogue.leaderboard import COMPARISONS, STANDINGS
from gavel.dialogue.results import SCHEMA as RESULTS
from gavel.inference.ledger import SCHEMA as LEDGER
from gavel.judge.escalation import REASONS as ESCALATIONS
from gavel.judge.rubric import Rubric
from gavel.judge.tables import VOLATILE, opinion_schema, score_schema, verdict_schema
from gavel.judge.verdicts import FAULTS
from gavel.logs.schema import CLEAN, RAW, REASONS, REJECTED, SHARD
from gavel.report.audit import EVENTS
from gavel.report.quality import SCHEMA as QUALITY


def tables_page() -> str:
    """The reference of tables and reason codes."""
    bare = Rubric("", 1, "", True, (), (), {})
    codes = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in FAULTS.items())
    reasons = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in REASONS.items())
    unusable = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in UNUSABLE.items())
    escalations = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in ESCALATIONS.items())
    failed = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in FAILURES.items())
    tables = {
        "logs/raw": RAW,
        "logs/clean": CLEAN,
        "logs/rejected": REJECTED,
        "{task}/shards": SHARD,
        "{task}/verdicts, {task}/invalid, {task}/regenerated": verdict_schema(bare),
        "{task}/opinions": opinion_schema(bare),
        "{task}/scores": score_schema(bare, list(CLEAN)),
        "{task}/quality": QUALITY,
        "audit/events": EVENTS,
        "alignment/labels": LABELS,
        "alignment/sample": SAMPLE,
        "alignment/metrics, alignment/calibration": FIGURES,
        "benchmark/records": SHARD,
        "benchmark/verdicts, benchmark/preferences": benchmark_schema([bare]),
        "benchmark/table": TABLE,
        "benchmark/comparisons": TESTS,
        "benchmark/pairs": PAIRS,
        "benchmark/ranking": RANKING,
        "dialogue/results": RESULTS,
        "dialogue/leaderboard": STANDINGS,
        "dialogue/comparisons": COMPARISONS,
        "ledger": LEDGER,
    }
    return f"""# Tables and reason codes

Every table is Parquet under the suite's `store`, one file a partition: `chat/verdicts/2026-11-02/0.parquet` is the
shard 0 of the day. Verdicts and scores have, besides the columns below, one nullable column a dimension
(double) and a label (string) of the rubric.

When a day is judged anew from an empty ledger, these columns differ and all others are equal:
{", ".join(f"`{name}`" for name in VOLATILE)}.

The warehouse holds the valid scores of every published day: `restricted.{{task}}_scores` with every column, and
the view `{{task}}_scores` without free text and customer names, for wide access.

## Faults: why a verdict is invalid

| code | meaning |
|---|---|
{codes}

## Reasons: why a source row is no record

| code | meaning |
|---|---|
{reasons}

## Reasons: why a label is not used

| code | meaning |
|---|---|
{unusable}

## Reasons: why a record goes to the larger evaluator

| code | meaning |
|---|---|
{escalations}

## Failures: why a dialogue of the benchmark failed

| code | meaning |
|---|---|
{failed}

{reference(tables)}"""


if __name__ == "__main__":
    print(tables_page(), end="")
