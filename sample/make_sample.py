"""Write the sample logs: three days of a home-improvement retailer's assistant, with known defects.

    python sample/make_sample.py [--out DIR]

Everything is made from the phrases in `phrases.toml` and one seed, so the same bytes come out
every time. A conversation has a customer, a language, a product and a store; each of its turns has
a topic and a quality, from excellent to rude, so that an evaluator has something to tell apart. On
the last day a worse version of the agent answers half of the conversations.

`manifest.json` says what an ingestion of each day must find: rows, clean rows by task, rejected
rows and the count of every reason. It is counted here from the defects put in, not by Gavel.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
SEED = 20261102
DAYS = ("2026-11-02", "2026-11-03", "2026-11-04")
LANGUAGES = ("en", "de", "fr", "es")
CHAT_TURNS, TRANSLATION_TURNS = 900, 385
"""Rows of a day before the defects that add lines."""

STABLE, NEW = "assistant-4.2.0", "assistant-5.0.0-rc1"
TRANSLATOR = "copywriter-1.8.3"

QUALITIES = {
    STABLE: {
        "excellent": 38, "good": 20, "plain": 13, "terse": 5, "evasive": 4, "refusing": 4,
        "off_topic": 4, "rude": 2, "wrong_language": 3, "over_long": 4, "invented": 3,
    },
    NEW: {
        "excellent": 8, "good": 10, "plain": 16, "terse": 24, "evasive": 10, "refusing": 18,
        "off_topic": 5, "rude": 3, "wrong_language": 2, "over_long": 1, "invented": 3,
    },
    TRANSLATOR: {
        "good": 52, "stiff": 13, "shortened": 8, "half_english": 6, "untranslated": 3,
        "wrong_language": 3, "wrong_figure": 5, "lost_placeholder": 4, "commented": 3,
        "embellished": 2, "refusing": 1,
    },
}  # fmt: skip
"""How often each agent answers in which way."""

TRUE, FALSE = (True, "true", "yes", 1, "Y"), (False, "false", "no", 0, "N", "")
"""The spellings of a boolean in a log that several systems write."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Noun:
    """A product's name in one language, with the forms that depend on its gender."""

    word: str
    gender: str
    language: str
    brand: str

    def forms(self) -> dict[str, str]:
        """The grammar slots of a phrase: articles with the noun, in the cases that phrases need."""
        language, word, gender = self.language, self.word, self.gender[:1]
        if language == "en":
            branded = f"{self.brand} {word}"
            article = "an" if word[0] in "aeiou" else "a"
            forms = {"a": f"{article} {word}", "the": f"the {branded}"}
        elif language == "de":
            named = f"{word} {self.brand}"
            the, accusative = {"m": ("der", "den"), "f": ("die",) * 2, "n": ("das",) * 2}[gender]
            forms = {
                "a": ("eine " if gender == "f" else "ein ") + word,
                "a_acc": {"m": "einen ", "f": "eine ", "n": "ein "}[gender] + word,
                "the": f"{the} {named}",
                "the_acc": f"{accusative} {named}",
            }
        elif language == "fr":
            the = "l'" if self.gender.endswith("*") else {"m": "le ", "f": "la "}[gender]
            forms = {
                "a": {"m": "un ", "f": "une "}[gender] + word,
                "the": f"{the}{word} {self.brand}",
            }
        else:
            forms = {
                "a": {"m": "un ", "f": "una "}[gender] + word,
                "the": {"m": "el ", "f": "la "}[gender] + f"{word} {self.brand}",
            }
        forms.setdefault("a_acc", forms["a"])
        forms.setdefault("the_acc", forms["the"])
        forms["noun"] = word
        forms["The"] = forms["the"][0].upper() + forms["the"][1:]
        return forms


@dataclass
class Case:
    """What a conversation is about: a product, a store and the figures that answers refer to."""

    product: str
    brand: str
    sku: str
    store: str
    price: float
    slots: dict[str, dict[str, str]] = field(default_factory=dict)
    """By language, what stands in for the braces of a phrase."""

    def retail_info(self, no_product: bool) -> Row:
        """The export's column of the same name."""
        if no_product:
            return {"sku": None, "store": self.store, "price": None}
        return {"sku": self.sku, "store": self.store, "price": self.price}


