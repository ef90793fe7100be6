"""Files in a bucket: whole or not at all, as they are now, and one winner where two write."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from gavel.errors import MissingExtra, StoreError
from gavel.inference.ledger import compact
from gavel.store import bucket as module
from gavel.store.bucket import EMULATOR_VARIABLE, bucket_of, shown
from gavel.store.files import Store, replacing
from gavel.store.manifests import Manifest, read_manifest, write_manifest
from gavel.suite import load_suite
from tests.endpoint import Ask, Endpoint, Reply
from tests.integration.judging import Bench, answer, judge_at

from .conftest import Place

DAY = "2026-11-02"


def write(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def test_what_one_machine_writes_another_reads(place: Place) -> None:
    store = Store(place.copy("data"))
    write(store.table("chat/scores", DAY), b"rows")
    assert place.objects() == {f"data/chat/scores/{DAY}.parquet": b"rows"}
    place.on_machine("second")
    store = Store(place.copy("data"))
    path = store.existing("chat/scores", DAY)
    assert path.read_bytes() == b"rows"
    assert shown(path) == f"{place.uri}/data/chat/scores/{DAY}.parquet"
    write(path, b"more rows")
    place.on_machine("first")
    assert Store(place.copy("data")).existing("chat/scores", DAY).read_bytes() == b"more rows"


def test_what_is_not_in_the_bucket_is_missing_by_its_address(place: Place) -> None:
    store = Store(place.copy("data"))
    path = store.table("chat/scores", DAY)
    write(path, b"rows")
    place.bucket.blob(f"data/chat/scores/{DAY}.parquet").delete()
    with pytest.raises(StoreError, match=f"{place.uri}/data/chat/scores/{DAY}.parquet is missing"):
        store.existing("chat/scores", DAY)


def test_a_file_is_fetched_once_until_it_changes(place: Place) -> None:
    store = Store(place.copy("data"))
    place.bucket.blob("data/rubric.json").upload_from_string("{}")
    for _ in range(3):
        assert store.document("rubric").read_bytes() == b"{}"
    fetched = [path for _, path in place.way.passed if "alt=media" in path]
    assert len(fetched) == 1
    store.document("rubric").write_bytes(b"edited by hand, and not noted")
    assert store.document("rubric").read_bytes() == b"{}", "the bucket holds the truth"


def test_an_object_that_is_overwritten_while_it_is_fetched_is_not_lost(place: Place) -> None:
    place.bucket.blob("data/rubric.json").upload_from_string("first")
    overwritten = False

    def behave(method: str, path: str) -> int | str | None:
        nonlocal overwritten
        if "alt=media" in path and not overwritten:
            # A bucket that keeps no versions has lost the one that was listed.
            overwritten = True
            place.bucket.blob("data/rubric.json").upload_from_string("second")
            return 404
        return None

    place.way.behave = behave
    store = Store(place.copy("data"))
    assert store.document("rubric").read_bytes() == b"second"
    assert overwritten


def test_of_two_writers_who_saw_the_same_the_first_stands_and_the_second_says_so(
    place: Place,
) -> None:
    first = Store(place.copy("data")).table("chat/scores", DAY)
    seen_by_first = dict(module._seen)
    place.on_machine("second")
    second = Store(place.copy("data")).table("chat/scores", DAY)
    write(second, b"second")
    place.on_machine("first")
    place.monkeypatch.setattr(module, "_seen", seen_by_first)
    with pytest.raises(StoreError, match=r"another run has written it since .* run again"):
        write(first, b"first")
    assert place.objects() == {f"data/chat/scores/{DAY}.parquet": b"second"}
    assert not first.exists(), "what did not go up does not appear"
    write(Store(place.copy("data")).table("chat/scores", DAY), b"after looking again")
    assert place.objects() == {f"data/chat/scores/{DAY}.parquet": b"after looking again"}


def test_an_upload_whose_reply_is_lost_is_no_second_writer(place: Place) -> None:
    path = Store(place.copy("data")).table("chat/scores", DAY)
    fates = iter(["lost", 503])

    def behave(method: str, path: str) -> int | str | None:
        return next(fates, None) if method == "POST" else None

    place.way.behave = behave
    write(path, b"rows")
    assert place.objects() == {f"data/chat/scores/{DAY}.parquet": b"rows"}
    assert path.read_bytes() == b"rows"


@pytest.mark.parametrize("status", [503, 429, 500])
def test_an_overloaded_bucket_is_tried_again(place: Place, status: int) -> None:
    tries: Counter[str] = Counter()

    def behave(method: str, path: str) -> int | str | None:
        tries[method] += 1
        return status if tries[method] <= 1 else None

    place.way.behave = behave
    path = Store(place.copy("data")).table("chat/scores", DAY)
    write(path, b"rows")
    place.on_machine("second")
    assert Store(place.copy("data")).existing("chat/scores", DAY).read_bytes() == b"rows"


def test_a_bucket_that_is_down_is_one_sentence_in_time_and_nothing_is_replaced(
    place: Place,
) -> None:
    path = Store(place.copy("data")).table("chat/scores", DAY)
    write(path, b"old")
    place.way.behave = lambda method, path: 503
    with pytest.raises(StoreError, match=r"cannot be reached within 5 s .*; run again when"):
        write(path, b"new")
    with pytest.raises(StoreError, match="cannot be reached within 5 s"):
        Store(place.copy("data")).existing("chat/scores", DAY)
    place.way.behave = lambda method, path: None
    assert path.read_bytes() == b"old"
    assert place.objects() == {f"data/chat/scores/{DAY}.parquet": b"old"}


def test_no_network_is_one_sentence_in_time(place: Place) -> None:
    place.monkeypatch.setenv(EMULATOR_VARIABLE, "http://127.0.0.1:9")
    module._client.cache_clear()
    with pytest.raises(StoreError, match="cannot be reached within 5 s"):
        load_suite(f"{place.uri}/suite.yaml")


def test_no_credentials_are_one_sentence_in_time(place: Place) -> None:
    place.monkeypatch.delenv(EMULATOR_VARIABLE)
    place.monkeypatch.setenv("NO_GCE_CHECK", "true")
    place.monkeypatch.setenv("CLOUDSDK_CONFIG", str(place.folder))
    module._client.cache_clear()
    with pytest.raises(StoreError, match="GOOGLE_APPLICATION_CREDENTIALS or a workload identity"):
        load_suite(f"{place.uri}/suite.yaml")


def test_an_unknown_bucket_is_named(place: Place) -> None:
    with pytest.raises(StoreError, match=r"^gs://nowhere: there is no such bucket"):
        load_suite("gs://nowhere/suite.yaml")


def test_without_the_extra_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith("google"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install -c constraints.txt -e '.\[gcp\]'"):
        load_suite("gs://shop/suite.yaml")


def test_a_window_of_manifests_takes_one_request_a_table(place: Place) -> None:
    store = Store(place.copy("data"))
    days = [f"2026-11-{day:02}" for day in range(1, 21)]
    for day in days:
        for shard in "01":
            manifest = Manifest({"day": day}, "run")
            write_manifest(store.document(f"chat/regenerated/{day}/{shard}"), manifest)
    place.on_machine("second")
    store = Store(place.copy("data"))
    place.way.passed.clear()
    store.look("chat/regenerated", days[10], by_shard=True)
    for day in days[10:]:
        for shard in "01":
            found = read_manifest(store.document(f"chat/regenerated/{day}/{shard}"))
            assert found is not None
            assert found.signature == {"day": day}
    asked = [path for _, path in place.way.passed]
    assert len([path for path in asked if "alt=media" not in path]) == 1
    assert len(asked) == 1 + 20, "and each manifest of the window is fetched once, no other"


def test_a_killed_upload_leaves_what_was_there(place: Place) -> None:
    path = Store(place.copy("data")).table("chat/scores", DAY)
    write(path, b"old")
    code = """
