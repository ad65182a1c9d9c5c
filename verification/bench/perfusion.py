"""A rig without wires: the plant, perfused by an ideal hand in virtual time, with the real ledger and estimator.

Devices, gate and protocol engine are left out, which makes it some fifty times faster than the whole stack; pumps still
err as the plant's pumps do, the balance and the probes have their noise, gas is held by pH, and every eight hours a batch
is drawn, partly replaced, sweetened and buffered by what the estimator believes, and given back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np

from controller.core.clock import Clock
from controller.core.state import ActuatorView, StateStore, Volume
from controller.estimator.assays import Assays
from controller.estimator.estimator import Estimator
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.rig.description import Rig, required
from controller.rig.families import points_of
from controller.rig.probes import temperature_target_c
from drivers.commands import Guarantee, PumpStatus, Quality, Run
from protocols.media_state import PCO2_REL_SD
from sim.plant.parameters import PUBLISHED, PlantParameters
from sim.plant.plant import Plant

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR_S = 3600.0
CYCLE_H = 8
BATCH_UL = 18_000.0
BALANCE_SD_UL = 15.0
PUMP_REL_SD = 0.03
MIN_UL = 500.0
PORTIONS = 3
"""Parts in which a batch is given back."""
GAS_EVERY_S = 600.0
SWEET_BELOW_MM, BUFFER_BELOW_MM = 14.0, 19.0
Each = Callable[[], Awaitable[None]]


DEMAND_REL_SD, AMMONIA_REL_SD, WATER_REL_SD = 0.25, 0.35, 0.4
"""Differences between cultures: oxygen demand (lactate a glucose follows it), ammonia a glucose, water lost by tubing."""
SIZE_REL_SD = 0.06
"""Of the organoids against what the rig file says."""


def as_it_is(
    rig: Rig,
    random: np.random.Generator,
    buffers: Mapping[str, float] = MappingProxyType({}),
    *,
    size_sd: float = SIZE_REL_SD,
) -> Rig:
    """Return what really stands on the bench: bottles off their labels, organoids larger or smaller than noted.

    `buffers` are those of the complete media (fields of :class:`~controller.rig.description.Medium`), of which the rig
    file says nothing.
    """
    media = {}
    for name, medium in rig.media.items():
        off = 1.0 + random.normal(0.0, 1.0, 4) * (0.02, 0.015, 0.06, 0.005)
        media[name] = medium.model_copy(
            update={
                "glucose_mm": medium.glucose_mm * off[0],
                "bicarbonate_mm": medium.bicarbonate_mm * off[1],
                "glutamine_mm": medium.glutamine_mm * off[2],
                "osmolality_mosm": medium.osmolality_mosm * off[3],
                **(buffers if medium.glutamine_mm > 0.0 else {}),
            }
        )
    ((chamber, tissue),) = rig.tissue.items()
    diameter = tissue.diameter_mm * (1.0 + size_sd * float(random.normal()))
    larger = tissue.model_copy(update={"diameter_mm": diameter})
    return rig.model_copy(update={"media": media, "tissue": {chamber: larger}})


def working_harder(plant: Plant, random: np.random.Generator) -> None:
    """Make tissue do a quarter more or less than it should, on more or less oxygen, with more or less ammonia; dry the air.

    Without these differences between cultures, a trial could not tell whether an interval of them is right.
    """
    spread = {"count": 0.25, "demand": DEMAND_REL_SD, "ammonia_per_glucose": AMMONIA_REL_SD}
    for name, rel_sd in spread.items():
        plant.fleet.tissues[name][0] *= float(np.exp(random.normal(0.0, rel_sd)))
    plant.fleet.lines["water_loss_ul_s"][0] *= float(np.exp(random.normal(0.0, WATER_REL_SD)))


class Observer:
    """What one laboratory knows of a culture: its own journal, ledger, estimator and assays."""

    def __init__(self, rig: Rig, *, folder: Path, clock: Clock, store: StateStore) -> None:
        folder.mkdir(exist_ok=True)
        self.journal = Journal(folder / "journal.db", clock, durable=False)
        self.ledger = Ledger(rig, self.journal, clock)
        self.estimator = Estimator(rig, ledger=self.ledger, journal=self.journal, clock=clock, store=store)
        self.assays = Assays(rig, estimator=self.estimator, ledger=self.ledger, journal=self.journal, clock=clock)


class Perfusion:
    """One rig in the running (virtual) loop. `renewed` is the share of each batch that is replaced by fresh medium.

    Several `observers` see the same culture; the first one's estimates decide what is done to it.
    """

    def __init__(
        self,
        rig: Rig,
        *,
        seed: int,
        folder: Path,
        buffers: Mapping[str, float] = MappingProxyType({}),
        observers: int = 1,
        parameters: PlantParameters | None = None,
    ) -> None:
        """With `parameters` the tissue is as large as the rig file says and has these; else it is off by a quarter."""
        random = np.random.default_rng([seed, 1])
        self._loop = asyncio.get_running_loop()
        self._random = random
        self.rig = rig
        really = as_it_is(rig, random, buffers, size_sd=SIZE_REL_SD if parameters is None else 0.0)
        self.plant = Plant(really, seed=seed, now=self._loop.time, parameters=parameters or PUBLISHED)
        self.plant.fleet.spaces["ambient_c"][0] = temperature_target_c(rig)  # the skin's regulator is taken as ideal
        if parameters is None:
            working_harder(self.plant, random)
        self.renewed = float(random.uniform(0.03, 0.3))
        self._gas = 1.0 + PCO2_REL_SD * float(random.normal())
        clock = Clock(follow_system=False, epoch=EPOCH)
        self.clock = clock
        self.store = StateStore()
        folders = [folder / str(number) for number in range(observers)]
        self.observers = [Observer(rig, folder=each, clock=clock, store=self.store) for each in folders]
        inform = ("lactate", "glucose", "ammonia", "oxygen")
        self._informing = {point: kind for point, kind in points_of(rig).items() if kind.quantity in inform}
        self._kidney = required(rig.organs.kidney, "organs.kidney")
        self._co2_pct = 5.0
        self._co2_ml_min = 0.0

    async def live(self, days: float, *, hourly: Each, drawn: Each) -> None:
        """Perfuse for `days`; `hourly` and `drawn` (after each estimate of a drawn batch) are called on the way."""
        for heart in self.rig.organs.hearts.values():
            self.plant.set_pump(self.rig.lines[heart.line].pump or "", heart.flow_ul_min)
        begin_s = self._loop.time()
        for hour in range(round(days * 24)):
            if hour % CYCLE_H == 0 and hour:
                await self._cycle(drawn)
            await self.breathe_until(begin_s + (hour + 1) * HOUR_S)
            await hourly()

    async def breathe_until(self, end_s: float) -> None:
        """Hold the pH by the gas until a loop time."""
        while self._loop.time() < end_s:
            self._breathe()
            await asyncio.sleep(min(GAS_EVERY_S, end_s - self._loop.time()))

    async def move(self, name: str, ul: float, flow_ul_min: float) -> float:
        """Make one transfer, booked as the balance saw it, or as the pump counts where it sees nothing; return that (µL)."""
        line = self.rig.lines[name]
        before_ul = self._weighed_ul()
        if line.valve is not None:
            self.plant.set_switch(line.valve, True)
        self.plant.set_pump(line.pump or "", flow_ul_min)
        await asyncio.sleep(ul / flow_ul_min * 60.0)
        self.plant.set_pump(line.pump or "", 0.0)
        if line.valve is not None:
            self.plant.set_switch(line.valve, False)
        weighed = self._kidney.vessel in (line.from_, line.to)
        moved_ul = abs(self._weighed_ul() - before_ul) if weighed else ul
        for each in self.observers:
            if weighed:
                each.ledger.moved(name, moved_ul, 1.5 * BALANCE_SD_UL, "balance")
            else:
                each.ledger.moved(name, moved_ul, PUMP_REL_SD * moved_ul, "pump")
        return moved_ul

    async def sample(self) -> None:
        """Take readings for an estimate, as the rig's sampling would bring them, until cancelled."""
        lung = required(self.rig.organs.lung, "organs.lung")
        while True:
            now_s = self._loop.time()
            for point, (value, unit) in self.readings().items():
                self.store.read(point, value, unit, Quality.GOOD, now_s)
            for heart in self.rig.organs.hearts.values():
                status, flow = PumpStatus(True, heart.flow_ul_min, 0.0), Run(heart.flow_ul_min)
                view = ActuatorView(status, now_s, flow, Run(heart.basal_ul_min), Guarantee.GUARD)
                self.store.actuator(self.rig.lines[heart.line].pump or "", view)
            await asyncio.sleep(self.rig.devices[lung.ph.partition(".")[0]].every_s)

    def close(self) -> None:
        """Let go of the journals."""
        for each in self.observers:
            each.journal.close()

    # --- inside -----------------------------------------------------------------------------------------

    def _breathe(self) -> None:
        lung = required(self.rig.organs.lung, "organs.lung")
        error = self.plant.sense(lung.ph) - lung.ph_setpoint
        self._co2_pct = min(lung.co2_max_pct, max(lung.co2_min_pct, self._co2_pct * 10.0 ** (0.5 * error)))
        co2 = round(lung.total_ml_min * self._co2_pct / 100.0, 2)
        self.plant.set_gas(lung.co2, co2 * self._gas)
        self._co2_ml_min = co2
        self.plant.set_gas(lung.air, round(lung.total_ml_min - co2, 2))

    async def _cycle(self, drawn: Each) -> None:
        organs, kidney = self.rig.organs, self._kidney
        await self._move(kidney.draw, BATCH_UL, kidney.flow_ul_min)
        sampling = asyncio.create_task(self.sample())
        try:
            estimate, *_ = [await each.estimator.estimate() for each in self.observers]
        finally:
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
        await drawn()
        fresh_ul = self.renewed * BATCH_UL
        glucose_ul = 900.0 if estimate.spent.glucose_mm.value < SWEET_BELOW_MM else 0.0
        base_ul = 700.0 if estimate.spent.bicarbonate_mm.value < BUFFER_BELOW_MM else 0.0
        await self._move(kidney.discard, fresh_ul + glucose_ul + base_ul, kidney.flow_ul_min)
        for line, ul, flow in (
            (required(organs.gut, "organs.gut").feed, fresh_ul, required(organs.gut, "organs.gut").flow_ul_min),
            (
                required(organs.liver, "organs.liver").glucose,
                glucose_ul,
                required(organs.liver, "organs.liver").flow_ul_min,
            ),
            (required(organs.liver, "organs.liver").base, base_ul, required(organs.liver, "organs.liver").flow_ul_min),
        ):
            await self._move(line, ul, flow)
        spent, loop = kidney.vessel, required(self.rig.loop, "a loop")
        for _ in range(PORTIONS):  # a pump that gives less than asked leaves a rest
            volumes = self._volumes()
            room_ul = self.rig.vessels[loop].volume_ul - volumes[loop].ul
            rest_ul = volumes[spent].ul - self.rig.vessels[spent].volume_ul
            await self._move(kidney.return_, min(rest_ul, room_ul), kidney.flow_ul_min)
        excess_ul = self._volumes()[spent].ul - self.rig.vessels[spent].volume_ul
        await self._move(kidney.discard, excess_ul, kidney.flow_ul_min)

    async def _move(self, name: str, ul: float, flow_ul_min: float) -> None:
        """Make one transfer, unless it is too small."""
        if ul >= MIN_UL:
            await self.move(name, ul, flow_ul_min)

    def _volumes(self) -> dict[str, Volume]:
        return self.observers[0].ledger.volumes()

    def _weighed_ul(self) -> float:
        truth = self.plant.truth().volumes_ul[self._kidney.vessel]
        return truth + float(self._random.normal(0.0, BALANCE_SD_UL))

    def readings(self) -> dict[str, tuple[float, str]]:
        """Ask the probes of the medium and the gas: value and unit by point. The gas of CO2 is what its controller says."""
        lung = required(self.rig.organs.lung, "organs.lung")
        found = {lung.ph: (self.plant.sense(lung.ph), "pH")}
        for point in (lung.air, lung.co2, lung.o2):
            found[point] = self._co2_ml_min if point == lung.co2 else self.plant.sense(point), "mL/min"
        return found | {point: (self.plant.sense(point), kind.unit) for point, kind in self._informing.items()}
