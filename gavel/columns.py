"""What every column of every table means: shown in the Dagster UI and printed as docs/tables.md."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

MEANINGS: Mapping[str, str] = {
    # Source rows
    "file": "The file the row stood in",
    "line": "The line of the file where the row starts, from 1; the row number of a Parquet file",
    "content": "The row's bytes, verbatim",
    "record": "The row as a JSON object, where the source is not JSON itself",
    "fault": "Why the row cannot be read at all",
    "reasons": "Every reason why the row is no record, or the label is not usable",
    "content_text": "The row as text; bytes that are no UTF-8 are replaced",
    # Records
    "row_id": "32 hex digits: hash of source and record_id, the same at every ingestion",
    "source": "The log source, as named in suite.yaml",
    "record_id": "The source's own name of the record; made from the content where it has none",
    "user_id": "The customer",
    "conversation_id": "The conversation the turn belongs to",
    "context_id": "What the conversation was opened about",
    "start_time": "When the turn started, UTC",
    "end_time": "When the turn ended, UTC",
    "created_date": "The date of start_time in the suite's time zone",
    "task": "The kind of evaluation",
    "prompt": "What the customer wrote",
    "response": "What the agent answered",
    "reference": "A good answer, where the log has one",
    "source_text": "The text to be translated",
    "language": "The language of the conversation",
    "input_source": "Where the customer wrote: app, web, ...",
    "out_of_coverage": "Whether the subject is outside what the agent may answer",
    "tool_used": "The tool the agent used",
    "agent_version": "The version of the agent that answered",
    "retail_info": "Article, store and price as the systems know them, JSON",
    "extra": "Columns of the source that Gavel has no name for, JSON",
    "source_file": "The file of the source row",
    "source_line": "The line of the source row",
    # Shards
    "shard": "The number of the shard, from 0",
    "shard_row": "The place within the shard, from 0",
    # Verdicts
    "rationale": "The evaluator's reason",
    "confidence": "How sure the evaluator is, 0 to 1: as it says, or the mean of field_confidence",
    "field_confidence": "How sure of each field, by probabilities or repeated answers; and the expected score",
    "status": "valid or invalid; of a score, valid or unresolved; of a label, valid or rejected",
    "faults": "Reason codes of an invalid verdict",
    "fault_detail": "One line a fault: what was found and what is accepted",
    "raw_response": "What the evaluator wrote, verbatim",
    "mended": "How broken JSON syntax was read without touching a value; null for plain JSON",
    "evaluator": "The evaluator, as named in suite.yaml",
    "model": "The model asked for",
    "model_revision": "The model and fingerprint that the server reports",
    "prompt_version": "The version of the rubric",
    "rubric_hash": "The hash of every file of the rubric",
    "config_hash": "The hash of the evaluator's settings",
    "request_hash": "The hash of messages, response schema, model and decoding; names the answer in the ledger",
    "worker": "The shard that asked",
    "run_id": "The Dagster run that asked",
    "attempt": "1 for the first asking, from 2 on when asked again",
    "reused": "Whether the answer was in the ledger before this run",
    "retries": "What each repeated try ran into",
    "finish_reason": "Why the model stopped",
    "prompt_tokens": "Tokens read, as the server counts them",
    "completion_tokens": "Tokens written, as the server counts them",
    "cost_usd": "Tokens times list price, US dollars",
    "latency_ms": "Time of the last try, milliseconds",
    "evaluated_at": "When the answer came, UTC",
    # Answers
    "text": "What the model wrote, verbatim",
    "refusal": "The model's refusal, where the server tells it apart",
    "failure": "How the request failed on its way, where no answer came",
    "answered_at": "When the answer came, UTC",
    "logprobs": "Of each token: text, log-probability, and those of the numbers that could have stood there, JSON",
    # Scores
    "score": "Weighted mean of the dimensions present, sum(w*s)/sum(w); null when unresolved",
    "score_normalised": "The same mean of normalised dimensions",
    "attempts": "How often the record was asked about",
    "regenerated": "Whether it was asked again",
    "tier": "Who decided the score: the task's evaluator (first), its panel, or the larger evaluator (second)",
    "escalated": "Why the record went to the larger evaluator; empty where it did not",
    "votes": "How many valid verdicts the score is made of; 0 when unresolved",
    "disagreement": "How far a panel's verdicts are apart, 0 to 1: mean over the fields of spread / range, or of "
    "1 - share of the most frequent label; null with fewer than two votes",
    # Opinions
    "because": "Why the evaluator was asked: panel, or the reasons to escalate the record",
    # Quality
    "day": "The day, in the suite's time zone",
    "figure": "What is measured",
    "field": "The dimension or label it is measured of",
    "key": "The value, quantile or code it is measured at",
    "value": "The figure; null where it is undefined",
    "n": "How many it is taken over",
    "note": "Why it is undefined, or what it is compared with",
    # Audit
    "time": "When it happened, UTC",
    "kind": "validation_failure, retry, regeneration or publication",
    "code": "The fault, the retry's cause, or the outcome",
    "detail": "What there is to say of it",
    # Alignment
    "annotator": "Who labelled it",
    "number": "The value as a number, of a dimension",
    "round": "The round of the sample in which it was drawn",
    "stratum": "The group it was drawn from; annotators do not see it",
    "inclusion_probability": "The chance it had of being drawn: drawn / all of its stratum",
    "days": "The days that had scores when it was drawn: what its round stands for",
    "core": "Whether every annotator gets it",
    "place": "Its place in the sheets, from 1",
    "annotators": "Who gets it",
    "settings_hash": "The hash of the settings it was drawn by",
    "clusters": "How many conversations it is taken over",
    "excluded": "How many records were left out: unresolved, without a majority, or with one annotator",
    # Evaluators side by side
    "floor": "Whether it is there as a floor: rules, the most frequent value, or a constant",
    "test": "Which test p is of: the paired bootstrap, or McNemar's exact one",
    "item": "The prompt that the answers are to",
    "people": "The system that most people prefer, or tie; null without a majority",
    # Dialogue benchmark
    "system": "The conversational agent under test, as its prediction file or suite.yaml names it",
    "track": "multiwoz, dstc8 or human",
    "reading": "strict or reference (multiwoz); dstc8 or convlab2; people: by which rules it was judged",
    "dialogue_id": "The dialogue of the corpus",
    "missing": "Whether the prediction file lacks the dialogue",
    "inform": "Whether what was offered satisfies the customer in every domain of the goal",
    "success": "Whether the customer was served wholly",
    "domains": "Inform of each domain of the goal",
    "bleu": "Matches of 1- to 4-grams, their totals, length of response and reference; summed over turns",
    "bleu_text": "The same of a lexicalised response against the original text",
    "tracking": "Turns, turns whose whole state is right, right, spurious and missed slots, and how many are "
    "right by a single letter",
    "entities": "Entities mentioned in lexicalised responses",
    "consistent_entities": "Those of them among the results given or fitting the system's own state",
    "book": "Book rate; null where nothing is to be booked",
    "precision": "Precision of what was informed; null where nothing was asked",
    "recall": "Share of what was asked that was informed; null where nothing was asked",
    "f1": "Harmonic mean of precision and recall",
    "turns": "Exchanges of the dialogue or conversation",
    "return": "-1 a turn, and at the end 80 for success or -40",
    "failures": "What went wrong: domain, reason, slot and turn; in a fashion conversation its codes",
    "signature": "Everything that determines the figures",
    "predictions": "Content hash of the prediction file",
    "scale": "The figure's range",
    "low": "Lower end of the interval, over conversations or dialogues",
    "high": "Upper end of the interval, over conversations or dialogues",
    "undefined": "Dialogues for which the figure is undefined; of a conversation, why its scores are",
    "published": "The published figure, where one is known; of fashion, of other data",
    "outdated": "Whether what the system is evaluated on, or the settings, have changed since",
    "gone": "Whether the system's prediction file is gone",
    "first": "The system or evaluator compared; of a question in both orders, the system shown first",
    "second": "The one it is compared with",
    "difference": "First minus second, over the records or dialogues that both have",
    "p": "Two-sided p-value: by approximate randomisation of dialogues; of evaluators, by `test`",
    "p_holm": "The same corrected, after Holm, for the pairs of the figure (of evaluators: and field)",
    # Fashion benchmark
    "reason": "Why the figure, or its interval, is undefined",
    "id": "The conversation: e or d for the split, and its number",
    "split": "evaluation or development",
    "goal_kind": "item or theme",
    "goal": "What the customer wants, in words",
    "properties": "The goal's values, comma-separated; each belongs to one attribute",
    "theme": "The occasion, of a theme goal",
    "customer": "What the customer wrote; of a goal, which customer it is given to",
    "customer_name": "The customer, as named in suite.yaml",
    "customer_kind": "template, item or theme",
    "personality": "casual, indecisive or rude; null for a template",
    "all_info": "Whether the customer names every property of the goal in the conversation",
    "assistant": "What the assistant wrote; null where it only searched",
    "queries": "The queries of a search, English in every language",
    "action": "message or search; null where the customer has the last word",
    "turn": "The number of the message pair, from 1",
    "items": "What the customer was shown",
    "outcome": "How the conversation ended; in QueryGenEval, the recorded one",
    "kept": "Whether it is in the data set",
    "decided_by": "rules, verifier or person",
    "grounds": "Every ground of removal that was found",
    "mode": "assistant (AssistantEval) or query (QueryGenEval)",
    "searches": "The queries of each search of the system",
    "requests": "Requests to the system for the conversation, all attempts",
    "seconds": "The conversation's part of the time the system was at work",
    "bertscore": "BERTScore F1 of queries and goal, 0 to 1",
    "similarity": "Cosine of the embeddings of queries and goal",
    "attributes": "Each attribute of the goal: whether a query holds its value, exactly or in an equal spelling",
    "theme_first": "Share of the queries whose nearest theme is the right one",
    "theme_third": "Share of the queries with the right theme among the three nearest",
}


def describe(schema: pa.Schema, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The meaning of each column of `schema`; `own` are those of the rubric's dimensions and labels."""
    known = {**MEANINGS, **(own or {})}
    return {name: known.get(name, "") for name in schema.names}


def reference(tables: Mapping[str, pa.Schema]) -> str:
    """The tables as Markdown: every column, its type and its meaning."""
    parts = []
    for name, schema in tables.items():
        rows = "\n".join(f"| `{f.name}` | {f.type} | {MEANINGS.get(f.name, '')} |" for f in schema)
        parts.append(f"## {name}\n\n| column | type | meaning |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)
