"""The organs of a running protocol: each verb becomes one numbered step of its run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from controller.rig.description import Rig
from controller.runs.grading import prices_of, rules_of
from controller.safety.kernel import SIGMAS
from controller.steps.barrier import least_kpa
from controller.steps.steps import StepRecord
from controller.transfers.routes import Route
from protocols.dialysis import DialyserModel, koa_at
from protocols.interval import Interval
from protocols.language import Amount, Barrier, Calibrated, Measurement, ProtocolError, VesselVolume
from protocols.soft_sensor import Composition, MediaEstimate

SPENT_MARGIN_UL = 1000.0
"""Kept free in the spent vessel below its ceiling: three standard deviations of what is in it, and a drip."""
LOOP_MARGIN_UL = 2000.0
"""Kept in the loop above its floor: three standard deviations after ten days that nobody read its volume."""
LOOP_DRIP_UL = 100.0
"""Kept beyond three standard deviations: what evaporates, and the doubt of it, from one step to a dose some hours later."""

CONDUCTIVITY_MODELS = ("atlas-ezo-ec",)
"""Models whose reading is `conductivity` in µS/cm (drivers/atlas_ezo.py)."""

Perform = Callable[[StepRecord], Awaitable[Any]]


class Stepper(Protocol):
    """What the organs need of their run."""

    async def step(self, verb: str, args: Mapping[str, Any], perform: Perform) -> Any:
        """Do one step, or answer what is recorded of it (plain JSON data)."""

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        """Run coroutines as branches of the one that asks; their results in order."""

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        """Volumes as of the end of the branch's last step."""


