"""Perfusion: the chambers that each heart feeds, and the vessels in which medium circulates."""

from __future__ import annotations

from controller.rig.description import Rig
from controller.rig.graph import vessels_behind
from controller.rig.organs import HeartConfig


def fed_by(rig: Rig, heart: HeartConfig) -> tuple[str, ...]:
    """Return the chambers that a heart's flow enters: directly, over junctions, and over the overflow of another chamber.

    Further cassettes of the heart's pump head carry its flow as well.
    """
    own = rig.lines.get(heart.line)
    if own is None:
        return ()
    others = (name for name, line in rig.lines.items() if own.pump is not None and line.pump == own.pump)
    lines = dict.fromkeys((heart.line, *others))
    entered = dict.fromkeys(vessel for line in lines for vessel in vessels_behind(rig, line))
    return tuple(vessel for vessel in entered if rig.vessels[vessel].kind == "chamber")


def of_heart(rig: Rig, name: str, heart: str) -> str:
    """Return the name of something that each heart has: of the only heart as it is, else with the heart's name behind it."""
    return name if len(rig.organs.hearts) == 1 else f"{name}.{heart}"


def perfused_chambers(rig: Rig) -> tuple[str, ...]:
    """Return the chambers that some heart feeds, in the order of the hearts and of their flow."""
    return tuple(dict.fromkeys(chamber for heart in rig.organs.hearts.values() for chamber in fed_by(rig, heart)))


def circulating(rig: Rig) -> tuple[str, ...]:
    """Return the vessels in which one medium circulates: the loop, then the chambers that hearts feed from it.

    Empty on a rig without a loop.
    """
    loop = rig.loop
    if loop is None:
        return ()
    hearts = (heart for heart in rig.organs.hearts.values() if _source(rig, heart) == loop)
    return tuple(dict.fromkeys((loop, *(chamber for heart in hearts for chamber in fed_by(rig, heart)))))


def _source(rig: Rig, heart: HeartConfig) -> str | None:
    line = rig.lines.get(heart.line)
    return None if line is None else line.from_
