"""Bounded, adaptive dispatch: many requests in flight on one thread, as many as the server bears.

Concurrency grows while latency holds and shrinks when the server throttles (AIMD). Faults of the transport
are retried with jittered exponential back-off; a waiting request keeps its slot, so a server that
throttles everything is left alone. When most of the latest tries fail, that is an outage: dispatch
stops, and what is in flight is given up.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gavel.errors import EvaluatorOutage, EvaluatorRefused
from gavel.inference.request import Answer, Failure, Request

_FIRST_CONCURRENCY = 16
_SHRINK = 0.8
_LATENCY_TOLERANCE = 3.0
_LATENCY_SLACK = 0.25
"""Seconds above the best latency that never count as a server under strain."""
_BACKOFF = 0.5
_LONGEST_BACKOFF = 30.0
_THROTTLES_PER_RETRY = 4
"""A throttled try says "later", not "no": it has a budget of its own, this many times the retries."""
_COLLECTED_AFTER = 20_000
"""Objects made before the garbage collector looks for cycles. At its usual 700 it walks the requests in
flight again and again, for a quarter of all CPU time."""
_REFUSED = 3
"""Requests that, all refused, tell of the settings and not of a record."""
_STARVED = 120.0
"""Seconds without any success, or asked for by Retry-After, that make throttling an outage; or the time-out of one
request, where that is longer."""


class TransportFault(Exception):
    """One try failed on its way: `code` names it (`http_500`, `timeout`), `detail` tells a person."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        failure: Failure = "transport",
        retryable: bool = True,
        throttled: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.failure = failure
        self.retryable = retryable
        self.throttled = throttled
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of dispatch; see the settings of the same names in `gavel.settings.judging.Evaluator`."""

    max_concurrency: int
    retries: int
    breaker_window: int
    breaker_share: float
    timeout: float


@dataclass
class AdaptiveConcurrency:
    """How many requests may be in flight: doubles at first, then adds one a round, times 0.8 on a throttle."""

    maximum: int
    allowed: float = 0.0
    _best: float = field(default=float("inf"), init=False)
    _smooth: float | None = field(default=None, init=False)
    _doubling: bool = field(default=True, init=False)
    _shrunk_at: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self.allowed = min(self.allowed or _FIRST_CONCURRENCY, self.maximum)

    def succeeded(self, latency: float) -> None:
        """A try took `latency` seconds: grow if the server still answers as fast as at its best."""
        smooth = latency if self._smooth is None else self._smooth + 0.1 * (latency - self._smooth)
        self._smooth = smooth
        # The best latency is forgotten slowly, or one lucky answer would stop all growth for good.
        self._best = min(self._best * 1.001, latency)
        if smooth <= max(_LATENCY_TOLERANCE * self._best, self._best + _LATENCY_SLACK):
            step = 1.0 if self._doubling else 1.0 / self.allowed
            self.allowed = min(self.maximum, self.allowed + step)
        else:
            self._doubling = False

    def throttled(self, now: float) -> None:
        """The server asked for less, at `now` (seconds): shrink, at most once a round trip."""
        self._doubling = False
        if now - self._shrunk_at > max(self._smooth or 0.0, 0.05):
            self.allowed = max(1.0, self.allowed * _SHRINK)
            self._shrunk_at = now


@dataclass
class Breaker:
    """Tells an outage from single failures, by the share of failed tries over a sliding window."""

    window: int
    share: float
    _outcomes: deque[bool] = field(default_factory=deque, init=False)
    _failures: int = field(default=0, init=False)

    def record(self, failed: bool) -> None:
        """Count one try."""
        self._outcomes.append(failed)
        self._failures += failed
        if len(self._outcomes) > self.window:
            self._failures -= self._outcomes.popleft()

    @property
    def open(self) -> bool:
        """Whether the window is full enough to judge and fails beyond the bound."""
        seen = len(self._outcomes)
        return seen >= min(self.window, 20) and self._failures > self.share * seen

    def __str__(self) -> str:
        return f"{self._failures} of the last {len(self._outcomes)} tries failed"


def dispatch(
    requests: Iterable[Request],
    send: Callable[[Request], Awaitable[Answer]],
    probe: Callable[[], Awaitable[None]],
    close: Callable[[], Awaitable[None]],
    limits: Limits,
    endpoint: str,
) -> Iterator[list[Answer]]:
    """Send `requests` and yield their answers as they come, in any order.

    `send` does one try, and raises TransportFault when it fails on its way. A request whose every try
    failed becomes an answer with a `failure`; such answers are held back until the stream has ended, so that
    an outage in between leaves no trace in the ledger and they are asked again.

    Raises:
        EvaluatorOutage: most tries fail, or the last request got no answer and the probe fails too.
        EvaluatorRefused: as `send` raises it, or most tries, or all requests, are refused for good.
    """
    loop = asyncio.new_event_loop()
    dispatcher = _Dispatcher(iter(requests), send, limits, endpoint)
    try:
        with _rare_collections():
            while batch := loop.run_until_complete(dispatcher.next_batch()):
                yield batch
        if failed := dispatcher.failed:
            if dispatcher.refused >= max(len(failed), _REFUSED) and not dispatcher.answered:
                raise EvaluatorRefused(
                    f"{endpoint}: refused all {len(failed)} requests, the last with {failed[-1].detail}; "
                    "check the evaluator's settings in suite.yaml"
                )
            if not dispatcher.answering:
                loop.run_until_complete(probe())
            yield failed
    finally:
        loop.run_until_complete(dispatcher.stop())
        loop.run_until_complete(close())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@contextmanager
def _rare_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(before[0] and max(before[0], _COLLECTED_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Dispatcher:
    """The state of one stream, all of it on one event loop that runs only inside `next_batch`."""

    def __init__(
        self,
        requests: Iterator[Request],
        send: Callable[[Request], Awaitable[Answer]],
        limits: Limits,
        endpoint: str,
    ) -> None:
        self.failed: list[Answer] = []
        self.refused = 0
        """Requests refused for good, though not for their very content."""
        self.answered = False
        """Whether any request was answered."""
        self.answering = False
        """Whether the request that ended last was answered, be it by a refusal of its very content."""
        self._requests = requests
        self._send = send
        self._limits = limits
        self._endpoint = endpoint
        self._concurrency = AdaptiveConcurrency(limits.max_concurrency)
        self._breaker = Breaker(limits.breaker_window, limits.breaker_share)
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: list[Answer] = []
        self._handed_out = 0
        """Answers given to the caller, who has not come back for more and so may not have kept them yet."""
        self._wake = asyncio.Event()
        self._exhausted = False
        self._error: BaseException | None = None
        self._last_success = time.monotonic()

    async def next_batch(self) -> list[Answer]:
        """The answers that have come since the last call; empty at the end of the stream."""
        self._handed_out = 0
        self._pump()
        while not self._done and self._error is None and self._tasks:
            self._wake.clear()
            await self._wake.wait()
        if self._done:
            batch, self._done = self._done, []
            self._handed_out = len(batch)
            return batch
        if self._error is not None:
            raise self._error
        return []

    async def stop(self) -> None:
        """Give up whatever is in flight, and start nothing in its place."""
        self._exhausted = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _pump(self) -> None:
        """Start requests up to what is allowed.

        An answer that is not kept yet counts as in flight: a process killed at any moment loses no more
        than that many answers, however late the caller is with keeping them.
        """
        while (
            not self._exhausted
            and self._error is None
            and len(self._tasks) + len(self._done) + self._handed_out
            < int(self._concurrency.allowed)
        ):
            try:
                request = next(self._requests, None)
            except BaseException as error:
                # Raised by whoever makes the requests; next_batch raises it in the caller's frame.
                self._error = error
                return
            if request is None:
                self._exhausted = True
                return
            task = asyncio.get_running_loop().create_task(self._ask(request))
            self._tasks.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._error is None:
            self._error = error
        self._wake.set()
        if self._error is None:
            self._pump()

    async def _ask(self, request: Request) -> None:
        """Try until an answer comes, the retries are spent, or the breaker opens."""
        retries: list[str] = []
        throttles = 0
        while True:
            started = time.monotonic()
            try:
                answer = await self._send(request)
            except TransportFault as fault:
                pause = self._failed_try(fault, len(retries) - throttles, throttles)
                if pause is None:
                    self.failed.append(_failure(request, fault, retries))
                    # An overflow or a filter is an answer to this question; any other refusal may be to all.
                    self.answering = fault.failure in ("context_overflow", "content_filter")
                    self.refused += not fault.retryable and fault.failure == "transport"
                    return
                retries.append(fault.code)
                throttles += fault.throttled
                await asyncio.sleep(pause)
                continue
            now = time.monotonic()
            answer.latency_ms = (now - started) * 1000
            answer.retries = retries
            self.answered = self.answering = True
            self._last_success = now
            self._breaker.record(failed=False)
            self._concurrency.succeeded(now - started)
            self._done.append(answer)
            return

    def _failed_try(self, fault: TransportFault, faults: int, throttles: int) -> float | None:
        """The seconds to wait before the next try, or None when there is to be none.

        Raises:
            EvaluatorOutage, EvaluatorRefused: this failure is one too many.
        """
        now = time.monotonic()
        if fault.throttled:
            self._concurrency.throttled(now)
            starved = max(now - self._last_success, fault.retry_after or 0.0)
            # What the server has accepted is waited for: it may be slow and busy with that.
            if starved > max(_STARVED, self._limits.timeout):
                raise EvaluatorOutage(
                    f"{self._endpoint}: throttles every request ({fault.detail}) for {starved:.0f} s; "
                    "the answers received so far are kept; run again when the limit has cleared"
                ) from fault
            spent = throttles >= self._limits.retries * _THROTTLES_PER_RETRY
        else:
            # What the request itself brought about (overflow, filter) tells nothing of the endpoint.
            if fault.retryable or fault.failure == "transport":
                self._breaker.record(failed=True)
            if self._breaker.open and not fault.retryable:
                raise EvaluatorRefused(
                    f"{self._endpoint}: {self._breaker}, the last refused with {fault.code} ({fault.detail}); "
                    "the answers received so far are kept; check the evaluator's settings in suite.yaml"
                ) from fault
            if self._breaker.open:
                raise EvaluatorOutage(
                    f"{self._endpoint}: {self._breaker}, the last with {fault.code} ({fault.detail}); "
                    "the answers received so far are kept; run again when the endpoint is back"
                ) from fault
            spent = not fault.retryable or faults >= self._limits.retries
        if spent:
            return None
        backoff = min(
            _LONGEST_BACKOFF, _BACKOFF * 2.0 ** (throttles if fault.throttled else faults)
        )
        return max(fault.retry_after or 0.0, backoff * random.uniform(0.5, 1.0))


def _failure(request: Request, fault: TransportFault, retries: list[str]) -> Answer:
    return Answer(
        request.request_hash,
        request.attempt,
        failure=fault.failure,
        detail=f"{fault.code}: {fault.detail}",
        retries=retries,
    )