import sys
from pathlib import Path
from gavel.store.files import Store, replacing
path = Store(Path(sys.argv[1])).table("chat/scores", sys.argv[2])
with replacing(path) as temporary:
    temporary.write_bytes(b"x" * 50_000_000)
"""
    begun, killed = Event(), Event()

    def behave(method: str, path: str) -> None:
        if method in ("POST", "PUT"):
            begun.set()
            killed.wait(60)

    place.way.behave = behave
    command = [sys.executable, "-c", code, place.copy("data"), DAY]
    with subprocess.Popen(command) as writer:
        assert begun.wait(60)
        writer.kill()
    killed.set()
    assert place.objects() == {f"data/chat/scores/{DAY}.parquet": b"old"}
    assert Store(place.copy("data")).existing("chat/scores", DAY).read_bytes() == b"old"


RECORDS, MOST = 2_500, 32


def killed_after(endpoint: Endpoint, folder: Path, answers: int) -> Counter[Any]:
    """What had been answered when a process that judged on this machine was killed."""
    script = Path(__file__).parents[1] / "integration" / "judging.py"
    command = [sys.executable, script, folder, endpoint.url, str(RECORDS), "killed"]
    with subprocess.Popen(command, cwd=script.parents[2], env={**os.environ}) as run:
        while endpoint.answered.total() < answers:
            assert run.poll() is None
            time.sleep(0.001)
        os.kill(run.pid, signal.SIGKILL)
    time.sleep(0.05)
    return Counter(endpoint.answered)


@pytest.mark.parametrize("machine", ["first", "second"])
def test_a_killed_run_is_finished_on_the_same_machine_or_another(
    place: Place, machine: str
) -> None:
    killed = Event()

    def behave(ask: Ask) -> Reply:
        """Answers flow, though never all of them before the kill, however late that comes."""
        once = killed if endpoint.total > 2_000 else None
        text = answer(confidence=int(ask.record.split()[1]) / 10_000)
        return Reply(text, delay=0.005, once=once)

    with Endpoint(behave) as endpoint:
        bench = Bench(place.copy("data"))
        bench.folder.mkdir(parents=True)
        before = killed_after(endpoint, bench.folder, 1_500)
        killed.set()
        place.on_machine(machine)
        bench = Bench(place.copy("data"))
        bench.folder.mkdir(parents=True, exist_ok=True)
        found = bucket_of(bench.ledger)
        assert found is not None
        found.bring_folder(bench.ledger)
        judged = bench.judge(judge_at(endpoint.url, max_concurrency=MOST), RECORDS, "next")
        repeated = sum(endpoint.answered[key] > before[key] for key in before)
        lost = MOST + (0 if machine == "first" else before.total() - 1_000)
        assert repeated <= lost, "a process in flight; a machine, what was not in a segment yet"
        assert judged.asked.known >= 1_000
        assert len(endpoint.answered) == RECORDS
    assert [row["confidence"] for row in bench.rows()] == [n / 10_000 for n in range(RECORDS)]
    assert f"data/{bench.verdicts.name}" in place.objects()

    assert compact(bench.ledger)
    kept = [name for name in place.objects("data/ledger/") if name.endswith(".parquet")]
    assert len(kept) == 1
    assert len(bench.answers()) == RECORDS
