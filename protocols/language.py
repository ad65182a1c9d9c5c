"""The language of protocols: organs with verbs that are awaited, each a journalled step (decision 11).

A protocol is `async def name(lab: Lab, params: Mapping[str, float]) -> None`. After a restart the function runs again
from its beginning, and every verb that was finished before returns what was recorded. So a protocol must take times,
volumes and readings only from `lab`; it must not read files, clocks or random numbers.

A verb returns when its work is done and measured. After a temporary refusal it waits and tries again; any other refusal
holds the run until a person resumes it, and then the verb continues with the remainder. Only abort and stop end a protocol
from outside, as :class:`RunEnded`, which it must not catch.

Each verb is declared by one record (:mod:`protocols.verbs`). Transfers and readings are attributes of the organs and
need no code at all; other verbs are a record in :mod:`protocols.lab_verbs` and a method here. "Add a verb" in
docs/protocols.md says how.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from protocols.answers import DECISIONS, ROLES, Answer, AnswerForm, Approval
from protocols.assay import ANALYTES
from protocols.calendar import Calendar
from protocols.dialysis import DialyserModel
from protocols.grading import RuleSet
from protocols.host import Facts, StepRunner, Way
from protocols.lab_verbs import (
    APPROVE,
    ASK,
    ASSAY_STEP,
    BARRIER,
    CALIBRATE,
    ESTIMATE,
    MEASURE,
    NOTE,
    SLEEP,
    SLEEP_UNTIL,
    SLEEP_UNTIL_CLOCK,
)
from protocols.prices import Prices
from protocols.results import NOTHING as NOTHING  # protocols of laboratories import it from here
from protocols.results import Amount, Barrier, Calibrated, Measurement, VesselVolume
from protocols.soft_sensor import MediaEstimate
from protocols.targets import Targets
from protocols.verbs import AnyReadingVerb, InstantReadingVerb, ReadingVerb, TransferVerb, Verb

VERSION = 1
"""Increased when a run that began before must not go on under the present verbs: part of every protocol's hash."""


class RunEnded(BaseException):
    """The run was stopped or aborted. Not an `Exception`, so that a protocol does not catch it by accident."""


class ProtocolError(Exception):
    """A verb was called with an invalid argument (a negative volume, an unknown sensor)."""