@dataclass
class Day:
    """The lines of a day, and what an ingestion must find in them."""

    lines: list[bytes]
    expected: Row


class Phrases:
    """phrases.toml, and how its pieces are filled in."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.all: dict[str, Any] = tomllib.load(file)
        self.topics: dict[str, Any] = self.all["topics"]
        self.products: dict[str, Any] = self.all["products"]

    def case(self, random: Random) -> Case:
        """A product in a store, with figures drawn for it."""
        product = random.choice(sorted(self.products))
        traits = self.products[product]
        model = f"{random.choice('KNSTX')}{random.randrange(10, 60, 5)}"
        cents = random.choice((49, 90, 99))
        case = Case(
            product=product,
            brand=f"{random.choice(self.all['brands'])} {model}",
            sku=f"{traits['sku']}-{random.randrange(10000, 99999)}",
            store=random.choice(self.all["stores"]),
            price=(random.randrange(traits["low"], traits["high"]) * 100 + cents) / 100,
        )
        self.draw_figures(random, case)
        return case

    def draw_figures(self, random: Random, case: Case) -> None:
        """Fill the slots of `case` in every language, with the same figures in each."""
        traits = self.products[case.product]
        cover = traits.get("cover", 1)
        area = random.randrange(6, 60)
        packs = ceil(area * 1.1 / cover)
        weekday = random.randrange(6)
        fee, deposit = random.choice((4.95, 9.90, 14.90, 39.0)), random.choice((50.0, 100.0, 150.0))
        figures = {
            "store": case.store,
            "order": str(random.randrange(40_000_000, 49_999_999)),
            "stock": str(random.randrange(3, 40)),
            "aisle": str(random.randrange(1, 48)),
            "days": str(random.randrange(2, 7)),
            "years": str(random.choice((2, 3, 5, 10))),
            "points": str(random.randrange(120, 2400)),
            "area": str(area),
            "cover": str(cover),
            "packs": str(packs),
            "badpacks": str(packs * 37),
            "kg": str(random.randrange(2, 30)),
            "minutes": str(random.randrange(5, 45, 5)),
            "long": str(random.choice((8, 10, 12, 15))),
            "percent": str(random.randrange(60, 100, 5)),
            "tests": str(random.randrange(20, 90, 10)),
            "depth": str(random.randrange(15, 60, 5)),
            "buyers": str(random.randrange(1, 9) * 100),
        }
        open_hour, shut_hour = random.choice((7, 8, 9)), random.choice((19, 20, 21))
        for language in LANGUAGES:
            word, _, gender = traits[language].partition("|")
            pack = self.all["packs"][traits["pack"]][language] if "pack" in traits else ""
            case.slots[language] = {
                **figures,
                **Noun(word, gender, language, case.brand).forms(),
                "weekday": self.all["weekdays"][language][weekday],
                "pack": pack,
                "price": money(case.price, language),
                "badprice": money(case.price * 7 + 1, language),
                "fee": money(fee, language),
                "deposit": money(deposit, language),
                "open": clock(open_hour, language),
                "shut": clock(shut_hour, language),
            }

    def choose_topic(self, random: Random, case: Case, used: Sequence[str]) -> str:
        """A topic that fits the product and that the conversation has not had yet."""
        traits = self.products[case.product]
        fitting = [
            name
            for name, topic in self.topics.items()
            if name not in used
            and case.product in topic.get("products", (case.product,))
            and topic.get("needs", "sku") in traits
        ]
        weights = [0.6 if self.topics[name].get("no_product") else 1.0 for name in fitting]
        return random.choices(fitting, weights)[0]

    def say(self, random: Random, topic: str, kind: str, language: str, case: Case) -> str:
        """One phrase of a topic with its braces filled in."""
        phrase: str = random.choice(self.topics[topic][language][kind])
        return capital(phrase.format(**case.slots[language]))

    def common(self, random: Random, kind: str, language: str) -> str:
        """One phrase that fits any topic."""
        phrase: str = random.choice(self.all["common"][language][kind])
        return phrase


def money(amount: float, language: str) -> str:
    """`amount` of euros as people write it in that language."""
    return f"€{amount:.2f}" if language == "en" else f"{amount:.2f}".replace(".", ",") + " €"


def clock(hour: int, language: str) -> str:
    """A full hour as people write it in that language."""
    if language == "en":
        return f"{(hour - 1) % 12 + 1} {'am' if hour < 12 else 'pm'}"
    return {"de": f"{hour}", "fr": f"{hour} h", "es": f"{hour}:00"}[language]


def capital(text: str) -> str:
    """`text` with its first letter a capital, behind an opening Spanish mark too."""
    for index, character in enumerate(text):
        if character.isalpha():
            return text[:index] + character.upper() + text[index + 1 :]
        if character.isdigit():
            break
    return text


def ask(phrases: Phrases, random: Random, topic: str, language: str, case: Case, turn: int) -> str:
    """The customer's message: a greeting at first, a link later on, sometimes thanks or a wish."""
    question: str = random.choice(phrases.topics[topic][language]["ask"])
    question = question.format(**case.slots[language])
    if turn > 0 and random.random() < 0.5:
        question = f"{phrases.common(random, 'follow', language)} {question}"
    elif turn == 0 and random.random() < 0.55:
        question = f"{phrases.common(random, 'hello', language)} {question}"
    else:
        question = capital(question)
    if random.random() < 0.25:
        question = f"{question} {phrases.common(random, 'thanks', language)}"
    return question


