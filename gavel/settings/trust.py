"""Evaluators held against people and one another."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from gavel.settings.section import Section


class Sampling(Section):
    """Which records people are asked to label, `size` of each task.

    `strata` are columns of the scores: labels of the rubric, `language`, `status` (unresolved or not),
    numbers such as `confidence` in thirds, lists by whether they hold anything; null means the first label of
    the rubric, or the language. `equal` gives every stratum the same number as far as it has them,
    `proportional` its share. Every record goes to `overlap` of the `annotators`, `core` of them to all. A round
    once drawn stays as it is: raise `round` to draw further records.
    """

    size: int = Field(default=200, ge=1, le=100_000)
    strata: list[str] | None = None
    allocation: Literal["equal", "proportional"] = "equal"
    annotators: list[str] = Field(default=["annotator_1", "annotator_2"], min_length=1)
    overlap: int = Field(default=1, ge=1)
    core: int = Field(default=30, ge=0)
    round: int = Field(default=1, ge=1)
    seed: int = 7

    @model_validator(mode="after")
    def _annotators_suffice(self) -> Sampling:
        if len(set(self.annotators)) < len(self.annotators):
            raise ValueError("annotators repeats a name; each needs its own")
        if wrong := [name for name in self.annotators if not re.fullmatch(r"[\w.@-]+", name)]:
            raise ValueError(
                f"annotators: {wrong[0]!r} cannot name a sheet; accepted: letters, digits, _ . @ and -"
            )
        if self.overlap > len(self.annotators):
            raise ValueError(
                f"overlap {self.overlap} is more than the {len(self.annotators)} annotators"
            )
        return self


class Alignment(Section):
    """People's labels and how they are held against the evaluator.

    `labels` is the folder of label files, `table` a table of the warehouse with more of them; `columns` maps
    row_id, annotator, task, field, value and time to other names. The labels of `adjudicators` decide where
    they exist. `acceptable` names, of a label, the value whose share is a figure; a dimension is judged
    right within `right_within` points. Days with fewer than `least_a_day` labelled records are corrected by
    those of all days. `bias_by` are the columns of scores whose values the evaluator should not favour.
    """

    labels: str = "labels"
    table: str | None = None
    columns: dict[str, str] = {}
    adjudicators: list[str] = []
    acceptable: dict[str, str] = {"acceptability": "acceptable"}
    right_within: float = Field(default=0.5, ge=0)
    least_a_day: int = Field(default=20, ge=2)
    bias_by: list[str] = ["language", "product_group", "input_source"]
    resamples: int = Field(default=2000, ge=100, le=10_000)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = 7
    sample: Sampling = Sampling()


FLOORS = ("heuristic", "majority", "constant")
"""Evaluators that every benchmark has besides the suite's, so no other can have their names: rules, the most
frequent value of each field, and the middle of its scale."""


PAIRWISE = "pairwise"
"""The rubric by which two answers are compared; it stands under `prompts/benchmark/`, and is no task."""


class Benchmark(Section):
    """What evaluators are compared on besides labelled records.

    `pairs` is a JSON Lines file of two or more systems' answers to the same prompts.
    """

    pairs: str | None = None
