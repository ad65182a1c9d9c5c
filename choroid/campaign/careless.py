"""Somebody who asks by hand, again and again, for what must not be: what the kernel is there to refuse.

Everything goes through the gate, as from any client. What is asked for is always more than the rig can bear, so that a
sound kernel refuses or tightens it whatever else is going on, and one with an interlock missing lets harm through.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.process.controller import Controller
from controller.rig.description import Rig
from controller.safety.terms import Intent
from drivers.commands import Command, Dispense, Level, Run, Switch
from sim.lab import SimulatedLab

WHO = "careless"
EVERY_S = 3.0
LONGEST_MIN = 19.0
"""A dose at its line's full flow that the kernel's bound on durations just lets pass: far more than any vessel has room
for."""
SMALL_UL = 1000.0
HUGE = 1e6
PULSE_S = 60.0


async def ask(controller: Controller, lab: SimulatedLab, output: str, number: int) -> None:
    """Ask once for each thing that `output` must not do; `number` counts the askings and names the doses."""
    for command in _wishes(controller, lab, output, number):
        await controller.gate.submit(Intent(output, command, WHO, "by hand"))


def _wishes(controller: Controller, lab: SimulatedLab, output: str, number: int) -> Iterator[Command]:
    rig = controller.rig
    organs = rig.organs
    line = next((name for name, line in rig.lines.items() if line.pump == output), None)
    if line == organs.heart.line:
        yield Run(HUGE)
    elif line is not None:
        flow = _flow(rig, line)
        yield Dispense(flow * LONGEST_MIN, flow, f"{WHO}-{number}")
        if any(lab.drives.moving.get(other, 0.0) for other in beside(rig, line)):
            yield Dispense(SMALL_UL, flow, f"{WHO}-{number}-small")
    elif output == organs.skin.heater:
        yield Switch(True)
        yield Switch(True, PULSE_S)
    else:
        yield Level(0.0 if output == organs.lung.air else HUGE)


def beside(rig: Rig, line: str) -> list[str]:
    """Return the other pumps of the vessel that is weighed, if `line` touches it: none may run together with
    another.
    """
    spent = rig.organs.kidney.vessel
    touching = {name: each.pump for name, each in rig.lines.items() if each.pump and spent in (each.from_, each.to)}
    return [pump for name, pump in touching.items() if name != line] if line in touching else []


def _flow(rig: Rig, line: str) -> float:
    """As much as the line may carry (µL/min)."""
    organs = rig.organs
    flows = {
        organs.gut.feed: organs.gut.flow_ul_min,
        organs.liver.glucose: organs.liver.flow_ul_min,
        organs.liver.base: organs.liver.flow_ul_min,
    }
    return flows.get(line, organs.kidney.flow_ul_min)
