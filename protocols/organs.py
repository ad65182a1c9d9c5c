"""The organs of a lab: verbs that are awaited, and facts of the rig.

Transfers and readings are attributes of the organs, each one record (:mod:`protocols.verbs`); they need no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocols.dialysis import DialyserModel
from protocols.host import Actions, Facts, ProtocolError, StepRunner
from protocols.lab_verbs import BARRIER, CALIBRATE, MEASURE
from protocols.results import Amount, Barrier, Calibrated, Measurement
from protocols.verbs import AnyReadingVerb, InstantReadingVerb, ReadingVerb, TransferVerb, Way


class Organ:
    """Common part of all organs: steps of a run, its actions, and facts of the rig."""

    def __init__(self, steps: StepRunner, actions: Actions, facts: Facts) -> None:
        self._steps = steps
        self._actions = actions
        self._facts = facts

    def route(self, verb: TransferVerb) -> Way:
        """Return the route of a transfer verb on this rig."""
        return self._actions.route(verb.name)

    async def move(self, verb: TransferVerb, volume_ul: float) -> Amount:
        """Carry out a transfer verb."""
        if refusal := self.route(verb).refusal(volume_ul):
            raise ProtocolError(
                f"{verb.name}({volume_ul:g} µL): {refusal}. Likely cause: a computed volume is too small. Next: skip"
                " the step below that volume"
            )
        return Amount(**await self._steps.step(verb, {"volume_ul": volume_ul}, self._actions.transfer))

    async def read(self, verb: AnyReadingVerb, settle_s: float, heart: str = "") -> Measurement:
        """Carry out a reading verb.

        Args:
            verb: The verb.
            settle_s: Wait before the reading (s).
            heart: Name of one heart; default: all are read, and the result is the lowest or the highest value, or the first
                that is missing.
        """
        hearts = self._facts.hearts if verb.of_all else ()
        if heart and heart not in hearts:
            known = f"name one of {', '.join(hearts)}" if hearts else "leave the name out"
            raise ProtocolError(f"{verb.name}: the rig has no heart “{heart}”. Next: {known}")
        if heart or len(hearts) < 2:
            return await self._read(verb, settle_s, heart)
        return _worst(verb, [await self._read(verb, settle_s, name) for name in hearts])

    async def _read(self, verb: AnyReadingVerb, settle_s: float, heart: str) -> Measurement:
        facts = self._facts
        if verb.pump_of:
            pump = facts.pump(verb.pump_of, heart)
            return await self._flow(pump) if pump is not None else Measurement(verb.name, verb.unit, None, verb.absent)
        point = facts.probe(verb.probe, verb.vessel) if verb.probe else facts.sensor(verb.sensor, heart)
        if point is None:
            return Measurement(verb.name, verb.unit, None, verb.absent)
        return await self.measure(point, settle_s)

    async def measure(self, point: str, settle_s: float) -> Measurement:
        """Read any sensor."""

        async def perform(step: Any) -> dict[str, Any]:
            return await self._actions.measured(point, settle_s)

        return Measurement.from_json(await self._steps.step(MEASURE, {"point": point, "settle_s": settle_s}, perform))

    async def _flow(self, pump: str) -> Measurement:
        async def perform(step: Any) -> dict[str, Any]:
            return await self._actions.flow_of(pump)

        return Measurement.from_json(
            await self._steps.step(MEASURE, {"point": f"{pump}.flow", "settle_s": 0.0}, perform)
        )


def _worst(verb: AnyReadingVerb, readings: Sequence[Measurement]) -> Measurement:
    """Return the reading that stands for several: the first without a value, else the lowest or the highest."""
    missing = next((reading for reading in readings if reading.interval is None), None)
    if missing is not None:
        return missing
    return (min if verb.of_all == "lowest" else max)(readings, key=lambda reading: reading.value or 0.0)


class Heart(Organ):
    """Circulates medium. A regulator owns its flow; a protocol may read it."""

    pressure = ReadingVerb(
        help="pressure behind the heart's pump",
        unit="kPa",
        sensor="heart.pressure",
        absent="this rig has no pressure sensor at the heart",
        of_all="highest",
    )
    flow = InstantReadingVerb(
        help="flow as the heart's pump reports it",
        unit="uL/min",
        pump_of="heart.line",
        absent="this rig has no heart",
        of_all="lowest",
    )


KIDNEY = "kidney (organs.kidney)"


class Kidney(Organ):
    """Moves spent medium."""

    draw = TransferVerb(
        help="loop → spent vessel", line="kidney.draw", flow="kidney.flow_ul_min", needs=KIDNEY, says="Kidney draws"
    )
    give_back = TransferVerb(
        help="spent vessel → loop, through the sterile filter",
        line="kidney.return_",
        flow="kidney.flow_ul_min",
        needs=KIDNEY,
        says="Kidney gives back",
    )
    discard = TransferVerb(
        help="spent vessel → waste",
        line="kidney.discard",
        flow="kidney.flow_ul_min",
        needs=KIDNEY,
        says="Kidney discards",
    )
    dialyse = TransferVerb(
        help="basal medium → dialyser in the spent vessel → waste; on a rig that has one",
        line="kidney.dialyse",
        flow="kidney.dialysate_ul_min",
        needs="dialyser",
        dialyses=True,
        says="Kidney dialyses against",
    )
    mass = ReadingVerb(help="reading of the balance under the spent vessel", unit="g", sensor="kidney.mass")

    @property
    def dialyser(self) -> DialyserModel | None:
        """The dialyser in the spent vessel, on a rig that has one."""
        return self._facts.dialyser(Kidney.dialyse, self._actions.route)


class Gut(Organ):
    """Gives fresh medium."""

    feed = TransferVerb(
        help="reservoir → spent vessel",
        line="gut.feed",
        flow="gut.flow_ul_min",
        needs="pump of fresh medium (organs.gut)",
        says="Gut feeds fresh",
    )
    flush = TransferVerb(
        help="reservoir → spent vessel, to displace old medium in the feed line; discard it afterwards",
        line="gut.feed",
        flow="gut.flow_ul_min",
        needs="pump of fresh medium (organs.gut)",
        says="Gut flushes the feed line with",
    )


class Liver(Organ):
    """Conditions the batch in the spent vessel."""

    add_glucose = TransferVerb(
        help="glucose stock → spent vessel",
        line="liver.glucose",
        flow="liver.flow_ul_min",
        min_dose="liver.min_dose_ul",
        needs="pump of glucose stock (organs.liver)",
        says="Liver adds glucose",
    )
    add_base = TransferVerb(
        help="bicarbonate stock → spent vessel",
        line="liver.base",
        flow="liver.flow_ul_min",
        min_dose="liver.min_dose_ul",
        needs="pump of bicarbonate stock (organs.liver)",
        says="Liver adds base",
    )
    ph = ReadingVerb(help="pH of the batch in the spent vessel", unit="", sensor="liver.ph", settle_s=60.0)
    conductivity = ReadingVerb(
        help="conductivity of the batch; no value on a rig without a probe for it",
        unit="uS/cm",
        probe="conductivity",
        vessel="kidney.vessel",
        absent="this rig has no conductivity probe in the spent vessel",
        settle_s=60.0,
    )

    @property
    def min_dose_ul(self) -> float:
        """Minimum volume (µL) that all dosing pumps can deliver."""
        return max(self.route(verb).min_ul for verb in (Liver.add_glucose, Liver.add_base, Gut.feed))

    async def calibrate(self, place: str, ph: float, valid_s: float) -> Calibrated:
        """Calibrate the batch's pH probe, which a person has put into a buffer.

        Args:
            place: Point of the calibration: mid (first), low or high.
            ph: pH of the buffer at its temperature.
            valid_s: Validity of the calibration (s).
        """
        point = self._facts.sensor(Liver.ph.sensor) or ""

        async def perform(step: Any) -> dict[str, Any]:
            return await self._actions.calibrated(step, point)

        args = {"place": place, "value": ph, "valid_s": valid_s}
        return Calibrated(**await self._steps.step(CALIBRATE, args, perform))


class Immune(Organ):
    """The sterile barrier."""

    pressure = InstantReadingVerb(help="pressure before the sterile filter", unit="kPa", sensor="immune.pressure")

    @property
    def max_pressure_kpa(self) -> float:
        """Maximum pressure of the filter (kPa)."""
        return self._facts.max_filter_kpa

    @property
    def min_pressure_kpa(self) -> float:
        """Minimum pressure of an intact filter while medium is given back (kPa)."""
        return self._facts.min_filter_kpa

    async def barrier(self) -> Barrier:
        """Return whether the filter is intact, by the pressure of its passes. A failure stays until a new test."""

        async def perform(step: Any) -> dict[str, Any]:
            return self._actions.barrier()

        return Barrier(**await self._steps.step(BARRIER, {}, perform))


class Lung(Organ):
    """Oxygen and carbon dioxide of the loop."""

    ph = ReadingVerb(help="pH of the loop", unit="", sensor="lung.ph")
    oxygen = ReadingVerb(help="dissolved oxygen of the loop", unit="%", sensor="lung.oxygen")


class Skin(Organ):
    """Temperature."""

    temperature = ReadingVerb(help="chamber temperature", unit="degC", sensor="skin.temperature")
