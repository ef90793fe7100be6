"""Releases: a version means one content for ever."""

from pathlib import Path

import pytest

from gavel.errors import RubricError, StoreError
from gavel.judge.releases import release, released_rubric
from gavel.judge.rubric import Rubric
from gavel.store.files import Store

from .conftest import JUDGE_J2, LABELS_YAML, RUBRIC_YAML, TINY, tiny


def version(number: int) -> Rubric:
    return tiny(rubric_yaml=RUBRIC_YAML.replace("version: 1", f"version: {number}"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_what_was_released_is_read_back(store: Store) -> None:
    assert release(store, TINY) == []
    assert released_rubric(store, "tiny") == TINY
    assert released_rubric(store, "tiny").hash == TINY.hash


def test_before_a_release_the_sentence_names_the_asset(store: Store) -> None:
    with pytest.raises(StoreError, match="materialise the asset tiny/rubric first"):
        released_rubric(store, "tiny")


@pytest.mark.parametrize(
    ("changes", "file"),
    [
        ({"judge_j2": JUDGE_J2 + " "}, "judge.j2"),
        ({"rubric_yaml": RUBRIC_YAML.replace("weight: 2", "weight: 3")}, "rubric.yaml"),
        ({"labels_yaml": LABELS_YAML + "# a comment\n"}, "labels.yaml"),
    ],
)
def test_another_content_under_the_same_version_is_refused_and_its_file_named(
    store: Store, changes: dict[str, str], file: str
) -> None:
    release(store, TINY)
    changed = tiny(**changes)
    (drift,) = release(store, changed)
    assert drift.file == file
    assert (drift.released, drift.found) == (TINY.file_hashes[file], changed.file_hashes[file])
    assert str(drift).startswith(f"{file}: released ")
    assert released_rubric(store, "tiny") == TINY, "the released content stays in force"


def test_every_file_that_drifted_is_named(store: Store) -> None:
    release(store, TINY)
    drifted = release(store, tiny(judge_j2=JUDGE_J2 + " ", labels_yaml="{}"))
    assert [drift.file for drift in drifted] == ["judge.j2", "labels.yaml"]


def test_a_new_version_may_change_and_an_old_one_may_come_back(store: Store) -> None:
    first, second = version(1), version(2)
    for rubric in (first, second, first):
        assert release(store, rubric) == []
        assert released_rubric(store, "tiny") == rubric
    drifted = tiny(
        rubric_yaml=RUBRIC_YAML.replace("version: 1", "version: 2"), judge_j2=JUDGE_J2 + " "
    )
    assert [drift.file for drift in release(store, drifted)] == ["judge.j2"]
    assert released_rubric(store, "tiny") == first


def test_releasing_the_same_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    release(store, TINY)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert len(before) == 2
    release(store, tiny())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"task": "tiny", "files": {}}'])
def test_a_damaged_release_is_told(store: Store, tmp_path: Path, content: bytes) -> None:
    release(store, TINY)
    (tmp_path / "tiny" / "rubric" / "current.json").write_bytes(content)
    with pytest.raises(RubricError, match=r"current\.json: is not a released rubric"):
        released_rubric(store, "tiny")


def test_a_current_release_that_cannot_be_read_is_replaced(store: Store) -> None:
    assert release(store, TINY) == []
    store.document("tiny/rubric/current").write_text('{"task": "ti')
    assert release(store, TINY) == []
    assert released_rubric(store, "tiny") == TINY
