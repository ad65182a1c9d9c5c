"""Assays that people enter: validated, journalled, and applied to the estimate at the time of sampling.

An assay moves nothing. An impossible one is refused; one that grossly contradicts the estimate is kept in the journal and
not used until a person confirms it (`sure`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from controller.core.clock import Clock
from controller.estimator.estimator import NO_LOOP, Estimator
from controller.journal.journal import Journal
from controller.ledger.ledger import Alarm, Ledger, LedgerError, no_alarm
from controller.ledger.samples import AssaySample
from controller.rig.description import Rig
from controller.rig.quantities import QuantityError, parse_quantity, quantity_text
from protocols import media_assays
from protocols.assay import ANALYTES, MEDIUM_ANALYTES, Analyte, Assay
from protocols.interval import Interval
from protocols.media_assays import ASSAY_GATE
from protocols.media_state import INDEX, SPECIES, MediaState

CLOCKS_APART = timedelta(seconds=60)
"""Tolerance of a sampling time that lies in the future: a wall clock may be ahead of the rig's."""
TOLD_SD = 3.0
"""Distance from the estimate (standard deviations) from which an assay that is used raises an alarm."""
CAUSES: Mapping[media_assays.Cause, str] = {
    "label": "the medium is not what its label says; else a slip, or the method",
    "method": "the method of this assay is biased; else a slip, or the label of the medium",
    "slip": "a slip in value, unit, vessel or time; else a probe, a bottle or the culture is not as believed",
}
"""What an alarm says of the likeliest cause of a contradiction."""
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")
_BY_MASS = "g/L"


class AssayError(Exception):
    """An impossible assay. The message says what, the likely cause and the next action."""


class AssayRefused(AssayError):
    """A possible assay that is not used: entered before, or contradicting the estimate."""


class AssayTwice(AssayRefused):
    """An assay that was entered before and is used; `seq` is its journal row, `value` in the unit of its analyte."""

    def __init__(self, seq: int, value: float, user: str) -> None:
        super().__init__(
            f"this assay was entered before (journal row {seq}, by {user}); it counts once. Likely cause: a command was"
            " repeated. Next: nothing, or correct the time it was taken"
        )
        self.seq = seq
        self.value = value


