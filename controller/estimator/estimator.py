"""The state estimator of a rig: follows every booked transfer, and is corrected by pH and gas and by assays.

All it knows is in the journal: `estimate` rows hold the state with its inputs, `moved` rows the transfers, `assay` rows the
laboratory's results. After a restart, or when an assay arrives hours after sampling, the newest valid state is loaded and
everything since is replayed, each event at its time.

A prediction over six hours differs in the last digits from two over three: sigma points are chosen again, and uptake is
constant within a step. Time is therefore divided only where something happened to the medium or was measured (a transfer, a
reading, a sample), never at a query, at the entry of an assay or at a start of the controller; otherwise a late assay would
give another estimate than the same one in time.

Events keep the order of their rows, whatever the clock said; UTC only gives the time between them (:class:`_Clockwork`). A
clock that was set back undoes nothing, and one that was ahead delays nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.estimator.findings import EnteredAssay, by_time
from controller.estimator.observations import Observations, Sensed
from controller.estimator.rig_medium import RigMedium
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.ledger.ledger import LOADED, Alarm, Ledger, no_alarm
from controller.ledger.samples import SAMPLED, AssaySample
from controller.ledger.terms import Movement
from controller.rig.description import Rig
from controller.rig.perfusion import circulating
from controller.rig.probes import loop_ph
from controller.rig.surroundings import zone_of
from controller.tissue.record import KINDS, TissueRecord
from controller.transfers.weighing import settled
from protocols import media_assays, media_filter, media_state
from protocols.assay import Assay
from protocols.media_state import Array, MediaState
from protocols.soft_sensor import (
    VERSION,
    MediaEstimate,
    Where,
    pco2_mmhg,
)

PH_RANGE = (6.5, 8.0)
CO2_SHARE_RANGE = (0.005, 0.2)
AIR_CO2 = 4.2e-4
PATIENCE_S = 60.0
GAS_STALE_S = 60.0
CONTRADICTIONS = 2
"""Estimates in a row that a sensor on line contradicts before a person is called: one may be a bubble."""
INSTANT = timedelta(milliseconds=1)
"""Time before a sample at which nothing of it is known."""
logger = logging.getLogger(__name__)
NO_LOOP = "no heart of this rig draws from a loop, so there is no circulating medium to estimate"
"""Why a rig has no estimator."""
STEPPED = timedelta(seconds=2)
"""Difference between UTC and the monotonic clock that counts as a step of UTC; below it, a row's own time is finer."""


AGAIN_S = 600.0
"""Time until a replay that failed is tried again (s): it reads all rows since the last estimate."""


class EstimateBehind(Exception):
    """The state is not known: a row of the journal cannot be applied. The message says why."""


def estimator_of(
    rig: Rig,
    *,
    ledger: Ledger,
    journal: Journal,
    clock: Clock,
    store: StateStore,
    tissue: TissueRecord | None = None,
    alarm: Alarm = no_alarm,
) -> Estimator | None:
    """Return the estimator of a rig; None on a rig without a loop, whose medium no probe or transfer describes as one."""
    if not circulating(rig):
        return None
    return Estimator(rig, ledger=ledger, journal=journal, clock=clock, store=store, tissue=tissue, alarm=alarm)


@dataclass(frozen=True, slots=True)
class EstimatedState:
    """A state, the time of its last event, and the journal's last row that is in it (`seq`)."""

    state: MediaState
    at: datetime
    seq: int


@dataclass(frozen=True, slots=True)
class _Clockwork:
    """Time of the journal's rows, by UTC as the clock shows it now: `now`, at loop time `now_s`.

    Rows of this process (from `first_seq` on; it began at `began_s`) are timed by the monotonic clock if UTC was stepped
    since. Rows of earlier processes have only their own time, and are older than this process.
    """

    now: datetime
    now_s: float
    began_s: float
    first_seq: int

    def when(self, entry: Entry) -> datetime:
        """Return when a row was written."""
        written = _utc(entry)
        if entry.seq < self.first_seq:
            return min(written, self._at(self.began_s))
        really = self._at(entry.at_s)
        return min(written, self.now) if abs(really - written) <= STEPPED else really

    def _at(self, at_s: float) -> datetime:
        return self.now - timedelta(seconds=self.now_s - at_s)


