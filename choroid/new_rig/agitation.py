"""The stirrer, shaker or rocker of a new rig."""

from __future__ import annotations

from choroid.new_rig.draft import Draft
from choroid.new_rig.questions import NONE, Answers

SPEED_RPM = {"stirrer": 60, "shaker": 65, "rocker": 10}
"""Usual speeds of organoid culture: spinner flask, orbital shaker, rocker (strokes)."""
DESCRIPTION = (
    "      description: |",
    "        format: 1",
    "        name: motor of the agitator",
    "        points:",
    "          speed: {function: 4, register: 0, type: u16, scale: 0.1, unit: rpm, limits: [0, 400], example: 0}",
    "          setpoint:",
    "            function: 3",
    "            register: 0",
    "            type: u16",
    "            scale: 0.1",
    "            unit: rpm",
    "            level: {limits: [1, 300], rest: 0, measured: speed}",
)


def add(draft: Draft, answers: Answers, places: tuple[str, ...]) -> None:
    """Add the agitator and what drives it.

    Args:
        draft: The rig.
        answers: The answers.
        places: The vessels or plates that it keeps in motion.
    """
    kind, drive = answers["agitation"], answers["agitation_drive"]
    if kind == NONE:
        return
    keys = {"kind": kind, "at": f"[{', '.join(places)}]", "speed": f"{SPEED_RPM[kind]} rpm"}
    if drive == "relay":
        draft.device("motor", "modbus-coil-relay", address='"2"', every="5 s", channels={"0": f"point: {kind}"})
        keys["switch"] = f"motor.{kind}"
    elif drive == "modbus":
        draft.sections["devices"] += [
            "  motor:   # registers: from the manual of its inverter (docs/generic-modbus.md)",
            "    model: modbus-generic",
            f"    link: {draft.link('motor')}",
            '    address: "2"',
            "    every: 5 s",
            "    settings:",
            *DESCRIPTION,
        ]
        keys |= {"setpoint": "motor.setpoint", "measured": "motor.speed"}
    draft.add("agitators", kind, **keys)