class Assays:
    """The assays of one rig. `alarm(kind, source, detail)` is called for what a person must confirm."""

    def __init__(
        self,
        rig: Rig,
        *,
        estimator: Estimator | None,
        ledger: Ledger,
        journal: Journal,
        clock: Clock,
        alarm: Alarm = no_alarm,
    ) -> None:
        self._ledger = ledger
        self._rig = rig
        self._estimator = estimator
        self._journal = journal
        self._clock = clock
        self._alarm = alarm

    def enter(
        self,
        analyte: str,
        value: str,
        *,
        vessel: str,
        taken: str,
        user: str,
        sd: str = "",
        volume: str = "",
        method: str = "",
        reason: str = "",
        zone: str = "",
        sure: bool = False,
        step: tuple[str, int] | None = None,
    ) -> dict[str, Any]:
        """Enter an assay and return its effect on the estimate of the medium.

        LDH has none (`off_sd`, `expected`, `before`, `after` and `now` are None): it is evidence of the tissue.

        Args:
            analyte: what was measured.
            value: the result, as text with unit.
            vessel: a vessel of the rig, or `loop` or `spent`.
            taken: time of sampling: a time of day (today, in `zone` or else the controller's zone), or an ISO 8601 date and
                time.
            user: who enters it.
            sd: standard deviation, as text with unit; the method's usual one by default.
            volume: volume of the sample, as text with unit, if it left the rig; all analytes of one sample (vessel and time)
                have the same, and it is booked once.
            method: how it was measured.
            reason: why it was taken.
            zone: IANA time zone of `taken`.
            sure: whether to use it even if it contradicts the estimate.
            step: run and number of the step that asked for it.

        Raises:
            AssayError: it is impossible.
            AssayRefused: it was entered before, or is not used.
        """
        estimator = self._available()
        known = _analyte(analyte)
        number = _number(known, value)
        deviation = known.deviation(number) if not sd else _deviation(known, sd)
        place = self.place(vessel)
        where = estimator.where(place)
        if where is None:
            raise AssayError(
                f"the medium in “{vessel}” is not estimated. Likely cause: a bottle or the waste was named. Next: name"
                f" one of {', '.join(self._followed())}; what a bottle holds stands in the rig file"
            )
        when = self.moment(taken, zone)
        assay = Assay(known.name, where, place, when, number, deviation, used=True)
        self._not_twice(assay, sure=sure)
        if volume:
            self._book(volume, place, when, user=user, reason=reason or f"assay of {known.name}")
        row = assay.to_json()
        row |= {"text": value, "volume": volume, "method": method, "user": user, "reason": reason, "sure": sure}
        run = None
        if step is not None:
            run, row["step"] = step
        if not assay.species:
            row |= {"off_sd": None, "expected": None}
            seq = self._journal.append("assay", row, run=run)
            return {"id": seq, "run": run, **row, "before": None, "after": None, "now": None}
        state = estimator.at(when)
        off = media_assays.surprise(state, where, assay.species, number, deviation)
        before = state.interval(where, assay.species)
        exchanged = estimator.exchanged(assay, sure=sure)
        row |= {
            "used": sure or (off <= ASSAY_GATE and not exchanged),
            "off_sd": round(off, 3),
            "expected": before.to_json(),
        }
        seq = self._journal.append("assay", row, run=run)
        estimator.learn(seq)
        if exchanged:
            self._exchanged(assay, seq)
        if not row["used"]:
            self._doubt(assay, seq, off, before, state)
        if off > TOLD_SD:
            self._suspect(assay, off, before, state)
        self._known_errors(estimator.now())
        after, now = (found.interval(where, assay.species) for found in (estimator.at(when), estimator.now()))
        told = {"before": before.to_json(), "after": after.to_json(), "now": now.to_json()}
        return {"id": seq, "run": run, **row, **told}

    def book(self, volume: str, *, vessel: str, taken: str, user: str, reason: str, zone: str = "") -> None:
        """Book a sample whose result cannot be used; once, as :meth:`enter`.

        Raises:
            AssayError: it is impossible.
        """
        self._book(volume, self.place(vessel), self.moment(taken, zone), user=user, reason=reason)

    def recent(self, limit: int = 50) -> list[dict[str, Any]]:
        """Return the latest assays, newest first, as journalled."""
        rows = self._journal.entries(kinds=("assay",), newest_first=True, limit=limit)
        return [{"id": entry.seq, "entered_utc": entry.utc, **entry.body} for entry in rows]

    def medium(self) -> dict[str, Any]:
        """Return the present estimate of the medium with bounds (mM, osmolality in mOsm/kg).

        `spent` is None on a rig without a kidney.

        Raises:
            AssayError: the rig has no loop.
        """
        state = self._available().now()
        spent = None if self._rig.organs.kidney is None else _bounds(state, "spent")
        bodies = {"loop": _bounds(state, "loop"), "spent": spent}
        return {"utc": self._clock.utc_text(), **bodies, "lactate_umol_d": state.rate_umol_d}

    # --- inside -----------------------------------------------------------------------------------------

    def _available(self) -> Estimator:
        if self._estimator is None:
            raise AssayError(
                f"{NO_LOOP}. Next: write the result as a note of a run, or add a loop vessel and a heart to the rig file"
            )
        return self._estimator

    def place(self, vessel: str) -> str:
        """Return the rig's name of a vessel; `loop` and `spent` are understood on every rig that has them."""
        if vessel in self._rig.vessels:
            return vessel
        kidney = self._rig.organs.kidney
        roles = {} if self._rig.loop is None else {"loop": self._rig.loop}
        roles |= {} if kidney is None else {"spent": kidney.vessel}
        if vessel not in roles:
            raise AssayError(
                f"no vessel is called “{vessel}”. Likely cause: a slip. Next: name one of {', '.join(self._followed())}"
            )
        return roles[vessel]

    def _followed(self) -> Iterator[str]:
        estimator = self._available()
        return (name for name in self._rig.vessels if estimator.where(name) is not None)

    def moment(self, text: str, zone: str) -> datetime:
        """Return the time of sampling (UTC); raise :class:`AssayError` if it is no time, or cannot be."""
        now = self._clock.utc()
        when = parse_taken(text, now, zone)
        if when > now + CLOCKS_APART:
            raise AssayError(
                f"the sample was taken at {_minute(when)}, and the rig's clock says {_minute(now)}: that is still to come."
                " Likely cause: it was yesterday, or another time zone. Next: write the date too, such as"
                f" {(now - timedelta(days=1)):%Y-%m-%d}T{when:%H:%M}Z"
            )
        when = min(when, now).replace(microsecond=0)
        began = self._available().began
        if began is not None and when < began.replace(microsecond=0):
            raise AssayError(
                f"the sample was taken at {_minute(when)}, before this culture began ({_minute(began)}). Likely cause: a slip"
                " in the date, or another --data. Next: check the date; what fresh medium holds stands in the rig file, and"
                " a sample of before the culture came here belongs to the rig that it came from"
            )
        return when

    def _book(self, volume: str, vessel: str, when: datetime, *, user: str, reason: str) -> None:
        sample = self._sample(volume, vessel, when)
        if sample is not None:
            self._ledger.sampled(sample, user=user, reason=reason)
            self._available().sampled(sample)

    def _sample(self, volume: str, vessel: str, when: datetime) -> AssaySample | None:
        """Return the sample to book; None if it is booked. Raise :class:`AssayError` if it cannot be."""
        try:
            return self._ledger.sample(vessel, parse_quantity(volume, "uL"), when)
        except (QuantityError, LedgerError) as error:
            raise AssayError(str(error)) from None

    def _not_twice(self, assay: Assay, *, sure: bool) -> None:
        for entry in self._journal.entries(kinds=("assay",), newest_first=True):
            found = Assay.from_json(entry.body)
            if not found.same(assay):
                continue
            if found.used:
                raise AssayTwice(entry.seq, found.value, entry.body["user"])
            if not sure:
                raise AssayRefused(
                    f"this assay is in the journal already (row {entry.seq}) and not used, because it contradicts the"
                    " estimate. Likely cause: a command was repeated. Next: if it is right, enter it with --sure"
                )

    def _exchanged(self, assay: Assay, seq: int) -> None:
        text = (
            f"the samples of {_minute(assay.taken)} fit loop and spent medium better if they are exchanged. They are kept"
            f" (up to journal row {seq}) and not used. Likely cause: exchanged labels of the samples. Next: look again; enter"
            " each result for the vessel that it was taken from with --sure"
        )
        self._alarm("assay_doubtful", f"samples of {_minute(assay.taken)}", text)
        raise AssayRefused(text)

    def _suspect(self, assay: Assay, off: float, expected: Interval, state: MediaState) -> None:
        """Say what an assay that is used makes doubtful."""
        doubt = self._available().doubt
        cause = media_assays.likeliest_cause(state, assay.where, assay.species, assay.value, assay.sd, doubt)
        unit = ANALYTES[assay.analyte].unit
        self._alarm(
            "medium_doubtful",
            f"{assay.analyte} in {assay.vessel}",
            f"{assay.analyte} of {quantity_text(assay.value, unit)} in “{assay.vessel}” at {_minute(assay.taken)} is"
            f" {off:.1f} standard deviations from the estimate, {expected.value:.3g} {unit}. It is used, and the interval is"
            f" wider. Likely cause: {CAUSES[cause]}. Next: assay again, and a bottle of fresh medium",
        )

    def _known_errors(self, state: MediaState) -> None:
        """Raise an alarm for each label and each method that the assays have shown to be wrong."""
        for cause, species, error in media_assays.known_errors(state):
            name = next(each.name for each in MEDIUM_ANALYTES.values() if each.species == species)
            if cause == "method":
                what = f"the assays of {name} read {abs(error):.0%} too {'high' if error > 0 else 'low'}"
                why, todo = (
                    "the method: its calibration, a strip, a dilution",
                    "measure a control, or by another method",
                )
            else:
                off = error * float(self._available().label_sd[INDEX[species]])
                side = "above" if off > 0 else "below"
                what = f"{name} of the fresh medium is {quantity_text(abs(off), ANALYTES[name].unit)} {side} its label"
                why, todo = "the label of the medium", "assay a bottle, and correct the rig file if it is so"
            self._alarm(
                "medium_doubtful",
                f"{cause} of {name}",
                f"{what}, by what the assays and the balances say together. The estimate allows for it. Likely cause: {why}."
                f" Next: {todo}",
            )

    def _doubt(self, assay: Assay, seq: int, off: float, expected: Interval, state: MediaState) -> None:
        unit = ANALYTES[assay.analyte].unit
        cause = media_assays.likeliest_cause(
            state, assay.where, assay.species, assay.value, assay.sd, self._available().doubt
        )
        text = (
            f"{assay.analyte} of {quantity_text(assay.value, unit)} in “{assay.vessel}” at {_minute(assay.taken)}"
            f" contradicts the estimate, {expected.value:.3g} ({expected.low:.3g} to {expected.high:.3g}) {unit}: it is"
            f" {off:.0f} standard deviations off. It is kept (journal row {seq}) and not used."
            f" Likely cause: {CAUSES[cause]}. Next: look again or assay again; if it is right, enter it with --sure"
        )
        self._alarm("assay_doubtful", f"{assay.analyte} in {assay.vessel}", text)
        raise AssayRefused(text)


