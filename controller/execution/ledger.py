"""The ledger: how much is in each vessel, how certain that is, and where every microlitre went.

Volumes follow from conservation: what leaves one vessel enters another (F1). Each transfer is one journal row `moved`,
which is also the outcome of the transfer itself, so that a crash can neither lose nor double it; the ledger is rebuilt
from those rows. The spent vessel is weighed, and what the balance says corrects all that a dose has touched: both vessels,
the pump's gain and, with them, every vessel that this pump has filled before (:mod:`controller.execution.reconcile`).
Nothing measures the loop: what evaporates there unseen is booked at a declared rate, and the doubt about that rate grows
with time, until somebody reads its level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from controller.clock import Clock
from controller.execution.batches import Batch, Whereabouts
from controller.execution.drift import LEARNED_REL_SD, WANDER_REL_SD, Drift, PumpWatch
from controller.execution.journal import Entry, Journal
from controller.execution.reconcile import K, Residual, Unknowns, surplus
from controller.execution.witnesses import DENSITY_REL_SD, DENSITY_UL_PER_G, Weight
from controller.rig.description import Line, Rig
from controller.state import Volume
from protocols.dialysis import INSULIN_KOA, exchanged

EVAPORATION_UL_D, EVAPORATION_SD_UL_D = 100.0, 60.0
"""Lost by the loop in a day: some 2 m of silicone tubing in a humid housing lose 36–150 µL (biology.md §1.3)."""
SPENT_EVAPORATION_UL_D, SPENT_EVAPORATION_SD_UL_D = 20.0, 20.0
"""Lost by the spent vessel through the shorter tubing that ends in it [P]: a fifth of the loop's, known no better."""
FILL_REL_SD = 0.005
"""How well a vessel was filled to what the rig file says; a person with a pipette."""
DAY_S = 86_400.0
KINDS = ("moved", "ledger.weighed", "ledger.reconciled", "ledger.level", "ledger.loaded")
DENSITY = "density"
"""An unknown beside the volumes: how heavy the medium is (relative)."""
BOOKED = "all as booked"
"""Another: what all vessels hold together by the bookings alone, which no weighing corrects. Its doubt (how full they were,
what evaporated) is the volumes' own, so that in the difference of both only what was moved and weighed is left.
"""


Alarm = Callable[[str, str, str], None]
"""(kind, source, detail), as :mod:`controller.alarms` takes it."""
Listener = Callable[["Movement"], None]


