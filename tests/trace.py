"""`make trace`: the table behaviour id -> tests that prove it, read from the names of the tests.

An id without a test is printed as missing, so that a missing proof is visible.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# The ids of the behaviours that must hold, by family; the text of each stands in docs/behaviours.md.
FAMILIES = {
    "A": ("Actuation", 9),
    "I": ("Interlocks", 7),
    "F": ("Fluid accounting", 6),
    "E": ("Execution", 8),
    "C": ("Communications", 5),
    "L": ("Alarms", 7),
    "D": ("Data and audit", 7),
    "R": ("Runtime", 5),
    "N": ("Nerves", 10),
    "S": ("Security", 5),
}
_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
_ID = re.compile(r"(?<=_)([AIFECLDRNS]\d{1,2})(?=_|$)")


def proofs(folder: Path) -> dict[str, list[str]]:
    """Map each behaviour id to the tests (`path::name`) that carry it in their name."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name in _TEST.findall(path.read_text(encoding="utf-8")):
            for identifier in _ID.findall(name):
                found.setdefault(identifier, []).append(f"{path.relative_to(folder.parent)}::{name}")
    return found


def main() -> int:
    """Print the table; the exit status is always 0, the table is the point."""
    found = proofs(Path(__file__).parent)
    proven = 0
    for letter, (title, count) in FAMILIES.items():
        print(f"\n{title}")
        for number in range(1, count + 1):
            identifier = f"{letter}{number}"
            tests = found.get(identifier, [])
            proven += bool(tests)
            print(f"  {identifier:<4}{tests[0] if tests else '— no test yet'}")
            for test in tests[1:]:
                print(f"      {test}")
    total = sum(count for _, count in FAMILIES.values())
    print(f"\n{proven} of {total} behaviours have at least one test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
