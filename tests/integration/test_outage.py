"""When the endpoint is down or refuses, the run stops in one sentence and what came by then is kept."""

from __future__ import annotations

import socket
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gavel.errors import EvaluatorOutage, EvaluatorRefused
from gavel.judge.backends import backend_of
from tests.endpoint import Ask, Endpoint, Reply

from .judging import Bench, answer, judge_at

DOWN = Reply(status=500, body={"error": {"message": "engine is dead"}})


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nothing listens at, nor begins to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize(
    "failing",
    [DOWN, Reply(status=502, body="Bad Gateway"), Reply(drop=True), Reply(cut=True)],
    ids=["500", "502", "dropped", "cut off"],
)
def test_an_outage_in_the_middle_stops_the_run_and_the_next_asks_only_the_rest(
    bench: Bench, failing: Reply
) -> None:
    records, served = 300, Counter[str]()
    up = False

    def behave(ask: Ask) -> Reply:
        if not up and served.total() >= 120:
            return failing
        served[ask.record] += 1
        return Reply(answer())

    with Endpoint(behave) as endpoint:
        judge = judge_at(endpoint.url)
        with pytest.raises(EvaluatorOutage) as raised:
            bench.judge(judge, records)
        said = str(raised.value)
        assert f"{endpoint.url} (model m)" in said
        assert "of the last 50 tries failed" in said
        assert "answers received so far are kept" in said
        assert "\n" not in said
        assert not bench.verdicts.exists()
        assert len(bench.answers()) == 120
        before = endpoint.settled()
        assert before < 120 + 32 * 4, "it stops early"

        up = True
        judged = bench.judge(judge, records, "second")
        assert endpoint.total - before == 180
    assert (judged.asked.known, judged.asked.sent, judged.valid) == (120, 180, 300)
    assert served == Counter(f"record {n}" for n in range(records))
    assert Counter(row["reused"] for row in bench.rows()) == {True: 120, False: 180}


def test_an_outage_keeps_the_verdicts_of_an_earlier_run(bench: Bench) -> None:
    with Endpoint(lambda ask: Reply(answer())) as endpoint:
        bench.judge(judge_at(endpoint.url), 5)
    before = bench.verdicts.read_bytes()
    with Endpoint(lambda ask: DOWN) as endpoint, pytest.raises(EvaluatorOutage):
        bench.judge(judge_at(endpoint.url), 60)
    assert bench.verdicts.read_bytes() == before


def test_an_outage_that_meets_only_the_last_records_is_one_too(bench: Bench) -> None:
    """Four records make too few failures to open the breaker; the probe tells that the server is gone."""
    down = False

    def behave(ask: Ask) -> Reply:
        nonlocal down
        down = down or len(endpoint.answered) >= 96
        return Reply(drop=True) if down else Reply(answer())

    def models() -> Reply:
        return Reply(status=502, body="Bad Gateway")

    with (
        Endpoint(behave, models) as endpoint,
        pytest.raises(EvaluatorOutage, match="answers HTTP 502 to a probe"),
    ):
        bench.judge(judge_at(endpoint.url, max_concurrency=4), 100)
    assert len(bench.answers()) == 96
    assert not bench.verdicts.exists()


def test_a_first_request_that_fails_is_one_failure_of_many(bench: Bench) -> None:
    def behave(ask: Ask) -> Reply:
        return Reply(status=502) if endpoint.total in (1, 10) else Reply(answer(), delay=0.01)

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url), 60)
        assert endpoint.total == 62
    assert (judged.valid, judged.asked.retries) == (60, 2)


def test_a_record_that_always_fails_last_is_a_fault_where_the_server_is_up(bench: Bench) -> None:
    def behave(ask: Ask) -> Reply:
        return DOWN if ask.record == "record 29" else Reply(answer())

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url), 30)
    assert dict(judged.faults) == {"transport": 1}
    assert bench.rows()[29]["retries"] == ["http_500"] * 3


