"""inspect_ai: ask every message of FOLDER at BASE_URL, RECORDS of them, with a json_schema.

max_connections 256, display none, its log written as it comes by default. No scorer: it does not even
read the answers.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path

os.environ["OPENAI_API_KEY"] = "none"

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, ResponseSchema
from inspect_ai.solver import generate
from inspect_ai.util import JSONSchema
from meter import Meter


def main(folder: Path, base_url: str, records: int) -> None:
    meter = Meter()
    question = json.loads((folder / "question.json").read_text())
    system = ChatMessageSystem(content=question["system"])
    with (folder / "users.jsonl").open() as lines:
        samples = [
            Sample(id=n, input=[system, ChatMessageUser(content=json.loads(line))])
            for n, line in enumerate(islice(lines, records))
        ]
    schema = ResponseSchema(
        name="chat", json_schema=JSONSchema.model_validate(question["schema"]), strict=True
    )
    task = Task(
        dataset=MemoryDataset(samples),
        solver=generate(),
        config=GenerateConfig(
            temperature=0.005, max_tokens=1024, seed=7, response_schema=schema, max_connections=256
        ),
    )
    (log,) = eval(
        task,
        model=f"openai-api/instant/{question['model']}",
        model_base_url=base_url,
        model_args={"api_key": "none"},
        display="none",
        log_dir=str(folder / "inspect"),
        max_samples=256,
    )
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.results.completed_samples == records
    meter.report(records)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
