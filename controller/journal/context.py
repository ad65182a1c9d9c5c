"""What the subsystems of one rig share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.journal.journal import Journal
from controller.rig.description import Rig


@dataclass(frozen=True, slots=True)
class RigContext:
    """The rig's description, clock, present state and journal, and the way to raise an alarm."""

    rig: Rig
    clock: Clock
    store: StateStore
    journal: Journal
    alarm: Callable[[str, str, str], None]
    """Called with (kind, source, detail) for what a person must know."""
