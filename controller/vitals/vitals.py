"""The vital signs behind viability, care rating, welfare and happiness, collected from the state once a minute.

The scores are advice (decision 12): they move nothing. A missing or doubtful input is left out, which lowers the coverage and
widens the intervals. No input depends on a task, or on success in one (N10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from controller.alarms.definitions import DEFINITIONS, URGENCY
from controller.alarms.states import Alarm, AlarmState
from controller.core.clock import Clock
from controller.core.state import State
from controller.estimator.estimator import Estimator
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.rig.description import Rig
from controller.rig.perfusion import circulating, fed_by
from controller.rig.probes import chamber_temperature, loop_oxygen, loop_ph
from controller.safety.terms import Trip
from controller.steps.barrier import FilterRecord
from controller.vitals.electrode_baseline import ElectrodeBaseline
from controller.vitals.firing import FiringSigns
from controller.vitals.rolling_baseline import RollingBaseline
from controller.vitals.score_faults import ScoreFaults
from controller.vitals.scores import Scores
from controller.vitals.tissue import TissueWatch
from controller.vitals.tissue_inputs import TISSUE_NOTE, UNCERTAINTY, TissueInputs, firing_known, trusted_interval
from drivers.commands import PumpStatus
from nerves.summary import NervesSummary, StimulationTreatment
from protocols.activity import FiringMeasures
from protocols.baseline import Norm
from protocols.care_rating import MIN_OXYGEN_PCT, MediumGrade, Vitals, shut_gate
from protocols.grading import Letter
from protocols.interval import Interval
from protocols.media_state import MAKES_LACTATE, USES_GLUCOSE, MediaState
from protocols.tissue.sources import KnownBy
from protocols.tissue.statement import Statement
from protocols.tissue_loss import LdhSeen, TissueLoss
from protocols.welfare import Treatment as Treated

LOOK_UP_EVERY_S = 600.0
GRADE_OLD_S = 48 * 3600.0
"""Maximum age of a grade (s)."""
BY_HAND = {"ldh": 0.0, "growth": -1.0}
"""Findings of a person, with their minimum: a lower value means that it was not measured."""
BY_HAND_OLD_S = 7 * 86_400.0
BY_HAND_REL_SD = 0.1
"""Uncertainty of such an assay or image: a tenth [P]."""
LOOK_OLD_S = 48 * 3600.0
"""Maximum time (s) since the estimator's last correction; its rates are then no longer used."""
MIN_LOOKS = 2
RATE_KNOWN_REL_SD = 0.25
YIELD_KNOWN_SD = 0.25
"""The lactate yield is used once assays have made it more certain than the prior's 0.35 mol/mol."""
Z_BOUND = 0.5
"""Uncertainty of a minute's firing rate, in spreads of the baseline."""
SILENCE_Z = -20.0
ELECTRODE_FAULT_HZ = 250.0
"""Rate that means a fault of the electrode: ten times the normal maximum of 1,500 events a minute (FinalSpark)."""
FALLEN_SHARE = 0.5
FALLEN_MIN = 10
"""Minutes with less than half of the usual firing that raise an alarm (electrodes.md §5)."""
PER_SIDE = ("low", "value", "high")

IDLE = StimulationTreatment(0.0, 24.0, None, False, 0, "none", "this rig cannot stimulate")
"""Treatment of a rig without an array."""


def disturbance(trips: Iterable[Trip], alarms: Iterable[Alarm]) -> str:
    """Return why this moment is unusual: a tripped interlock, or an urgent alarm whose cause is present; else empty.

    Events (a held run, an acknowledged drift) stand until they are acknowledged and say nothing about the present.
    """
    for trip in trips:
        return f"{trip.interlock} {trip.point}"
    for alarm in alarms:
        here = alarm.state in (AlarmState.UNACKNOWLEDGED, AlarmState.ACKNOWLEDGED)
        if here and URGENCY[alarm.priority] <= URGENCY["high"] and not DEFINITIONS[alarm.kind].event:
            return alarm.id
    return ""