@pytest.mark.parametrize("records", [1, 3, 200])
def test_an_endpoint_that_does_not_listen_is_an_outage(
    bench: Bench, closed_port: int, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if records == 1:
        monkeypatch.setattr("gavel.inference.dispatch._BACKOFF", 0.5)  # as a user has it
    with pytest.raises(EvaluatorOutage, match=rf"http://127\.0\.0\.1:{closed_port}/v1 \(model m\)"):
        bench.judge(judge_at(f"http://127.0.0.1:{closed_port}/v1"), records)
    assert bench.answers() == []


def test_a_hung_endpoint_is_an_outage_within_a_few_time_outs(bench: Bench) -> None:
    with Endpoint(lambda ask: Reply(delay=60)) as endpoint:
        with pytest.raises(EvaluatorOutage, match=r"no answer within 0\.3 s"):
            bench.judge(judge_at(endpoint.url, timeout=0.3), 100)
        assert endpoint.total <= 3 * 16, "16 at once, each a time-out long"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=401, body={"error": {"message": "bad key"}}), ["bad key", "JUDGE_KEY"]),
        (Reply(status=403, body="forbidden"), ["forbidden", "JUDGE_KEY"]),
        (Reply(status=402, body={"error": {"message": "no credit"}}), ["no credit", "JUDGE_KEY"]),
        (Reply(status=404, body={"error": {"message": "no model m"}}), ["no model m", "`model`"]),
        (
            Reply(status=429, body={"error": {"code": "insufficient_quota", "message": "pay"}}),
            ["insufficient_quota", "JUDGE_KEY"],
        ),
    ],
    ids=["401", "403", "402", "404", "no quota"],
)
def test_a_refusal_of_every_request_fails_at_once_without_retries(
    bench: Bench, reply: Reply, words: list[str]
) -> None:
    with Endpoint(lambda ask: reply) as endpoint, pytest.raises(EvaluatorRefused) as raised:
        bench.judge(judge_at(endpoint.url, api_key_env="JUDGE_KEY"), 100)
    assert all(word in str(raised.value) for word in [*words, endpoint.url, "(model m)"])
    assert "\n" not in str(raised.value)
    assert endpoint.total == 1
    assert not bench.verdicts.exists()


def test_a_key_that_expires_in_the_middle_keeps_what_came(bench: Bench) -> None:
    def behave(ask: Ask) -> Reply:
        return Reply(answer()) if len(endpoint.answered) < 50 else Reply(status=401, body="expired")

    with Endpoint(behave) as endpoint, pytest.raises(EvaluatorRefused, match="expired"):
        bench.judge(judge_at(endpoint.url), 200)
    assert len(bench.answers()) == 50
    assert max(endpoint.asks.values()) == 1


def test_settings_that_the_server_never_takes_are_a_refusal(bench: Bench) -> None:
    wrong = Reply(status=400, body={"error": {"message": "max_tokens is not supported"}})
    with Endpoint(lambda ask: wrong) as endpoint, pytest.raises(EvaluatorRefused) as raised:
        bench.judge(judge_at(endpoint.url), 500)
    assert "max_tokens is not supported" in str(raised.value)
    assert "suite.yaml" in str(raised.value)
    assert endpoint.total <= 32 * 5
    assert bench.answers() == []


@pytest.mark.parametrize("records", [1, 3, 19])
def test_a_few_records_that_are_all_refused_are_no_verdicts(bench: Bench, records: int) -> None:
    """Too few failures to open the breaker."""
    wrong = Reply(status=400, body={"error": {"message": "extra_body is not supported"}})
    with Endpoint(lambda ask: wrong) as endpoint, pytest.raises(EvaluatorRefused) as raised:
        bench.judge(judge_at(endpoint.url), records)
    assert "extra_body is not supported" in str(raised.value)
    assert bench.answers() == []


def test_a_page_in_place_of_a_model_is_an_outage_however_few_the_records(bench: Bench) -> None:
    page = Reply(body="<html>log in</html>")
    with Endpoint(lambda ask: page) as endpoint, pytest.raises(EvaluatorOutage) as raised:
        bench.judge(judge_at(endpoint.url, retries=0), 2)
    assert "log in" in str(raised.value)
    assert bench.answers() == []


def test_the_key_comes_from_the_variable_that_the_suite_names(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: set[str] = set()

    def behave(ask: Ask) -> Reply:
        keys.add(ask.headers["Authorization"])
        return Reply(answer())

    with Endpoint(behave) as endpoint:
        for value in ("sk-1", "sk-1\n", None):
            monkeypatch.setenv("JUDGE_KEY", value) if value else monkeypatch.delenv("JUDGE_KEY")
            bench.judge(judge_at(endpoint.url, api_key_env="JUDGE_KEY"), 1, str(value))
            for segment in bench.ledger.glob("*.parquet"):
                segment.unlink()
    assert keys == {"Bearer sk-1", "Bearer none"}


def test_a_key_that_no_header_can_carry_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "ключ")
    with pytest.raises(EvaluatorRefused, match="JUDGE_KEY") as raised:
        bench.judge(judge_at("http://127.0.0.1:9/v1", api_key_env="JUDGE_KEY"), 1)
    assert "ключ" not in str(raised.value)