def respond(
    phrases: Phrases, random: Random, topic: str, language: str, case: Case, quality: str
) -> str:
    """The assistant's answer in the quality asked for."""

    def say(kind: str, language: str = language, topic: str = topic) -> str:
        return phrases.say(random, topic, kind, language, case)

    def common(kind: str) -> str:
        return phrases.common(random, kind, language)

    match quality:
        case "excellent" if phrases.topics[topic].get("out_of_coverage"):
            return say("good")
        case "excellent":
            return f"{common('open')} {say('good')} {common('close')}"
        case "good" | "plain" | "terse" | "invented":
            return say(quality)
        case "evasive":
            return common("evasive")
        case "refusing":
            return common("refusal")
        case "rude":
            return common("rude")
        case "off_topic":
            return say("good", topic=phrases.choose_topic(random, case, [topic]))
        case "wrong_language":
            return say("good", language=random.choice([x for x in LANGUAGES if x != language]))
        case "over_long":
            filler = list(phrases.all["common"][language]["filler"])
            summary = filler.pop()
            random.shuffle(filler)
            answer = say("good")
            middle = " ".join(filler[2:])
            return f"{' '.join(filler[:2])} {answer} {middle} {summary} {answer} {common('close')}"
    raise ValueError(f"unknown quality {quality!r}")


def translate(
    phrases: Phrases, random: Random, parts: Sequence[Row], language: str, case: Case, quality: str
) -> str:
    """The translation of the sentences `parts` in the quality asked for."""

    def fill(sentences: Iterable[str], language: str = language) -> str:
        return " ".join(sentence.format(**case.slots[language]) for sentence in sentences)

    copy = phrases.all["copy"]
    good = fill(part[language] for part in parts)
    match quality:
        case "good":
            return good
        case "stiff":
            return fill(part["stiff"][language] for part in parts)
        case "shortened":
            return fill(part[language] for part in parts[: max(1, len(parts) - 2)])
        case "half_english":
            languages = ["en" if index % 2 else language for index in range(len(parts))]
            pairs = zip(parts, languages, strict=True)
            return " ".join(fill([part[chosen]], chosen) for part, chosen in pairs)
        case "untranslated":
            return fill((part["en"] for part in parts), "en")
        case "wrong_language":
            other = random.choice([x for x in LANGUAGES[1:] if x != language])
            return fill((part[other] for part in parts), other)
        case "wrong_figure":
            slots = {**case.slots[language], "kg": "400", "years": "99", "minutes": "0"}
            slots |= {"percent": "3", "depth": "900", "buyers": "7", "tests": "1", "long": "1"}
            return " ".join(part[language].format(**slots) for part in parts)
        case "lost_placeholder":
            for name, local in copy["placeholders"][language].items():
                good = good.replace(name, local)
            return good
        case "commented":
            comment = copy["comment"]
            return f"{random.choice(comment['before'])}\n{good}\n{random.choice(comment['after'])}"
        case "embellished":
            return f"{good} {random.choice(copy['extra'][language])}"
        case "refusing":
            return str(random.choice(copy["refusal"]["all"]))
    raise ValueError(f"unknown quality {quality!r}")


