"""Cultures of the plant alone, with a harm each: what is true hour by hour, for the calibration of the viability estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from controller.rig.description import Rig
from sim.plant.chemistry import oxygen_mm
from sim.plant.columns import Content, Shell
from sim.plant.fleet import Fleet
from sim.plant.parameters import PUBLISHED, PlantParameters
from sim.plant.tissue_models import TissueKind, drawn

F8 = NDArray[np.float64]

HARM_AT_H = 24 * 5
STEP_S = 20.0
EXCHANGE_EVERY_H = 24 * 3
EXCHANGED_SHARE = 0.5
AIR, CO2 = 0.19, 0.05
SHIFTED = ("demand", "glucose_uptake", "ammonia_per_glucose", "growth_per_day")
"""Parameters of the tissue in which plants differ, so that an estimate is not judged on the plant alone that shaped it."""
WARM_C = 37.0
START = (0.88, 1.02)
"""Living share of the tissue at the start over that of the plant's, drawn by the seed."""


@dataclass(frozen=True, slots=True)
class CultureHarm:
    """One kind of harm: `strike` acts on the row `number` of a fleet once, `treat` each hour while it lasts."""

    name: str
    strike: Callable[[CultureFleet, int, float], None] = lambda cultures, number, size: None
    size: tuple[float, float] = (0.0, 1.0)
    """Range from which the strength is drawn."""
    lasts_h: tuple[float, float] = (1e9, 1e9)
    end: Callable[[CultureFleet, int], None] = lambda cultures, number: None


@dataclass(slots=True)
class CultureHistory:
    """The truth of all cultures: each array has the shape (hours, cultures)."""

    viability: list[F8] = field(default_factory=list)
    volume: list[F8] = field(default_factory=list)
    uptake: list[F8] = field(default_factory=list)
    oxygen_pct: list[F8] = field(default_factory=list)
    loop_oxygen_pct: list[F8] = field(default_factory=list)
    temperature_c: list[F8] = field(default_factory=list)
    ph: list[F8] = field(default_factory=list)
    glucose_mm: list[F8] = field(default_factory=list)
    lactate_mm: list[F8] = field(default_factory=list)
    ammonia_mm: list[F8] = field(default_factory=list)
    ldh: list[F8] = field(default_factory=list)
    co2_pct: list[F8] = field(default_factory=list)
    """Of the gas over the loop."""
    osmolality_mosm: list[F8] = field(default_factory=list)
    flow_share: list[F8] = field(default_factory=list)
    """Flow that is asked of the heart over its usual flow: what a rig without a flow meter takes for its flow."""

    def arrays(self) -> dict[str, F8]:
        """Return each quantity as one array."""
        return {name: np.array(getattr(self, name)) for name in self.__slots__}


