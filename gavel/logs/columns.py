"""Which column of a source holds which field of a record."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from gavel.errors import SourceError
from gavel.settings.logs import Source
from gavel.suite import Suite

SYNONYMS: dict[str, tuple[str, ...]] = {
    "record_id": ("message_id", "turn_id", "interaction_id", "event_id", "uuid", "id"),
    "user_id": ("customer_id", "visitor_id", "client_id", "uid", "user", "customer"),
    "conversation_id": (
        "session_id",
        "dialogue_id",
        "dialog_id",
        "chat_id",
        "thread_id",
        "conversation",
        "session",
    ),
    "context_id": ("context_name", "context"),
    "start_time": (
        "start_timestamp",
        "started_at",
        "request_time",
        "created_at",
        "event_time",
        "timestamp",
        "ts",
    ),
    "end_time": ("end_timestamp", "ended_at", "finished_at", "completed_at", "responded_at"),
    "task": ("task_name", "task_type", "evaluation_task"),
    "prompt": (
        "question",
        "query",
        "user_message",
        "customer_message",
        "user_query",
        "user_input",
        "input",
    ),
    "response": (
        "answer",
        "reply",
        "bot_response",
        "agent_response",
        "assistant_message",
        "bot_message",
        "completion",
        "output",
    ),
    "reference": (
        "reference_answer",
        "reference_response",
        "expected_response",
        "expected_answer",
        "ground_truth",
    ),
    "source_text": ("original_text", "source_sentence"),
    "language": ("lang", "language_code", "locale"),
    "input_source": ("channel", "input_channel"),
    "out_of_coverage": ("is_out_of_coverage", "ooc", "out_of_scope"),
    "tool_used": ("tool_name", "tools_used", "tool"),
    "agent_version": ("bot_version", "assistant_version", "version"),
    "retail_info": ("retail_data", "product_info"),
}
"""The fields that a source can fill, each with its usual other names, the likeliest first.

Case and punctuation do not matter: `sessionId` and `Session-ID` are read as `session_id`.
"""

REQUIRED = ("user_id", "conversation_id", "start_time", "prompt", "response")
"""The fields without which no row of a source can become a record; `task` may be a setting."""


def assign(
    source: Source, found: Collection[str], where: str, suite: Suite
) -> dict[str, list[str]]:
    """The columns among `found` that hold each field, the preferred one first.

    An explicit entry of the source's `columns` is the only column of its field and of no other
    field. Where several names of a field are in one source, a row takes the first that it fills.
    Fields without any column are left out. `where` tells in an error what was searched.

    Raises:
        SourceError: `columns` names a field that does not exist, or a column that is not found.
    """
    place = f"{suite.file}: sources.{source.name}.columns"
    for field, column in source.columns.items():
        if field not in SYNONYMS:
            raise SourceError(
                f"{place}: {field!r} is not a field of a record; accepted: {', '.join(SYNONYMS)}"
            )
        if column not in found:
            raise SourceError(
                f"{place}.{field}: there is no column {column!r} in {where}; "
                f"name one of those found: {_listed(found)}"
            )
    claimed = set(source.columns.values())
    by_name: dict[str, list[str]] = {}
    for column in sorted(set(found) - claimed):
        by_name.setdefault(_plain(column), []).append(column)
    assigned: dict[str, list[str]] = {}
    for field, synonyms in SYNONYMS.items():
        if field in source.columns:
            assigned[field] = [source.columns[field]]
        elif columns := [c for s in (field, *synonyms) for c in by_name.get(_plain(s), [])]:
            assigned[field] = columns
    return assigned


def check_header(source: Source, header: Collection[str], file: str, suite: Suite) -> None:
    """Check that rows under `header` can become records.

    Raises:
        SourceError: a needed column is missing, or one is named twice.
    """
    names = list(header)
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise SourceError(
            f"{file}: the header repeats the column {_listed(repeated)}; give each its own name"
        )
    place = f"{suite.file}: sources.{source.name}"
    if source.date_column is not None and source.date_column not in names:
        raise SourceError(
            f"{place}.date_column: there is no column {source.date_column!r} in {file}; "
            f"name one of those found: {_listed(names)}"
        )
    assigned = assign(source, names, file, suite)
    needed = REQUIRED if source.task is not None else (*REQUIRED, "task")
    for field in needed:
        if field not in assigned:
            raise SourceError(
                f"{place}.columns.{field}: no column of {file} is known to hold the {field}; "
                f"name one of those found: {_listed(names)}"
                + (" (or set the source's task)" if field == "task" else "")
            )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(names: Iterable[str], most: int = 40) -> str:
    """`names` in order for an error message, cut short where they are very many."""
    shown = sorted(names)
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return (", ".join(shown[:most]) or "none") + rest