class Actions(Protocol):
    """Carries out steps on the rig, or in a rehearsal; results are plain JSON data. `step` is the controller's record."""

    def route(self, verb: str) -> Way:
        """Return the route of a transfer verb; raises :class:`ProtocolError` without a line."""

    async def transfer(self, step: Any, verb: str, volume_ul: float) -> dict[str, float | None]:
        """Move liquid; returns `{ul, low, high}`, and `peak_kpa` where it passes the filter."""

    async def measured(self, point: str, settle_s: float) -> dict[str, Any]:
        """Take a settled reading."""

    async def flow_of(self, pump: str) -> dict[str, Any]:
        """Return the flow that a pump reports."""

    async def calibrated(self, step: Any, point: str) -> dict[str, Any]:
        """Set a probe's own calibration; returns `{before, after, places}`."""

    async def slept(self, step: Any, seconds: float) -> None:
        """Wait for the step's recorded deadline."""

    async def slept_until(self, step: Any, elapsed_s: float) -> float:
        """Wait for a time since the run's start; returns how late it was (s)."""

    async def slept_until_clock(self, step: Any) -> str:
        """Wait for the time of day that the step has recorded; returns it."""

    def barrier(self) -> dict[str, Any]:
        """Return the fields of :class:`Barrier`, from the filter passes on record."""

    def noted(self, step: Any, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the journal, once."""

    async def asked(self, step: Any, message: str, answer: AnswerForm | None) -> dict[str, Any] | None:
        """Hold until a person resumes, once for each message; with `answer`, until it is given: returns `{value, text}`,
        and `{user, reason}` of a decision.
        """

    async def estimated(self) -> dict[str, Any]:
        """Return the soft sensor's estimate."""


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

        async def perform(step: Any) -> dict[str, float | None]:
            return await self._actions.transfer(step, verb.name, volume_ul)

        return Amount(**await self._steps.step(verb, {"volume_ul": volume_ul}, perform))

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
    acidity = ph  # its former name, for recipes and protocols of laboratories
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

    least_pressure_kpa = min_pressure_kpa  # wording: former name

    async def barrier(self) -> Barrier:
        """Return whether the filter is intact, by the pressure of its passes. A failure stays until a new test."""

        async def perform(step: Any) -> dict[str, Any]:
            return self._actions.barrier()

        return Barrier.from_json(await self._steps.step(BARRIER, {}, perform))


class Lung(Organ):
    """Oxygen and carbon dioxide of the loop."""

    ph = ReadingVerb(help="pH of the loop", unit="", sensor="lung.ph")
    acidity = ph  # its former name
    oxygen = ReadingVerb(help="dissolved oxygen of the loop", unit="%", sensor="lung.oxygen")


class Skin(Organ):
    """Temperature."""

    temperature = ReadingVerb(help="chamber temperature", unit="degC", sensor="skin.temperature")


class Lab:
    """The interface of a protocol: the organs, and verbs that belong to no organ."""

    def __init__(self, steps: StepRunner, actions: Actions, facts: Facts) -> None:
        self._steps = steps
        self._actions = actions
        self._any = Organ(steps, actions, facts)
        self.heart = Heart(steps, actions, facts)
        self.kidney = Kidney(steps, actions, facts)
        self.gut = Gut(steps, actions, facts)
        self.liver = Liver(steps, actions, facts)
        self.immune = Immune(steps, actions, facts)
        self.lung = Lung(steps, actions, facts)
        self.skin = Skin(steps, actions, facts)
        self.targets: Targets = facts.targets
        self.rules: RuleSet = facts.rules
        self.prices: Prices = facts.prices

    @property
    def host(self) -> tuple[StepRunner, Actions]:
        """What carries out the verbs, for a protocol that computes in a process of its own."""
        return self._steps, self._actions

    async def together(self, *works: Coroutine[Any, Any, Any], names: Sequence[str] = ()) -> list[Any]:
        """Run coroutines that use this lab as branches, at the same time; return their results in order.

        `names` (default 1, 2, …) are for people and the journal. Transfers that share a vessel, and readings in the
        spent vessel, take turns in the order of their requests; if the order matters, write them in one branch. A hold,
        a question, a stop and an error apply to the whole run.
        """
        named = [str(name) for name in names or range(1, len(works) + 1)]
        if len(named) != len(works) or len(set(named)) != len(named) or any("." in name for name in named):
            for work in works:
                work.close()
            raise ProtocolError(
                f"together() got {len(works)} branches and the names {', '.join(named)}. Next: give each branch its own name"
                " without a dot, or no names"
            )
        return await self._steps.together(works, named)

    async def measure(self, point: str, settle_s: float = 0.0) -> Measurement:
        """Take a settled reading of any sensor `device.point`."""
        return await self._any.measure(point, settle_s)

    async def sleep(self, seconds: float) -> None:
        """Wait. The deadline is absolute: a restart does not extend it."""

        async def perform(step: Any) -> None:
            await self._actions.slept(step, seconds)

        await self._steps.step(SLEEP, {"seconds": seconds}, perform)

    async def sleep_until(self, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the run's start; return how late it ended (s; 0 if it waited as planned)."""

        async def perform(step: Any) -> float:
            return await self._actions.slept_until(step, elapsed_s)

        return float(await self._steps.step(SLEEP_UNTIL, {"elapsed_s": elapsed_s}, perform))

    async def sleep_until_clock(
        self, at: str, zone: str, *, after: str | None = None, calendar: Calendar | None = None
    ) -> str:
        """Wait until it is `at` (HH:MM) in the time zone `zone` (IANA); return that time (UTC, ISO 8601).

        Args:
            at: Time of day; an empty text: wait only while it is quiet by the calendar.
            zone: Name of the time zone.
            after: Result of the call before: each date occurs once, even after a clock step.
            calendar: Weekdays, excluded dates and quiet hours; by default every day counts.
        """
        args = {"at": at, "zone": zone, "after": after, **({} if calendar is None else calendar.to_json())}

        async def perform(step: Any) -> str:
            return await self._actions.slept_until_clock(step)

        return str(await self._steps.step(SLEEP_UNTIL_CLOCK, args, perform))

    async def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write data to the journal, as kind `note.<kind>`."""

        async def perform(step: Any) -> None:
            self._actions.noted(step, kind, data)

        await self._steps.step(NOTE, {"kind": kind}, perform)

    async def ask(self, message: str, answer: AnswerForm | None = None) -> Answer | None:
        """Hold the run until a person has read `message`, done what it says, and resumed.

        With `answer` the run waits until a person has given a valid answer, and returns it: a number in the internal unit,
        or a text.
        """

        async def perform(step: Any) -> dict[str, Any] | None:
            return await self._actions.asked(step, message, answer)

        args: dict[str, Any] = {"message": message}
        if answer is not None:
            args["answer"] = answer.to_json()
        result = await self._steps.step(ASK, args, perform)
        return None if result is None else result["value"]

    async def assay(self, analyte: str, vessel: str, message: str = "", *, default: float | None = None) -> float:
        """Hold the run until a person has entered a laboratory result; return it in the unit of the analyte.

        The result counts in the estimate of the medium like any assay that a person enters.

        Args:
            analyte: What is measured: a key of :data:`protocols.assay.ANALYTES`.
            vessel: Where the sample is taken: `loop`, `spent`, or a vessel of the rig.
            message: Instruction for people.
            default: Result that plan and simulate assume, in the unit of the analyte.
        """
        known = ANALYTES.get(analyte)
        if known is None:
            raise ProtocolError(f"“{analyte}” is not assayed. Next: choose among {', '.join(ANALYTES)}")
        form = AnswerForm(
            kind="assay",
            unit=known.unit,
            internal=known.unit,
            low=known.low,
            high=known.high,
            analyte=analyte,
            vessel=vessel,
            default=default,
        )
        result = await self._asked(ASSAY_STEP, message or f"Assay {analyte} in “{vessel}”", form)
        return float(result["value"])

    async def approve(
        self, message: str, role: str = "engineer", *, other_person: bool = False, default: str | None = None
    ) -> Approval:
        """Hold the run until a person has approved or rejected; return the decision with its reason.

        Args:
            message: What is approved.
            role: Lowest role that may decide: one of :data:`protocols.answers.ROLES`.
            other_person: Whether it must be another person than the one who started the run.
            default: Decision that plan and simulate assume (default: approved).
        """
        if role not in ROLES or default not in (None, *DECISIONS):
            raise ProtocolError(
                f"approve(role={role!r}, default={default!r}) is not possible. Next: choose the role among"
                f" {', '.join(ROLES)} and the default among {', '.join(DECISIONS)}"
            )
        form = AnswerForm(kind="approval", role=role, other_person=other_person, default=default)
        result = await self._asked(APPROVE, message, form)
        return Approval(str(result["value"]), str(result["user"]), str(result["reason"]))

    async def _asked(self, verb: Verb, message: str, form: AnswerForm) -> dict[str, Any]:
        """Carry out a verb that waits for an answer of `form`."""

        async def perform(step: Any) -> dict[str, Any] | None:
            return await self._actions.asked(step, message, form)

        result: dict[str, Any] = await self._steps.step(verb, {"message": message, "answer": form.to_json()}, perform)
        return result

    async def estimate(self) -> MediaEstimate:
        """Return the soft sensor's estimate from the latest readings: composition of loop and batch, with bounds."""

        async def perform(step: Any) -> dict[str, Any]:
            return await self._actions.estimated()

        return MediaEstimate.from_json(await self._steps.step(ESTIMATE, {}, perform))

    def min_ul(self, verb: str) -> float:
        """Return the minimum volume (µL) of a transfer verb by its name; `lab.kidney.draw.min_ul` is the same."""
        return self._actions.route(verb).min_ul

    least_ul = min_ul  # wording: former name

    def volumes(self) -> Mapping[str, VesselVolume]:
        """Return the vessel volumes as of the end of the branch's last step, by role: `loop`, `spent`, `waste`."""
        return self._steps.volumes_now()


ProtocolFunction = Callable[[Lab, Mapping[str, float]], Awaitable[None]]
