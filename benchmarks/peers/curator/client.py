"""bespokelabs-curator: ask every message of FOLDER at BASE_URL, RECORDS of them, 256 in flight.

Its openai backend takes no json_schema for a model it does not know, so it asks in plain text, with a
body a quarter shorter. Its limits are lifted. Its tokeniser, which it downloads, is replaced by a
count of characters, which is faster. Each answer is parsed as JSON and not validated.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.update(
    OPENAI_API_KEY="none",
    TELEMETRY_ENABLED="false",
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    LITELLM_LOCAL_MODEL_COST_MAP="True",
)

import tiktoken


class _Characters:
    """Stands in for a tiktoken encoding."""

    def encode(self, text: str, **_: Any) -> range:
        return range(len(text) // 4)


tiktoken.get_encoding = lambda name: _Characters()
tiktoken.encoding_for_model = lambda name: _Characters()

from bespokelabs import curator  # noqa: E402

# Loaded at first use otherwise, which takes seconds that no record should be charged with.
from bespokelabs.curator.request_processor.online import (  # noqa: E402
    openai_online_request_processor,  # noqa: F401
)
from datasets import Dataset  # noqa: E402
from meter import Meter  # noqa: E402

_UNLIMITED = 10**9


class Judge(curator.LLM):
    """One answer a message, as a row."""

    def prompt(self, input: dict[str, Any]) -> list[dict[str, str]]:
        return [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": input["user"]},
        ]

    def parse(self, input: dict[str, Any], response: str) -> dict[str, Any]:
        return {"number": input["number"], **json.loads(response)}


def main(folder: Path, base_url: str, records: int) -> None:
    meter = Meter()
    with (folder / "users.jsonl").open() as lines:
        rows = [
            {"number": number, "user": json.loads(line)}
            for number, line in enumerate(islice(lines, records))
        ]
    judge = Judge(
        model_name=QUESTION["model"],
        backend="openai",
        generation_params={"temperature": 0.005, "max_tokens": 1024, "seed": 7},
        backend_params={
            "base_url": base_url,
            "max_requests_per_minute": _UNLIMITED,
            "max_tokens_per_minute": _UNLIMITED,
            "max_concurrent_requests": 256,
        },
    )
    answers = judge(Dataset.from_list(rows), working_dir=str(folder / "curator")).dataset
    answers.to_parquet(str(folder / "curator.parquet"))
    assert len(answers) == records, f"{len(answers)} of {records} answers"
    meter.report(len(answers))


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    QUESTION = json.loads((FOLDER / "question.json").read_text())
    SYSTEM = QUESTION["system"]
    main(FOLDER, sys.argv[2], int(sys.argv[3]))
