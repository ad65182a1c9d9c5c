"""The records of a controller: history, series of outputs, checkpoints of the files, the wall clock."""

from __future__ import annotations

from controller.core.discarded import Discarded
from controller.core.state import State
from controller.memory.checkpoints import Checkpoints
from controller.memory.output_series import OutputSeries
from controller.process.core import ControllerCore
from controller.process.part import Causes, Part, TickStage
from controller.process.registry import part

SUSPECT = "marked suspect and used for nothing"


@part(TickStage.REGULATE)
def wall_clock(core: ControllerCore) -> Part:
    """Make the watch over steps of the wall clock."""
    return Part("wall clock", update=lambda _: core.wall_clock.update())


@part(TickStage.RECORD)
def history(core: ControllerCore) -> Part:
    """Make the writing of readings, and the alarms about journal and history that cannot be written."""

    def update(state: State) -> None:
        core.history.add(state.at_s, state.utc, core.store.news())

    def causes() -> Causes:
        found: dict[tuple[str, str], str] = {}
        if (problem := core.journal.problem) is not None:
            found["journal_unwritten" if core.journal.lost is None else "journal_lost", "journal"] = problem
        if core.history.problem is not None:
            found["history_lost", "history"] = core.history.problem
        return found

    def discarded() -> list[Discarded]:
        return [Discarded("readings", SUSPECT, core.plausibility.dropped, lost=False), *core.history.discarded]

    return Part("history", update=update, causes=causes, discarded=discarded)


@part(TickStage.RECORD)
def outputs(core: ControllerCore) -> Part:
    """Make the series of what the outputs do."""
    return Part("outputs", update=OutputSeries(core.history.add).observe)


@part(TickStage.RECORD)
def checkpoints(core: ControllerCore) -> Part | None:
    """Make the checkpoints of the files where threads write them."""
    if not core.storage.threaded:
        return None
    made = Checkpoints(core.storage.folder, core.tasks.start)
    return Part("checkpoints", update=lambda state: made.update(state.at_s))
