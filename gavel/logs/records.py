"""The SQL that reads source rows as records: fields found, types coerced, faults named."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from gavel.logs.columns import SYNONYMS, assign
from gavel.logs.expressions import documents, filled, instant, literal, pointer
from gavel.logs.schema import REASONS
from gavel.settings.logs import Source
from gavel.suite import Suite

BIT = {reason: 1 << i for i, reason in enumerate(REASONS)}
"""A row's faults are one number while it is cleaned: the sum of its reasons' bits."""

ROW_ID = "left(sha256(source || chr(31) || record_id), 32)"
"""The SQL expression of a record's row_id."""

_TRUE = "(?i)true|t|yes|y|1|on"
_FALSE = "(?i)false|f|no|n|0|off"


class Records:
    """The SQL that reads one source's rows as records, given the columns `found` in them."""

    def __init__(
        self, source: Source, found: list[str], suite: Suite, tasks: Sequence[str]
    ) -> None:
        self.source = source
        # Where no row can be read at all, a missing column is not what is wrong.
        where = f"any row of {source.path}"
        self.assigned = assign(source, found, where, suite) if found else {}
        self.columns = [column for columns in self.assigned.values() for column in columns]
        self.found = found
        self.tasks = ", ".join(map(literal, tasks)) or "NULL"

    def query(self, columns: str) -> str:
        """A query of `columns` of the source's rows in the view `raw` (RAW and `position`).

        There are all of CLEAN's columns, `position`, and `faults`: the sum of the bits of the
        reasons for which the row by itself is no record, so without duplicate_record_id. Rows keep
        their order.
        """
        own = f"(SELECT * FROM raw WHERE source = {literal(self.source.name)})"
        paths = ", ".join(map(pointer, self.columns))
        values = f"json_extract_string(document, [{paths}]::VARCHAR[])"
        return f"""
            SELECT {columns} FROM (
                SELECT *, {ROW_ID} AS row_id,
                       CAST(start_time AS DATE) AS created_date, {self._faults()} AS faults,
                       nullif(rest, '{{}}') AS extra
                FROM (SELECT *, {self._rest()} AS rest FROM (
                    SELECT * EXCLUDE (record_id, task, retail_info),
                           {_boolean("coverage_text")} AS out_of_coverage,
                           {instant("start_text")} AS start_time,
                           {instant("end_text")} AS end_time,
                           CASE WHEN document IS NOT NULL
                                THEN coalesce(record_id, 'content-' || md5(content))
                                END AS record_id,
                           coalesce(task, {self._default_task()}) AS task,
                           CASE WHEN json_valid(retail_info) THEN retail_info
                                ELSE CAST(to_json(retail_info) AS VARCHAR) END AS retail_info
                    FROM (
                        SELECT * EXCLUDE (record, cells)
                                 RENAME (file AS source_file, line AS source_line),
                               {self._texts()}
                        FROM (SELECT *, {values} AS cells FROM ({documents(own)}))))))"""

    def _texts(self) -> str:
        """Every field as text, null where it is blank."""
        renamed = {
            "start_time": "start_text",
            "end_time": "end_text",
            "out_of_coverage": "coverage_text",
        }
        place = {column: i for i, column in enumerate(self.columns, start=1)}
        texts = []
        for field in SYNONYMS:
            cells = [filled(f"cells[{place[column]}]") for column in self.assigned.get(field, [])]
            text = f"coalesce({', '.join(cells)})" if cells else "CAST(NULL AS VARCHAR)"
            texts.append(f"{text} AS {renamed.get(field, field)}")
        return ", ".join(texts)

    def _default_task(self) -> str:
        return "NULL" if self.source.task is None else literal(self.source.task)

    def _faults(self) -> str:
        conditions = {
            "empty_prompt": "prompt IS NULL",
            "empty_response": "response IS NULL",
            "missing_user_id": "user_id IS NULL",
            "missing_conversation_id": "conversation_id IS NULL",
            "malformed_timestamp": (
                "start_time IS NULL OR (end_text IS NOT NULL AND end_time IS NULL)"
            ),
            "end_before_start": "coalesce(end_time < start_time, false)",
            "unknown_task": f"coalesce(task NOT IN ({self.tasks}), true)",
        }
        total = " + ".join(
            f"CASE WHEN {condition} THEN {BIT[reason]} ELSE 0 END"
            for reason, condition in conditions.items()
        )
        return f"""CAST(CASE WHEN text IS NULL THEN {BIT["invalid_utf8"]}
            WHEN document IS NULL THEN {BIT["unparseable_line"]}
            ELSE {total} END AS SMALLINT)"""

    def _rest(self) -> str:
        """The document without the columns that were taken.

        Of several columns of one field only the preferred one was taken for certain, and a truth
        value that is not understood was not taken at all: these stay, so that nothing is lost.
        """
        taken = {columns[0]: field for field, columns in self.assigned.items()}
        rest = "NULL" if set(self.found) <= set(taken) else _without(list(taken))
        without_truth = [column for column, field in taken.items() if field != "out_of_coverage"]
        if len(without_truth) == len(taken):
            return f"CAST({rest} AS VARCHAR)"
        return f"""CASE WHEN coverage_text IS NOT NULL AND out_of_coverage IS NULL
            THEN {_without(without_truth)} ELSE {rest} END"""


def _without(columns: list[str]) -> str:
    """SQL for the document without `columns`: in a JSON merge patch, null takes a key away."""
    patch = orjson.dumps(dict.fromkeys(columns)).decode()
    return f"CAST(json_merge_patch(document, {literal(patch)}) AS VARCHAR)"


def _boolean(text: str) -> str:
    return f"""CASE WHEN regexp_full_match(trim({text}), {literal(_TRUE)}) THEN true
                    WHEN regexp_full_match(trim({text}), {literal(_FALSE)}) THEN false END"""
