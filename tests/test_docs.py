"""Documents that are printed by the code must be what the code prints."""

from pathlib import Path

from gavel.reference import tables_page

ROOT = Path(__file__).parents[1]


def test_the_reference_of_tables_is_up_to_date_and_explains_every_column() -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    assert page == tables_page(), "run: python -m gavel.reference > docs/tables.md"
    assert "|  |" not in page, "a column has no meaning in gavel/columns.py"
