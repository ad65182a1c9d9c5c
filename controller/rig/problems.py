"""What can be wrong with a rig file, and the one error that says all of it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

Place = tuple[str | int, ...]
"""Where in the description: ("vessels", "loop", "volume")."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Describes a mistake at a place of the description, and how to correct it."""

    place: Place
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Describes a finding for its reader: in which file, on which line, under which (dotted) key."""

    file: Path
    line: int
    key: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.what}. {self.fix}"


class RigError(Exception):
    """The rig file is not sound; `problems` holds everything that is wrong, by line."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.key))
        count = f"{len(problems)} problem{'s' * (len(problems) != 1)}"
        listed = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the rig file has {count}; nothing was opened or moved\n{listed}")


def likeliest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like `name`, if any does."""
    close = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=0.5)
    return close[0] if close else None


def nearest(name: str, known: Iterable[str], what: str) -> str:
    """Return the fix for an unknown name: the known one that was probably meant, else all that are known."""
    names = sorted(set(known))
    meant = likeliest(name, names)
    return f"Did you mean “{meant}”?" if meant else f"Known {what}: {', '.join(names) or 'none'}"


def named(places: Collection[str]) -> str:
    """Return places as text: up to three by name, more by their number and the first and last of them."""
    names = list(places)
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names)})"
