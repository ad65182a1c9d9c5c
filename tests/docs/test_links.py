"""Links between documents, and paths of documents in code, lead to files and headings that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?://|mailto:|`)([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
PAGE_IN_CODE = re.compile(r"\bdocs/[\w/-]+\.(?:md|json)\b(?:#[\w-]+)?")


def tracked(*patterns: str) -> list[Path]:
    """Return the tracked files that match one of the patterns."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    result = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        result.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return result


def missing(page: Path, links: list[str], *, base: Path) -> list[str]:
    """Return the links of a page that lead nowhere.

    Args:
        page: The file that holds the links.
        links: Targets, relative to `base`, with or without an anchor.
        base: The folder that the targets are relative to.
    """
    wrong = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = base / name if name else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target.read_text("utf-8"))
        ):
            wrong.append(f"{page.relative_to(base) if page.is_relative_to(base) else page.name}: {link}")
    return wrong


def test_links_in_documents_resolve() -> None:
    """Files and anchors that a document links to exist."""
    pages = tracked("*.md")
    assert len(pages) > 60
    found = [
        wrong
        for page in pages
        for wrong in missing(page, LINK.findall(FENCE.sub("", page.read_text("utf-8"))), base=page.parent)
    ]
    assert found == []


def test_documents_named_in_code_exist() -> None:
    """`docs/….md` in a message, comment or docstring is a page of this repository."""
    files = [
        path for path in tracked("*.py", "*.yaml", "*.js", "*.html", "*.toml") if "tests/docs" not in path.as_posix()
    ]
    named = {
        (path, link)
        for path in files
        for link in PAGE_IN_CODE.findall(path.read_text("utf-8"))
        if not path.match("tests/test_*")
    }
    assert len(named) > 30
    assert [wrong for path, link in sorted(named) for wrong in missing(path, [link], base=ROOT)] == []


@pytest.mark.parametrize(
    ("link", "ok"),
    [
        ("a.md", True),
        ("b.md", False),
        ("a.md#one-two--3", True),
        ("a.md#code", False),
        ("#other", False),
        ("a.md#x-1", True),
    ],
)
def test_a_broken_link_is_named(tmp_path: Path, link: str, ok: bool) -> None:
    """The check itself sees missing files and headings, and no headings in code blocks."""
    page = tmp_path / "a.md"
    page.write_text("# One, `two` – 3\n```\n# Code\n```\n## X\n## X\n", encoding="utf-8")
    assert missing(page, [link], base=tmp_path) == ([] if ok else [f"a.md: {link}"])
