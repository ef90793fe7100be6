"""An instant endpoint that misbehaves at a known rate, by chance, independently at each ask.

Run it as `python benchmarks/faulty_endpoint.py PORT < answer.json`; the answer is what a good reply says.
"""

from __future__ import annotations

import json
import random
import sys

from instant_endpoint import completion, response, serve

RATES = {
    "malformed": 0.05,
    "out_of_range": 0.02,
    "http_429": 0.02,
    "http_500": 0.01,
    "truncated": 0.01,
}
"""The share of asks that get each kind of reply; the rest get the answer."""


def replies(text: str) -> dict[str, bytes]:
    """One reply of each kind."""
    answer = json.loads(text)
    return {
        "malformed": completion(text.replace(":", " is", 3)),
        "out_of_range": completion(json.dumps({**answer, "helpfulness": 11})),
        "http_429": response(429, {"error": {"message": "too many requests"}}),
        "http_500": response(500, {"error": {"message": "internal error"}}),
        "truncated": completion(text[: len(text) // 2], "length"),
        "good": completion(text),
    }


if __name__ == "__main__":
    kinds = replies(sys.stdin.read())
    weights = [*RATES.values(), 1 - sum(RATES.values())]
    chance, ordered = random.Random(7), [kinds[name] for name in (*RATES, "good")]
    serve(int(sys.argv[1]), lambda: chance.choices(ordered, weights)[0])
