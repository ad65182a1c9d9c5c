"""The books: what moved without a command, flows that run on, wear of tubing, changes of tissue, and requests for assays."""

from __future__ import annotations

from controller.core.state import State
from controller.process.core import ControllerCore
from controller.process.part import Part, TickStage
from controller.process.registry import part


@part(TickStage.BOOK)
def strays(core: ControllerCore) -> Part:
    """Make the watch over outputs that move although nothing commanded it: it is booked, and the gate stops it."""

    def update(state: State) -> None:
        for route in core.runs.strays.update(state.actuators):
            name = f"stray {route.pump}"
            if not core.tasks.running(name):
                core.tasks.start(name, core.gate.stop(route.pump, "it runs, and no dose of its line is open"))

    return Part("strays", update=update)


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
