"""People who act on runs and protocols, and the rule of two people: what one began, another judges."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from confusable_homoglyphs.confusables import confusables_data

COMMAND_LINE, PAGE_LINK, FIRST_ADMIN = "command line", "page link", "admin"
SHARED = frozenset((COMMAND_LINE, PAGE_LINK, FIRST_ADMIN))
"""Accounts that do not tell which person acts: those of everyone with access to this machine, and the first one. Those of the
command line name the user of the machine (:func:`command_line_of`), whom several people may share."""


@dataclass(frozen=True, slots=True)
class Person:
    """Names the person who acts, with the role of the account."""

    name: str
    role: str = ""
    """Needed for decisions."""

    @property
    def shared(self) -> bool:
        """Whether several people may act under this name."""
        return is_shared(self.name)


def is_shared(name: str) -> bool:
    """Return whether several people may act under this name."""
    return any(same_person(name, each) for each in SHARED) or reads_as_command_line(name)


def reads_as_command_line(name: str) -> bool:
    """Return whether a name begins as those of the command line do, as people read it."""
    return any(look.startswith(_skeleton(COMMAND_LINE)) for look in _looks(name))


def command_line_of(login: str) -> str:
    """Return the account of a user of this machine who acts on the command line."""
    return f"{COMMAND_LINE} ({login})"


def plain_name(name: str) -> str:
    """Return a name without regard to case, width of letters, spaces, and characters that are not seen."""
    seen = "".join(letter for letter in unicodedata.normalize("NFKC", name) if not _unseen(letter))
    return " ".join(seen.casefold().split())


def same_person(one: str, other: str) -> bool:
    """Return whether two accounts have the same name as people read it: plain, or by letters that look similar."""
    return not _looks(one).isdisjoint(_looks(other))


def _looks(name: str) -> set[str]:
    """Return how a name looks (Unicode TS 39 skeletons), as written and without regard to case: l is like I, not like i."""
    written = "".join(letter for letter in " ".join(name.split()) if not _unseen(letter))
    return {_skeleton(plain_name(name)).casefold(), _skeleton(written).casefold()}


def _skeleton(name: str) -> str:
    decomposed = "".join(_prototype(letter) for letter in unicodedata.normalize("NFD", name))
    return unicodedata.normalize("NFD", decomposed)


def _prototype(letter: str) -> str:
    """Return the letter or letters that stand for those that look like `letter`.

    The package lists for a prototype everything that looks like it, and for everything else its prototype alone.
    """
    similar = [str(each["c"]) for each in confusables_data.get(letter, ())]
    if len(similar) != 1:
        return letter
    (other,) = similar
    return other if len(confusables_data[other]) > 1 else max(letter, other, key=lambda each: (len(each), each))


def _unseen(letter: str) -> bool:
    """Return whether a character has no shape: joiners, marks of direction, selectors, fillers."""
    return (
        unicodedata.category(letter) == "Cf"
        or letter in "\u034f\u115f\u1160\u3164\uffa0"
        or "\ufe00" <= letter <= "\ufe0f"
    )


def objection(by: Person, began: Iterable[str]) -> str:
    """Return why `by` cannot judge what the people `began` have begun; an empty text if nothing speaks against it."""
    if by.shared:
        return f"“{by.name}” does not tell which person acts. Next: sign in with a token of your own"
    if any(same_person(by.name, name) for name in began):
        return f"{by.name} is the same person. Next: another person decides"
    return ""
