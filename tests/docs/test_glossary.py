"""Every term of docs/glossary.md is in use, and the code that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from choroid.common.child import PACKAGES
from protocols.table import VERBS
from tests.docs.citations import texts

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?!term|---)(.+?) \| (.+?) \| (?:`([\w.]+)`)? ?\|$", re.MULTILINE)


def rows(page: str) -> list[tuple[str, str, str]]:
    """Return term, meaning and code name of each row; the code name may be empty."""
    return ROW.findall(page)


def unused(terms: list[str], everything: str) -> list[str]:
    """Return the terms that no document, page or code contains."""
    words = re.sub(r"[\s_-]+", " ", everything.lower())
    return [
        term for term in terms if not re.search(rf"(?<!\w){re.escape(re.sub('-', ' ', term.lower()))}s?(?!\w)", words)
    ]


def gone(names: list[str], code: str) -> list[str]:
    """Return the code names that are neither a class, a verb, a constant nor a field."""
    declared = set(re.findall(r"^class (\w+)", code, re.MULTILINE))
    declared |= set(re.findall(r"^    (\w+)(?:: | = )", code, re.MULTILINE)) | set(
        re.findall(r"^    def (\w+)\(", code, re.MULTILINE)
    )
    return [name for name in names if name not in declared and name not in VERBS]


@pytest.fixture(scope="module")
def repository() -> dict[str, str]:
    """All texts but the glossary itself."""
    return {name: text for name, text in texts().items() if name != "docs/glossary.md"}


def test_the_rows_are_read() -> None:
    """Each line of the tables is a row with a meaning."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| term")]
    assert len(rows(PAGE)) == len(lines) > 100


def test_no_term_stands_twice() -> None:
    """One line per term."""
    terms = [term for term, _, _ in rows(PAGE)]
    assert sorted(terms) == sorted(set(terms))


def test_each_term_is_used(repository: dict[str, str]) -> None:
    """A term that nothing uses is removed; `a, b` are two terms."""
    terms = [part for term, _, _ in rows(PAGE) for part in term.split(", ")]
    assert unused(terms, "\n".join(repository.values())) == []


def test_each_code_name_exists(repository: dict[str, str]) -> None:
    """A renamed class is renamed here as well."""
    code = "\n".join(
        text
        for name, text in repository.items()
        if name.startswith(tuple(f"{package}/" for package in PACKAGES)) and name.endswith(".py")
    )
    assert gone([name for _, _, name in rows(PAGE) if name], code) == []


def test_the_checks_see_what_is_wrong() -> None:
    """An unused term and a missing class are found."""
    assert unused(["basal state", "flux capacitor"], "basal_state") == ["flux capacitor"]
    assert gone(["Gate", "Nothing", "on_delay_s", "kidney.draw"], "class Gate:\n    on_delay_s: float\n") == ["Nothing"]