class VitalSigns:
    """Collects the inputs of the scores; remembers the baselines and the duration of an oxygen shortage."""

    def __init__(
        self,
        rig: Rig,
        estimator: Estimator | None,
        *,
        grade: Callable[[], Mapping[str, Any] | None],
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._rig = rig
        self._loop_oxygen, self._loop_ph = loop_oxygen(rig), loop_ph(rig)
        self._temperature = chamber_temperature(rig)
        self._absent = {
            gate for gate, point in (("temperature", self._temperature), ("oxygen", self._loop_oxygen)) if point is None
        }
        self._outlets = _outlets(rig)
        self._estimator = estimator
        self._grade = grade
        self._clock = clock
        self._journal = journal
        self._baseline = RollingBaseline(journal, clock)
        self._tissue = TissueWatch(journal, clock)
        self.faults = ScoreFaults()
        """What cannot be computed, and why."""
        self._inputs = TissueInputs(rig, journal, clock, outlets=self._outlets, faults=self.faults)
        self._barrier = FilterRecord(rig, journal)
        self._barrier_failed = False
        self._short_since: dict[str, float | None] = dict.fromkeys(PER_SIDE)
        self._looks = -1
        self._looked_s = 0.0
        self._shown = -1
        """Corrections of the estimator that the estimate of the tissue has seen: each is evidence once."""
        self._fallen = 0
        self.firing = FiringSigns(self._baseline, ElectrodeBaseline(journal, clock))
        """Firing against the culture's own baseline."""
        self._found: Mapping[str, Any] | None = None
        self._found_s = -math.inf
        self._looked: Entry | None = None

    @property
    def concern(self) -> str:
        """What a person must examine: firing has fallen by half; empty if nothing."""
        if self._fallen < FALLEN_MIN:
            return ""
        return f"firing has been under {FALLEN_SHARE:.0%} of this organoid's own baseline for {self._fallen} minutes"

    @property
    def loss(self) -> str:
        """What the estimate of the tissue says of a loss of viability; empty unless it is as good as certain."""
        lost = self._tissue.lost
        return f"about {lost:.0%} of the viability is lost since its peak of the last weeks" if lost else ""

    @property
    def tissue_loss(self) -> TissueLoss:
        """What the estimate of the tissue says of a loss of viability, a suspected one too."""
        return replace(self._tissue.finding, ldh=self._ldh_seen())

    def score(self, state: State, nerves: NervesSummary | None, disturbance: str) -> Scores:
        """Collect the inputs of the scores at this moment. Call it about once a minute.

        Args:
            state: the snapshot.
            nerves: the engine's summary, if there is one.
            disturbance: why this moment is unusual; empty if it is not.
        """
        kept = self.faults.kept
        if disturbance:
            self._baseline.disturbed(disturbance)
        kept("baseline", self._baseline.turn, None)
        kept("electrode_baseline", lambda: self.firing.turn(disturbance), None)
        treatment = self._treatment(nerves)
        firing = nerves if nerves is not None and nerves.sufficient else None
        kept("firing_signs", lambda: self.firing.update(firing, treatment), None)
        silent: tuple[FiringMeasures, Interval | None] = FiringMeasures(), None
        activity, band = kept("activity", lambda: self._activity(state, nerves, treatment), silent)
        vitals = self._vitals(state, activity)
        treated = self._treated(state, treatment, band)
        if (shut := shut_gate(vitals, absent=self._absent)) is not None:
            self._baseline.disturbed(f"{shut} gate")
        kept("tissue_look", lambda: self._note(state, nerves), None)
        norms, chambers = self._baseline.norms(), tuple(self._rig.tissue)
        nothing: dict[str, KnownBy] = {}
        sources = kept("sources", lambda: self._inputs.sources(state), nothing)

        def statement() -> Statement | None:
            found = self._tissue.statement()
            return None if found is None else replace(found, sources=sources)

        firing_z = dict(self.firing.scores)
        return Scores(vitals, treated, treatment, norms, chambers, firing_z, statement, self.faults)

    def _ldh_seen(self) -> LdhSeen | None:
        return self.faults.kept("ldh", self._inputs.ldh.seen, None)

    def restore_some(self) -> None:
        """Take in a few hours of the journal; call it often until everything is restored."""
        self.faults.kept("earlier_hours", self._tissue.restore_some, None)

    def _note(self, state: State, nerves: NervesSummary | None) -> None:
        """Hand what is known of the tissue at this minute to the estimate of its viability."""
        media = self._media(state.at_s)
        known = self.faults.interval
        uptake = known("oxygen_uptake_seen", lambda: self._measured_uptake(state))
        new = media is not None and media.observations != self._shown
        made = known("lactate_production", lambda: _lactate_making(media) if media is not None and new else None)
        self._shown = self._looks
        undiluted = None if self._estimator is None else self._estimator.undiluted
        look = self._inputs.update(state, media, nerves, uptake=uptake, lactate_umol_d=made, undiluted=undiluted)
        self._tissue.note(look, self._inputs.instruments, self._inputs.told)

    # --- care rating ------------------------------------------------------------------------------------

    def _vitals(self, state: State, activity: FiringMeasures) -> Vitals:
        kept, known = self.faults.kept, self.faults.interval
        kept("records", lambda: self._look_up(state.at_s), None)
        media = self._media(state.at_s)
        nothing: tuple[Interval | None, str] = (None, "")
        uptake, by = kept("oxygen_uptake", lambda: self._uptake(state, media), nothing)
        assayed = self._ldh_seen()
        return Vitals(
            temperature_c=self._trusted(state, self._temperature, "temperature"),
            oxygen_short_s=self._short(state),
            sterility_failed=self._barrier_failed,
            ldh=(None if assayed is None else assayed.ratio) or known("ldh_note", lambda: self._by_hand("ldh")),
            growth=known("growth", self._inputs.images.growth) or known("growth_note", lambda: self._by_hand("growth")),
            oxygen_uptake=uptake,
            oxygen_uptake_by=by,
            lactate_yield=known("lactate_yield", lambda: None if media is None else _yield(media)),
            grade=kept("grade", self._medium, None),
            firing=activity,
        )

    def _trusted(self, state: State, point: str | None, quantity: str) -> Interval | None:
        return trusted_interval(state, point, quantity)

    def _short(self, state: State) -> Interval | None:
        """Return how long oxygen has been too low: by the reading, and by both ends of its interval (s)."""
        oxygen = self._trusted(state, self._loop_oxygen, "oxygen")
        if oxygen is None:
            return None
        lasted = {}
        for side, seen in zip(PER_SIDE, (oxygen.high, oxygen.value, oxygen.low), strict=True):
            if seen >= MIN_OXYGEN_PCT:
                self._short_since[side] = None
            elif self._short_since[side] is None:
                self._short_since[side] = state.at_s
            since_s = self._short_since[side]
            lasted[side] = 0.0 if since_s is None else state.at_s - since_s
        return Interval(lasted["value"], lasted["low"], lasted["high"])

    def _look_up(self, now_s: float) -> None:
        """Read the journal for what changes every few hours, not every minute."""
        if now_s - self._found_s >= LOOK_UP_EVERY_S:
            self._found, self._found_s = self._grade(), now_s
            self._looked = self._journal.last(TISSUE_NOTE)
            self._barrier_failed = self._barrier.failed

    def _by_hand(self, name: str) -> Interval | None:
        """Return a person's finding about the tissue (examples/protocols/look.yaml), unless it is old."""
        row = self._looked
        if row is None or (self._clock.utc() - datetime.fromisoformat(row.utc)).total_seconds() > BY_HAND_OLD_S:
            return None
        value = row.body.get(name)
        if not isinstance(value, int | float) or value < BY_HAND[name]:
            return None
        return Interval.around(value, BY_HAND_REL_SD * abs(value))

    def _medium(self) -> MediumGrade | None:
        """Return the last grade, unless it is old, and the best grade that its uncertainty permits."""
        if (found := self._found) is None:
            return None
        age = self._clock.utc() - datetime.fromisoformat(found["utc"])
        if age.total_seconds() > GRADE_OLD_S:
            return None
        letter, letters = Letter(found["grade"]), tuple(Letter)
        if found.get("confidence", 1.0) >= 1.0 or letter is Letter.A:
            return MediumGrade(letter, letter)
        if letter is Letter.C and found.get("missing"):
            return MediumGrade(letter, Letter.A)
        return MediumGrade(letter, letters[letters.index(letter) - 1])

    def _media(self, now_s: float) -> MediaState | None:
        """Return the estimator's state, if the rig has one and it was corrected recently."""
        estimator = self._estimator
        media = None if estimator is None else self.faults.kept("medium", lambda: estimator.state, None)
        if media is None:
            return None
        if media.observations != self._looks:
            self._looks, self._looked_s = media.observations, now_s
        fresh = media.observations >= MIN_LOOKS and now_s - self._looked_s <= LOOK_OLD_S
        return media if fresh else None

    def _uptake(self, state: State, media: MediaState | None) -> tuple[Interval | None, str]:
        """Return oxygen uptake relative to the baseline: by a probe at the chamber's outlet, else inferred from lactate."""
        measured = self._measured_uptake(state)
        norm = self._baseline.note("oxygen_uptake", None if measured is None else measured.value)
        made = None if media is None else _lactate_making(media)
        usual_lactate = self._baseline.note("lactate_umol_d", None if made is None else made.value)
        if measured is not None:
            return (None if norm is None else measured.scaled(1.0 / norm.value)), ""
        if made is None or usual_lactate is None:
            return None, ""
        return made.scaled(1.0 / usual_lactate.value), "told from lactate making [P]"

    def _measured_uptake(self, state: State) -> Interval | None:
        """Return flow times the loss of saturation in the chamber (µL/min · %); only its trend counts."""
        loop = self._trusted(state, self._loop_oxygen, "oxygen")
        if loop is None:
            return None
        for point, pumps in self._outlets.items():
            flow_ul_min = _flow(state, pumps)
            outlet = None if flow_ul_min is None else self._trusted(state, point, "oxygen")
            if outlet is not None and outlet.low > loop.high:
                continue  # tissue makes no oxygen: the probes are exchanged, or one is wrong
            if flow_ul_min is not None and outlet is not None and point != self._loop_oxygen:
                lost, off = max(loop.value - outlet.value, 0.0), outlet.high - outlet.value
                return Interval(lost, max(lost - off, 0.0), lost + off).scaled(max(flow_ul_min, 1.0))
        return None

    # --- nerves -----------------------------------------------------------------------------------------

    def _activity(
        self, state: State, nerves: NervesSummary | None, treatment: StimulationTreatment | None
    ) -> tuple[FiringMeasures, Interval | None]:
        """Return the activity on the array, and the firing rate in spreads of the baseline."""
        if nerves is None or not firing_known(nerves, state.at_s):
            self._baseline.note("firing_hz", None)
            return FiringMeasures(), None
        firing = self._baseline.note("firing_hz", nerves.firing_rate_hz)
        share = nerves.active_electrodes / nerves.observed
        active = self._baseline.note("active_share", share)
        self._watch(nerves.firing_rate_hz, firing)
        z = math.nan if firing is None else max(firing.z(nerves.firing_rate_hz), SILENCE_Z)
        band = Interval(z, z - Z_BOUND, z + Z_BOUND) if math.isfinite(z) else None
        one = 1.0 / nerves.observed
        bad = {k for k, name in enumerate(nerves.states) if name not in ("ok", "blanked")}
        bad |= {k for k, rate in enumerate(nerves.rates_hz) if rate >= ELECTRODE_FAULT_HZ}
        sound = 1.0 - len(bad) / max(len(nerves.rates_hz), 1)
        evoked = None if treatment is None else treatment.evoked_ratio
        return (
            FiringMeasures(
                active_ratio=None
                if active is None
                else Interval(share, max(share - one, 0.0), share + one).scaled(1.0 / active.value),
                rate_z=band,
                evoked_ratio=None if evoked is None else _evoked(evoked),
                burst_cv=self.firing.mean_of("network_interval_cv"),
                sttc=self.firing.mean_of("sttc"),
                signal_quality=Interval.exact(sound),
                seizure_like=self.firing.seizure_like,
            ),
            band,
        )

    def _watch(self, firing_hz: float, norm: Norm | None) -> None:
        fallen = norm is not None and firing_hz < FALLEN_SHARE * norm.value
        self._fallen = self._fallen + 1 if fallen else 0

    # --- welfare ----------------------------------------------------------------------------------------

    def _treatment(self, nerves: NervesSummary | None) -> StimulationTreatment | None:
        if self._rig.nerves is None:
            return IDLE
        given = None if nerves is None else nerves.treatment
        if given is None or not (math.isfinite(given.load) and math.isfinite(given.rest_h)):
            return None
        ratio, spikes = (
            each if each is not None and math.isfinite(each) else None
            for each in (given.evoked_ratio, given.evoked_spikes)
        )
        return replace(given, evoked_ratio=ratio, evoked_spikes=spikes)

    def _treated(self, state: State, treatment: StimulationTreatment | None, band: Interval | None) -> Treated:
        known, given = self.faults.interval, treatment
        return Treated(
            temperature_spread_c=self._steady(state, "temperature_c", self._temperature, "temperature"),
            ph_spread=self._steady(state, "ph", self._loop_ph, "ph"),
            osmolality_spread_pct=known("osmolality", lambda: self._salt_spread_pct(state)),
            stimulation_load=known("stimulation_load", lambda: None if given is None else Interval.exact(given.load)),
            rest_h=known("rest", lambda: None if given is None else Interval.exact(given.rest_h)),
            own_band=band,
            seizure_like=self.faults.kept("seizure_like", lambda: self.firing.seizure_like, False),
        )

    def _salt_spread_pct(self, state: State) -> Interval | None:
        """Return the range of osmolality over the last day (% of the usual one)."""
        osmolality = self._media(state.at_s)
        seen = None if osmolality is None else osmolality.interval("loop", "osmolality_mosm")
        wanted = None if self._rig.loop is None else self._rig.vessels[self._rig.loop].contains
        normal = 290.0 if wanted is None else self._rig.media[wanted].osmolality_mosm
        salt = self._baseline.spread("osmolality_mosm", None if seen is None else seen.value)
        if salt is None or seen is None:
            return None
        return Interval.around(100.0 * salt / normal, 100.0 * seen.sd / normal, floor=0.0)

    def _steady(self, state: State, signal: str, point: str | None, quantity: str) -> Interval | None:
        """Return the range over the last day; a probe that is silent now gives none."""
        reading = self._trusted(state, point, quantity)
        spread = self._baseline.spread(signal, None if reading is None else reading.value)
        if spread is None or reading is None:
            return None
        off = UNCERTAINTY[quantity] / 3.0  # an offset does not change a difference; noise and drift within a day do
        return Interval(spread, max(spread - off, 0.0), spread + off)


def vital_signs(
    rig: Rig,
    estimator: Estimator | None,
    *,
    grade: Callable[[], Mapping[str, Any] | None],
    journal: Journal,
    clock: Clock,
) -> VitalSigns | None:
    """Return the vital signs of a rig; None on a rig that has no scores (:func:`why_unscored`)."""
    return None if why_unscored(rig) else VitalSigns(rig, estimator, grade=grade, journal=journal, clock=clock)


def why_unscored(rig: Rig) -> str:
    """Return why a rig has no scores of its tissue; empty if it has."""
    if circulating(rig) or rig.nerves is not None:
        return ""
    return "no heart draws from a loop and there is no electrode array, so nothing tells how the tissue is"


def _outlets(rig: Rig) -> dict[str, tuple[str, ...]]:
    """Return the oxygen probes in chambers, with the pumps of the hearts that feed each one's chamber."""
    pumps: dict[str, tuple[str, ...]] = {}
    for heart in rig.organs.hearts.values():
        pump = rig.lines[heart.line].pump or ""
        for chamber in fed_by(rig, heart):
            pumps[chamber] = (*pumps.get(chamber, ()), pump)
    return {
        f"{name}.oxygen": pumps[device.at]
        for name, device in rig.devices.items()
        if device.at is not None and device.at in pumps
    }


def _flow(state: State, pumps: Iterable[str]) -> float | None:
    """Return the flow of the running pumps (µL/min); None while none runs."""
    views = (state.actuators.get(pump) for pump in pumps)
    running = [
        view.status.flow_ul_min
        for view in views
        if view is not None and isinstance(view.status, PumpStatus) and view.status.running
    ]
    return sum(running) if running else None


def _evoked(ratio: float) -> Interval:
    """Return the evoked response over its baseline; negative where more spikes came before the pulses than after them."""
    low, high = sorted((0.7 * ratio, 1.3 * ratio))
    return Interval(ratio, low, high)


def _lactate_making(media: MediaState) -> Interval | None:
    """Return lactate production (µmol/day) if it is certain enough to show a trend: pH alone rarely suffices."""
    rate, sd = media.rate_umol_d, media.sd(MAKES_LACTATE)
    return Interval.around(rate, sd, floor=0.0) if sd <= RATE_KNOWN_REL_SD * rate else None


def _yield(media: MediaState) -> Interval | None:
    """Return lactate produced per glucose used, once assays have improved on the prior."""
    made, used = float(media.mean[MAKES_LACTATE]), float(media.mean[USES_GLUCOSE])
    if used <= 0.0:
        return None
    ratio = made / used
    both = float(media.covariance[MAKES_LACTATE, USES_GLUCOSE])
    variance = (media.sd(MAKES_LACTATE) ** 2 - 2 * ratio * both + (ratio * media.sd(USES_GLUCOSE)) ** 2) / used**2
    sd = math.sqrt(max(variance, 0.0))
    return Interval.around(ratio, sd, floor=0.0) if sd < YIELD_KNOWN_SD else None
