"""Verdicts that need not be made again: same signature, same content, every answer still in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from gavel.inference.ask import Asked
from gavel.inference.ledger import segments
from gavel.judge.evaluate import Judged
from gavel.judge.tables import VOLATILE
from gavel.store.manifests import read_manifest
from gavel.store.tables import content_hash, count_rows, fetch, quoted


def kept_verdicts(path: Path, signature: Mapping[str, str], ledger: Path) -> Judged | None:
    """What the verdicts at `path` say, if making them again could only give the same; None otherwise.

    Without an answer in `ledger` they are made anew: taking answers away is how a person asks for that.
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
    if unanswered:
        return None
    rows = count_rows([path], "true")
    faults = fetch(f"""
        SELECT fault, count(*)
        FROM (SELECT row_id, unnest(list_distinct(faults)) AS fault FROM read_parquet({quoted(path)}))
        GROUP BY fault
    """)
    valid = count_rows([path], "status = 'valid'")
    return Judged(Asked(requests=rows, known=rows), rows, valid, Counter(dict(faults)))
