"""The organs of a lab: verbs that are awaited, and facts of the rig.

Transfers and readings are attributes of the organs, each one record (:mod:`protocols.verbs`); they need no code. Any other
verb is a method with the decorator :func:`protocols.verbs.action`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from protocols.dialysis import DialyserModel
from protocols.host import Facts, ProtocolError, ProtocolHost
from protocols.results import Amount, Barrier, Calibrated, Measurement
from protocols.verbs import (
    READING_UNITS,
    SAVE_AS,
    SETTLE,
    AnyReadingVerb,
    Argument,
    InstantReadingVerb,
    ReadingVerb,
    SavedValue,
    StepForm,
    TransferVerb,
    Verb,
    Way,
    action,
    interval_values,
)

PROBE_VALID_S = 7 * 86_400.0
"""Maximum age of a probe's calibration, unless a recipe gives another."""


def flow_point(pump: str) -> str:
    """Return the point of the flow that a pump reports."""
    return f"{pump}.flow"


class VerbHolder:
    """Has verbs that the host of a protocol carries out: the lab itself, and each organ."""

    def __init__(self, host: ProtocolHost, facts: Facts) -> None:
        self.host = host
        self.facts = facts

    @classmethod
    def verb_name(cls, method: str) -> str:
        """Return the name in the journal of the verb that is called by `method`."""
        return method

    @action(
        "Measure",
        StepForm(
            "measure",
            "a settled reading of any sensor of the rig",
            {
                "point": Argument("point", "device.point as in the rig file", required=True),
                "settle": SETTLE,
                "unit": Argument(
                    "choice", "unit of the reading, if the point has no standard name", choices=READING_UNITS
                ),
                "as": SAVE_AS,
            },
            "point",
            interval_values(""),
        ),
    )
    async def measure(self, point: str, settle_s: float = 0.0) -> Measurement:
        """Take a settled reading of any sensor `device.point`; of a heart's pump, `pump.flow` is what it reports."""
        return Measurement.from_json(await self.host.act(VerbHolder.measure, {"point": point, "settle_s": settle_s}))

    def route(self, verb: Verb, args: Mapping[str, Any] = MappingProxyType({})) -> Way:
        """Return the route of a verb on this rig; raises :class:`ProtocolError` without a line."""
        return self.host.route(verb.way(args))

    async def _move(self, verb: Verb, args: Mapping[str, Any]) -> Amount:
        """Carry out a verb that moves `volume_ul`; raise :class:`ProtocolError` if the pump cannot deliver it."""
        volume_ul = args["volume_ul"]
        if refusal := self.route(verb, args).refusal(volume_ul):
            raise ProtocolError(
                f"{verb.way(args)}({volume_ul:g} µL): {refusal}. Likely cause: a computed volume is too small. Next: skip"
                " the step below that volume"
            )
        return Amount(**await self.host.act(verb, args))


class Organ(VerbHolder):
    """Common part of all organs."""

    @classmethod
    def verb_name(cls, method: str) -> str:
        """Return the name in the journal: organ and method."""
        return f"{cls.__name__.lower()}.{method}"

    async def move(self, verb: TransferVerb, volume_ul: float) -> Amount:
        """Carry out a transfer verb."""
        return await self._move(verb, {"volume_ul": volume_ul})

    async def read(self, verb: AnyReadingVerb, settle_s: float, heart: str = "") -> Measurement:
        """Carry out a reading verb.

        Args:
            verb: The verb.
            settle_s: Wait before the reading (s).
            heart: Name of one heart; default: all are read, and the result is the lowest or the highest value, or the first
                that is missing.
        """
        hearts = self.facts.hearts if verb.of_all else ()
        if heart and heart not in hearts:
            known = f"name one of {', '.join(hearts)}" if hearts else "leave the name out"
            raise ProtocolError(f"{verb.name}: the rig has no heart “{heart}”. Next: {known}")
        if heart or len(hearts) < 2:
            return await self._read(verb, settle_s, heart)
        return _worst(verb, [await self._read(verb, settle_s, name) for name in hearts])

    async def _read(self, verb: AnyReadingVerb, settle_s: float, heart: str) -> Measurement:
        facts = self.facts
        if verb.pump_of:
            pump = facts.pump(verb.pump_of, heart)
            point = None if pump is None else flow_point(pump)
        else:
            point = facts.probe(verb.probe, verb.vessel) if verb.probe else facts.sensor(verb.sensor, heart)
        if point is None:
            return Measurement(verb.name, verb.unit, None, verb.absent)
        return await self.measure(point, settle_s)


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
        return self.facts.dialyser(Kidney.dialyse, self.host.route)


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

    @action(
        "Calibrate the batch's pH probe",
        StepForm(
            "liver.calibrate",
            "calibrate the batch's pH probe, which a person has put into a buffer",
            {
                "place": Argument("choice", "point of the calibration", required=True, choices=("mid", "low", "high")),
                "ph": Argument(
                    "quantity", "pH of the buffer at its temperature", required=True, minimum=0.0, maximum=14.0
                ),
                "valid": Argument(
                    "quantity",
                    "validity of the calibration (default 7 d)",
                    "s",
                    default=PROBE_VALID_S,
                    parameter="valid_s",
                ),
                "as": SAVE_AS,
            },
            saves={each and f".{each}": SavedValue(each or "after", "") for each in ("", "before", "places")},
        ),
    )
    async def calibrate(self, place: str, ph: float, valid_s: float) -> Calibrated:
        """Calibrate the batch's pH probe, which a person has put into a buffer.

        Args:
            place: Point of the calibration: mid (first), low or high.
            ph: pH of the buffer at its temperature.
            valid_s: Validity of the calibration (s).
        """
        args = {"place": place, "value": ph, "valid_s": valid_s}
        return Calibrated(**await self.host.act(Liver.calibrate, args))


class Immune(Organ):
    """The sterile barrier."""

    pressure = InstantReadingVerb(help="pressure before the sterile filter", unit="kPa", sensor="immune.pressure")

    @property
    def max_pressure_kpa(self) -> float:
        """Maximum pressure of the filter (kPa)."""
        return self.facts.max_filter_kpa

    @property
    def min_pressure_kpa(self) -> float:
        """Minimum pressure of an intact filter while medium is given back (kPa)."""
        return self.facts.min_filter_kpa

    @action("Check the filter's passes")
    async def barrier(self) -> Barrier:
        """Return whether the filter is intact, by the pressure of its passes. A failure stays until a new test."""
        return Barrier(**await self.host.act(Immune.barrier, {}))


class Lung(Organ):
    """Oxygen and carbon dioxide of the loop."""

    ph = ReadingVerb(help="pH of the loop", unit="", sensor="lung.ph")
    oxygen = ReadingVerb(help="dissolved oxygen of the loop", unit="%", sensor="lung.oxygen")


class Skin(Organ):
    """Temperature."""

    temperature = ReadingVerb(help="chamber temperature", unit="degC", sensor="skin.temperature")