@pytest.mark.parametrize(
    ("models", "error"),
    [
        (lambda: Reply(body={"data": []}), None),
        (lambda: Reply(status=404, body="no such route"), None),
        (lambda: Reply(status=405, body="no"), None),
        (lambda: Reply(status=401, body="bad key"), EvaluatorRefused),
        (lambda: Reply(status=403, body="no"), EvaluatorRefused),
        (lambda: Reply(status=500, body="dead"), EvaluatorOutage),
        (lambda: Reply(status=503, body="loading model"), EvaluatorOutage),
    ],
    ids=["200", "404", "405", "401", "403", "500", "503"],
)
def test_a_probe_tells_whether_the_endpoint_can_be_asked(
    models: Callable[[], Reply], error: type[Exception] | None
) -> None:
    with Endpoint(lambda ask: Reply(answer()), models) as endpoint:
        backend = backend_of(judge_at(endpoint.url).evaluator)
        if error is None:
            backend.probe()
        else:
            with pytest.raises(error, match=endpoint.url):
                backend.probe()
    assert endpoint.total == (error is None), "a server that is up is asked a question"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=500, body="out of memory"), EvaluatorOutage),
        (Reply(status=429, body="later"), EvaluatorOutage),
        (Reply(status=404, body="no such model"), EvaluatorRefused),
        (Reply(status=400, body="seed is not supported"), EvaluatorRefused),
        (Reply(status=400, body={"error": {"code": "content_filter"}}), None),
        (Reply(body="<html>log in</html>"), EvaluatorOutage),
        (Reply("OK"), None),
    ],
    ids=["500", "429", "404", "400", "filter", "html", "200"],
)
def test_a_probe_asks_for_a_completion_too(reply: Reply, error: type[Exception] | None) -> None:
    with Endpoint(lambda ask: reply) as endpoint:
        backend = backend_of(judge_at(endpoint.url).evaluator)
        with nullcontext() if error is None else pytest.raises(error, match=endpoint.url):
            backend.probe()


def test_an_endpoint_that_lists_models_and_completes_nothing_is_an_outage(bench: Bench) -> None:
    """Two records make too few failures to open the breaker."""
    with Endpoint(lambda ask: DOWN) as endpoint, pytest.raises(EvaluatorOutage, match="probe"):
        bench.judge(judge_at(endpoint.url), 2)
    assert bench.answers() == []


def test_a_probe_that_is_answered_without_end_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavel.inference.openai_compatible._PROBED", 1.0)

    def trickling(ask: Ask) -> Reply:
        return Reply("OK", trickle=0.05)

    with Endpoint(trickling) as endpoint:
        backend = backend_of(judge_at(endpoint.url, timeout=30).evaluator)
        with pytest.raises(EvaluatorOutage, match="does not answer to a probe within 1 s"):
            backend.probe()


def test_the_password_of_a_proxy_stands_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(str(self.headers["Proxy-Authorization"]))
            self.send_error(407)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        address = f"http://user:s3cret%40pw@127.0.0.1:{proxy.server_address[1]}"
        monkeypatch.setenv("HTTPS_PROXY", address)
        monkeypatch.setenv("NO_PROXY", "")
        backend = backend_of(judge_at("https://judge.example/v1").evaluator)
        with pytest.raises(EvaluatorOutage) as raised:
            backend.probe()
        proxy.shutdown()
    assert asked[0] == "Basic " + b64encode(b"user:s3cret@pw").decode(), "it is sent all the same"
    error: BaseException | None = raised.value
    while error is not None:
        assert "s3cret" not in f"{error!r} {error}"
        error = error.__cause__ or error.__context__


def test_a_probe_of_nothing_is_an_outage(closed_port: int) -> None:
    backend = backend_of(judge_at(f"http://127.0.0.1:{closed_port}/v1").evaluator)
    with pytest.raises(EvaluatorOutage, match="does not answer"):
        backend.probe()