def _analyte(name: str) -> Analyte:
    found = ANALYTES.get(name.strip().lower())
    if found is None:
        raise AssayError(
            f"“{name}” is not assayed. Likely cause: a typing error. Next: choose among {', '.join(ANALYTES)}"
        )
    return found


def _number(known: Analyte, text: str) -> float:
    number = _quantity(known, text, "value")
    if not known.low <= number <= known.high:
        raise AssayError(
            f"{known.name} of {quantity_text(number, known.unit)} cannot be: no medium holds less than"
            f" {known.low:g} or more than {known.high:g} {known.unit}. Likely cause: a slip in the number or its unit."
            " Next: look at the laboratory's sheet"
        )
    return number


def _deviation(known: Analyte, text: str) -> float:
    number = _quantity(known, text, "standard deviation")
    if not 0.0 < number <= known.high:
        raise AssayError(
            f"a standard deviation of {quantity_text(number, known.unit)} cannot be. Likely cause: a slip. Next: write a"
            " positive number with its unit, or leave --sd out"
        )
    return number


def _quantity(known: Analyte, text: str, what: str) -> float:
    """Parse a quantity into the analyte's unit; a mass concentration is converted by the molar mass."""
    try:
        return parse_quantity(text, known.unit)
    except QuantityError as error:
        if known.g_per_mol is not None:
            try:
                return float(f"{parse_quantity(text, _BY_MASS) / known.g_per_mol * 1000.0:.12g}")
            except QuantityError:
                pass
        units = f"{known.unit} or mg/dL" if known.g_per_mol is not None else known.unit
        problem, _, todo = str(error).partition("; ")
        raise AssayError(
            f"the {what} of {known.name}: {problem}. Likely cause: the unit is missing or another one. Next:"
            f" {todo or 'write it with a unit'} ({known.name} is taken in {units})"
        ) from None


