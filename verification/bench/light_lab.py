"""A protocol without wires: the verbs of one run act on the plant at once, with the real ledger and estimators.

The protocol's own function runs as in the controller, and medium and tissue are estimated by the real estimators;
devices, gate, journal of steps and alarms are left out. Sixty days take half a minute of processor time. Pumps err as
the plant's pumps do, the balance and the probes have their noise. A technician reads the level of the loop and renews
bottles once a week, and makes the assays that the protocol requests within a day.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from controller.core.state import ActuatorView
from controller.estimator.assays import AssayRefused
from controller.rig.description import required
from controller.runs.facts import RigFacts
from controller.runs.views import volumes_view
from controller.steps.barrier import bounds_kpa
from controller.transfers.routes import Route, route_of, routes_of
from controller.vitals.vitals import vital_signs
from drivers.commands import Guarantee, PumpStatus, Quality, Run
from nerves.summary import NervesSummary
from protocols.assay import ANALYTES
from protocols.assay_requests import ASSAY_WANTED
from protocols.host import ProtocolError, ProtocolHost
from protocols.interval import Interval
from protocols.language import Lab
from protocols.organs import Immune
from protocols.parameters import complete
from protocols.registry import get
from protocols.results import VesselVolume
from protocols.retreat import RETREAT
from protocols.table import way_of_step
from protocols.verbs import Policy, Verb
from sim.neurons.conditions import TissueConditions
from sim.neurons.rates import RateModel
from sim.plant.truth import PlantTruth
from verification.bench.perfusion import HOUR_S, Perfusion

DAY_S = 86_400.0
ROUND_D = 7.0
BALANCE_REL_SD = 0.01
PH_SD, OTHER_SD = 0.02, 1.0
"""Standard deviation of a settled reading: pH, and others in their unit."""
FULL_FILTER_KPA = 10.0
"""Pressure before an intact filter while medium is given back: far from both limits."""
LEVEL_SD_UL = 300.0
BOTTLE_REL_SD = 0.005
WASTE_SD_UL = 500.0
TIMES = 3
"""Maximum number of doses for one transfer: a pump that gives less than asked leaves a rest."""
REST_SHARE = 0.03
WANDER_SD, WANDER_H = 0.2, 100.0
"""Slow change of an array's firing: relative standard deviation and time constant (h)."""
SPECIES = {"osmolality": "osmoles"}
LIGHT = "light"


@dataclass(slots=True)
class LightHistory:
    """What came of a run: the truth once an hour, and what was asked and decided."""

    truth: list[PlantTruth] = field(default_factory=list)
    assays: int = 0
    actions: dict[str, int] = field(default_factory=dict)
    retreats_d: list[float] = field(default_factory=list)
    suspected_d: float | None = None
    """The day on which the estimate of the tissue suspected or showed a loss for the first time."""


@lru_cache(maxsize=1)
def _array(electrodes: int) -> RateModel:
    return RateModel(electrodes, 0)