def no_alarm(kind: str, source: str, detail: str) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Water that leaves a vessel unseen. How fast, in standard deviations from what is expected, is one unknown number:
    its error adds up along a line and not as a random walk.
    """

    unknown: str
    ul_d: float
    sd_ul_d: float

    def in_time(self, seconds: float) -> tuple[float, float]:
        """Expected loss and its standard deviation (µL)."""
        days = max(seconds, 0.0) / DAY_S
        return self.ul_d * days, self.sd_ul_d * days


class LedgerError(Exception):
    """Something that cannot be booked: what, where, likely cause, next action."""


@dataclass(frozen=True, slots=True)
class Nominal:
    """What a pump was to move in a dose that it ended by itself: the prior of what it did move.

    `ul` by its calibration, whose claim is `rel_sd` and whose name is `calibration`; `dose_sd_ul` is the scatter from dose
    to dose.
    """

    ul: float
    rel_sd: float
    dose_sd_ul: float
    calibration: str

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal."""
        return {f"nominal_{name}": value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Movement:
    """One transfer as booked: along which line, from and to which vessel, how much (µL)."""

    line: str
    source: str
    target: str
    ul: float


@dataclass(frozen=True, slots=True)
class Parcel:
    """What medium has been through, as the mixing average of a vessel."""

    passes: float = 0.0
    """How often it was given back to the loop."""
    age_s: float = 0.0
    """Since it left its bottle."""
    unused: float = 1.0
    """Share that was never in the loop."""
    insulin: float = 1.0
    """Share of the insulin of fresh medium: stocks have none, and a dialyser leaks it."""

    def mixed(self, other: Parcel, share: float) -> Parcel:
        """With a `share` (0..1) of `other` in the mixture."""
        return Parcel(
            self.passes + (other.passes - self.passes) * share,
            self.age_s + (other.age_s - self.age_s) * share,
            self.unused + (other.unused - self.unused) * share,
            self.insulin + (other.insulin - self.insulin) * share,
        )


@dataclass(slots=True)
class Totals:
    """Since the journal began (µL). `recycled_ul` is used medium that went back to the loop."""

    drawn_ul: float = 0.0
    given_back_ul: float = 0.0
    recycled_ul: float = 0.0
    discarded_ul: float = 0.0
    fresh_ul: float = 0.0
    glucose_ul: float = 0.0
    base_ul: float = 0.0
    dialysate_ul: float = 0.0
    evaporated_ul: float = 0.0
    loaded_ul: float = 0.0
    """What people put in, with its lot number."""
    unaccounted_ul: float = 0.0
    """Corrections: what the balance or a person found that no transfer explains (gain > 0)."""
    reconciled_ul: float = 0.0
    """Of it, what a person set with name and reason."""

    @property
    def recycled_fraction(self) -> float:
        """Recycled over recycled and fresh (0..1): how much of what entered the loop had been there before."""
        entered = self.recycled_ul + self.fresh_ul
        return self.recycled_ul / entered if entered else 0.0


@dataclass(slots=True)
class Tests:
    """How the residuals of weighed doses and read levels came out: of well pumps, the mean square of sigmas is about 1."""

    count: int = 0
    gross: int = 0
    square_sigmas: float = 0.0

    def note(self, residual: Residual) -> None:
        """One more."""
        self.count += 1
        self.gross += residual.gross
        if not residual.gross:
            self.square_sigmas += residual.sigmas**2


@dataclass(slots=True)
class _Vessel:
    ul: float
    variance: float
    parcel: Parcel = field(default_factory=Parcel)
    _told: tuple[float, float, Volume] | None = None

    def volume(self) -> Volume:
        """Volume and its standard deviation (µL); the same object for as long as they do not change."""
        told = self._told
        if told is None or told[0] != self.ul or told[1] != self.variance:
            told = self._told = (self.ul, self.variance, Volume(self.ul, math.sqrt(self.variance)))
        return told[2]


class Ledger:
    """Volumes, totals and the history of the medium of one rig."""

    def __init__(self, rig: Rig, journal: Journal, clock: Clock, *, alarm: Alarm = no_alarm) -> None:
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._alarm = alarm
        self._listeners: list[Listener] = []
        self._spent = rig.organs.kidney.vessel
        self._loop = rig.organs.lung.vessel
        self._vessels = {
            name: _Vessel(vessel.volume_ul, (FILL_REL_SD * vessel.volume_ul) ** 2)
            for name, vessel in rig.vessels.items()
        }
        for name in (self._loop, rig.organoid.chamber):
            self._vessels[name].parcel = Parcel(unused=0.0)
        plain = (rig.organs.liver.glucose, rig.organs.liver.base, rig.organs.kidney.dialyse)
        self._stocks = {rig.vessels[rig.lines[line].from_].contains for line in plain if line is not None}
        for name, vessel in rig.vessels.items():
            if vessel.contains in self._stocks:
                self._vessels[name].parcel = replace(self._vessels[name].parcel, insulin=0.0)
        self._unknowns = Unknowns()
        for name, held in self._vessels.items():
            self._unknowns.add(name, held.ul, held.variance)
        self._losses = {
            self._spent: Loss("evaporation of spent", SPENT_EVAPORATION_UL_D, SPENT_EVAPORATION_SD_UL_D),
            self._loop: Loss("evaporation", EVAPORATION_UL_D, EVAPORATION_SD_UL_D),
        }
        for loss in self._losses.values():
            self._unknowns.add(loss.unknown, 0.0, 1.0)
        self._unknowns.add(DENSITY, 0.0, DENSITY_REL_SD**2)
        self._unknowns.add(BOOKED, 0.0, 0.0, kept=True)
        self._begin_booked()
        self.pumps: dict[str, PumpWatch] = {}
        """What the doses of each pump have told, since its calibration or tubing last changed."""
        self.whereabouts = Whereabouts()
        self.totals = Totals()
        self.tests = Tests()
        self._booked_s = clock.now_s()
        self._rebuild()

    # --- what is known ----------------------------------------------------------------------------------

    def volumes(self) -> dict[str, Volume]:
        """Every vessel's volume now, with its standard deviation (µL)."""
        volumes = {name: vessel.volume() for name, vessel in self._vessels.items()}
        since_s = self._clock.now_s() - self._booked_s
        for name, loss in self._losses.items():
            lost, sd = loss.in_time(since_s)
            vessel, (rate, rate_variance, shared) = self._vessels[name], self._rates[name]
            variance = vessel.variance - 2.0 * sd * shared + sd * sd * rate_variance
            volumes[name] = Volume(vessel.ul - lost - sd * rate, math.sqrt(max(variance, 0.0)))
        return volumes

    def parcels(self) -> dict[str, Parcel]:
        """What the medium of each vessel has been through."""
        since_s = max(self._clock.now_s() - self._booked_s, 0.0)
        return {name: replace(v.parcel, age_s=v.parcel.age_s + since_s) for name, v in self._vessels.items()}

    def gain(self, pump: str) -> tuple[float, float] | None:
        """What a pump delivers over what its calibration says, and the standard deviation of that; None before any dose."""
        name = f"gain {pump}"
        if name not in self._unknowns:
            return None
        return 1.0 + self._unknowns.mean(name), math.sqrt(self._unknowns.variance(name))

    def unexplained(self) -> Volume:
        """The balance error: what weighings and readings found that no transfer, loss or person explains (µL, gain > 0),
        with the standard deviation that it has if nothing leaks.

        It is what all vessels are believed to hold, less what they hold as booked. How full the bottles were is in both and
        cancels; what is left is the doubt of what was moved and weighed.
        """
        terms = {**dict.fromkeys(self._vessels, 1.0), BOOKED: -1.0}
        sd_ul = self._unknowns.residual(terms, 0.0, 0.0).sd
        return Volume(self.totals.unaccounted_ul - self.totals.reconciled_ul, sd_ul)

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every booking from now on."""
        self._listeners.append(listener)

    # --- booking ----------------------------------------------------------------------------------------

    def moved(
        self,
        line: str,
        volume_ul: float,
        sd_ul: float,
        source: str,
        *,
        nominal: Nominal | None = None,
        weight: Weight | None = None,
        run: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> int:
        """Book a transfer along `line`; `source` tells who measured it. Returns the journal row's number.

        With what the pump was to move (`nominal`) its doubt is carried along as what it is: the pump's, not the dose's.
        With the settled `weight` after it, the spent vessel's volume is what the balance says; both together tell whether
        the pump still does what it should (F4).
        """
        body = {"line": line, "ul": volume_ul, "sd_ul": sd_ul, "source": source, **(detail or {})}
        if nominal is not None:
            body |= nominal.to_json()
        if weight is not None:
            body["spent_ul"], body["spent_sd_ul"] = weight.g * DENSITY_UL_PER_G, weight.sd_g * DENSITY_UL_PER_G
        seq = self._journal.append("moved", body, run=run)
        self._up_to_now()
        drift = self._book(body, self._clock.utc_text())
        if drift is not None:
            self._alarm("pump_drift", drift.pump, drift.text)
        return seq

    def weighed(self, weight: Weight) -> None:
        """Compare the spent vessel with the balance, and take the balance's word.

        Beyond k·σ the difference is more than noise: an alarm tells it (F4), and the doubt that is kept covers both.
        """
        ul, noise = weight.g * DENSITY_UL_PER_G, weight.sd_g * DENSITY_UL_PER_G
        before = self._vessels[self._spent].ul
        residual = self._unknowns.residual({self._spent: 1.0, DENSITY: -ul}, ul, noise**2)
        change, sd = ul - before, noise
        if residual.gross:
            sd = max(noise, abs(change) / K)
            self._alarm(
                "balance_drift",
                self._spent,
                f"the balance says {ul / 1000:.2f} mL, the ledger {before / 1000:.2f} mL;"
                f" more than {K * residual.sd / 1000:.2f} mL apart. Likely cause: a leak, a drip, or somebody handled the"
                " vessel. Next: look at the spent vessel and its lines",
            )
        elif abs(change) < _least_change(ul, noise):
            return  # within the noise: not worth a row
        body = {"vessel": self._spent, "ul": ul, "sd_ul": sd, "noise_ul": noise, "change_ul": change}
        self._journal.append("ledger.weighed", body)
        self._up_to_now()
        self._weigh(body)

    def reconcile(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> None:
        """A person changed a vessel's volume or knows better: take it over, with who and why (D4)."""
        self._known(vessel)
        before = self.volumes()[vessel].ul
        body = {
            "vessel": vessel,
            "ul": volume_ul,
            "sd_ul": sd_ul,
            "change_ul": volume_ul - before,
            "user": user,
            "reason": reason,
        }
        self._journal.append("ledger.reconciled", body)
        self._up_to_now()
        self._reconcile(body)

    def level(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> Residual:
        """A person (or a level probe) read a vessel's volume: one equation more for all that is unknown.

        It corrects the pumps' gains, the rate of evaporation and the other vessels by their shares of the doubt. Returns
        its residual; a gross one is an alarm, and the reading is taken over as :meth:`reconcile` does.
        """
        self._known(vessel)
        if not (math.isfinite(volume_ul) and volume_ul >= 0 and math.isfinite(sd_ul) and sd_ul > 0):
            raise LedgerError(
                f"a level of {volume_ul:g} ± {sd_ul:g} µL in {vessel} cannot be. Likely cause: a slip. Next: give a volume"
                " and how exactly it was read, such as 38.5 mL within 0.5 mL"
            )
        self._up_to_now()
        residual = self._unknowns.residual({vessel: 1.0}, volume_ul, sd_ul**2)
        believed = self._vessels[vessel].ul
        body = {"vessel": vessel, "ul": volume_ul, "sd_ul": sd_ul, "change_ul": residual.value}
        self._journal.append("ledger.level", {**body, "gross": residual.gross, "user": user, "reason": reason})
        self._level(body | {"gross": residual.gross})
        if residual.gross:
            self._alarm(
                "balance_drift",
                vessel,
                f"read as {volume_ul / 1000:.2f} mL, the ledger had {believed / 1000:.2f} mL; more than"
                f" {K * residual.sd / 1000:.2f} mL apart. Likely cause: a leak, more evaporation than declared, or a"
                " misreading. Next: look for a leak; read the level again",
            )
        return residual

    def load(self, batch: Batch, volume_ul: float, sd_ul: float, *, replaces: bool, user: str, reason: str) -> None:
        """A person put medium with a lot number into a vessel: another bottle (`replaces`), or on top of what is there.

        Raises :class:`LedgerError` for what the vessel, or the medium that it is to hold, does not allow.
        """
        self._known(batch.vessel)
        self._may_load(batch, volume_ul, sd_ul, replaces=replaces)
        body = {
            **batch.to_json(),
            "ul": volume_ul,
            "sd_ul": sd_ul,
            "replaces": replaces,
            "user": user,
            "reason": reason,
        }
        self._journal.append("ledger.loaded", body)
        self._up_to_now()
        self._load(body)

    # --- inside -----------------------------------------------------------------------------------------

    def _known(self, vessel: str) -> None:
        if vessel not in self._vessels:
            raise LedgerError(
                f"there is no vessel “{vessel}”. Likely cause: a slip. Next: choose among {', '.join(self._vessels)}"
            )

    def _may_load(self, batch: Batch, volume_ul: float, sd_ul: float, *, replaces: bool) -> None:
        vessel = self._rig.vessels[batch.vessel]
        what = f"lot {batch.lot or '?'} in {batch.vessel}"
        if not batch.lot.strip():
            raise LedgerError("a bottle without a lot number cannot be followed. Next: enter the number on its label")
        if not (math.isfinite(volume_ul) and volume_ul > 0 and math.isfinite(sd_ul) and sd_ul >= 0):
            raise LedgerError(f"{what}: {volume_ul:g} ± {sd_ul:g} µL cannot be. Next: give the volume that was put in")
        if vessel.contains != batch.medium:
            raise LedgerError(
                f"{what}: it is {batch.medium or 'of no medium'}, and the rig file has {vessel.contains or 'no medium'}"
                f" in {batch.vessel}. Likely cause: the wrong bottle. Next: take the right one, or change the rig file"
            )
        if batch.expired(self._clock.utc_text()):
            raise LedgerError(f"{what}: it expired on {batch.expires_utc[:10]}. Next: take a lot that has not")
        there_ul = 0.0 if replaces else self.volumes()[batch.vessel].ul
        if there_ul + volume_ul > vessel.capacity_ul:
            raise LedgerError(
                f"{what}: {(there_ul + volume_ul) / 1000:.1f} mL do not go into {vessel.capacity_ul / 1000:g} mL. Likely"
                " cause: it was meant to replace what is there, or a unit slipped. Next: say which, and how much"
            )

    def _up_to_now(self) -> None:
        self._advance(self._clock.now_s() - self._booked_s)
        self._booked_s = self._clock.now_s()

    def _book(self, body: Mapping[str, Any], utc: str) -> Drift | None:
        """Bring volumes and history up to date by one row; what it tells of its pump, if that is news."""
        name, ul = body["line"], body["ul"]
        line = self._rig.lines[name]
        nominal = _nominal_of(body)
        drift = None
        if nominal is None or line.pump is None:
            self._pour(line, ul, body["sd_ul"] ** 2)
            if "spent_ul" in body:
                self._correct(self._spent, body["spent_ul"], body["spent_sd_ul"])
        elif "spent_ul" in body:
            drift = self._dose(line, line.pump, nominal, body)
        else:
            self._by_gain(self._unknowns, line, self._gain_of(line.pump, nominal), nominal)
        self._refresh()
        self._mix(name, line, ul, utc)
        return drift

    def _dose(self, line: Line, pump: str, nominal: Nominal, body: Mapping[str, Any]) -> Drift | None:
        """A dose that the pump ended by itself and the balance has seen."""
        gain, watch = self._gain_of(pump, nominal), self.pumps[pump]
        shift, doubt = watch.under_pressure(body.get("peak_kpa"))
        self._unknowns.wander(gain, WANDER_REL_SD**2 + doubt, by=shift)
        weighed, noise = body["spent_ul"], body["spent_sd_ul"] ** 2
        terms = {self._spent: 1.0, DENSITY: -weighed}
        trial = self._unknowns.copy()
        self._by_gain(trial, line, gain, nominal)
        residual = trial.residual(terms, weighed, noise)
        self.tests.note(residual)
        before = self._unknowns.mean(gain)
        if not residual.gross:
            trial.measured(terms, weighed, noise)
            self._unknowns = trial
            self._account()
            now, variance = trial.mean(gain), trial.variance(gain)
            told = watch.fits(now, variance)
            if told is None:
                return None
            return Drift(pump, now, math.sqrt(variance), *told, nominal.ul, body["ul"])
        # It does not fit: what moved is what the balance says, and the pump's gain learns nothing from one such dose.
        self._pour(line, body["ul"], body["sd_ul"] ** 2)
        self._correct(self._spent, weighed, body["spent_sd_ul"])
        found = body["ul"] / nominal.ul - 1.0
        if not watch.misfit(residual, found, before):
            return None
        self._unknowns.known(gain, found, LEARNED_REL_SD**2)
        against: Literal["before", "calibration"] = "before" if watch.doses else "calibration"
        return Drift(pump, found, residual.sd / nominal.ul, against, before, nominal.ul, body["ul"])

    def _gain_of(self, pump: str, nominal: Nominal) -> str:
        """The unknown that is a pump's gain; begun anew when its calibration or its tubing is another."""
        name = f"gain {pump}"
        watch = self.pumps.get(pump)
        if watch is None:
            self._unknowns.add(name, 0.0, nominal.rel_sd**2)
        elif watch.calibration != nominal.calibration:
            self._unknowns.known(name, 0.0, nominal.rel_sd**2)
        else:
            return name
        self.pumps[pump] = PumpWatch(pump, nominal.calibration, nominal.rel_sd)
        return name

    @staticmethod
    def _by_gain(unknowns: Unknowns, line: Line, gain: str, nominal: Nominal) -> None:
        """Move what the pump's gain says: its doubt is the same in every dose and in both vessels."""
        ul = nominal.ul * (1.0 + unknowns.mean(gain))
        unknowns.add_to(line.from_, {gain: -nominal.ul}, -ul)
        unknowns.add_to(line.to, {gain: nominal.ul}, ul)
        unknowns.exchanged(line.from_, line.to, nominal.dose_sd_ul**2)

    def _pour(self, line: Line, ul: float, variance: float) -> None:
        """Move what somebody measured: its doubt is this dose's own."""
        self._unknowns.add_to(line.from_, {}, -ul)
        self._unknowns.add_to(line.to, {}, ul)
        self._unknowns.exchanged(line.from_, line.to, variance)
        self._refresh()

    def _advance(self, seconds: float) -> None:
        """Book what left unseen since the last booking, and let all medium age."""
        for name, loss in self._losses.items():
            lost, sd = loss.in_time(seconds)
            lost += sd * self._unknowns.mean(loss.unknown)
            for each in (name, BOOKED):
                self._unknowns.add_to(each, {loss.unknown: -sd}, -lost)
            self.totals.evaporated_ul += lost
        self._refresh()
        for vessel in self._vessels.values():
            vessel.parcel = replace(vessel.parcel, age_s=vessel.parcel.age_s + max(seconds, 0.0))

    def _refresh(self) -> None:
        """What is asked for once a second, kept at hand."""
        unknowns = self._unknowns
        for name, vessel in self._vessels.items():
            vessel.ul, vessel.variance = unknowns.mean(name), unknowns.variance(name)
        self._rates = {
            name: (
                unknowns.mean(loss.unknown),
                unknowns.variance(loss.unknown),
                unknowns.covariance(name, loss.unknown),
            )
            for name, loss in self._losses.items()
        }

    def _account(self) -> None:
        """Take over what the unknowns say now; what came or went with it is not explained by a transfer."""
        before = sum(vessel.ul for vessel in self._vessels.values())
        self._refresh()
        self.totals.unaccounted_ul += sum(vessel.ul for vessel in self._vessels.values()) - before

    def _mix(self, name: str, line: Line, ul: float, utc: str) -> None:
        """Totals, and what the medium has been through: perfect mixing in the target, as it is after the transfer."""
        source, target = self._vessels[line.from_], self._vessels[line.to]
        poured = source.parcel
        self._total(line, name, ul, poured)
        if line.to == self._loop:
            poured = replace(poured, passes=poured.passes + 1.0 - poured.unused, unused=0.0)
        share = min(max(ul / target.ul, 0.0), 1.0) if target.ul > 0 else 1.0
        target.parcel = target.parcel.mixed(poured, share)
        into_loop = line.to == self._loop
        self.whereabouts.moved(name, line.from_, line.to, ul, share, into_loop=into_loop, utc=utc)
        if name == self._rig.organs.kidney.dialyse:
            spent, kidney = self._vessels[self._spent], self._rig.organs.kidney
            koa = INSULIN_KOA * self._rig.dialysers[line.dialyser or ""].koa_ul_min
            leaked = exchanged(koa, kidney.dialysate_ul_min, ul, spent.ul)
            spent.parcel = replace(spent.parcel, insulin=spent.parcel.insulin * (1.0 - leaked))
        movement = Movement(name, line.from_, line.to, ul)
        for listener in self._listeners:
            listener(movement)

    def _total(self, line: Line, name: str, ul: float, poured: Parcel) -> None:
        organs, totals = self._rig.organs, self.totals
        if name == organs.kidney.draw:
            totals.drawn_ul += ul
        elif name == organs.kidney.return_:
            totals.given_back_ul += ul
            totals.recycled_ul += ul * (1.0 - poured.unused)
        elif name == organs.kidney.discard:
            totals.discarded_ul += ul
        elif name == organs.gut.feed:
            totals.fresh_ul += ul
        elif name == organs.liver.glucose:
            totals.glucose_ul += ul
        elif name == organs.liver.base:
            totals.base_ul += ul
        elif name == organs.kidney.dialyse:
            totals.dialysate_ul += ul

    def _correct(self, name: str, ul: float, sd_ul: float) -> None:
        """Somebody or the balance knows: whatever was thought before is forgotten. The balance knows by its density."""
        by = DENSITY if name == self._spent else None
        self._unknowns.known(name, ul, sd_ul**2, by=by, factor=ul)
        self._account()

    def _begin_booked(self) -> None:
        """As booked there is what the vessels begin with, and the doubt is theirs."""
        self._unknowns.known(BOOKED, 0.0, 0.0)
        for name in self._vessels:
            self._unknowns.add_to(BOOKED, {name: 1.0}, self._unknowns.mean(name))

    @contextmanager
    def _booking(self, name: str) -> Iterator[None]:
        """What is done to a vessel within the block is a booking: nothing that would have to be explained."""
        self._unknowns.add_to(BOOKED, {name: -1.0}, -self._unknowns.mean(name))
        yield
        self._unknowns.add_to(BOOKED, {name: 1.0}, self._unknowns.mean(name))

    def _weigh(self, body: Mapping[str, Any]) -> None:
        vessel, ul = body["vessel"], body["ul"]
        noise = body.get("noise_ul", body["sd_ul"])  # journals from before it was written have the doubt alone
        expected = self._unknowns.residual({vessel: 1.0, DENSITY: -ul}, ul, noise**2).sd
        self._correct(vessel, ul, noise)
        if body["sd_ul"] > noise:
            # Beyond k·σ the vessel is known less well, but what is unexplained is none the smaller for it.
            with self._booking(vessel):
                self._unknowns.wander(vessel, body["sd_ul"] ** 2 - noise**2)
            self._refresh()
        else:
            # Small differences are not booked, so that those that are scatter more than weighings do.
            self._unknowns.wander(BOOKED, surplus(expected, _least_change(ul, noise)))

    def _reconcile(self, body: Mapping[str, Any]) -> None:
        before = self.totals.unaccounted_ul
        with self._booking(body["vessel"]):
            self._correct(body["vessel"], body["ul"], body["sd_ul"])
        self.totals.reconciled_ul += self.totals.unaccounted_ul - before

    def _level(self, body: Mapping[str, Any]) -> None:
        vessel, ul, sd_ul = body["vessel"], body["ul"], body["sd_ul"]
        if body["gross"]:
            self._correct(vessel, ul, sd_ul)
        else:
            self.tests.note(self._unknowns.measured({vessel: 1.0}, ul, sd_ul**2))
            self._account()

    def _load(self, body: Mapping[str, Any]) -> None:
        batch = Batch(**{name: body[name] for name in Batch.__dataclass_fields__})
        vessel, ul, sd_ul = self._vessels[batch.vessel], body["ul"], body["sd_ul"]
        before = max(vessel.ul, 0.0)
        with self._booking(batch.vessel):
            if body["replaces"]:
                self._unknowns.known(batch.vessel, ul, sd_ul**2)
            else:
                self._unknowns.wander(batch.vessel, sd_ul**2, by=ul)
        share = 1.0 if body["replaces"] else ul / (before + ul)
        self._refresh()
        self.totals.loaded_ul += ul
        fresh = Parcel(insulin=0.0 if batch.medium in self._stocks else 1.0)
        vessel.parcel = vessel.parcel.mixed(fresh, share)
        self.whereabouts.loaded(batch, share=share)

    def _rebuild(self) -> None:
        before: datetime | None = None
        for entry in self._journal.entries(kinds=("ledger.opened", *KINDS)):
            at = _utc(entry)
            if before is not None:
                self._advance((at - before).total_seconds())
            before = at
            self._replay(entry)
        if before is None:
            body = {name: vessel.ul for name, vessel in self._vessels.items()}
            self._journal.append("ledger.opened", body)
            self._open(body, self._clock.utc_text())
        else:
            # Water went on leaving while nobody looked; UTC is the only clock that ran through.
            self._advance((self._clock.utc() - before).total_seconds())

    def _open(self, volumes: Mapping[str, float], utc: str) -> None:
        """What stood there when the journal began: of no lot that anybody has entered."""
        for name, ul in volumes.items():
            if name in self._vessels:
                self._unknowns.known(name, ul, (FILL_REL_SD * ul) ** 2)
                medium = self._rig.vessels[name].contains
                if medium is not None:
                    uses = int(name in (self._loop, self._rig.organoid.chamber))
                    self.whereabouts.loaded(Batch(f"{name} at the start", medium, utc, name), uses=uses)
        self._begin_booked()
        self._refresh()

    def _replay(self, entry: Entry) -> None:
        body = entry.body
        match entry.kind:
            case "moved":
                self._book(body, entry.utc)
            case "ledger.opened":
                self._open(body, entry.utc)
            case "ledger.level":
                self._level(body)
            case "ledger.loaded":
                self._load(body)
            case "ledger.reconciled":
                self._reconcile(body)
            case _:
                self._weigh(body)

    def to_json(self) -> dict[str, Any]:
        """Volumes, totals and how the tests of the residuals came out, as plain data."""
        volumes = {name: asdict(volume) for name, volume in self.volumes().items()}
        return {"volumes": volumes, "totals": asdict(self.totals), "tests": asdict(self.tests)}


def _least_change(ul: float, noise: float) -> float:
    """What a weighing of `ul` has to differ by (µL) to be worth a row."""
    return math.hypot(noise, DENSITY_REL_SD * ul)


def _nominal_of(body: Mapping[str, Any]) -> Nominal | None:
    if "nominal_ul" not in body:
        return None
    return Nominal(**{name: body[f"nominal_{name}"] for name in Nominal.__dataclass_fields__})


def _utc(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.utc)