def parse_taken(text: str, now: datetime, zone: str) -> datetime:
    """Parse the time of sampling: a time of day of today, or an ISO 8601 date and time. Return UTC.

    Without an offset it is a time in `zone` (IANA; default: the controller's zone).

    Raises:
        AssayError: it is no time, or ambiguous.
    """
    text = text.strip()
    where = _zone(zone)
    try:
        if _TIME_OF_DAY.fullmatch(text):
            today: date = now.astimezone(where).date()
            meant = datetime.combine(today, time.fromisoformat(text if text[2] == ":" else f"0{text}"))
        elif ":" in text and len(text) <= 40:
            meant = datetime.fromisoformat(text)
        else:
            raise ValueError
    except ValueError:
        raise AssayError(
            f"“{text[:40]}” is no time. Likely cause: a slip. Next: write a time of day of today, such as 10:40, or a"
            f" date and time, such as {now:%Y-%m-%d}T10:40"
        ) from None
    if meant.tzinfo is not None:
        return meant.astimezone(UTC)
    first, second = (_local(meant.replace(fold=fold), where) for fold in (0, 1))
    if first != second:
        raise AssayError(
            f"“{text}” came twice or not at all on that day. Likely cause: the clocks were changed. Next: write it in"
            f" UTC, as {first:%Y-%m-%dT%H:%MZ} or {second:%Y-%m-%dT%H:%MZ}"
        )
    return first


def _zone(name: str) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, or no name at all
        raise AssayError(
            f"no time zone is called “{name[:40]}”. Likely cause: a slip. Next: write one such as Europe/Berlin or UTC"
        ) from None


def _local(naive: datetime, where: ZoneInfo | None) -> datetime:
    """Convert a local time to UTC; without a zone, the zone of this machine applies."""
    return (naive if where is None else naive.replace(tzinfo=where)).astimezone(UTC)


def _minute(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _bounds(state: MediaState, where: Any) -> dict[str, Any]:
    return {name: state.interval(where, name).to_json() for name in SPECIES}
