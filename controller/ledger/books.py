"""What rows of the ledger come to: how much is in each vessel, how certain that is, what its medium has been through.

Volumes follow from conservation: what leaves one vessel enters another (F1). Nothing here knows the journal, the clock or
who is to be told: the same rows in the same order give the same books, when they are written and when they are read again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from controller.core.state import Volume
from controller.ledger.batches import AT_THE_START, Batch, Whereabouts
from controller.ledger.drift import LEARNED_REL_SD, WANDER_REL_SD, Drift, PumpWatch
from controller.ledger.reconcile import K, Residual, Unknowns, surplus
from controller.ledger.terms import (
    EVAPORATION_SD_UL_D,
    EVAPORATION_UL_D,
    FILL_REL_SD,
    SPENT_EVAPORATION_SD_UL_D,
    SPENT_EVAPORATION_UL_D,
    Loss,
    Movement,
    Nominal,
    Parcel,
    Tests,
    Totals,
)
from controller.ledger.witnesses import DENSITY_REL_SD
from controller.rig.description import Line, Rig
from protocols.dialysis import INSULIN_KOA, exchanged, koa_at

DENSITY = "density"
"""An unknown beside the volumes: how heavy the medium is (relative)."""
BOOKED = "all as booked"
"""Another: what all vessels hold together by the bookings alone, which no weighing corrects. Its doubt (how full they were,
what evaporated) is the volumes' own, so that in the difference of both only what was moved and weighed is left.
"""

Listener = Callable[[Movement], None]


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


class Books:
    """Volumes, totals and the history of the medium of one rig, as of the last row."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
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

    # --- what is known ----------------------------------------------------------------------------------

    def volumes(self, since_s: float) -> dict[str, Volume]:
        """Every vessel's volume `since_s` after the last booking, with its standard deviation (µL)."""
        volumes = {name: vessel.volume() for name, vessel in self._vessels.items()}
        for name, loss in self._losses.items():
            lost, sd = loss.in_time(since_s)
            vessel, (rate, rate_variance, shared) = self._vessels[name], self._rates[name]
            variance = vessel.variance - 2.0 * sd * shared + sd * sd * rate_variance
            volumes[name] = Volume(vessel.ul - lost - sd * rate, math.sqrt(max(variance, 0.0)))
        return volumes

    def parcels(self, since_s: float) -> dict[str, Parcel]:
        """What the medium of each vessel has been through, `since_s` after the last booking."""
        since_s = max(since_s, 0.0)
        return {name: replace(v.parcel, age_s=v.parcel.age_s + since_s) for name, v in self._vessels.items()}

    def booked_ul(self) -> dict[str, float]:
        """Every vessel's volume as of the last booking (µL)."""
        return {name: vessel.ul for name, vessel in self._vessels.items()}

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

    def weighing(self, ul: float, noise_ul: float) -> Residual:
        """What the spent vessel would hold by the balance, against what is booked."""
        return self._unknowns.residual({self._spent: 1.0, DENSITY: -ul}, ul, noise_ul**2)

    def reading(self, vessel: str, ul: float, sd_ul: float) -> Residual:
        """What somebody reads off a vessel, against what is booked."""
        return self._unknowns.residual({vessel: 1.0}, ul, sd_ul**2)

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every booking from now on."""
        self._listeners.append(listener)

    # --- booking ----------------------------------------------------------------------------------------

    def book(self, kind: str, body: Mapping[str, Any], utc: str) -> Drift | None:
        """Bring all up to date by one row; what it tells of a pump, if that is news."""
        match kind:
            case "moved":
                return self._moved(body, utc)
            case "ledger.opened":
                self._open(body, utc)
            case "ledger.level":
                self._level(body)
            case "ledger.loaded":
                self._load(body)
            case "ledger.reconciled":
                self._reconcile(body)
            case _:
                self._weigh(body)
        return None

    def advance(self, seconds: float) -> None:
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

    # --- inside -----------------------------------------------------------------------------------------

    def _moved(self, body: Mapping[str, Any], utc: str) -> Drift | None:
        name, ul = body["line"], body["ul"]
        line = self._rig.lines[name]
        nominal = _nominal_of(body)
        drift = None
        if nominal is None or line.pump is None:
            self._pour(line, ul, body["sd_ul"] ** 2)
            if "spent_ul" in body:
                self._by_balance(body["spent_ul"], body["spent_sd_ul"])
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
        # It does not fit: what moved is what the balance says, and the pump's gain learns nothing from one such dose. But
        # which of the two is wrong nobody knows: the doubt covers both.
        apart_ul = body["ul"] - nominal.ul * (1.0 + before)
        self._pour(line, body["ul"], max(body["sd_ul"], abs(apart_ul) / K) ** 2)
        self._by_balance(weighed, body["spent_sd_ul"])
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
            fibres = self._rig.dialysers[line.dialyser or ""]
            koa = koa_at(kidney.dialysate_ul_min, fibres.koa_ul_min, fibres.koa_at_ul_min)
            leaked = exchanged(INSULIN_KOA * koa, kidney.dialysate_ul_min, ul, spent.ul)
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
        """Somebody knows: whatever was thought before is forgotten."""
        self._unknowns.known(name, ul, sd_ul**2)
        self._account()

    def _by_balance(self, ul: float, sd_ul: float) -> None:
        """The balance knows, by the density as it is believed to be; `ul` is by the nominal one."""
        believed_ul = ul * (1.0 + self._unknowns.mean(DENSITY))
        self._unknowns.known(self._spent, believed_ul, sd_ul**2, by=DENSITY, factor=ul)
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
        expected = self.weighing(ul, noise).sd
        self._by_balance(ul, noise)
        if body["sd_ul"] > noise:
            # Beyond k·σ the vessel is known less well, but what is unexplained is none the smaller for it.
            with self._booking(vessel):
                self._unknowns.wander(vessel, body["sd_ul"] ** 2 - noise**2)
            self._refresh()
        else:
            # Small differences are not booked, so that those that are scatter more than weighings do.
            self._unknowns.wander(BOOKED, surplus(expected, least_change_ul(ul, noise)))

    def _reconcile(self, body: Mapping[str, Any]) -> None:
        before = self.totals.unaccounted_ul
        with self._booking(body["vessel"]):
            self._correct(body["vessel"], body["ul"], body["sd_ul"])
        self.totals.reconciled_ul += self.totals.unaccounted_ul - before
        if "medium" in body:
            self._vessels[body["vessel"]].parcel = Parcel(**body["medium"]["parcel"])
            self.whereabouts.take(body["vessel"], body["medium"])

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

    def _open(self, volumes: Mapping[str, float], utc: str) -> None:
        """What stood there when the journal began: of no lot that anybody has entered."""
        for name, ul in volumes.items():
            if name in self._vessels:
                self._unknowns.known(name, ul, (FILL_REL_SD * ul) ** 2)
                medium = self._rig.vessels[name].contains
                if medium is not None:
                    uses = int(name in (self._loop, self._rig.organoid.chamber))
                    self.whereabouts.loaded(Batch(f"{name}{AT_THE_START}", medium, utc, name), uses=uses)
        self._begin_booked()
        self._refresh()


def least_change_ul(ul: float, noise_ul: float) -> float:
    """What a weighing of `ul` has to differ by (µL) to be worth a row."""
    return math.hypot(noise_ul, DENSITY_REL_SD * ul)


def _nominal_of(body: Mapping[str, Any]) -> Nominal | None:
    if "nominal_ul" not in body:
        return None
    return Nominal(**{name: body[f"nominal_{name}"] for name in Nominal.__dataclass_fields__})