class Deeds(Protocol):
    """What the steps of a run do, or in a rehearsal pretend to do. Answers are plain JSON data: they go on record."""

    def route(self, verb: str) -> Route:
        """Which way a verb moves liquid."""

    async def transfer(self, step: StepRecord, verb: str, volume_ul: float) -> dict[str, float | None]:
        """Move liquid; `{ul, low, high}`, and `peak_kpa` where it passes the filter."""

    async def measured(self, point: str, settle_s: float) -> dict[str, Any]:
        """A settled reading."""

    async def flow_of(self, pump: str) -> dict[str, Any]:
        """What a pump says of its flow."""

    async def calibrated(self, step: StepRecord, point: str) -> dict[str, Any]:
        """Set a probe's own calibration; `{before, after, places}`."""

    async def slept(self, step: StepRecord, seconds: float) -> None:
        """Wait for a recorded deadline."""

    async def slept_until(self, step: StepRecord, elapsed_s: float) -> float:
        """Wait for a time since the run's start; how late it was."""

    async def slept_until_clock(self, step: StepRecord) -> str:
        """Wait for a time of day that the step has recorded; returns it."""

    def barrier(self) -> dict[str, Any]:
        """What the passes on record tell of the sterile filter, as :class:`protocols.language.Barrier`."""

    def noted(self, step: StepRecord, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the journal, once."""

    async def asked(self, step: StepRecord, message: str) -> None:
        """Hold until a person resumes, once for each message."""

    async def estimated(self) -> dict[str, Any]:
        """The soft sensor's estimate."""


class Organ:
    """What every organ has: its run, and what is done at its steps."""

    def __init__(self, run: Stepper, deeds: Deeds, rig: Rig) -> None:
        self._run = run
        self._deeds = deeds
        self._rig = rig

    async def _move(self, verb: str, volume_ul: float) -> Amount:
        if refusal := self._deeds.route(verb).refusal(volume_ul):
            raise ProtocolError(
                f"{verb}({volume_ul:g} µL): {refusal}. Likely cause: a computed volume came out too small. Next: leave the"
                " step out below that"
            )

        async def perform(step: StepRecord) -> dict[str, float | None]:
            return await self._deeds.transfer(step, verb, volume_ul)

        return Amount(**await self._run.step(verb, {"volume_ul": volume_ul}, perform))

    async def _measure(self, point: str, settle_s: float) -> Measurement:
        async def perform(step: StepRecord) -> dict[str, Any]:
            return await self._deeds.measured(point, settle_s)

        return measurement(await self._run.step("measure", {"point": point, "settle_s": settle_s}, perform))


def measurement(data: Mapping[str, Any]) -> Measurement:
    """A recorded reading."""
    interval = None if data["interval"] is None else Interval.from_json(data["interval"])
    return Measurement(data["point"], data["unit"], interval, data["detail"])


class Heart(Organ):
    """Circulates."""

    async def flow(self) -> Measurement:
        """What the pump says of its flow (µL/min)."""
        pump = self._rig.lines[self._rig.organs.heart.line].pump or ""

        async def perform(step: StepRecord) -> dict[str, Any]:
            return await self._deeds.flow_of(pump)

        return measurement(await self._run.step("measure", {"point": f"{pump}.flow", "settle_s": 0.0}, perform))

    async def pressure(self, settle_s: float = 0.0) -> Measurement:
        """Pressure behind the pump (kPa gauge); no value on a rig that has no sensor there."""
        point = self._rig.organs.heart.pressure
        if point is None:
            return Measurement("heart.pressure", "kPa", None, "this rig has no pressure sensor at the heart")
        return await self._measure(point, settle_s)


class Kidney(Organ):
    """Moves spent medium."""

    async def draw(self, volume_ul: float) -> Amount:
        """Loop → spent vessel."""
        return await self._move("kidney.draw", volume_ul)

    async def give_back(self, volume_ul: float) -> Amount:
        """Spent vessel → loop, through the sterile filter."""
        return await self._move("kidney.give_back", volume_ul)

    async def discard(self, volume_ul: float) -> Amount:
        """Spent vessel → waste."""
        return await self._move("kidney.discard", volume_ul)

    async def mass(self, settle_s: float = 0.0) -> Measurement:
        """What the balance under the spent vessel shows (g)."""
        return await self._measure(self._rig.organs.kidney.mass, settle_s)

    @property
    def dialyser(self) -> DialyserModel | None:
        """The dialyser in the spent vessel, if the rig has one."""
        line = self._rig.organs.kidney.dialyse
        if line is None:
            return None
        route = self._deeds.route("kidney.dialyse")
        fibres = self._rig.dialysers[self._rig.lines[line].dialyser or ""]
        koa = koa_at(route.flow_ul_min, fibres.koa_ul_min, fibres.koa_at_ul_min)
        return DialyserModel(koa, route.flow_ul_min, route.least_ul)

    async def dialyse(self, dialysate_ul: float) -> Amount:
        """Basal medium → dialyser → waste."""
        return await self._move("kidney.dialyse", dialysate_ul)


class Gut(Organ):
    """Feeds."""

    async def feed(self, volume_ul: float) -> Amount:
        """Reservoir → spent vessel."""
        return await self._move("gut.feed", volume_ul)


class Liver(Organ):
    """Conditions."""

    @property
    def min_dose_ul(self) -> float:
        """The least volume its dosing pumps give."""
        return max(self._deeds.route(verb).least_ul for verb in ("liver.add_glucose", "liver.add_base", "gut.feed"))

    async def add_glucose(self, volume_ul: float) -> Amount:
        """Glucose stock → spent vessel."""
        return await self._move("liver.add_glucose", volume_ul)

    async def add_base(self, volume_ul: float) -> Amount:
        """Bicarbonate stock → spent vessel."""
        return await self._move("liver.add_base", volume_ul)

    async def acidity(self, settle_s: float = 60.0) -> Measurement:
        """pH of the batch."""
        return await self._measure(self._rig.organs.liver.ph, settle_s)

    async def calibrate(self, place: str, ph: float, valid_s: float) -> Calibrated:
        """Tell the batch's pH probe in what buffer it stands."""
        point = self._rig.organs.liver.ph

        async def perform(step: StepRecord) -> dict[str, Any]:
            return await self._deeds.calibrated(step, point)

        args = {"place": place, "value": ph, "valid_s": valid_s}
        return Calibrated(**await self._run.step("liver.calibrate", args, perform))

    async def conductivity(self, settle_s: float = 60.0) -> Measurement:
        """Conductivity of the batch (µS/cm); no value on a rig that has no probe for it in the spent vessel."""
        for name, device in self._rig.devices.items():
            if device.model in CONDUCTIVITY_MODELS and device.at == self._rig.organs.kidney.vessel:
                return await self._measure(f"{name}.conductivity", settle_s)
        return Measurement(
            "liver.conductivity", "uS/cm", None, "this rig has no conductivity probe in the spent vessel"
        )


class Immune(Organ):
    """Keeps sterile."""

    @property
    def max_pressure_kpa(self) -> float:
        """What the filter stands (kPa)."""
        return self._rig.filters[self._rig.organs.immune.filter].max_pressure_kpa

    @property
    def least_pressure_kpa(self) -> float:
        """What a whole filter needs at the least (kPa)."""
        return least_kpa(self._rig)

    async def pressure(self) -> Measurement:
        """Pressure before the filter (kPa gauge)."""
        return await self._measure(self._rig.organs.immune.pressure, 0.0)

    async def barrier(self) -> Barrier:
        """Whether the filter is whole, by its passes."""

        async def perform(step: StepRecord) -> dict[str, Any]:
            return self._deeds.barrier()

        return Barrier(**await self._run.step("immune.barrier", {}, perform))


class Lung(Organ):
    """Breathes."""

    async def oxygen(self, settle_s: float = 0.0) -> Measurement:
        """Dissolved oxygen (% of air saturation)."""
        return await self._measure(self._rig.organs.lung.oxygen, settle_s)

    async def acidity(self, settle_s: float = 0.0) -> Measurement:
        """pH of the loop."""
        return await self._measure(self._rig.organs.lung.ph, settle_s)


class Skin(Organ):
    """Keeps warm."""

    async def temperature(self, settle_s: float = 0.0) -> Measurement:
        """Chamber temperature (°C)."""
        return await self._measure(self._rig.organs.skin.temperature, settle_s)


class Targets:
    """Set-points, read off the rig description. `volumes` are the run's; without them the loop is full and known."""

    def __init__(self, rig: Rig, volumes: Callable[[], Mapping[str, VesselVolume]] = dict) -> None:
        self._volumes = volumes
        loop = rig.vessels[rig.organs.lung.vessel]
        spent = rig.vessels[rig.organs.kidney.vessel]
        liver = rig.organs.liver
        fresh = rig.media[_medium(rig, rig.lines[rig.organs.gut.feed].from_)]
        self._loop_full_ul = loop.volume_ul
        self._loop_floor_ul = loop.floor_ul
        self._loop_most_ul = loop.limit_ul
        self.spent_ul = spent.volume_ul
        self.spent_floor_ul = spent.floor_ul
        self.spent_room_ul = spent.limit_ul - spent.volume_ul - SPENT_MARGIN_UL
        self.ph = rig.organs.lung.ph_setpoint
        self.glucose_mm = fresh.glucose_mm
        self.glucose_stock_mm = rig.media[_medium(rig, rig.lines[liver.glucose].from_)].glucose_mm
        self.base_stock_mm = rig.media[_medium(rig, rig.lines[liver.base].from_)].bicarbonate_mm
        self.osmolality_mosm = fresh.osmolality_mosm
        kidney = rig.organs.kidney
        bottles = {"fresh": rig.organs.gut.feed, "glucose": liver.glucose, "base": liver.base}
        bottles |= {} if kidney.dialyse is None else {"basal": kidney.dialyse}
        self.media = {name: _composition(rig, rig.lines[line].from_) for name, line in bottles.items()}

    @property
    def loop_ul(self) -> float:
        """The loop's working volume (µL): as the rig file has it, as long as nobody has to fear that it runs over.

        Its doubt grows from day to day until somebody reads its level. When what it may hold at the most comes near the
        ceiling, less is given back; else the gate would refuse it, and the run would wait with the batch in its hands.
        """
        loop = self._volumes().get("loop")
        if loop is None:
            return self._loop_full_ul
        surely_ul = self._loop_most_ul - SIGMAS * loop.sd_ul - LOOP_MARGIN_UL
        return min(self._loop_full_ul, max(surely_ul, self._loop_floor_ul))

    @property
    def loop_spare_ul(self) -> float:
        """What may be drawn from the loop at once (µL): of its working volume, and of what is surely in it.

        Nothing measures the loop, so what is surely in it falls from day to day until somebody reads its level; a draw
        that the gate would refuse for doubt alone (I4) becomes a smaller one. As of the branch's last step, so that the
        run repeats itself after a restart.
        """
        most_ul = self.loop_ul - LOOP_MARGIN_UL
        loop = self._volumes().get("loop")
        if loop is not None:
            most_ul = min(most_ul, loop.ul - SIGMAS * loop.sd_ul - LOOP_DRIP_UL)
        return max(most_ul - self._loop_floor_ul, 0.0)


def _medium(rig: Rig, vessel: str) -> str:
    medium = rig.vessels[vessel].contains
    if medium is None:
        raise ValueError(
            f"vessel “{vessel}” feeds the rig and does not say what it contains. Next: add “contains:” to it"
        )
    return medium


def _composition(rig: Rig, vessel: str) -> Composition:
    medium = rig.media[_medium(rig, vessel)]
    return Composition(**{field.name: getattr(medium, field.name) for field in fields(Composition)})


class Lab:
    """What a protocol holds."""

    def __init__(self, run: Stepper, deeds: Deeds, rig: Rig) -> None:
        self._run = run
        self._deeds = deeds
        self._any = Organ(run, deeds, rig)
        self.heart = Heart(run, deeds, rig)
        self.kidney = Kidney(run, deeds, rig)
        self.gut = Gut(run, deeds, rig)
        self.liver = Liver(run, deeds, rig)
        self.immune = Immune(run, deeds, rig)
        self.lung = Lung(run, deeds, rig)
        self.skin = Skin(run, deeds, rig)
        self.targets = Targets(rig, run.volumes_now)
        self.rules = rules_of(rig)
        self.prices = prices_of(rig)

    async def together(self, *works: Coroutine[Any, Any, Any], names: Sequence[str] = ()) -> list[Any]:
        """Run coroutines as branches, at the same time; their results in order."""
        named = [str(name) for name in names or range(1, len(works) + 1)]
        if len(named) != len(works) or len(set(named)) != len(named) or any("." in name for name in named):
            for work in works:
                work.close()
            raise ProtocolError(
                f"together() got {len(works)} branches and the names {', '.join(named)}. Next: give each a name of its own"
                " without a dot, or none at all"
            )
        return await self._run.together(works, named)

    async def measure(self, point: str, settle_s: float = 0.0) -> Measurement:
        """A settled reading of any sensor."""
        return await self._any._measure(point, settle_s)

    async def sleep(self, seconds: float) -> None:
        """Wait."""

        async def perform(step: StepRecord) -> None:
            await self._deeds.slept(step, seconds)

        await self._run.step("sleep", {"seconds": seconds}, perform)

    async def sleep_until(self, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the run's start; returns how late it was (s)."""

        async def perform(step: StepRecord) -> float:
            return await self._deeds.slept_until(step, elapsed_s)

        return float(await self._run.step("sleep_until", {"elapsed_s": elapsed_s}, perform))

    async def sleep_until_clock(self, at: str, zone: str, *, after: str | None = None) -> str:
        """Wait for a time of day; returns it (UTC, ISO 8601)."""

        async def perform(step: StepRecord) -> str:
            return await self._deeds.slept_until_clock(step)

        return str(await self._run.step("sleep_until_clock", {"at": at, "zone": zone, "after": after}, perform))

    async def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write something to the journal."""

        async def perform(step: StepRecord) -> None:
            self._deeds.noted(step, kind, data)

        await self._run.step("note", {"kind": kind}, perform)

    async def ask(self, message: str) -> None:
        """Hold the run until a person has resumed it."""

        async def perform(step: StepRecord) -> None:
            await self._deeds.asked(step, message)

        await self._run.step("ask", {"message": message}, perform)

    async def estimate(self) -> MediaEstimate:
        """What the soft sensor makes of the latest readings."""

        async def perform(step: StepRecord) -> dict[str, Any]:
            return await self._deeds.estimated()

        return MediaEstimate.from_json(await self._run.step("estimate", {}, perform))

    def least_ul(self, verb: str) -> float:
        """The least volume (µL) that a transfer's pump gives."""
        return self._deeds.route(verb).least_ul

    def volumes(self) -> Mapping[str, VesselVolume]:
        """Vessel volumes as of the end of the branch's last step."""
        return self._run.volumes_now()
