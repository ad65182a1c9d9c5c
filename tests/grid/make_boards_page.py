"""`python -m tests.grid.make_boards_page`: write the list of the boards in docs/boards.md from their files."""

from __future__ import annotations

from pathlib import Path

from grid.boards.loading import load_boards

PAGE = Path(__file__).resolve().parents[2] / "docs" / "boards.md"
BEGIN = "<!-- boards: written by `python -m tests.grid.make_boards_page` from the boards' files -->\n"
END = "<!-- end of boards -->\n"


def text() -> str:
    """Return the page with the list as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [f"| `{each.key}` | {each.title} | {', '.join(each.controls.names)} |\n" for each in load_boards().values()]
    table = "".join(["\n| board | task | controls |\n|---|---|---|\n", *rows, "\n"])
    return f"{before}{BEGIN}{table}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