class CultureFleet:
    """Cultures of one tissue model: a row of the fleet for each harm and seed, warm, perfused and fed."""

    def __init__(
        self,
        rig: Rig,
        model: TissueKind | None,
        harms: Sequence[CultureHarm],
        seeds: Sequence[int],
        *,
        shift: float = 0.0,
    ) -> None:
        """Begin with tissue of this kind, or one drawn by each seed.

        With `shift` each of :data:`SHIFTED` is by this share higher or lower, as the seed says.
        """
        self.cases = [(harm, seed) for harm in harms for seed in seeds]
        self.fleet = Fleet(
            rig, [seed for _, seed in self.cases], parameters=PUBLISHED if model is None else PlantParameters(model)
        )
        heart = next(iter(rig.organs.hearts.values()))
        self.usual_ul_min, (self.heart,) = heart.flow_ul_min, self.fleet.pumps[rig.lines[heart.line].pump or ""]
        self.fleet.lines["command_ul_min"][:, self.heart] = heart.flow_ul_min
        for name, value in (
            ("co2_fraction", CO2),
            ("o2_fraction", AIR),
            ("temperature_c", WARM_C),
            ("ambient_c", WARM_C),
        ):
            self.fleet.spaces[name][:] = value
        for number, (_, seed) in enumerate(self.cases):
            if model is None:
                drawn(seed).write(self.fleet.tissues[number])
            factors = np.random.default_rng((seed, 3)).choice((1.0 - shift, 1.0 + shift), len(SHIFTED))
            for name, factor in zip(SHIFTED, factors, strict=True):
                self.fleet.tissues[name][number] *= factor
        self.fleet.settle()
        for number, (_, seed) in enumerate(self.cases):
            self.fleet.profile[number, :, Shell.LIVING] *= np.random.default_rng((seed, 5)).uniform(*START)
        self.loop = self.fleet.vessel_names.index(rig.loop or "")
        self.chamber = next(iter(self.fleet.chambers.values()))
        self._medium = self.fleet.composition(rig.vessels[rig.loop or ""].contains)
        self.fresh = np.tile(self._medium, (len(self.cases), 1))
        """What each culture is fed with, for each µL."""

    def lived(self, hours: int) -> CultureHistory:
        """Return what happened in these hours."""
        found = CultureHistory()
        plans = [self._plan(harm, seed) for harm, seed in self.cases]
        for hour in range(hours):
            for number, (harm, size, end_h) in enumerate(plans):
                if hour == HARM_AT_H:
                    harm.strike(self, number, size)
                if hour == end_h:
                    harm.end(self, number)
            if hour % EXCHANGE_EVERY_H == EXCHANGE_EVERY_H - 1:
                self._exchange()
            self.fleet.advance(STEP_S, round(3600.0 / STEP_S))
            self._note(found)
        return found

    def _plan(self, harm: CultureHarm, seed: int) -> tuple[CultureHarm, float, int]:
        random = np.random.default_rng((seed, len(harm.name)))
        low, high = harm.size
        size = float(low * (high / low) ** random.random()) if low > 0.0 else 0.0
        return harm, size, HARM_AT_H + round(float(min(random.uniform(*harm.lasts_h), 1e6)))

    def _exchange(self) -> None:
        loop = self.fleet.vessels[:, self.loop]
        removed = EXCHANGED_SHARE * loop[:, Content.LIQUID]
        loop *= 1.0 - EXCHANGED_SHARE
        loop += removed[:, None] * self.fresh

    def _note(self, found: CultureHistory) -> None:
        fleet = self.fleet
        tissue = fleet.tissues[:, 0]
        chamber, loop = fleet.vessels[:, self.chamber], fleet.vessels[:, self.loop]
        liquid, full_mm = chamber[:, Content.LIQUID], oxygen_mm(0.2095 * 0.93)
        found.viability.append(tissue["viability"].copy())
        found.volume.append(tissue["volume_mm3"].copy())
        found.uptake.append(tissue["uptake_nmol_s"].copy())
        found.oxygen_pct.append(100.0 * chamber[:, Content.OXYGEN] / liquid / full_mm)
        found.loop_oxygen_pct.append(100.0 * loop[:, Content.OXYGEN] / loop[:, Content.LIQUID] / full_mm)
        found.temperature_c.append(fleet.spaces["temperature_c"][:, fleet.nodes["space"][self.chamber]].copy())
        found.ph.append(fleet.ph[:, self.chamber].copy())
        for name, column in (
            ("glucose_mm", Content.GLUCOSE),
            ("lactate_mm", Content.LACTATE),
            ("ammonia_mm", Content.AMMONIA),
            ("osmolality_mosm", Content.OSMOLES),
        ):
            getattr(found, name).append(chamber[:, column] / liquid)
        found.ldh.append(loop[:, Content.LDH] / loop[:, Content.LIQUID])
        found.flow_share.append(fleet.lines["command_ul_min"][:, self.heart] / self.usual_ul_min)
        found.co2_pct.append(100.0 * fleet.spaces["co2_fraction"][:, fleet.nodes["space"][self.loop]])


