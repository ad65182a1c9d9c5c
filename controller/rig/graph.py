"""The rig as a graph: where the medium of a heart goes, over junctions and overflows, and in which shares.

A branch behind a junction takes a share by its resistance. Flow in tubing is laminar, so the resistance is proportional to
length / bore⁴ (Hagen and Poiseuille). All branches end at the pressure of the gas over their vessels.
"""

from __future__ import annotations

from controller.rig.description import Line, Rig

ENDS = ("source", "loop", "waste")
"""Kinds of vessels where the way of a medium ends: another pump moves what leaves them."""


def lines_of_heart(rig: Rig, heart: str) -> tuple[str, ...]:
    """Return the lines that a heart's pump drives: its own, then those of further cassettes in the same pump head.

    Each of them carries the heart's flow.
    """
    own = rig.organs.hearts[heart].line
    pump = rig.lines[own].pump
    others = (name for name, line in rig.lines.items() if name != own and pump is not None and line.pump == pump)
    return own, *others


def lines_into_chambers(rig: Rig, heart: str) -> tuple[str, ...]:
    """Return the lines of a heart and their branches, up to the first vessel on each way."""
    found = list(lines_of_heart(rig, heart))
    for line in found:
        if (end := rig.lines[line].to) in rig.junctions:
            found += [branch for branch in outlets(rig, end) if branch not in found]
    return tuple(found)


def heart_of_line(rig: Rig, line: str) -> str | None:
    """Return the heart whose pump drives a line; None if no heart's does."""
    return next((heart for heart in rig.organs.hearts if line in lines_of_heart(rig, heart)), None)


def outlets(rig: Rig, place: str) -> tuple[str, ...]:
    """Return the passive lines that lead out of a place: branches of a junction, ports of a selector, overflows of a vessel.

    A line from a vessel to the port of a selector is no overflow: the pump behind the selector draws through it.
    """
    at_port = place in rig.selectors
    return tuple(
        name
        for name, line in rig.lines.items()
        if line.passive and line.from_ == place and (at_port or line.port is None)
    )


def resistance(line: Line) -> float:
    """Return the flow resistance of a line in relation to that of 1 m with a bore of 1 mm."""
    return line.length_m / line.bore_mm**4


def shares_behind(rig: Rig, line: str) -> dict[str, float]:
    """Return the share of the flow in a line that runs in each line behind it; the line itself has 1.

    The way leads over junctions, and from a vessel over its overflows. What pumps draw from a vessel on the way is not
    subtracted. Where overflows lead back to a vessel on the way, the way ends.
    """
    order = _in_order(rig, line)
    shares = dict.fromkeys(order, 0.0) | {line: 1.0}
    rank = {name: index for index, name in enumerate(order)}
    for name in order:
        for other, share in splits(rig, rig.lines[name].to).items():
            if rank[other] > rank[name]:
                shares[other] += shares[name] * share
    return shares


def vessels_behind(rig: Rig, line: str) -> dict[str, float]:
    """Return each vessel that the medium of a line reaches, with the share of the line's flow that enters it."""
    found: dict[str, float] = {}
    for name, share in shares_behind(rig, line).items():
        if (target := rig.lines[name].to) in rig.vessels:
            found[target] = found.get(target, 0.0) + share
    return found


def entering(rig: Rig, line: str) -> dict[str, float]:
    """Return the vessels that a line leads into, directly or over junctions and selectors, with their shares of its flow."""
    found: dict[str, float] = {}
    ahead = {line: 1.0}
    while ahead:
        name, share = ahead.popitem()
        end = rig.lines[name].to
        if end in rig.junctions or end in rig.selectors:
            ahead |= {other: share * part for other, part in splits(rig, end).items()}
        else:
            found[end] = found.get(end, 0.0) + share
    return found


def fed_by_hearts(rig: Rig) -> dict[str, dict[str, float]]:
    """Return the perfused chambers: for each, the hearts that reach it and the shares of their flows that enter it."""
    found: dict[str, dict[str, float]] = {}
    for heart in rig.organs.hearts:
        for line in lines_of_heart(rig, heart):
            for vessel, share in vessels_behind(rig, line).items():
                if rig.vessels[vessel].kind == "chamber":
                    shares = found.setdefault(vessel, {})
                    shares[heart] = shares.get(heart, 0.0) + share
    return {name: found[name] for name in rig.vessels if name in found}


def chambers_of_heart(rig: Rig, heart: str) -> dict[str, float]:
    """Return the chambers that a heart reaches, with the shares of its flow that enter them."""
    return {chamber: shares[heart] for chamber, shares in fed_by_hearts(rig).items() if heart in shares}


def dosed_vessels(rig: Rig) -> frozenset[str]:
    """Return the vessels that pumps of no heart fill, directly or over junctions and overflows."""
    hearts = {line for heart in rig.organs.hearts for line in lines_of_heart(rig, heart)}
    dosing = (name for name, line in rig.lines.items() if line.pump is not None and name not in hearts)
    return frozenset(vessel for line in dosing for vessel in vessels_behind(rig, line))


def static_chambers(rig: Rig) -> tuple[str, ...]:
    """Return the chambers in static culture: no heart reaches them, and they are fed by hand or by doses."""
    perfused, dosed = fed_by_hearts(rig), dosed_vessels(rig)
    entered = {line.to for line in rig.lines.values()}
    return tuple(
        name
        for name, vessel in rig.vessels.items()
        if vessel.kind == "chamber" and name not in perfused and (name in dosed or name not in entered)
    )


def unperfused_chambers(rig: Rig) -> tuple[str, ...]:
    """Return the chambers into which lines lead that bring nothing: no pump's medium reaches them."""
    perfused, static = fed_by_hearts(rig), static_chambers(rig)
    return tuple(
        name
        for name, vessel in rig.vessels.items()
        if vessel.kind == "chamber" and name not in perfused and name not in static
    )


def splits(rig: Rig, place: str) -> dict[str, float]:
    """Return the passive lines out of a place, with the share of the flow that each of them takes.

    A port of a selector takes all of it, while it is the one that is connected.
    """
    if place in rig.vessels and rig.vessels[place].kind in ENDS:
        return {}
    if place in rig.selectors:
        return dict.fromkeys(outlets(rig, place), 1.0)
    conductances = {name: 1.0 / _resistance_to_end(rig, name) for name in outlets(rig, place)}
    total = sum(conductances.values())
    return {name: each / total for name, each in conductances.items()}


def _resistance_to_end(rig: Rig, line: str) -> float:
    """Return the resistance of a line and of what follows it up to the next vessels."""
    spec, own = rig.lines[line], resistance(rig.lines[line])
    if spec.to not in rig.junctions:
        return own
    behind = sum(1.0 / _resistance_to_end(rig, name) for name in outlets(rig, spec.to))
    return own + (1.0 / behind if behind else 0.0)


def _in_order(rig: Rig, start: str) -> list[str]:
    """Return the lines that `start` leads to, each after those that lead to it; no line closes a circle."""
    done: dict[str, None] = {}
    opened = {start}
    stack = [(start, reversed(splits(rig, rig.lines[start].to)))]
    while stack:
        name, ahead = stack[-1]
        following = next((other for other in ahead if other not in opened), None)
        if following is None:
            done[name] = None
            stack.pop()
        else:
            opened.add(following)
            stack.append((following, reversed(splits(rig, rig.lines[following].to))))
    return list(reversed(done))
