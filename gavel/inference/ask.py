"""One way to ask: the ledger first, then the backend, every answer appended before it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from gavel.inference.budget import BudgetSpent, Spending
from gavel.inference.ledger import Ledger
from gavel.inference.request import Answer, Backend, Request


@dataclass(slots=True)
class Asked:
    """How a stream of requests was met: `requests` = `repeated` + `known` + `sent`.

    `repeated` equal an earlier request of the stream; `known` stood in the ledger already.
    """

    requests: int = 0
    repeated: int = 0
    known: int = 0
    sent: int = 0
    answered: int = 0
    retries: int = 0

    @property
    def saved(self) -> int:
        """Requests that did not have to be sent."""
        return self.repeated + self.known


def ask(
    requests: Iterable[Request],
    backend: Backend,
    ledger: Ledger,
    progress: Callable[[Asked, list[Answer]], None] = lambda asked, answers: None,
    spending: Spending | None = None,
) -> Asked:
    """See that the ledger holds an answer to each of `requests`.

    Requests are pulled lazily and none is kept, so memory does not grow with their texts.

    Raises:
        EvaluatorOutage, EvaluatorRefused: by the backend; the answers received by then are in the ledger.
        BudgetSpent: `spending` allows no more today; what was under way is answered and in the ledger.
    """
    asked = Asked()
    before = ledger.answered()
    sent: set[tuple[str, int]] = set()
    spent: str | None = None

    def missing() -> Iterator[Request]:
        nonlocal spent
        for request in requests:
            asked.requests += 1
            if request.key in before:
                asked.known += 1
            elif request.key in sent:
                asked.repeated += 1
            else:
                if spending is not None:
                    spent = spending.spent(asked.sent - asked.answered)
                if spent is not None:
                    return
                sent.add(request.key)
                asked.sent += 1
                yield request

    try:
        for answers in backend.answers(missing()):
            ledger.append(answers)
            if spending is not None:
                spending.add(answers)
            asked.answered += len(answers)
            asked.retries += sum(len(answer.retries) for answer in answers)
            progress(asked, answers)
    except BaseException:
        if spending is not None:
            # What went wrong first is what a person has to know.
            with suppress(Exception):
                spending.close()
        raise
    ledger.seal()
    if spending is not None:
        spending.close()
    if spent is not None:
        raise BudgetSpent(
            f"the budget of the day is spent ({spent}): {asked.answered:,} requests of this run were answered and "
            "are kept, the rest is left for tomorrow; raise `budget` in suite.yaml to go on today"
        )
    return asked
