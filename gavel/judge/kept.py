"""Verdicts that need not be made again: same signature, same content, every answer still in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from gavel.inference.ask import Asked
from gavel.inference.ledger import ON_ITS_WAY, segments
from gavel.judge.evaluate import Judged
from gavel.judge.tables import VOLATILE
from gavel.store.manifests import read_manifest
from gavel.store.tables import content_hash, count_rows, fetch, quoted


def kept_verdicts(
    path: Path, signature: Mapping[str, str], ledger: Path, regenerated: Path
) -> Judged | None:
    """What the verdicts at `path` say, if making them again could only give the same; None otherwise.

    Without an answer in `ledger` they are made anew: taking answers away is how a person asks for that. So are
    they where a request failed on its way and `regenerated` has not repaired it: now there may be an answer.
    """
    manifest = read_manifest(path.with_suffix(".json"))
    if manifest is None or dict(manifest.signature) != dict(signature) or not path.exists():
        return None
    files = segments(ledger)
    if not files or manifest.figures.get("content") != content_hash(path, VOLATILE):
        return None
    unanswered = fetch(f"""
        SELECT count(*) FROM read_parquet({quoted(path)}) v
        ANTI JOIN read_parquet({quoted(*files)}) a USING (request_hash, attempt)
    """)[0][0]
    if unanswered or _lost(path, regenerated):
        return None
    rows = count_rows([path], "true")
    faults = fetch(f"""
        SELECT fault, count(*)
        FROM (SELECT row_id, unnest(list_distinct(faults)) AS fault FROM read_parquet({quoted(path)}))
        GROUP BY fault
    """)
    valid = count_rows([path], "status = 'valid'")
    return Judged(Asked(requests=rows, known=rows), rows, valid, Counter(dict(faults)))


def _lost(path: Path, regenerated: Path) -> int:
    """How many verdicts have no answer but a failure on its way, and none since."""
    repaired = (
        f"SELECT row_id FROM read_parquet({quoted(regenerated)}) WHERE status = 'valid'"
        if regenerated.exists()
        else "SELECT NULL::VARCHAR AS row_id WHERE false"
    )
    return int(
        fetch(
            f"SELECT count(*) FROM read_parquet({quoted(path)}) v ANTI JOIN ({repaired}) r USING (row_id) "
            f"WHERE list_has_any(faults, {list(ON_ITS_WAY)})"
        )[0][0]
    )
