"""Imports go one way: definitions -> sensors -> assets -> resources -> gavel, and within gavel to the floor."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STOREYS = ["gavel", "resources", "assets", "sensors", "definitions", "evaluate"]
"""Floor first; a module imports from its own storey and those before it."""
FLOORS = [
    *(
        "errors",
        "columns",
        "documents",
        "store",
        "settings",
        "suite",
        "inference",
        "logs",
        "judge",
        "agreement",
    ),
    *("alignment", "benchmark", "text"),
    *("dialogue", "fashion", "publishing", "report", "reference", "alerts", "cli"),
]
"""The same within gavel."""


def modules() -> list[Path]:
    trees = [ROOT / name for name in STOREYS]
    found = [path for tree in trees for path in sorted(tree.rglob("*.py"))]
    return found + [path for tree in trees if (path := tree.with_suffix(".py")).exists()]


def imported(path: Path) -> Iterator[str]:
    """The absolute name of every module that `path` imports, wherever in it."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            # `from gavel import suite` imports the module gavel.suite.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def place(name: str, storeys: list[str]) -> int:
    assert name in storeys, f"{name} has no place among {storeys}: give it one here and in DESIGN"
    return storeys.index(name)


NAMED = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in modules()]


def test_the_whole_tree_is_looked_at() -> None:
    looked_at = {path.relative_to(ROOT).as_posix() for path in modules()}
    assert {"definitions.py", "assets/judging.py", "resources/logs.py", "gavel/cli.py"} <= looked_at


@pytest.mark.parametrize("path", NAMED)
def test_a_module_imports_its_own_storey_and_those_below(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    own = place(parts[0], STOREYS)
    for name in imported(path):
        top, *rest = name.split(".")
        if top in STOREYS:
            assert place(top, STOREYS) <= own, f"{path} imports {name}, which stands above it"
        if (
            top == "gavel"
            and parts[0] == "gavel"
            and len(parts) > 1
            and rest
            and parts[1:] != ("__init__",)
        ):
            assert place(rest[0], FLOORS) <= place(parts[1], FLOORS), (
                f"{path} imports {name}, which stands above it"
            )


@pytest.mark.parametrize("path", [p for p in NAMED if "gavel/" in str(p.id)])
def test_the_library_knows_no_orchestrator(path: Path) -> None:
    assert not [name for name in imported(path) if name.split(".")[0].startswith("dagster")]