class LightLab:
    """Carries out one protocol on the plant of `perfusion`. The first observer's estimates decide."""

    def __init__(self, perfusion: Perfusion, *, seed: int, assays: bool) -> None:
        """`assays`: whether requested assays are made."""
        self.history = LightHistory()
        self._perfusion, self._plant, self._rig = perfusion, perfusion.plant, perfusion.rig
        self._random = np.random.default_rng([seed, 5])
        self._loop = asyncio.get_running_loop()
        self._observer = perfusion.observers[0]
        self._routes = routes_of(self._rig)
        self._assays = assays
        self._due: list[tuple[float, tuple[str, ...]]] = []
        self._wander = 0.0
        self._began_s = self._loop.time()
        observer, clock = self._observer, perfusion.clock
        self._vitals = required(
            vital_signs(self._rig, observer.estimator, grade=lambda: None, journal=observer.journal, clock=clock),
            "a loop",
        )
        lung, skin = required(self._rig.organs.lung, "organs.lung"), required(self._rig.organs.skin, "organs.skin")
        self._probes = {lung.oxygen: "%", lung.ph: "pH", skin.temperature: "degC"}
        self._probes |= {
            f"{name}.oxygen": "%" for name, each in self._rig.devices.items() if each.model == "atlas-ezo-do"
        }

    async def live(self, protocol: str, params: Mapping[str, float], days: float) -> None:
        """Run a shipped protocol for `days`."""
        recipe = get(protocol)
        facts = RigFacts(self._rig, self.volumes_now)
        lab = Lab(cast(ProtocolHost, self), facts)
        for heart in self._rig.organs.hearts.values():
            self._plant.set_pump(self._rig.lines[heart.line].pump or "", heart.flow_ul_min)
        running = asyncio.ensure_future(recipe.function(lab, complete(recipe.params, params)))
        try:
            for hour in range(round(days * 24)):
                await self._perfusion.breathe_until(self._began_s + (hour + 1) * HOUR_S)
                self._hour(hour + 1)
                if running.done():
                    await running
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    # --- of ProtocolHost --------------------------------------------------------------------------------

    async def act(self, verb: Verb, args: Mapping[str, Any]) -> Any:
        """Carry out a verb; nothing is recorded."""
        if verb.policy is Policy.RESUME:
            return await self._transfer(way_of_step(verb.name, args), args["volume_ul"])
        match verb.name:
            case Lab.measure.name:
                return await self._measured(args["point"], args["settle_s"])
            case Lab.sleep_until.name:
                return await self._slept_until(args["elapsed_s"])
            case Lab.decide.name:
                return args["choose"]()
            case Lab.note.name:
                return self._noted(args["kind"], args["data"])
            case Lab.estimate.name:
                return await self._estimated()
            case Immune.barrier.name:
                min_kpa, max_kpa = bounds_kpa(self._rig)
                kpa = {"peak_kpa": FULL_FILTER_KPA, "min_kpa": min_kpa, "max_kpa": max_kpa}
                return {"sterile": True, "detail": "", **kpa}
        raise ProtocolError(f"the protocol asks for “{verb.name}”{args}, which this benchmark does not measure")

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        """Return the volumes of the ledger."""
        return {role: VesselVolume(**each) for role, each in volumes_view(self._rig, self._observer.ledger).items()}

    def route(self, verb: str) -> Route:
        """Return the route of a verb."""
        return route_of(self._routes, verb)

    # --- the verbs --------------------------------------------------------------------------------------

    async def _transfer(self, way: str, volume_ul: float) -> dict[str, Any]:
        """Move liquid until the balance agrees."""
        route, moved_ul = self.route(way), 0.0
        for _ in range(TIMES):
            rest_ul = volume_ul - moved_ul
            if rest_ul < max(route.min_ul, REST_SHARE * volume_ul):
                break
            moved_ul += await self._perfusion.move(route.line, rest_ul, route.flow_ul_min)
        sd_ul = BALANCE_REL_SD * moved_ul
        return {"ul": moved_ul, "low": moved_ul - 2 * sd_ul, "high": moved_ul + 2 * sd_ul}

    async def _measured(self, point: str, settle_s: float) -> dict[str, Any]:
        """Take a reading."""
        await asyncio.sleep(settle_s)
        immune = self._rig.organs.immune
        if immune is not None and point == immune.pressure:
            value, unit = FULL_FILTER_KPA, "kPa"
        else:
            value, unit = self._plant.sense(point), "pH" if point.endswith(".ph") else "%"
        interval = Interval.around(value, PH_SD if unit == "pH" else OTHER_SD)
        return {"point": point, "unit": unit, "interval": interval.to_json(), "detail": ""}

    async def _slept_until(self, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the start."""
        late_s = max(self._loop.time() - self._began_s - elapsed_s, 0.0)
        await asyncio.sleep(max(self._began_s + elapsed_s - self._loop.time(), 0.0))
        return late_s

    def _noted(self, kind: str, data: Mapping[str, Any]) -> None:
        """Count decisions, and ask for the assays that are requested."""
        if kind == "recycle":
            self.history.actions[data["action"]] = self.history.actions.get(data["action"], 0) + 1
        elif kind == RETREAT:
            self.history.retreats_d.append(self._days)
        elif kind == ASSAY_WANTED and self._assays:
            self._due.append((self._days + float(self._random.uniform(0.05, 1.0)), tuple(data["analytes"])))

    async def _estimated(self) -> dict[str, Any]:
        """Return the real estimate of the medium, with what that of the tissue says."""
        async with self._sampling():
            media = await self._observer.estimator.estimate()
        return replace(media, tissue=self._vitals.tissue_loss).to_json()

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _days(self) -> float:
        return (self._loop.time() - self._began_s) / DAY_S

    @contextlib.asynccontextmanager
    async def _sampling(self) -> AsyncIterator[None]:
        sampling = asyncio.ensure_future(self._perfusion.sample())
        try:
            yield
        finally:
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling

    def _hour(self, hour: int) -> None:
        """Look at the tissue, as the controller does, and do what a person does."""
        truth = self._plant.truth()
        self.history.truth.append(truth)
        store, now_s = self._perfusion.store, self._loop.time()
        for point, unit in self._probes.items():
            store.read(point, self._plant.sense(point), unit, Quality.GOOD, now_s)
        for heart in self._rig.organs.hearts.values():
            status, flow = PumpStatus(True, heart.flow_ul_min, 0.0), Run(heart.flow_ul_min)
            view = ActuatorView(status, now_s, flow, Run(heart.basal_ul_min), Guarantee.GUARD)
            store.actuator(self._rig.lines[heart.line].pump or "", view)
        state = store.snapshot(now_s, self._perfusion.clock.utc_text(), ())
        self._vitals.score(state, self._firing(truth, now_s), "")
        loss = self._vitals.tissue_loss
        if self.history.suspected_d is None and (loss.suspected or loss.certain):
            self.history.suspected_d = self._days
        for due in [due for due in self._due if due[0] <= self._days]:
            self._due.remove(due)
            self._assay(due[1], truth)
        if hour % round(24 * ROUND_D) == 0:
            self._round(truth)

    def _firing(self, truth: PlantTruth, now_s: float) -> NervesSummary | None:
        """Return what the electrode array shows; None on a rig without one."""
        if (nerves := self._rig.nerves) is None:
            return None
        chamber = next(iter(self._rig.tissue))
        conditions = TissueConditions(
            alive=truth.viability,
            temperature_c=truth.temperature_c,
            oxygen_mm=truth.worst.oxygen_surface_mm,
            ph=truth.ph[chamber],
            ammonia_mm=truth.concentrations[chamber]["ammonia"],
        )
        keep = 1.0 - 1.0 / WANDER_H
        self._wander = keep * self._wander + float(self._random.normal(0.0, WANDER_SD * (1.0 - keep**2) ** 0.5))
        rates = _array(nerves.electrodes).rates_hz(conditions, now_s) * np.exp(self._wander)
        active = rates[rates >= 5.0 / 60.0]
        mean_hz = float(active.mean()) if len(active) else 0.0
        return NervesSummary(now_s, mean_hz, len(active), nerves.electrodes, tuple(rates.tolist()))

    def _assay(self, analytes: tuple[str, ...], truth: PlantTruth) -> None:
        """Assay the loop; confirm a doubted result, which is correct."""
        loop = required(self._rig.loop, "a loop")
        for name in analytes:
            known = ANALYTES[name]
            value = truth.concentrations[loop][SPECIES.get(name, name)]
            value = max(value + known.deviation(value) * float(self._random.normal()), known.low)
            for sure in (False, True):
                with contextlib.suppress(AssayRefused):
                    self._observer.assays.enter(
                        name,
                        f"{value:.6g} {known.unit}",
                        vessel=loop,
                        taken=self._perfusion.clock.utc_text(),
                        user=LIGHT,
                        sure=sure,
                    )
                    self.history.assays += 1
                    break

    def _round(self, truth: PlantTruth) -> None:
        """Read the level of the loop, put in new bottles and empty the waste."""
        loop, ledger = required(self._rig.loop, "a loop"), self._observer.ledger
        read_ul = truth.volumes_ul[loop] + float(self._random.normal(0.0, LEVEL_SD_UL))
        ledger.level(loop, read_ul, LEVEL_SD_UL, user=LIGHT, reason="the round")
        for name, vessel in self._rig.vessels.items():
            if vessel.kind == "source" and truth.volumes_ul[name] < vessel.volume_ul / 2:
                self._plant.fill(name, vessel.volume_ul)
                sd_ul = BOTTLE_REL_SD * vessel.volume_ul
                ledger.reconcile(name, vessel.volume_ul, sd_ul, user=LIGHT, reason="a new bottle")
            elif vessel.kind == "waste" and truth.volumes_ul[name] > vessel.limit_ul / 2:
                self._plant.fill(name, 0.0)
                ledger.reconcile(name, 0.0, WASTE_SD_UL, user=LIGHT, reason="emptied")