class Estimator:
    """The estimator of one rig with a loop; `latest` is its last estimate.

    The medium of the loop and of all chambers that hearts feed from it is one; its tissue is that of all these chambers.
    """

    def __init__(
        self,
        rig: Rig,
        *,
        ledger: Ledger,
        journal: Journal,
        clock: Clock,
        store: StateStore,
        tissue: TissueRecord | None = None,
        alarm: Alarm = no_alarm,
    ) -> None:
        """Without `tissue`, the rig file alone says what lives in the chambers."""
        self._alarm = alarm
        self._contradictions: dict[str, int] = {}
        self._rig = rig
        self._ledger = ledger
        self._journal = journal
        self._clock = clock
        self._store = store
        self._medium = RigMedium(rig, journal, tissue)
        self._observations = Observations(rig, store, clock, self._medium.places)
        self._began_s, self._first_seq = clock.now_s(), journal.next_seq
        self._behind = False
        """Whether an event could not be applied: the next use of the state replays the journal."""
        self._again_s, self._why_behind = -math.inf, ""
        """When a replay that failed is tried again (loop s), and why it failed."""
        try:
            self._state, self._at_s = self._caught_up()
        except Exception:  # the next use of the state raises it again; it must not keep the controller down
            self._state, self._at_s = self._medium.begin(), clock.now_s()
            self._behind = True
            logger.exception("the estimate of the medium cannot follow the journal; its next use replays it")
        self._tracer: Mapping[Where, float] = {"loop": 1.0, "spent": 1.0}
        last = journal.last("estimate")
        self.latest: MediaEstimate | None = None if last is None else MediaEstimate.from_json(last.body["estimate"])
        ledger.listen(self._moved)
        ledger.listen_to_loads(self._loaded)
        if tissue is not None:
            tissue.listen(self._tissue_changed)

    @property
    def state(self) -> MediaState:
        """The state as of the last event."""
        self._catch_up()
        return self._state

    @property
    def undiluted(self) -> float:
        """What is left in the loop, per volume, of a substance that only exchange of medium removes; 1 at this start."""
        return self._tracer["loop"]

    @property
    def began(self) -> datetime | None:
        """Since when this journal knows the culture: its first volumes, or the takeover from another rig."""
        began = self._journal.last("handover.taken") or self._journal.last("ledger.opened")
        return None if began is None else self._clockwork().when(began)

    def where(self, vessel: str) -> Where | None:
        """Return which of the two bodies of medium a vessel belongs to; None for bottles and waste."""
        return self._medium.where(vessel)

    def now(self) -> MediaState:
        """Return the state predicted to this moment; a query changes nothing."""
        return self._medium.lived(self.state, self._clock.now_s() - self._at_s)

    def at(self, when: datetime) -> MediaState:
        """Return the state as of an earlier moment, with all that is now known about the time before it."""
        known = self._replayed(self._clockwork(), when)
        return self._medium.lived(known.state, max((when - known.at).total_seconds(), 0.0))

    @property
    def doubt(self) -> media_assays.GrossErrors:
        """How far the label of the medium and the methods of the assays are off if they are wrong."""
        return self._medium.doubt

    @property
    def label_sd(self) -> Array:
        """For each species, the usual deviation of the medium from its label (mM, mOsm/kg)."""
        return self._medium.label_sd

    def exchanged(self, assay: Assay, *, sure: bool) -> bool:
        """Return whether an assay that is about to be entered shows that the samples of its time were exchanged."""
        entered = EnteredAssay(self._journal.next_seq, assay, sure)
        together = by_time([*self._findings(self._clockwork()), entered])[assay.taken]
        return together.both_vessels and together.exchanged(self.at(assay.taken - INSTANT))

    async def estimate(self, *, run: str | None = None) -> MediaEstimate:
        """Read pH of the loop and the gas flows, correct by them if they may be trusted, and journal the state."""
        ph = await self._ph()
        pco2 = self._pco2()
        volumes = self._ledger.volumes()
        inputs: dict[str, Any] = {
            "ph": ph,
            "pco2_mmhg": pco2,
            "loop_ul": sum(volumes[name].ul for name in self._medium.circulating),
            "spent_ul": 0.0 if self._medium.spent is None else volumes[self._medium.spent].ul,
            "sensed": self._observations.metabolites(),
            "oxygen_umol_d": self._observations.oxygen_uptake(),
        }
        self._pass_time()
        for each in inputs["sensed"]:
            self._contradiction(each)
        self._state = _looked(self._state, inputs)
        return self._journalled(inputs, titrated=ph is not None and pco2 is not None, run=run)

    def _contradiction(self, seen: Sensed) -> None:
        """Raise an alarm if a sensor contradicts the estimate for the second time in a row."""
        off = media_filter.sensor_surprise(self._state, seen.where, seen.species, seen.mm)
        times = self._contradictions.get(seen.point, 0) + 1 if off > media_filter.READING_GATE else 0
        self._contradictions[seen.point] = times
        if times >= CONTRADICTIONS:
            expected = self._state.interval(seen.where, seen.species)
            self._alarm(
                "sensor_doubtful",
                seen.point,
                f"{seen.point} reads {seen.mm:.3g} mM; the estimate is {expected.value:.3g} ({expected.low:.3g} to"
                f" {expected.high:.3g}) mM, {off:.0f} standard deviations off, {times} times in a row. The reading has little"
                " weight. Likely cause: a worn or fouled sensor, a bubble, a wrong gain; else the culture is not as believed."
                " Next: take an assay, which decides; calibrate or replace the sensor",
            )

    def learn(self, seq: int) -> MediaEstimate:
        """Apply the assay of journal row `seq` at its time of sampling, and journal the state."""
        self._state, self._at_s = self._caught_up()
        return self._journalled({"ph": None, "pco2_mmhg": None, "assay": seq}, titrated=False, run=None)

    def sampled(self, sample: AssaySample) -> None:
        """Take the volume of a sample, which the ledger has booked, out of the medium; its composition stays."""
        self._follow(lambda: self._apply(lambda state: self._medium.withdrawn(state, sample)))

    def take_over(self, there: MediaState, age_s: float) -> MediaEstimate:
        """Take over a culture from another rig: `there` is its state on that rig, estimated `age_s` ago. Return the
        estimate of the present.
        """
        self._pass_time()
        self._state = media_state.handed_over(self._state, self._medium.lived(there, age_s))
        return self._journalled({"ph": None, "pco2_mmhg": None, "handed_over": True}, titrated=False, run=None)

    # --- inside -----------------------------------------------------------------------------------------

    def _journalled(self, inputs: Mapping[str, Any], *, titrated: bool, run: str | None) -> MediaEstimate:
        self.latest = media_filter.estimate(self.now(), titrated=titrated, spent=self._medium.spent is not None)
        as_of = _text(self._clock.utc() - timedelta(seconds=self._clock.now_s() - self._at_s))
        body: dict[str, Any] = {"state": self._state.to_json(), "as_of": as_of, "inputs": inputs}
        body["estimate"] = self.latest.to_json()
        if self._medium.stable_glutamine:
            body["stable_glutamine"] = True
        self._journal.append("estimate", body, run=run)
        return self.latest

    def _follow(self, event: Callable[[], None], *, also_behind: bool = False) -> None:
        """Apply what is being booked. The estimate is advice: an error of it must not keep the booking from the journal."""
        if self._behind and not also_behind:
            return
        try:
            event()
        except Exception:
            self._behind = True
            logger.exception("the estimate of the medium cannot follow a booking; its next use replays the journal")

    def _catch_up(self) -> None:
        if not self._behind:
            return
        if self._clock.now_s() < self._again_s:
            raise EstimateBehind(self._why_behind)
        try:
            self._state, self._at_s = self._caught_up()
        except Exception as error:
            self._again_s = self._clock.now_s() + AGAIN_S
            self._why_behind = f"the estimate of the medium cannot follow the journal ({type(error).__name__}: {error})"
            raise
        self._behind = False

    def _pass_time(self) -> None:
        self._catch_up()
        now_s = self._clock.now_s()
        self._state = self._medium.lived(self._state, now_s - self._at_s)
        self._at_s = now_s

    def _moved(self, movement: Movement) -> None:
        self._follow(self._pass_time)
        self._follow(lambda: self._dilute(movement), also_behind=True)  # no replay would
        line, ul, glutamine = movement.line, movement.ul, movement.glutamine
        self._follow(lambda: self._apply(lambda state: self._medium.poured(state, line, ul, glutamine)))

    def _dilute(self, movement: Movement) -> None:
        self._tracer = self._medium.mixed(self._tracer, self._state, movement.line, movement.ul)

    def _loaded(self, seq: int) -> None:
        self._follow(lambda: self._apply(lambda state: self._medium.loaded(state, seq)))

    def _tissue_changed(self, seq: int) -> None:
        self._follow(lambda: self._apply(lambda state: self._medium.with_tissue(state, seq)))

    def _apply(self, change: Callable[[MediaState], MediaState]) -> None:
        self._pass_time()
        self._state = change(self._state)

    async def _ph(self) -> float | None:
        point = loop_ph(self._rig)
        if point is None:
            return None
        every_s = self._rig.devices[point.partition(".")[0]].every_s
        reading = await settled(self._store, point, every_s=every_s, patience_s=max(PATIENCE_S, 6 * every_s))
        if reading.value is None or not PH_RANGE[0] < reading.value < PH_RANGE[1]:
            return None
        return reading.value

    def _pco2(self) -> float | None:
        """Return the CO2 pressure over the loop (mmHg): by the flows of the lung, else that of the zone's gas."""
        lung, (low, high) = self._rig.organs.lung, CO2_SHARE_RANGE
        if lung is None:
            co2_pct = zone_of(self._rig, self._medium.circulating[0]).co2_pct
            return pco2_mmhg(co2_pct, 100.0) if low < co2_pct / 100.0 < high else None
        co2, air, o2 = (self._gas(point) for point in (lung.co2, lung.air, lung.o2))
        if co2 is None or air is None or o2 is None:
            return None
        total = co2 + air + o2
        if total <= 0 or not low < co2 / total < high:
            return None
        return pco2_mmhg(co2 + AIR_CO2 * air, total)

    def _gas(self, point: str) -> float | None:
        newest = self._store.readings.get(point)
        reading = None if newest is None else newest.good
        if reading is None or not math.isfinite(reading.value):
            return None
        return reading.value if self._clock.now_s() - reading.at_s <= GAS_STALE_S else None

    # --- replay of the journal --------------------------------------------------------------------------

    def _caught_up(self) -> tuple[MediaState, float]:
        """Return the state of the last event, and the time of that event (loop s)."""
        clockwork = self._clockwork()
        known = self._replayed(clockwork, None)
        return known.state, clockwork.now_s - max((clockwork.now - known.at).total_seconds(), 0.0)

    def _clockwork(self) -> _Clockwork:
        return _Clockwork(self._clock.utc(), self._clock.now_s(), self._began_s, self._first_seq)

    def _replayed(self, clockwork: _Clockwork, until: datetime | None) -> EstimatedState:
        """Return the state of the last event (until a time), from the newest state that contains all assays before it."""
        samples = self._findings(clockwork)
        known = self._checkpoint(clockwork, samples, until)
        state, at = known.state, known.at
        for when, happens in self._since(clockwork, known, samples, until):
            state = happens(self._medium.lived(state, max((when - at).total_seconds(), 0.0)))
            at = max(at, when)
        return replace(known, state=state, at=at)

    def _findings(self, clockwork: _Clockwork) -> list[EnteredAssay]:
        """Return all assays of the medium, in the order of their entry."""
        found = []
        for entry in self._journal.entries(kinds=("assay",)):
            assay = Assay.from_json(entry.body)
            if assay.species:  # a sample cannot be taken after its entry, whatever the clock shows now
                assay = replace(assay, taken=min(assay.taken, clockwork.when(entry)))
                found.append(EnteredAssay(entry.seq, assay, entry.body.get("sure", False)))
        return found

    def _checkpoint(
        self, clockwork: _Clockwork, findings: list[EnteredAssay], before: datetime | None
    ) -> EstimatedState:
        for entry in self._journal.entries(kinds=("estimate",), newest_first=True):
            written = datetime.fromisoformat(entry.body["as_of"])
            at = clockwork.when(entry) - (_utc(entry) - written)
            late = any(each.seq > entry.seq and each.assay.taken <= at for each in findings)
            in_time = before is None or at <= before
            if in_time and not late and entry.body["state"].get("version") == VERSION:
                state, stable = MediaState.from_json(entry.body["state"]), entry.body.get("stable_glutamine", False)
                return EstimatedState(self._medium.as_declared(state, stable=stable), at, entry.seq)
        opened = self._journal.last("ledger.opened")
        if opened is None:
            return EstimatedState(self._medium.begin(), before or clockwork.now, 0)
        return EstimatedState(self._medium.begin(), clockwork.when(opened), opened.seq)

    def _since(
        self, clockwork: _Clockwork, known: EstimatedState, findings: list[EnteredAssay], until: datetime | None
    ) -> list[tuple[datetime, Callable[[MediaState], MediaState]]]:
        """Return the events after a known state (until a time), in order.

        Samples count before what was booked at the same instant. Those of one instant count together, whichever was entered
        first.
        """
        events: list[tuple[datetime, tuple[str | int, ...], Callable[[MediaState], MediaState]]] = []
        latest = known.at
        for entry in self._journal.entries(kinds=("moved", "estimate", SAMPLED, LOADED, *KINDS), after=known.seq):
            if entry.kind == "estimate" and "assay" in entry.body["inputs"]:
                continue  # it follows from earlier rows
            latest = max(latest, clockwork.when(entry))
            if until is None or latest <= until:
                events.append((latest, ("then", entry.seq), self._happening(entry)))
        doubt = self._medium.doubt
        for taken, together in by_time(findings).items():
            if together.newest > known.seq and _in_time(taken, until):
                events.append((taken, ("sample",), partial(together.applied, doubt=doubt)))
        return [(when, happens) for when, _, happens in sorted(events, key=lambda event: event[:2])]

    def _happening(self, entry: Entry) -> Callable[[MediaState], MediaState]:
        body = entry.body
        if entry.kind == SAMPLED:
            return lambda state: self._medium.withdrawn(state, AssaySample.from_json(body))
        if entry.kind == LOADED:
            return lambda state: self._medium.loaded(state, entry.seq)
        if entry.kind in KINDS:
            return lambda state: self._medium.with_tissue(state, entry.seq)
        if entry.kind == "estimate":
            if "handed_over" in body["inputs"]:
                return lambda _: MediaState.from_json(body["state"])
            return lambda state: _looked(state, body["inputs"])
        ul, glutamine = body.get("liquid_ul", body["ul"]), body.get("glutamine", 1.0)
        return lambda state: self._medium.poured(state, body["line"], ul, glutamine)


def _in_time(when: datetime, until: datetime | None) -> bool:
    return until is None or when <= until


def _looked(state: MediaState, inputs: Mapping[str, Any]) -> MediaState:
    """Apply readings of the rig, as far as they are known: volumes by the ledger, titration by pH and gas, sensors."""
    if "loop_ul" in inputs:
        state = media_filter.with_volumes(state, loop_ul=inputs["loop_ul"], spent_ul=inputs["spent_ul"])
    if inputs["ph"] is not None and inputs["pco2_mmhg"] is not None:
        state = media_filter.titrated(state, inputs["ph"], inputs["pco2_mmhg"])
    for where, species, value, _ in inputs.get("sensed", ()):
        state = media_filter.sensed(state, where, species, value)
    if (uptake := inputs.get("oxygen_umol_d")) is not None:
        state = media_filter.respired(state, *uptake)
    return state


def _text(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _utc(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.utc)
