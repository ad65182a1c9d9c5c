"""What must hold of the geometry of an electrode array: every channel has one electrode, and no two lie on each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from controller.rig.description import Nerves, Rig
from controller.rig.geometry import PLACE, ElectrodePlace
from controller.rig.problems import Finding, named

MIN_PITCH_UM, MAX_PITCH_UM = 5.0, 10_000.0
"""Distances of neighbouring electrodes outside of these are slips in the unit."""
TOLERANCE = 0.02
UNIT = "Likely cause: another unit. Write lengths with their unit, and a file of probeinterface with its si_units"


def geometry_is_sound(rig: Rig) -> Iterator[Finding]:
    """The geometry has one electrode for each channel, each at a place of its own, and of the size that charge counts on."""
    nerves = rig.nerves
    if nerves is None or nerves.geometry is None:
        return
    spec = nerves.geometry
    if bool(spec.grid) == bool(spec.electrodes):
        if not spec.file:
            yield Finding(PLACE, "has to have either a grid or electrodes", "Write one of grid:, electrodes: and file:")
        return
    if spec.grid is not None:
        if not MIN_PITCH_UM <= spec.grid.pitch_um <= MAX_PITCH_UM:
            yield Finding((*PLACE, "grid", "pitch"), f"{spec.grid.pitch_um:g} um is no pitch of an array", UNIT)
            return
        if nerves.electrodes > 1 and spec.grid.pitch_um < nerves.diameter_um:
            what = f"electrodes of {nerves.diameter_um:g} um overlap at a pitch of {spec.grid.pitch_um:g} um"
            yield Finding((*PLACE, "grid", "pitch"), what, "Correct it, or diameter, by which the charge is limited")
            return
    else:
        wrong = [*_channels(spec.electrodes, nerves.electrodes)]
        yield from wrong or _places(spec.electrodes, nerves)
        if wrong:
            return
    yield from _pitch(nerves)


def places(nerves: Nerves) -> Sequence[ElectrodePlace]:
    """Return the electrodes of a sound geometry in the order of their channels; empty without a geometry."""
    spec = nerves.geometry
    if spec is None:
        return ()
    if spec.grid is not None:
        grid = spec.grid
        return [
            ElectrodePlace.model_construct(
                x_um=number % grid.columns * grid.pitch_um, y_um=number // grid.columns * grid.pitch_um
            )
            for number in range(nerves.electrodes)
        ]
    return sorted(spec.electrodes, key=lambda each: -1 if each.channel is None else each.channel)


def size_um(each: ElectrodePlace, nerves: Nerves) -> tuple[float, float]:
    """Return width and height of an electrode."""
    width = nerves.diameter_um if each.width_um is None else each.width_um
    return width, width if each.height_um is None else each.height_um


def _channels(electrodes: Sequence[ElectrodePlace], count: int) -> Iterator[Finding]:
    """Yield what is wrong with the channel map."""
    place = (*PLACE, "electrodes")
    given = [each.channel for each in electrodes if each.channel is not None]
    if given and len(given) < len(electrodes):
        yield Finding(
            place, "some electrodes have a channel and others have none", "Write channel: at each, or at none"
        )
        return
    if not given:
        if len(electrodes) != count:
            what = f"{len(electrodes)} places are given for {count} electrodes"
            yield Finding(place, what, f"Give a place to each channel, 0 to {count - 1}, or correct nerves: electrodes")
        return
    twice = [channel for channel, times in Counter(given).items() if times > 1]
    missing = sorted(set(range(count)) - set(given))
    beyond = sorted({channel for channel in given if channel >= count})
    if beyond:
        what = f"channel {beyond[0]} does not exist: the array has {count}, 0 to {count - 1}"
        yield Finding(place, what, "Correct the channel map, or nerves: electrodes")
    elif twice:
        what = f"channel {min(twice)} has {given.count(min(twice))} electrodes"
        yield Finding(place, what, "Give each electrode a channel of its own")
    elif missing:
        what = f"no electrode is on channel {named([str(each) for each in missing])}"
        yield Finding(place, what, f"Give a place to each channel, 0 to {count - 1}, or correct nerves: electrodes")


def _places(electrodes: Sequence[ElectrodePlace], nerves: Nerves) -> Iterator[Finding]:
    """Yield electrodes that lie on each other or too far apart, and sizes that the limit of charge misjudges."""
    place = (*PLACE, "electrodes")
    sizes = [max(size_um(each, nerves)) for each in electrodes]
    least = min(min(size_um(each, nerves)) for each in electrodes)
    gap, pair = _closest(electrodes, max(sizes))
    if pair and gap < least:
        one, other = pair
        at = f"{electrodes[one].x_um:g}, {electrodes[one].y_um:g} um"
        if gap < 1e-3:
            yield Finding(place, f"electrodes {one} and {other} lie at the same place, {at}", "Give each its own place")
        else:
            what = f"electrodes {one} and {other} overlap: {least:g} um wide, {gap:g} um apart, at {at}"
            yield Finding(place, what, UNIT)
    elif len(electrodes) > 1 and not MIN_PITCH_UM <= (nearest := nearest_um(electrodes)) <= MAX_PITCH_UM:
        yield Finding(place, f"neighbouring electrodes are {nearest:g} um apart", UNIT)
        return
    disc = math.pi / 4.0 * nerves.diameter_um**2
    area, number = min((_area_um2(each, nerves), number) for number, each in enumerate(electrodes))
    if area < disc * (1.0 - TOLERANCE):
        what = (
            f"electrode {number} has {area:.4g} um², and the diameter of the array, by which the charge density is"
            f" limited, says {disc:.4g} um²"
        )
        yield Finding(("nerves", "diameter"), what, f"Write diameter: {2.0 * math.sqrt(area / math.pi):.4g} um")


def _area_um2(each: ElectrodePlace, nerves: Nerves) -> float:
    """Return the area of an electrode."""
    width, height = size_um(each, nerves)
    return width * height * (math.pi / 4.0 if each.shape == "circle" else 1.0)


def _pitch(nerves: Nerves) -> Iterator[Finding]:
    """Yield that a pitch is written that the geometry has not."""
    nearest = nearest_um(places(nerves))
    if nerves.pitch_um is not None and abs(nerves.pitch_um - nearest) > TOLERANCE * nearest:
        what = f"{nerves.pitch_um:g} um is not the distance of the nearest electrodes of the geometry, {nearest:g} um"
        yield Finding(("nerves", "pitch"), what, "Leave it out: the geometry says it")


def nearest_um(electrodes: Sequence[ElectrodePlace]) -> float:
    """Return the smallest distance of two electrodes; infinite for one alone."""
    reach = 1.0
    while len(electrodes) > 1:
        gap, pair = _closest(electrodes, reach)
        if pair and gap <= reach:
            return gap
        reach *= 4.0
    return math.inf


def _closest(electrodes: Sequence[ElectrodePlace], reach: float) -> tuple[float, tuple[int, int] | None]:
    """Return the smallest distance within `reach` and its electrodes; a pair further apart may be missed."""
    cells: dict[tuple[int, int], list[int]] = {}
    best: tuple[float, tuple[int, int] | None] = (math.inf, None)
    for number, each in enumerate(electrodes):
        column, row = math.floor(each.x_um / reach), math.floor(each.y_um / reach)
        for dx, dy in product((-1, 0, 1), repeat=2):
            for other in cells.get((column + dx, row + dy), ()):
                gap = math.hypot(each.x_um - electrodes[other].x_um, each.y_um - electrodes[other].y_um)
                if gap < best[0]:
                    best = (gap, (other, number))
        cells.setdefault((column, row), []).append(number)
    return best
