"""Find every citation of a source in the repository and check that file, section and source exist."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "sources"
TEXT = (".py", ".md", ".yaml", ".yml", ".toml", ".js", ".html", ".css", ".proto")
OTHER_SECTIONS = re.compile(
    r"^(drivers/|docs/devices/|docs/sources/|sim/devices/|tests/drivers/|tests/sim/devices/|controller/ledger/reconcile\.py)"
)
"""Files in which a bare § is a section of a manual or book that the same file names."""

SECTION = re.compile(r"§ ?(\d+(?:\.\d+)*)")
CHAIN = re.compile(r"\b(?P<page>[a-z-]+)(?P<md>\.md)? (?P<sections>§ ?\d[\d.]*(?:[ \w\[\],]*?, §\d[\d.]*)*)")
"""`biology.md §3.2 [P], §1.3`: a page and its sections."""
TAGGED = re.compile(r"\[[^\]\n]*?\b[VSRDP]\b[^\]\n]*\]")
"""`[D from V S30]`: an evidence tag with the ids of its sources."""
SOURCE = re.compile(r"\bS\d{1,3}\b")
DECISION = re.compile(r"\b[Dd]ecisions? (\d+)\b")
HINT = re.compile(r"§|\.md|ecision|\bS\d")
"""What a line with a citation contains; all other lines are passed over quickly."""
PRIVATE = re.compile(r"\b(design(\.md)?,? §|reference/\w+\.md|(knowing|peers|(?<!docs/)grid|rigs|design)\.md)")
"""Documents that are not in this repository."""


def texts() -> dict[str, str]:
    """Return the text of every tracked text file by its path in the repository, except for this check and its test."""
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    own = {"tests/docs/citations.py", "tests/docs/test_citations.py"}
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in names
        if name.endswith(TEXT) and name not in own and (ROOT / name).is_file()
    }


@functools.cache
def sections(page: str) -> frozenset[str]:
    """Return the section numbers in the headings of a page of docs/sources.

    Raises:
        FileNotFoundError: There is no such page.
    """
    text = (SOURCES / f"{page}.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^#{2,4} (\d+(?:\.\d+)?)\b", text, re.MULTILINE))


@functools.cache
def source_ids() -> frozenset[str]:
    """Return the ids in the table of sources of biology.md."""
    return frozenset(re.findall(r"^\| (S\d+) \|", (SOURCES / "biology.md").read_text(encoding="utf-8"), re.MULTILINE))


@functools.cache
def decisions() -> frozenset[int]:
    """Return the numbers of the pages in docs/decisions."""
    return frozenset(int(page.name[:4]) for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def problems(files: dict[str, str]) -> list[str]:
    """Return one line per citation that does not resolve, as `path:line: what`.

    Args:
        files: Texts by path relative to the repository.
    """
    return [
        f"{name}:{number}: {what}"
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if HINT.search(line)
        for what in _line(name, line)
    ]


def _line(name: str, line: str) -> list[str]:
    found = [
        f"{match[0]!r} is not in the repository; cite docs/sources or docs/decisions"
        for match in PRIVATE.finditer(line)
    ]
    found += [
        f"decision {number} has no page in docs/decisions"
        for number in map(int, DECISION.findall(line))
        if number not in decisions()
    ]
    if name != "docs/sources/biology.md":
        cited = {source for tag in TAGGED.findall(line) for source in SOURCE.findall(tag)}
        found += [f"source {source} is not in docs/sources/biology.md §8" for source in sorted(cited - source_ids())]
    if not OTHER_SECTIONS.match(name):
        found += _pages(line)
    return found


def _pages(line: str) -> list[str]:
    found, rest = [], line
    for match in CHAIN.finditer(line):
        page = match["page"]
        if not (SOURCES / f"{page}.md").is_file():
            continue
        rest = rest.replace(match[0], "")
        if not match["md"]:
            found.append(f"write {page}.md instead of {page}")
        found += [
            f"docs/sources/{page}.md has no section {number}"
            for number in (section.rstrip(".") for section in SECTION.findall(match["sections"]))
            if number not in sections(page)
        ]
    return found + [f"§{number} names no page; write biology.md §{number}" for number in SECTION.findall(rest)]
