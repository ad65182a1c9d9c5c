"""`python -m tests.rigs.make_pages`: write docs/rigs from the shipped rigs; `--drawings`: the drawings as well (Chromium)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from choroid.common.table import Row
from choroid.rig_file import bill_of_materials, wiring_list
from choroid.rig_file.check import check_rig

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "rigs"
RIGS = sorted((ROOT / "examples" / "rigs").glob("*.yaml"))
PROTOCOLS = ROOT / "examples" / "protocols"


def index() -> str:
    """Return the list of the pages."""
    rows = [[f"[{rig.stem}]({rig.stem}.md)", _one_line(rig)] for rig in RIGS]
    head = "# The shipped rigs\n\nEach is simulated (`sim:` links) and sound; copy the nearest one and change it.\n\n"
    return head + "\n".join(as_markdown(["rig", "what it is"], rows)) + "\n"


def as_markdown(header: Row, rows: Sequence[Row]) -> list[str]:
    """Return the lines of a Markdown table; columns that are empty in every row are left out."""
    used = [column for column in range(len(header)) if any(row[column] for row in rows)]
    lines = [[header[column] for column in used], ["---"] * len(used)]
    lines += [[row[column].replace("|", "\\|") for column in used] for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _one_line(rig: Path) -> str:
    lines = rig.read_text(encoding="utf-8").splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith("description: "))


def _comment(rig: Path) -> str:
    lines = rig.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.removeprefix("#").strip() for line in lines[:first] if "yaml-language-server" not in line)


def page_of(rig: Path) -> str:
    """Return the page of a rig."""
    path = rig.relative_to(ROOT)
    recipe = PROTOCOLS / rig.name
    link = f"[{recipe.relative_to(ROOT)}](../../{recipe.relative_to(ROOT)})"
    return "\n".join([
        f"# {rig.stem}",
        "",
        f"[{path}](../../{path})",
        "",
        _comment(rig),
        "",
        f"![The schematic of {rig.stem}, as the page draws it]({rig.stem}.png)",
        "",
        *_verdict(check_rig(rig)),
        *(["## Its protocol", "", link, ""] if recipe.exists() else []),
        *_wiring(wiring_list.wiring(rig)),
        "## Bill of materials",
        "",
        *as_markdown(bill_of_materials.COLUMNS, bill_of_materials.cells(bill_of_materials.bill(rig))),
        "",
    ])  # fmt: skip


def _verdict(answer: dict[str, Any]) -> list[str]:
    has = [row["title"] for row in answer["capabilities"] if row["available"]]
    lacks = [f"- {row['title']}: {row['without']}" for row in answer["capabilities"] if not row["available"]]
    recipes = [name for name, missing in answer["recipes"].items() if not missing]
    accepted = [
        f"- accepted: {row['hazard']}: {row['accepted']['reason']} ({row['accepted']['by']})"
        for row in answer["hazards"]
        if row["accepted"]
    ]
    residual = [f"- {row['hazard']}: {row['note']}" for row in answer["hazards"] if row["verdict"] == "residual"]
    return [
        "## What it can do",
        "",
        f"Functions: {', '.join(has) or 'none of the optional ones'}.",
        "",
        f"Shipped recipes: {', '.join(recipes)}.",
        "",
        *_titled("Not available:", lacks),
        *_titled("What software does not remove, or does not see:", [*accepted, *residual]),
    ]


def _titled(title: str, rows: list[str]) -> list[str]:
    return [title, "", *rows, ""] if rows else []


def _wiring(answer: dict[str, Any]) -> list[str]:
    lines = ["## Wiring list", ""]
    for section, title in wiring_list.SECTIONS.items():
        if rows := wiring_list.cells(answer, section):
            lines += [f"### {title[0].upper()}{title[1:]}", "", *as_markdown(wiring_list.COLUMNS[1:], rows), ""]
    return lines


def _draw() -> None:
    """Write the drawing of each rig."""
    from controller.rig.loading import load_rig
    from tests.browser.pages import chromium
    from tests.browser.stage import schematic, staged

    with chromium() as browser:
        for rig in RIGS:
            with staged(browser, load_rig(rig)) as visit:
                visit.page.wait_for_timeout(900)  # levels and flows have faded in
                schematic(visit.page).screenshot(path=PAGES / f"{rig.stem}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--drawings", action="store_true", help="draw the rigs as well")
    PAGES.mkdir(exist_ok=True)
    (PAGES / "README.md").write_text(index(), encoding="utf-8")
    for each in RIGS:
        (PAGES / f"{each.stem}.md").write_text(page_of(each), encoding="utf-8")
    if parser.parse_args().drawings:
        _draw()
