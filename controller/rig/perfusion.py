"""Perfusion: the chambers that each heart feeds, and the vessels in which medium circulates."""

from __future__ import annotations

from collections.abc import Iterator

from controller.rig.description import HeartConfig, Line, Rig


def passive_lines(rig: Rig, place: str) -> tuple[Line, ...]:
    """Return the passive lines out of a vessel or a junction."""
    return tuple(line for line in rig.lines.values() if line.passive and line.from_ == place)


def fed_by(rig: Rig, heart: HeartConfig) -> tuple[str, ...]:
    """Return the chambers that a heart's flow enters: directly, over junctions, and over the overflow of another chamber."""
    return tuple(place for place in _downstream(rig, heart) if _is_chamber(rig, place))


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


def _downstream(rig: Rig, heart: HeartConfig) -> Iterator[str]:
    """Yield the places that a heart's flow reaches, each once; it passes junctions and chambers, and ends elsewhere."""
    line = rig.lines.get(heart.line)
    waiting = [] if line is None else [line.to]
    seen: set[str] = set()
    while waiting:
        place = waiting.pop(0)
        if place in seen:
            continue
        seen.add(place)
        yield place
        if place in rig.junctions or _is_chamber(rig, place):
            waiting += [each.to for each in passive_lines(rig, place)]


def _is_chamber(rig: Rig, place: str) -> bool:
    vessel = rig.vessels.get(place)
    return vessel is not None and vessel.kind == "chamber"


def _source(rig: Rig, heart: HeartConfig) -> str | None:
    line = rig.lines.get(heart.line)
    return None if line is None else line.from_
