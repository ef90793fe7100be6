"""One model behind HTTP that plays every part of the fashion benchmark, and misbehaves as told."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from tests.endpoint import Ask, Reply

LANGUAGES = ("German", "French", "Greek")
DIMENSIONS = 64


class Model:
    """Plays customers, assistants, writers of queries, translators and the verifier, by what the request asks for.

    It behaves well unless a goal is among `slips` (a goal's text: what the customer does with it, always or only
    at first) or the model asked for is `clumsy`, an assistant with every vice. `throttles` replies 503 to each
    tenth request once.
    """

    def __init__(self, slips: dict[str, str] | None = None, throttles: bool = False) -> None:
        self.slips = slips or {}
        self.throttles = throttles
        self.parts: Counter[str] = Counter()
        self.down = False

    def __call__(self, ask: Ask) -> Reply:
        if self.down:
            return Reply(status=500, body={"error": {"message": "down"}})
        if self.throttles and ask.share < 0.1 and ask.nth == 1:
            return Reply(status=503, body={}, headers={"Retry-After": "0"})
        part = ask.body["response_format"]["json_schema"]["name"]
        self.parts[part] += 1
        system = str(ask.body["messages"][0]["content"])
        told = [m["content"] for m in ask.body["messages"] if m["role"] == "user"]
        reply = getattr(self, f"_{part}")(ask, system, told)
        return Reply(reply if isinstance(reply, str) else json.dumps(reply))

    def _customer(self, ask: Ask, system: str, told: list[str]) -> Any:
        found = re.search(r"exactly these properties: (.*)\.|this occasion: (.*)\.", system)
        assert found is not None
        goal = found[1] or found[2]
        again = "cannot be used" in told[-1]
        match self.slips.get(goal):
            case "always malformed":
                return "I would like some clothes."
            case "malformed at first" if not again:
                return "I would like some clothes."
            case "switches roles":
                return {"message": f"I want {goal}.\nAssistant: here it is", "end": "no"}
            case "error text":
                return {"message": f"Error 500 while asking for {goal}", "end": "no"}
            case "never ends":
                return {"message": f"I want {goal}", "end": "no"}
            case "wants something else":
                return {"message": "I want maroon PULL&BEAR fleece jeans", "end": self._end(told)}
        name = "an indecisive" if "timid" in system else "a"
        words = goal if self._end(told) == "no" else "thanks"
        if "timid" in system and len(told) == 1:
            words = " ".join(words.split()[-2:])
        said = words if "program" in system else f"{name} customer wants {words}"
        return {"message": said, "end": self._end(told)}

    @staticmethod
    def _end(told: list[str]) -> str:
        shown = sum("[ITEMS]" in message for message in told)
        return "success" if shown > 1 else "no"

    def _action(self, ask: Ask, system: str, told: list[str]) -> Any:
        again = "cannot be used" in told[-1]
        said = "x" if again else json.loads(told[-1].split("The customer writes: ", 1)[-1])
        if ask.body["model"] == "clumsy":
            number = sum(map(ord, said)) % 6
            if again:
                return {"action": "search", "message": "", "queries": ["jeans", " "]}
            return [
                f"ASSISTANT: {json.dumps({'action': 'search', 'message': '', 'queries': [said]})}",
                {"action": "message", "message": "Sure.\nCustomer: thanks", "queries": []},
                {"action": "search", "message": "", "queries": ["", "  "]},
                {"action": "message", "message": "See https://shop.example", "queries": []},
                "Here are some nice clothes for you!",
                {"action": "search", "message": "", "queries": [said * 300]},
            ][number]
        if "never twice for the same" in system and len(told) == 1 and len(said.split()) < 4:
            return {"action": "message", "message": "Which colour and size?", "queries": []}
        return {"action": "search", "message": "", "queries": [said]}

    def _query(self, ask: Ask, system: str, told: list[str]) -> Any:
        said = [
            json.loads(line[10:]) for line in told[0].splitlines() if line.startswith("customer: ")
        ]
        return {"query": " ".join(said)}

    def _translation(self, ask: Ask, system: str, told: list[str]) -> Any:
        (language,) = [name for name in LANGUAGES if f"to {name}" in system]
        return {"translation": f"{language.lower()}: {json.loads(told[0].split(': ', 1)[1])}"}

    def _check(self, ask: Ask, system: str, told: list[str]) -> Any:
        odd = "looks odd" in str(self.slips) and any(
            goal in told[0] for goal, slip in self.slips.items() if slip == "looks odd"
        )
        grounds = dict.fromkeys(("wrong_format", "error_text", "customer_behaviour"), False)
        return {**grounds, "unfaithful": odd, "reason": "it looks odd" if odd else "fine"}


def embed(text: str) -> list[float]:
    """A bag of words: the same for the same words, in any order."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        vector[sum(map(ord, word)) % DIMENSIONS] += 1.0
    return vector if any(vector) else [1.0] * DIMENSIONS
