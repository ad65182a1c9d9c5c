"""Harmful manual requests, repeated without pause, that the kernel must refuse.

Everything goes through the gate, as from any client. Each request exceeds what the rig can bear, so a sound kernel
refuses or tightens it in any situation, and one with a missing interlock lets harm through.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.process.controller import Controller
from controller.rig.description import Rig
from controller.rig.graph import lines_of_heart
from controller.safety.limits import limits_of
from controller.safety.terms import Intent
from drivers.commands import Command, Dispense, Level, Run, Switch
from sim.lab import SimulatedLab

WHO = "careless"
EVERY_S = 3.0
LONGEST_MIN = 19.0
"""Duration of a dose at its line's full flow that the kernel's limit just allows: more than most vessels can hold."""
SMALL_UL = 1000.0
HUGE = 1e6
PULSE_S = 60.0


async def ask(controller: Controller, lab: SimulatedLab, output: str, number: int) -> None:
    """Make one request for each thing that `output` must not do; `number` counts the requests and names the doses."""
    for command in _requests(controller, lab, output, number):
        await controller.gate.submit(Intent(output, command, WHO, "by hand"))


def _requests(controller: Controller, lab: SimulatedLab, output: str, number: int) -> Iterator[Command]:
    rig = controller.rig
    hearts = {line for name in rig.organs.hearts for line in lines_of_heart(rig, name)}
    line = next((name for name, line in rig.lines.items() if line.pump == output), None)
    if line in hearts:
        yield Run(HUGE)
    elif line is not None:
        flow = _flow(rig, line)
        yield Dispense(too_much_ul(rig, line, flow), flow, f"{WHO}-{number}")
        if any(lab.drives.moving.get(other, 0.0) for other in neighbours(rig, line)):
            yield Dispense(SMALL_UL, flow, f"{WHO}-{number}-small")
    else:
        yield from _outputs(rig, output)


def too_much_ul(rig: Rig, line: str, flow_ul_min: float) -> float:
    """Return a dose (µL) that the source of a line never holds, or its destination never takes."""
    ends = (rig.lines[line].from_, rig.lines[line].to)
    capacities = [rig.vessels[end].capacity_ul for end in ends if end in rig.vessels]  # the other ends are selectors
    return max(flow_ul_min * LONGEST_MIN, min(capacities, default=0.0))


def _outputs(rig: Rig, output: str) -> Iterator[Command]:
    """Yield what a heater, a gas or a set-point must not do."""
    skin, lung = rig.organs.skin, rig.organs.lung
    if skin is not None and output == skin.heater:
        yield Switch(True)
        yield Switch(True, PULSE_S)
    else:
        yield Level(0.0 if lung is not None and output == lung.air else HUGE)


def neighbours(rig: Rig, line: str) -> list[str]:
    """Return the other pumps of the vessel that is weighed, if `line` touches it: no two may run together."""
    if rig.organs.kidney is None:
        return []
    spent = rig.organs.kidney.vessel
    touching = {name: each.pump for name, each in rig.lines.items() if each.pump and spent in (each.from_, each.to)}
    return [pump for name, pump in touching.items() if name != line] if line in touching else []


def _flow(rig: Rig, line: str) -> float:
    """Return the maximum flow of the line (µL/min)."""
    return limits_of(rig).pumps[rig.lines[line].pump or ""].max_ul_min
