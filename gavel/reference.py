"""Prints docs/tables.md: `python -m gavel.reference > docs/tables.md`. A test holds the two equal."""

from __future__ import annotations

from collections.abc import Mapping

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
from gavel.fashion.actions import FAILURES as FASHION_FAILURES
from gavel.fashion.conversation import OUTCOMES
from gavel.fashion.dataset import DATASET, SIMULATED, STATISTICS
from gavel.fashion.goals import SCHEMA as GOALS
from gavel.fashion.leaderboard import FIGURES as FASHION_FIGURES
from gavel.fashion.leaderboard import STANDINGS as FASHION_STANDINGS
from gavel.fashion.scores import RESULTS as FASHION_RESULTS
from gavel.fashion.verify import GROUNDS
from gavel.fashion.verify import SCHEMA as VERIFIED
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
        "fashion/goals": GOALS,
        "fashion/simulated": SIMULATED,
        "fashion/verified, fashion/removed": VERIFIED,
        "fashion/conversations": DATASET,
        "fashion/statistics": STATISTICS,
        "fashion/results": FASHION_RESULTS,
        "fashion/leaderboard": FASHION_STANDINGS,
        "ledger": LEDGER,
    }
    return f"""# Tables and reason codes

Every table is Parquet under the suite's `store`, one file a partition: `chat/verdicts/2026-11-02/0.parquet` is the
shard 0 of the day. Verdicts and scores have, besides the columns below, one nullable column a dimension
(double) and a label (string) of the rubric.

When a day is judged anew from an empty ledger, these columns differ and all others are equal:
{", ".join(f"`{name}`" for name in VOLATILE)}.

The warehouse holds the valid scores of every published day: `restricted.{{task}}_scores` with every column, and
the view `{{task}}_scores` without free text and customer names, for wide access. In BigQuery these are two tables
in datasets of their own: `{{task}}_scores` without free text, and `{{task}}_texts` with it, by `day` and `row_id`.

## Faults: why a verdict is invalid

| code | meaning |
|---|---|
{_codes(FAULTS)}

## Reasons: why a source row is no record

| code | meaning |
|---|---|
{_codes(REASONS)}

## Reasons: why a label is not used

| code | meaning |
|---|---|
{_codes(UNUSABLE)}

## Reasons: why a record goes to the larger evaluator

| code | meaning |
|---|---|
{_codes(ESCALATIONS)}

## Failures: why a dialogue of the benchmark failed

| code | meaning |
|---|---|
{_codes(FAILURES)}

## Failures: what a party of a fashion conversation did wrong

| code | meaning |
|---|---|
{_codes(FASHION_FAILURES)}

## Outcomes: how a fashion conversation ended

| code | meaning |
|---|---|
{_codes(OUTCOMES)}

## Grounds: why a fashion conversation was removed

| code | meaning |
|---|---|
{_codes(GROUNDS)}

## Figures of the fashion leaderboard

| figure | meaning |
|---|---|
{_codes(FASHION_FIGURES)}

{reference(tables)}"""


def _codes(meanings: Mapping[str, str]) -> str:
    """One row of Markdown a code."""
    return "\n".join(f"| `{code}` | {meaning} |" for code, meaning in meanings.items())


if __name__ == "__main__":
    print(tables_page(), end="")
