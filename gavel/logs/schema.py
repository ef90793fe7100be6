"""The columns of the log tables and the reasons a row is rejected for."""

from __future__ import annotations

import pyarrow as pa

REASONS: dict[str, str] = {
    "empty_prompt": "the customer's prompt is missing or holds only white space",
    "empty_response": "the agent's response is missing or holds only white space",
    "missing_user_id": "the user id is missing or holds only white space",
    "missing_conversation_id": "the conversation id is missing or holds only white space",
    "malformed_timestamp": (
        "the start time is missing, or a time is neither ISO 8601 nor an epoch number "
        "from 2000 to 2099"
    ),
    "end_before_start": "the end time is earlier than the start time",
    "duplicate_record_id": "another row of the source and the day has the record id already",
    "unparseable_line": "the row is no JSON object, or its CSV fields do not match the header",
    "invalid_utf8": "the row's bytes are not UTF-8 text",
    "unknown_task": "the task is missing or is not one of the suite's tasks",
}
"""Every reason code and what it means, in the order in which a row's reasons are listed."""

UTC = pa.timestamp("us", tz="UTC")

RAW = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("content", pa.binary(), nullable=False),
        pa.field("record", pa.string()),
        pa.field("fault", pa.string()),
    ]
)
"""Source rows verbatim, ordered by source, file and line.

`line` counts from 1: the line where the row starts, or the row of a Parquet file. `content` is the
row's bytes without the line end (of a Parquet row, the bytes of `record`). `record` is the row as a
JSON object where the source is not JSON itself. `fault` is the reason code that reading found.
"""

CLEAN = pa.schema(
    [
        pa.field("row_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("user_id", pa.string(), nullable=False),
        pa.field("conversation_id", pa.string(), nullable=False),
        pa.field("context_id", pa.string()),
        pa.field("start_time", UTC, nullable=False),
        pa.field("end_time", UTC),
        pa.field("created_date", pa.date32(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("response", pa.string(), nullable=False),
        pa.field("reference", pa.string()),
        pa.field("source_text", pa.string()),
        pa.field("language", pa.string()),
        pa.field("input_source", pa.string()),
        pa.field("out_of_coverage", pa.bool_()),
        pa.field("tool_used", pa.string()),
        pa.field("agent_version", pa.string()),
        pa.field("retail_info", pa.string()),
        pa.field("extra", pa.string()),
        pa.field("source_file", pa.string(), nullable=False),
        pa.field("source_line", pa.int64(), nullable=False),
    ]
)
"""Canonical records, in the order of RAW.

`row_id` is the first 32 hex digits of SHA-256 of the source's name, U+001F and the record id.
`created_date` is the date of `start_time` in the suite's time zone. `retail_info` and `extra` are
JSON text; `extra` is a JSON object of the source columns that no other field took.
"""

REJECTED = pa.schema(
    [
        pa.field("row_id", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("record_id", pa.string()),
        pa.field("source_file", pa.string(), nullable=False),
        pa.field("source_line", pa.int64(), nullable=False),
        pa.field("reasons", pa.list_(pa.string()), nullable=False),
        pa.field("content", pa.binary(), nullable=False),
        pa.field("content_text", pa.string(), nullable=False),
    ]
)
"""Rows that are no records, in the order of RAW, with every reason that holds, in its order.

`content` is verbatim; `content_text` is it for display, each byte that is not UTF-8 replaced.
"""

SHARD = pa.schema(
    [
        *CLEAN,
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("shard_row", pa.int64(), nullable=False),
    ]
)
"""One task's records of one shard; `shard_row` counts from 0 without gaps."""