class DayMaker:
    """Makes the rows of one day, then puts the defects in."""

    def __init__(self, phrases: Phrases, day: str, rollout: bool) -> None:
        self.phrases = phrases
        self.random = Random(f"{SEED}/{day}")
        self.day = datetime.fromisoformat(day).replace(tzinfo=UTC)
        self.rollout = rollout
        self.number = 0

    def make(self) -> Day:
        """All lines of the day in the order of their time, and what must be found in them."""
        chat = self.fill(CHAT_TURNS, self.chat_conversation)
        rows = [*chat, *self.fill(TRANSLATION_TURNS, self.translation_conversation)]
        self.repeat_some(rows)
        rows.sort(key=lambda row: row["_start"])
        return self.damage(rows)

    def fill(self, turns: int, conversation: Callable[[int], list[Row]]) -> list[Row]:
        """Conversations until there are `turns` rows."""
        rows: list[Row] = []
        while len(rows) < turns:
            rows += conversation(turns - len(rows))
        return rows

    def quality(self, agent: str) -> str:
        """How this agent answers this time."""
        table = QUALITIES[agent]
        return self.random.choices(list(table), list(table.values()))[0]

    def chat_conversation(self, most: int) -> list[Row]:
        """One to five turns of one customer about one product in one language."""
        random, phrases = self.random, self.phrases
        language = random.choices(LANGUAGES, (35, 30, 20, 15))[0]
        case = phrases.case(random)
        agent = NEW if self.rollout and random.random() < 0.5 else STABLE
        base = self.conversation("chat", agent)
        rows: list[Row] = []
        used: list[str] = []
        time = base["_start"]
        for turn in range(min(most, random.choices((1, 2, 3, 4, 5), (30, 28, 20, 13, 9))[0])):
            topic = phrases.choose_topic(random, case, used)
            used.append(topic)
            traits = phrases.topics[topic]
            quality = self.quality(base["agent_version"])
            question = ask(phrases, random, topic, language, case, turn)
            answer = respond(phrases, random, topic, language, case, quality)
            looked_up = quality in ("excellent", "good", "plain", "over_long")
            row = self.row(base, time, question, answer, language)
            reference = phrases.say(random, topic, "good", language, case)
            row["reference"] = reference if random.random() < 0.35 else None
            row["out_of_coverage"] = random.choice(TRUE if traits.get("out_of_coverage") else FALSE)
            row["tool_used"] = traits.get("tool") if looked_up else None
            row["retail_info"] = case.retail_info(bool(traits.get("no_product")))
            rows.append(row)
            time = row["_end"] + timedelta(seconds=random.randrange(8, 240))
        return rows

    def translation_conversation(self, most: int) -> list[Row]:
        """One to four pieces of copy that an editor has translated, each into one language."""
        random, phrases = self.random, self.phrases
        copy = phrases.all["copy"]
        case = phrases.case(random)
        base = self.conversation("translation", TRANSLATOR)
        base |= {"input_source": "web", "context_name": "copy_desk"}
        rows: list[Row] = []
        time = base["_start"]
        for _ in range(min(most, random.randrange(1, 5))):
            language = random.choice(LANGUAGES[1:])
            phrases.draw_figures(random, case)
            parts = [
                random.choice(copy["headline"]),
                *random.sample(copy["feature"], random.randrange(1, 4)),
                random.choice(copy["call"]),
            ]
            source = " ".join(part["en"].format(**case.slots["en"]) for part in parts)
            quality = self.quality(TRANSLATOR)
            answer = translate(phrases, random, parts, language, case, quality)
            request = random.choice(copy["request"][language])
            row = self.row(base, time, request + source, answer, language)
            row["source_text"] = source
            good = translate(phrases, random, parts, language, case, "good")
            row["reference"] = good if random.random() < 0.6 else None
            row["out_of_coverage"] = random.choice(FALSE)
            row["retail_info"] = case.retail_info(False)
            rows.append(row)
            time = row["_end"] + timedelta(seconds=random.randrange(20, 400))
        return rows

    def conversation(self, task: str, agent: str) -> Row:
        """The fields that all turns of a conversation share."""
        random = self.random
        source = random.choices(("app", "web", "store_kiosk"), (45, 40, 15))[0]
        devices = {"app": ("ios", "android"), "web": ("desktop", "mobile")}
        return {
            "user_id": f"u{random.randrange(10_000, 99_999)}",
            "session_id": f"s-{random.getrandbits(40):010x}",
            "context_name": random.choice(("product_page", "help_centre", "checkout", "home")),
            "task": task,
            "agent_version": agent,
            "input_source": source,
            "ab_bucket": random.choice("AB"),
            "device": random.choice(devices.get(source, ("kiosk",))),
            # Early enough that the longest conversation ends within the day.
            "_start": self.day + timedelta(minutes=random.triangular(6 * 60, 23 * 60, 14 * 60)),
            "_clock": random.choice(("z", "offset", "seconds", "milliseconds", "z", "offset")),
        }

    def row(self, base: Row, start: datetime, question: str, answer: str, language: str) -> Row:
        """One turn, with the columns in the order of the export."""
        self.number += 1
        start = start.replace(microsecond=self.random.randrange(1000) * 1000)
        end = start + timedelta(milliseconds=600 + 9 * len(answer) + self.random.randrange(2500))
        return {
            "message_id": f"m-{self.day:%Y%m%d}-{self.number:05d}",
            "user_id": base["user_id"],
            "session_id": base["session_id"],
            "context_name": base["context_name"],
            "start_time": written(start, base["_clock"]),
            "end_time": written(end, base["_clock"]),
            "task": base["task"],
            "question": question,
            "answer": answer,
            "reference": None,
            "source_text": None,
            "language": language,
            "input_source": base["input_source"],
            "out_of_coverage": None,
            "tool_used": None,
            "agent_version": base["agent_version"],
            "retail_info": None,
            "ab_bucket": base["ab_bucket"],
            "device": base["device"],
            "_start": start,
            "_end": end,
            "_clock": base["_clock"],
        }

    def repeat_some(self, rows: list[Row]) -> None:
        """Let one row in twenty ask and answer exactly what another one does, under its own ids."""
        asked = (
            "question", "answer", "reference", "source_text", "language", "task", "out_of_coverage",
            "tool_used", "agent_version", "retail_info", "input_source", "device",
        )  # fmt: skip
        for row in self.random.sample(rows, len(rows) // 20):
            fields = {name: row[name] for name in asked}
            base = {**self.conversation(row["task"], ""), **fields}
            copy = self.row(base, base["_start"], row["question"], row["answer"], row["language"])
            rows.append({**copy, **fields})

    def damage(self, rows: list[Row]) -> Day:
        """Break some rows in every way an ingestion must name, and count what it must find."""
        random = self.random
        victims = iter(random.sample(range(1, len(rows)), 120))
        reasons: dict[int, set[str]] = {}

        def next_rows(reason: str) -> Iterable[Row]:
            for _ in range(random.randrange(3, 5)):
                index = next(victims)
                reasons[index] = {reason}
                yield rows[index]

        for row in next_rows("empty_prompt"):
            row["question"] = random.choice(("", "  ", None))
        for count, row in enumerate(next_rows("empty_response")):
            row["answer"] = ("", " \n\t ", None)[count % 3]
        for row in next_rows("missing_user_id"):
            row["user_id"] = random.choice((None, ""))
        for row in next_rows("missing_conversation_id"):
            row["session_id"] = random.choice((None, ""))
        for row in next_rows("malformed_timestamp"):
            row["start_time"] = random.choice(("yesterday", "2026-13-40T25:61:00Z", "n/a", "02/11"))
        for row in next_rows("end_before_start"):
            row["end_time"] = written(row["_start"] - timedelta(minutes=7), row["_clock"])

        # Rows with two defects.
        index = next(victims)
        reasons[index] = {"empty_prompt", "empty_response"}
        rows[index] |= {"question": " ", "answer": ""}
        index = next(victims)
        reasons[index] = {"missing_user_id", "malformed_timestamp"}
        rows[index] |= {"user_id": None, "end_time": "soon"}

        # A second row of an id stands right behind the first and is the one that goes. One of them
        # has an empty response too; one first row is faulty itself, so that its second survives.
        lines: list[tuple[Row, set[str]]] = [
            (row, reasons.get(index, set())) for index, row in enumerate(rows)
        ]
        positions = sorted((next(victims) for _ in range(random.randrange(4, 7))), reverse=True)
        for count, position in enumerate(positions):
            row, found = lines[position]
            again = dict(row)
            again["ab_bucket"] = "B" if row["ab_bucket"] == "A" else "A"
            if count == 0:
                row["user_id"] = ""
                found |= {"missing_user_id", "duplicate_record_id"}
                lines[position : position + 1] = [(row, found), (again, set())]
            elif count == 1:
                again["answer"] = ""
                lines.insert(position + 1, (again, {"duplicate_record_id", "empty_response"}))
            else:
                lines.insert(position + 1, (again, {"duplicate_record_id"}))
        return self.written_day(lines)

    def written_day(self, lines: list[tuple[Row, set[str]]]) -> Day:
        """The rows as lines, with lines among them that are no rows at all."""
        random = self.random
        counts: Counter[str] = Counter()
        clean: Counter[str] = Counter()
        rejected = 0
        output: list[bytes] = []
        for row, found in lines:
            columns = {name: value for name, value in row.items() if not name.startswith("_")}
            output.append(json.dumps(columns, ensure_ascii=False).encode())
            counts.update(found)
            rejected += bool(found)
            clean[row["task"]] += not found

        whole = [line for line in output if b'"answer": "' in line]
        broken = [
            b"restarted",
            random.choice(whole)[:-90],
            random.choice(whole).replace(b'": "', b'" "', 1),
            b'{"message_id": "m-lost", "question": }',
        ][: random.randrange(3, 5)]
        undecodable = [
            line.replace(b'"answer": "', b'"answer": "Gr\xfc\xdfe \xff', 1)
            for line in random.sample(whole, random.randrange(3, 6))
        ]
        for line in (*broken, *undecodable):
            output.insert(random.randrange(1, len(output)), line)
        counts["unparseable_line"] += len(broken)
        counts["invalid_utf8"] += len(undecodable)
        rejected += len(broken) + len(undecodable)
        return Day(
            output,
            {
                "rows": len(output),
                "clean": dict(sorted(clean.items())),
                "rejected": rejected,
                "reasons": dict(sorted(counts.items())),
            },
        )


def written(time: datetime, clock: str) -> str | int | float:
    """`time` as one of the retailer's systems writes it."""
    match clock:
        case "z":
            return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case "offset":
            return time.astimezone(timezone(timedelta(hours=1))).isoformat(timespec="milliseconds")
        case "seconds":
            return round(time.timestamp(), 3)
        case _:
            return round(time.timestamp() * 1000)


def compressed(lines: Iterable[bytes]) -> bytes:
    """`lines` as a gzip file with no time and no name in it: equal lines make equal files."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as file:
        for line in lines:
            file.write(line + b"\n")
    return buffer.getvalue()


def make(out: Path) -> Row:
    """Write logs/{day}.jsonl.gz and manifest.json under `out`; return the manifest."""
    phrases = Phrases(HERE / "phrases.toml")
    (out / "logs").mkdir(parents=True, exist_ok=True)
    manifest: Row = {}
    for day in DAYS:
        made = DayMaker(phrases, day, rollout=day == DAYS[-1]).make()
        (out / "logs" / f"{day}.jsonl.gz").write_bytes(compressed(made.lines))
        manifest[day] = made.expected
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write the sample logs and their manifest.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    for day, expected in make(parser.parse_args().out).items():
        print(day, f"{expected['rows']} rows, {expected['rejected']} rejected")


if __name__ == "__main__":
    main()
