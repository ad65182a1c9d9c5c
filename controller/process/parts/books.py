"""The books: flows that run on, wear of tubing, changes of tissue, and requests for assays."""

from __future__ import annotations

from controller.process.core import ControllerCore
from controller.process.part import Part, TickStage
from controller.process.registry import part


@part(TickStage.BOOK)
def continuous(core: ControllerCore) -> Part:
    """Make the bookings of flows that run on."""
    return Part("continuous bookings", update=core.runs.continuous.update)


@part(TickStage.BOOK)
def upkeep(core: ControllerCore) -> Part:
    """Make the watch over tubing, calibrations, batches and manual tasks."""
    return Part(
        "upkeep",
        update=lambda state: core.upkeep.update(state.actuators, core.gate.revolution_ul),
        causes=lambda: core.upkeep.causes,
    )


@part(TickStage.BOOK)
def tissue(core: ControllerCore) -> Part:
    """Make the alarm about tissue that the rig does not protect."""
    return Part("tissue", causes=lambda: core.tissue.causes)


@part(TickStage.JUDGE)
def requests(core: ControllerCore) -> Part:
    """Make the alarm about an assay that a run asks for."""
    return Part("requests", causes=lambda: core.runs.requests.causes(core.store.state.at_s))
