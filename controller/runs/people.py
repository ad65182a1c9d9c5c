"""People who act on runs and protocols, and the rule of two people: what one began, another judges."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

COMMAND_LINE, PAGE_LINK, FIRST_ADMIN = "command line", "page link", "admin"
SHARED = frozenset((COMMAND_LINE, PAGE_LINK, FIRST_ADMIN))
"""Accounts that do not tell which person acts: those of everyone with access to this machine, and the first one."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts: name and role of the account."""

    name: str
    role: str = ""
    """Needed for decisions."""

    @property
    def shared(self) -> bool:
        """Whether several people may act under this name."""
        return is_shared(self.name)


def is_shared(name: str) -> bool:
    """Return whether several people may act under this name."""
    return plain_name(name) in SHARED


def plain_name(name: str) -> str:
    """Return a name as it is compared: without regard to case, width of letters, and spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def same_person(one: str, other: str) -> bool:
    """Return whether two accounts have the same name as people read it."""
    return plain_name(one) == plain_name(other)


def objection(by: Person, began: Iterable[str]) -> str:
    """Return why `by` cannot judge what the people `began` have begun; an empty text if nothing speaks against it."""
    if by.shared:
        return f"“{by.name}” does not tell which person acts. Next: sign in with a token of your own"
    if any(same_person(by.name, name) for name in began):
        return f"{by.name} is the same person. Next: another person decides"
    return ""
