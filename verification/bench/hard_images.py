"""Images that are hard to judge, drawn without a line of the simulated camera's code: own shapes, own optics, own sensor.

A shape is a level of a sum of soft discs, not a radius over an angle. Light falls off in tissue by a saturating law, its
edge is a dark line with a bright halo, the lens is three box filters, the sensor has eight, ten or twelve bits. In the
background lie clouds of gel or precipitate, condensation, edges of gel, scratches, debris. Each image has its true mask and
says whether it can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, pi, sin

import numpy as np
from numpy.typing import NDArray

F8 = NDArray[np.float64]
Mask = NDArray[np.bool_]
ROWS, COLUMNS = 360, 440
SHARP_UM, BLURRED_UM = (3.0, 11.0), (55.0, 130.0)


@dataclass(slots=True)
class HardImage:
    """Describes one image: its grey levels, and the truth."""

    condition: str
    usable: bool
    """Whether one whole organoid is in it, in focus, and nothing covers its outline."""
    grey: NDArray[np.uint16]
    bits: int
    pixel_um: float
    mask: Mask
    """Where the organoid is; empty without one. With several it is the largest."""
    organoids: int


@dataclass(slots=True)
class Well:
    """Holds what is drawn: transmitted light is 10 to the power of minus `density`, times `light`."""

    random: np.random.Generator
    pixel_um: float
    density: F8 = field(default_factory=lambda: np.zeros((ROWS, COLUMNS)))
    light: F8 = field(default_factory=lambda: np.ones((ROWS, COLUMNS)))
    masks: list[Mask] = field(default_factory=list)
    blur_um: float = 5.0
    exposure: float = 0.6

    @property
    def rows(self) -> F8:
        """Row of each pixel (mm), shape (rows, 1)."""
        return np.asarray((np.arange(ROWS) * self.pixel_um * 1e-3)[:, None], np.float64)

    @property
    def columns(self) -> F8:
        """Column of each pixel (mm), shape (1, columns)."""
        return np.asarray((np.arange(COLUMNS) * self.pixel_um * 1e-3)[None, :], np.float64)

    @property
    def size(self) -> tuple[float, float]:
        """Height and width (mm)."""
        return ROWS * self.pixel_um * 1e-3, COLUMNS * self.pixel_um * 1e-3


def hard_image(condition: str, seed: int) -> HardImage:
    """Draw one image of a condition of :data:`CONDITIONS`; the same seed draws the same image."""
    random = np.random.default_rng((seed, sum(condition.encode()), 977))
    well = Well(random, pixel_um=float(random.choice((6.0, 8.0, 10.0))))
    well.blur_um = random.uniform(*SHARP_UM)
    usable, draw = CONDITIONS[condition]
    draw(well)
    _speckle(well, int(random.integers(0, 10)))
    _lamp(well, 0.12)
    grey, bits = _sensor(well)
    largest = max(well.masks, key=lambda mask: int(mask.sum()), default=np.zeros((ROWS, COLUMNS), dtype=bool))
    return HardImage(condition, usable, grey, bits, well.pixel_um, largest, len(well.masks))


# --- what is drawn ----------------------------------------------------------------------------------------------


def _organoid(well: Well, diameter: float | None = None, at: tuple[float, float] | None = None) -> None:
    """Add an organoid, whole in the field unless `at` (mm) says where its centre is."""
    random, (height, width) = well.random, well.size
    diameter = diameter or random.uniform(0.22, 0.55) * height
    radius = diameter / 2
    room = 1.35 * radius
    at = at or (random.uniform(room, height - room), random.uniform(room, width - room))
    level = np.zeros((ROWS, COLUMNS))
    for number in range(int(random.integers(4, 9))):
        turn, away = random.uniform(0, 2 * pi), 0.0 if number == 0 else random.uniform(0.15, 0.5) * radius
        share = 0.75 if number == 0 else random.uniform(0.35, 0.6)
        square = (well.rows - at[0] - away * sin(turn)) ** 2 + (well.columns - at[1] - away * cos(turn)) ** 2
        level += np.exp(-square / (share * radius) ** 2)
    slope = np.hypot(*np.gradient(level, well.pixel_um * 1e-3))
    depth = (level - 0.45) / np.maximum(slope, 1e-3)  # mm below the outline, near it
    inside = level > 0.45
    thickness = np.sqrt(np.clip(level - 0.45, 0.0, None))
    strength, reach = random.uniform(0.35, 1.1), random.uniform(0.25, 0.6)
    absorbed = strength * (1.0 - np.exp(-thickness / reach))
    grain = _smooth(random.normal(size=level.shape), random.uniform(12.0, 40.0) / well.pixel_um)
    absorbed *= np.clip(1.0 + 0.1 * grain / grain.std(), 0.6, 1.4)
    edge = random.uniform(0.06, 0.2)
    absorbed += edge * np.exp(-(((depth - 0.010) / 0.012) ** 2)) * inside
    absorbed -= 0.25 * edge * np.exp(-(((depth + 0.018) / 0.012) ** 2)) * ~inside
    well.density += absorbed
    well.masks.append(np.asarray(inside))


def _cloud(well: Well, low: float = 0.05, high: float = 0.25) -> None:
    """Add a smooth field of gel, precipitate or haze with this optical density at its peak."""
    random, (height, width) = well.random, well.size
    cloud = np.zeros((ROWS, COLUMNS))
    for _ in range(int(random.integers(1, 6))):
        row, column = random.uniform(0, height), random.uniform(0, width)
        turn, long = random.uniform(0, pi), random.uniform(0.18, 0.6) * height
        flat = random.uniform(0.4, 1.0)
        down, right = well.rows - row, well.columns - column
        along, across = down * sin(turn) + right * cos(turn), down * cos(turn) - right * sin(turn)
        cloud += random.uniform(0.4, 1.0) * np.exp(-((along / long) ** 2) - (across / (flat * long)) ** 2)
    well.density += random.uniform(low, high) * cloud / cloud.max()


def _gel_edge(well: Well) -> None:
    """Add a sheet of gel that ends in the field, more or less sharply."""
    random, (height, width) = well.random, well.size
    turn, bend = random.uniform(0, 2 * pi), random.uniform(-0.15, 0.15)
    down, right = well.rows - height / 2, well.columns - width / 2
    along, across = down * sin(turn) + right * cos(turn), down * cos(turn) - right * sin(turn)
    edge = across - random.uniform(-0.3, 0.3) * height - bend * along**2
    well.density += random.uniform(0.05, 0.2) / (1.0 + np.exp(-np.clip(edge / random.uniform(0.01, 0.15), -60, 60)))


def _precipitate(well: Well, grains: int = 900) -> None:
    """Add a haze of fine grains, denser in the middle of a patch."""
    random, (height, width) = well.random, well.size
    row, column, spread = random.uniform(0, height), random.uniform(0, width), random.uniform(0.1, 0.35) * height
    for _ in range(grains):
        at = (random.normal(row, spread), random.normal(column, spread))
        _grain(well, at, random.uniform(0.004, 0.014), random.uniform(0.05, 0.35))
    _cloud(well, 0.04, 0.15)


def _debris(well: Well, clumps: int, *, size: tuple[float, float] = (0.05, 0.2)) -> None:
    """Add clumps of grains and fibres: ragged, with holes."""
    random, (height, width) = well.random, well.size
    for _ in range(clumps):
        row, column, reach = random.uniform(0, height), random.uniform(0, width), random.uniform(*size)
        for _ in range(int(25 + 900 * reach**1.5)):
            away, turn = reach * random.uniform(0, 1) ** 0.6, random.uniform(0, 2 * pi)
            at = (row + away * sin(turn), column + away * cos(turn))
            _grain(well, at, random.uniform(0.008, 0.026), random.uniform(0.1, 0.5))
        if random.uniform() < 0.5:
            _line(well, (row, column), random.uniform(0.2, 0.6), 0.010, random.uniform(0.1, 0.4))


def _speckle(well: Well, count: int) -> None:
    height, width = well.size
    for _ in range(count):
        at = (well.random.uniform(0, height), well.random.uniform(0, width))
        _grain(well, at, well.random.uniform(0.008, 0.03), well.random.uniform(0.1, 0.6))


def _grain(well: Well, at: tuple[float, float], radius: float, depth: float) -> None:
    step = well.pixel_um * 1e-3
    row, column, reach = round(at[0] / step), round(at[1] / step), int(3 * radius / step) + 1
    rows, columns = (
        slice(max(0, row - reach), max(0, row + reach + 1)),
        slice(max(0, column - reach), max(0, column + reach + 1)),
    )
    square = (well.rows[rows] - at[0]) ** 2 + (well.columns[:, columns] - at[1]) ** 2
    well.density[rows, columns] += depth / (
        1.0 + np.exp(np.clip((np.sqrt(square) - radius) / (0.25 * radius), -60, 60))
    )


def _line(well: Well, at: tuple[float, float], length: float, width: float, depth: float) -> None:
    turn = well.random.uniform(0, 2 * pi)
    down, right = well.rows - at[0], well.columns - at[1]
    along, across = down * sin(turn) + right * cos(turn), down * cos(turn) - right * sin(turn)
    well.density += depth * np.exp(-((across / width) ** 2)) * (np.abs(along) < length / 2)


def _scratches(well: Well) -> None:
    height, width = well.size
    for _ in range(int(well.random.integers(2, 7))):
        at = (well.random.uniform(0, height), well.random.uniform(0, width))
        depth = well.random.choice((-1, 1)) * well.random.uniform(0.03, 0.2)
        _line(well, at, well.random.uniform(0.5, 2.0) * height, well.random.uniform(0.004, 0.012), depth)


def _condensation(well: Well) -> None:
    """Add drops on the lid, far out of focus: soft discs, brighter inside and darker at their edge."""
    random, (height, width) = well.random, well.size
    drops = np.zeros((ROWS, COLUMNS))
    for _ in range(int(random.integers(8, 40))):
        row, column, radius = random.uniform(0, height), random.uniform(0, width), random.uniform(0.06, 0.3)
        away = np.hypot(well.rows - row, well.columns - column) / radius
        depth = random.uniform(0.03, 0.15)
        drops += depth * np.exp(-(((away - 0.85) / 0.2) ** 2)) - 0.5 * depth * np.exp(-((away / 0.5) ** 2))
    well.density += _smooth(drops, random.uniform(40.0, 90.0) / well.pixel_um)


def _bubble(well: Well, at: tuple[float, float], radius: float) -> None:
    away = np.hypot(well.rows - at[0], well.columns - at[1]) / radius
    shade = np.where(away < 1.0, 0.04 + 0.96 * np.clip(1.0 - (away / 0.8) ** 6, 0.0, 1.0), 1.0)
    well.light *= shade * (1.0 + 0.3 * np.exp(-((away / 0.3) ** 2)))


def _lamp(well: Well, strength: float) -> None:
    """Multiply by an uneven light: a slope, and a bright spot that is not in the middle."""
    random, (height, width) = well.random, well.size
    down, right = well.rows / height - 0.5, well.columns / width - 0.5
    spot = (down - random.uniform(-0.3, 0.3)) ** 2 + (right - random.uniform(-0.3, 0.3)) ** 2
    well.light *= np.exp(-strength * random.uniform(0.5, 2.0) * spot + strength * random.normal() * (down + right))


# --- conditions -------------------------------------------------------------------------------------------------


def _with(*others: Callable[[Well], None]) -> Callable[[Well], None]:
    def draw(well: Well) -> None:
        _organoid(well)
        for other in others:
            other(well)

    return draw


def _many_clumps(well: Well) -> None:
    _debris(well, int(well.random.integers(3, 12)))


def _one_clump(well: Well) -> None:
    _debris(well, 1, size=(0.15, 0.45))


def _strong_lamp(well: Well) -> None:
    _lamp(well, 0.7)


def _several(well: Well) -> None:
    height, width = well.size
    first = well.random.uniform(0.22, 0.34) * height
    _organoid(well, first, (well.random.uniform(0.35, 0.65) * height, 0.25 * width))
    _organoid(well, first * well.random.uniform(0.65, 1.0), (well.random.uniform(0.35, 0.65) * height, 0.72 * width))


def _several_in_cloud(well: Well) -> None:
    _several(well)
    _cloud(well)


def _cut(well: Well) -> None:
    height, width = well.size
    side = int(well.random.integers(0, 4))
    along, diameter = well.random.uniform(0.3, 0.7), well.random.uniform(0.3, 0.6) * height
    out = well.random.uniform(-0.1, 0.25) * diameter
    places = ((out, along * width), (height - out, along * width), (along * height, out), (along * height, width - out))
    _organoid(well, diameter, places[side])


def _cut_in_cloud(well: Well) -> None:
    _cut(well)
    _cloud(well)


def _defocused(well: Well) -> None:
    _organoid(well)
    well.blur_um = well.random.uniform(*BLURRED_UM)


def _defocused_cloud(well: Well) -> None:
    _defocused(well)
    _cloud(well)


def _bubble_on(well: Well) -> None:
    _organoid(well)
    edge = well.masks[0] & ~_shrunk(well.masks[0])
    rows, columns = np.nonzero(edge)
    chosen = int(well.random.integers(rows.size))
    step = well.pixel_um * 1e-3
    _bubble(well, (rows[chosen] * step, columns[chosen] * step), well.random.uniform(0.15, 0.4))


def _bubble_only(well: Well) -> None:
    height, width = well.size
    at = (well.random.uniform(0.3, 0.7) * height, well.random.uniform(0.3, 0.7) * width)
    _bubble(well, at, well.random.uniform(0.2, 0.5))


def _nothing(well: Well) -> None:
    """Leave the well empty."""


def _dark(well: Well) -> None:
    _organoid(well)
    well.exposure = well.random.uniform(0.005, 0.06)


def _bright(well: Well) -> None:
    _organoid(well)
    well.exposure = well.random.uniform(1.3, 3.0)


CONDITIONS: dict[str, tuple[bool, Callable[[Well], None]]] = {
    "plain": (True, _with()),
    "cloud": (True, _with(_cloud)),
    "two clouds": (True, _with(_cloud, _cloud)),
    "precipitate": (True, _with(_precipitate)),
    "condensation": (True, _with(_condensation)),
    "gel edge": (True, _with(_gel_edge)),
    "scratches": (True, _with(_scratches)),
    "debris": (True, _with(_many_clumps)),
    "uneven light": (True, _with(_strong_lamp)),
    "cloud and debris": (True, _with(_cloud, _many_clumps)),
    "cloud and uneven light": (True, _with(_cloud, _strong_lamp)),
    "empty": (False, _nothing),
    "cloud only": (False, _cloud),
    "precipitate only": (False, _precipitate),
    "condensation only": (False, _condensation),
    "gel edge only": (False, _gel_edge),
    "scratches only": (False, _scratches),
    "debris only": (False, _many_clumps),
    "clump only": (False, _one_clump),
    "bubble only": (False, _bubble_only),
    "several": (False, _several),
    "several in cloud": (False, _several_in_cloud),
    "cut off": (False, _cut),
    "cut off in cloud": (False, _cut_in_cloud),
    "defocus": (False, _defocused),
    "defocus in cloud": (False, _defocused_cloud),
    "bubble on it": (False, _bubble_on),
    "dark": (False, _dark),
    "overexposed": (False, _bright),
}
"""Whether an image of the condition can be used, and what draws it."""


# --- optics and sensor ------------------------------------------------------------------------------------------


def _smooth(image: F8, sd_px: float) -> F8:
    """Return the image under three box filters, which together are nearly a bell of this standard deviation."""
    half = max(0, round((np.sqrt(4 * sd_px**2 + 1) - 1) / 2))
    for _ in range(3):
        for axis in (0, 1):
            image = _boxed(image, half, axis)
    return image


def _boxed(image: F8, half: int, axis: int) -> F8:
    if half == 0:
        return image
    pad = [(half + 1, half) if each == axis else (0, 0) for each in (0, 1)]
    total = np.cumsum(np.pad(image, pad, mode="edge"), axis=axis)
    length, width = image.shape[axis], 2 * half + 1
    ends = np.take(total, range(width, width + length), axis=axis)
    return np.asarray((ends - np.take(total, range(length), axis=axis)) / width)


def _shrunk(mask: Mask) -> Mask:
    small = mask.copy()
    for axis in (0, 1):
        small &= np.roll(mask, 1, axis) & np.roll(mask, -1, axis)
    return small


def _sensor(well: Well) -> tuple[NDArray[np.uint16], int]:
    bits, capacity = int(well.random.choice((8, 10, 12))), well.random.uniform(4_000, 20_000)
    light = _smooth(10.0**-well.density * well.light, well.blur_um / well.pixel_um)
    electrons = well.random.poisson(np.clip(light * well.exposure, 0.0, 4.0) * capacity) + well.random.normal(
        0, 6, light.shape
    )
    top = 2**bits - 1
    return np.asarray(np.clip(np.round(electrons / capacity * top), 0, top), np.uint16), bits
