"""A part: a subsystem that takes part in a controller's ticks, alarms and end (:mod:`controller.process.registry`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from controller.core.discarded import Discarded
from controller.core.state import State

Causes = Mapping[tuple[str, str], str]
"""Present causes of alarms: detail by (alarm kind, source)."""


class TickStage(IntEnum):
    """Orders the parts: a part is made, and updated in each tick, at its stage. Interlocks and trips come before all
    stages.
    """

    REGULATE = 1
    """Commands outputs."""
    BOOK = 2
    """Enters what has moved into the books."""
    ALARM = 3
    """Raises alarms, also for what the later parts reported at the former tick."""
    HOLD = 4
    """Acts on alarms: holds stimulation, changes the pace of sampling."""
    RECORD = 5
    """Writes the snapshot down."""
    JUDGE = 6
    """Judges tissue, medium and probes."""
    REPORT = 7
    """Sends to the outside."""


@dataclass(frozen=True, slots=True)
class Part:
    """One subsystem of a controller. A failure in any of these is an alarm and ends nothing.

    Args:
        name: Its name in messages, unique within a controller.
        update: Acts on the snapshot of a tick. It returns at once; work that waits is a task.
        causes: Returns the present causes of alarms. While it fails, the last ones that it returned stand.
        discarded: Returns what it has discarded since the start.
        describe: Returns its state for the API, as JSON.
        close: Lets go of what it holds; called at the orderly end, once the outputs are at rest.
    """

    name: str
    update: Callable[[State], object] | None = None
    causes: Callable[[], Causes] | None = None
    discarded: Callable[[], Iterable[Discarded]] | None = None
    describe: Callable[[], object] | None = None
    close: Callable[[], Awaitable[None]] | None = None