def _set_space(**values: float | None) -> Callable[[CultureFleet, int, float], None]:
    """Return a strike that sets fields of the gas space and warmth; None takes the size."""

    def strike(cultures: CultureFleet, number: int, size: float) -> None:
        for name, value in values.items():
            cultures.fleet.spaces[name][number] = size if value is None else value

    return strike


def _heal_space(cultures: CultureFleet, number: int) -> None:
    for name, value in (("co2_fraction", CO2), ("o2_fraction", AIR), ("temperature_c", WARM_C), ("ambient_c", WARM_C)):
        cultures.fleet.spaces[name][number] = value


def _add(column: Content) -> Callable[[CultureFleet, int, float], None]:
    """Return a strike that adds `size` (per µL) to the medium in the loop, and to what is fed."""

    def strike(cultures: CultureFleet, number: int, size: float) -> None:
        row = cultures.fleet.vessels[number, cultures.loop]
        row[column] += size * row[Content.LIQUID]
        if column != Content.MICROBES:
            cultures.fresh[number, column] += size

    return strike


def _starve(cultures: CultureFleet, number: int, _: float) -> None:
    for vessel in (cultures.loop, cultures.chamber):
        cultures.fleet.vessels[number, vessel, Content.GLUCOSE] *= 0.01
    cultures.fresh[number, Content.GLUCOSE] = 0.0


def _slow(cultures: CultureFleet, number: int, share: float) -> None:
    cultures.fleet.lines["command_ul_min"][number, cultures.heart] = share * cultures.usual_ul_min


def _occlude(cultures: CultureFleet, number: int, share: float) -> None:
    """Let the heart deliver this share of what is asked; nothing measures it."""
    cultures.fleet.lines["gain"][number, cultures.heart] *= share


def _restore_flow(cultures: CultureFleet, number: int) -> None:
    cultures.fleet.lines["command_ul_min"][number, cultures.heart] = cultures.usual_ul_min


def _feed_wrong(cultures: CultureFleet, number: int, share: float) -> None:
    """Feed a medium with this share of the nutrients of the right one, as concentrated otherwise."""
    for column in (Content.GLUCOSE, Content.GLUTAMINE, Content.INSULIN, Content.ALBUMIN):
        cultures.fresh[number, column] *= share


def _age(cultures: CultureFleet, number: int, per_day: float) -> None:
    cultures.fleet.tissues["ageing_per_h"][number] += per_day / 24.0


HARMS = (
    CultureHarm("none"),
    CultureHarm("heat", _set_space(temperature_c=None, ambient_c=None), (39.5, 41.5), (4.0, 24.0), _heal_space),
    CultureHarm("hypoxia", _set_space(o2_fraction=None), (0.005, 0.05), (6.0, 48.0), _heal_space),
    CultureHarm("acid", _set_space(co2_fraction=None), (0.12, 0.35), (24.0, 96.0), _heal_space),
    CultureHarm("ammonia", _add(Content.AMMONIA), (1.5, 6.0)),
    CultureHarm("starvation", _starve),
    CultureHarm("infection", _add(Content.MICROBES), (1e2, 1e5)),
    CultureHarm("slow ageing", _age, (0.015, 0.06)),
    CultureHarm("low flow", _slow, (0.03, 0.5), (12.0, 96.0), _restore_flow),
    CultureHarm("occlusion", _occlude, (0.03, 0.5)),
    CultureHarm("cold", _set_space(temperature_c=None, ambient_c=None), (22.0, 32.0), (12.0, 96.0), _heal_space),
    CultureHarm("osmolality", _add(Content.OSMOLES), (60.0, 200.0)),
    CultureHarm("wrong medium", _feed_wrong, (0.02, 0.2)),
)
"""The harms of the calibration: strength and duration are drawn by the seed."""
