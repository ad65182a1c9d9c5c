"""Data types of the capabilities of a rig."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controller.rig.description import Rig

Need = Callable[[Rig], str | None]
"""Return what a rig lacks for a function, in words; None if it has it."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that a rig may have."""

    id: str
    title: str
    needs: tuple[Need, ...]
    without: Callable[[Rig], str]
    """Return what holds on a rig without it, as a sentence."""


@dataclass(frozen=True, slots=True)
class Capability:
    """Describes one function of a rig: what the rig lacks for it (empty if it has the function), and what holds without
    it.
    """

    id: str
    title: str
    lacks: tuple[str, ...]
    without: str

    @property
    def available(self) -> bool:
        """Whether the rig has the function."""
        return not self.lacks

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "function": self.id,
            "title": self.title,
            "available": self.available,
            "lacks": list(self.lacks),
            "without": "" if self.available else self.without,
        }
