"""SQL expressions that reading and cleaning share."""

from __future__ import annotations

import json
import re

import duckdb
from duckdb.sqltypes import VARCHAR

# A character that str.isspace() does not know; RE2's own \S means ASCII.
_VISIBLE = (
    r"[^\x09-\x0d\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)
# Years and offsets are bounded here: DuckDB alone would also take 1026, +25:00 and 10:00:60.
_ISO_8601 = (
    r"20\d\d-\d\d-\d\d"
    r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d+)?)?"
    r"( ?(UTC|GMT)|Z|[+-](0\d|1[0-4])(:?[0-5]\d)?)?)?"
)
_ISO_BASIC = r"20\d{6}(T([01]\d|2[0-3])[0-5]\d([0-5]\d([.,]\d+)?)?(Z|[+-](0\d|1[0-4])([0-5]\d)?)?)?"
_END_OF_DAY = r"20\d\d-?\d\d-?\d\d[T ]24:?00(:?00)?( ?(UTC|GMT)|Z|[+-](0\d|1[0-4])(:?[0-5]\d)?)?"
_FINITE = "gavel_finite"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_EPOCH = r"\d{9,16}(\.\d+)?"
_EPOCH_2000, _EPOCH_2100 = 946_684_800, 4_102_444_800


def literal(text: str) -> str:
    """`text` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def pointer(column: str) -> str:
    """The JSON pointer of a top-level `column`, as an SQL literal: exact whatever it holds."""
    return literal("/" + column.replace("~", "~0").replace("/", "~1"))


def decoded(rows: str) -> str:
    """A query that adds `text` to RAW `rows`: the row as text, null where it is not UTF-8."""
    return f"""
        SELECT *, CASE WHEN fault IS DISTINCT FROM 'invalid_utf8'
                       THEN coalesce(record, try(decode(content))) END AS text
        FROM {rows}"""


def documents(rows: str) -> str:
    """A query that adds `document` to RAW `rows`: the row as a JSON object, else null.

    The connection must have been through `prepare`.
    """
    return f"""
        SELECT *, CASE WHEN fault IS NULL AND json_valid(text)
                        AND regexp_matches(text, '^\\s*\\{{')
                       THEN CASE WHEN contains(text, 'NaN') OR contains(text, 'Infinity')
                                 THEN {_FINITE}(text) ELSE text END END AS document
        FROM ({decoded(rows)})"""


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Give `connection` the function that `documents` needs."""
    connection.create_function(_FINITE, _finite, [VARCHAR], VARCHAR)


def _finite(text: str) -> str | None:
    """The JSON `text` with null for NaN and Infinity, which Python writes for a missing number.

    They are not JSON, yet DuckDB reads them; kept, they would break every strict reader to come.
    """
    if not re.search("NaN|Infinity", _STRING.sub("", text)):
        return text
    try:
        return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def filled(value: str) -> str:
    """The SQL expression `value` verbatim, null where it holds nothing but white space."""
    return f"CASE WHEN regexp_matches({value}, {literal(_VISIBLE)}) THEN {value} END"


def instant(text: str) -> str:
    """The SQL expression `text` as TIMESTAMPTZ; null where it is malformed or not in 2000-2099.

    Accepted: ISO 8601, extended or basic, with any offset (none: the session's time zone; of an hour
    that a clock change repeats, the second), `T` or a space, a date alone (midnight), 24:00, and epoch
    seconds, milliseconds or microseconds, told apart by their size.
    """
    bare = f"trim({text})"
    number = f"TRY_CAST({bare} AS DECIMAL(28, 9))"
    by_unit = " ".join(
        f"WHEN {number} >= {_EPOCH_2000 * units} AND {number} < {_EPOCH_2100 * units} "
        f"THEN make_timestamptz(CAST(round({number} * {1_000_000 // units}) AS BIGINT))"
        for units in (1, 1_000, 1_000_000)
    )
    midnight = f"regexp_replace({bare}, '24:?00(:?00)?', '00:00')"
    return f"""CASE
        WHEN regexp_full_match({bare}, {literal(_ISO_8601)})
        THEN TRY_CAST(replace({bare}, ',', '.') AS TIMESTAMPTZ)
        WHEN regexp_full_match({bare}, {literal(_EPOCH)}) THEN CASE {by_unit} END
        WHEN regexp_full_match({bare}, {literal(_ISO_BASIC)})
        THEN TRY_CAST({_extended(f"replace({bare}, ',', '.')")} AS TIMESTAMPTZ)
        WHEN regexp_full_match({bare}, {literal(_END_OF_DAY)})
        THEN TRY_CAST({_extended(midnight)} AS TIMESTAMPTZ) + INTERVAL 1 DAY END"""


def _extended(text: str) -> str:
    """The SQL expression `text`, in ISO 8601's basic format, in its extended one."""
    for basic, extended in (
        (r"^(\d{4})(\d\d)(\d\d)", r"\1-\2-\3"),
        (r"T(\d\d)(\d\d)(\d\d)", r"T\1:\2:\3"),
        (r"T(\d\d)(\d\d)", r"T\1:\2"),
    ):
        text = f"regexp_replace({text}, {literal(basic)}, {literal(extended)})"
    return text
