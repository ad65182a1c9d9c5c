"""All organs of a rig with their figures, and the series to plot for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.figures.course import Band
from controller.figures.figure import Figure, FigureStatus
from controller.figures.gut import gut
from controller.figures.heart import heart
from controller.figures.immune import immune
from controller.figures.kidney import kidney
from controller.figures.liver import PH_BAND, liver
from controller.figures.lung import MIN_OXYGEN_PCT, lung
from controller.figures.nerves import nerves
from controller.figures.skin import comfort, skin
from controller.figures.sources import Sources
from controller.rig.description import Rig
from controller.rig.organs import HeartConfig
from controller.rig.perfusion import of_heart
from controller.rig.probes import chamber_temperature, loop_oxygen, loop_ph

COMPUTED: dict[str, tuple[str, Callable[[Sources], list[Figure]]]] = {
    "gut": ("gives fresh medium", gut),
    "kidney": ("removes waste, balances volume", kidney),
    "liver": ("conditions: pH, glucose, ammonia", liver),
    "immune": ("sterile barrier", immune),
    "lung": ("oxygen and CO2", lung),
    "skin": ("warmth", skin),
    "nerves": ("electrodes", nerves),
}
"""The organs behind the hearts: what each does, and its figures."""
OUTPUT_EVERY_S = 60.0
"""Period of the points of :mod:`controller.memory.output_series` (s)."""
NERVES_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class OrganFigures:
    """The figures of one organ; `series` are the points that show it.

    `name` is that of the organ; of one of several hearts, it has a full stop and the heart's name behind it.
    """

    name: str
    does: str
    figures: tuple[Figure, ...]
    series: tuple[str, ...]

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.name[0].upper()}{self.name[1:]}".replace(".", " ", 1)

    @property
    def verdict(self) -> FigureStatus:
        """The verdict of its worst figure."""
        return max((figure.verdict for figure in self.figures), default=FigureStatus.NONE)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        figures = {figure.key: figure.to_json() for figure in self.figures}
        return {"does": self.does, "verdict": self.verdict.name.lower(), "figures": figures}


def organs(sources: Sources) -> list[OrganFigures]:
    """Return every organ, the hearts first."""
    rig, shown = sources.rig, series_of(sources.rig)
    found = [
        OrganFigures(of_heart(rig, "heart", name), "circulates", tuple(heart(sources, config)), _of_heart(rig, config))
        for name, config in rig.organs.hearts.items()
    ]
    found += [
        OrganFigures(name, does, tuple(compute(sources)), shown[name]) for name, (does, compute) in COMPUTED.items()
    ]
    return [organ for organ in found if organ.figures]


def series_of(rig: Rig) -> dict[str, tuple[str, ...]]:
    """Return the series of each organ."""
    organ, lung, skin = rig.organs, rig.organs.lung, rig.organs.skin
    return {
        "heart": tuple(point for heart in organ.hearts.values() for point in _of_heart(rig, heart)),
        "gut": (),
        "kidney": () if organ.kidney is None else (organ.kidney.mass,),
        "liver": _known(loop_ph(rig), None if organ.liver is None else organ.liver.ph),
        "immune": () if organ.immune is None else (organ.immune.pressure,),
        "lung": () if lung is None else (lung.oxygen, lung.air, lung.co2, lung.o2),
        "skin": _known(chamber_temperature(rig), None if skin is None else f"{skin.heater}.duty"),
        "nerves": ("nerves.firing_rate", "nerves.active_electrodes", "nerves.evoked_ratio"),
    }


def bands_of(rig: Rig) -> dict[str, Band]:
    """Return the bands by which series are judged."""
    bands = {
        chamber_temperature(rig): comfort(rig),
        loop_ph(rig): Band(*PH_BAND),
        loop_oxygen(rig): Band(MIN_OXYGEN_PCT, float("inf")),
    }
    return {point: band for point, band in bands.items() if point is not None}


def _of_heart(rig: Rig, heart: HeartConfig) -> tuple[str, ...]:
    inline = tuple(f"{name}.flow" for name, device in rig.devices.items() if device.at == heart.line)
    return (f"{rig.lines[heart.line].pump}.flow", *inline, *_known(heart.pressure))


def _known(*points: str | None) -> tuple[str, ...]:
    return tuple(point for point in points if point is not None)


def every_s(point: str, rest_s: Mapping[str, float]) -> float:
    """Return the longest period of a series (s); `rest_s` is the sampling period at rest of each device (s)."""
    name, _, rest = point.partition(".")
    if name == "nerves":
        return NERVES_EVERY_S
    if rest.endswith((".flow", ".duty")):
        return OUTPUT_EVERY_S
    return rest_s.get(name, OUTPUT_EVERY_S)


def shown_series(rig: Rig) -> Iterator[str]:
    """Yield every series that an organ shows."""
    for points in series_of(rig).values():
        yield from points
