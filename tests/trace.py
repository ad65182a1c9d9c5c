"""`make trace`: print the table behaviour id -> tests that prove it, and fail when an id has no test.

The ids are those of docs/behaviours.md; a test carries the id in its name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEHAVIOURS = ROOT / "docs" / "behaviours.md"
_FAMILY = re.compile(r"^\*\*(?P<title>[^*]+?)\.?\*\*(?P<text>.*?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)
_STATED = re.compile(r"(?<![\w.])([A-Z]\d{1,2})(?=\s)")
_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
_ID = re.compile(r"(?<=_)([A-Z][1-9]\d?)(?=_|$)")


def behaviours(text: str) -> dict[str, list[str]]:
    """Return the ids that docs/behaviours.md states, by the title of their family.

    Raises:
        ValueError: when an id is stated twice, or none is found.
    """
    families = {match["title"]: _STATED.findall(match["text"]) for match in _FAMILY.finditer(text)}
    ids = [identifier for stated in families.values() for identifier in stated]
    if not ids:
        raise ValueError("docs/behaviours.md states no behaviour; each family starts with its title in bold")
    twice = sorted({identifier for identifier in ids if ids.count(identifier) > 1})
    if twice:
        raise ValueError(f"docs/behaviours.md states {', '.join(twice)} twice; an id names one behaviour")
    return families


def proofs(folder: Path) -> dict[str, list[str]]:
    """Map each behaviour id to the tests (`path::name`) that carry it in their name."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name in _TEST.findall(path.read_text(encoding="utf-8")):
            for identifier in _ID.findall(name):
                found.setdefault(identifier, []).append(f"{path.relative_to(folder.parent)}::{name}")
    return found


def gaps(stated: Sequence[str], found: dict[str, list[str]]) -> list[str]:
    """Return what does not fit: ids without a test, and tests with an id that is not stated."""
    unproven = [f"{identifier}: no test carries it" for identifier in stated if identifier not in found]
    unknown = [
        f"{identifier}: {tests[0]} carries it, and docs/behaviours.md does not state it"
        for identifier, tests in sorted(found.items())
        if identifier not in stated
    ]
    return unproven + unknown


def main() -> int:
    """Print the table; return 1 when :func:`gaps` finds something."""
    families = behaviours(BEHAVIOURS.read_text(encoding="utf-8"))
    found = proofs(Path(__file__).parent)
    for title, stated in families.items():
        print(f"\n{title}")
        for identifier in stated:
            tests = found.get(identifier, ["NO TEST"])
            print(f"  {identifier:<4}{tests[0]}")
            for test in tests[1:]:
                print(f"      {test}")
    stated = [identifier for ids in families.values() for identifier in ids]
    missing = gaps(stated, found)
    print(f"\n{sum(identifier in found for identifier in stated)} of {len(stated)} behaviours have a test")
    for gap in missing:
        print(f"GAP  {gap}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
