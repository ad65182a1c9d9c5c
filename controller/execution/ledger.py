"""The ledger: how much is in each vessel, how certain that is, and where every microlitre went.

Volumes follow from conservation: what leaves one vessel enters another (F1). Each transfer is one journal row `moved`,
which is also the outcome of the transfer itself, so that a crash can neither lose nor double it; the ledger is rebuilt
from those rows. Nothing measures the loop: what evaporates there unseen is booked at a declared rate, and the doubt about
that rate grows with time. The spent vessel is weighed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from controller.clock import Clock
from controller.execution.journal import Entry, Journal
from controller.execution.witnesses import DENSITY_REL_SD, DENSITY_UL_PER_G, K, Moved, Weight
from controller.rig.description import Line, Rig
from controller.state import Volume
from protocols.dialysis import INSULIN_KOA, exchanged

EVAPORATION_UL_D, EVAPORATION_SD_UL_D = 100.0, 60.0
"""Lost by the loop in a day: some 2 m of silicone tubing in a humid housing lose 36–150 µL (biology.md §1.3)."""
FILL_REL_SD = 0.005
"""How well a vessel was filled to what the rig file says; a person with a pipette."""
DAY_S = 86_400.0
KINDS = ("moved", "ledger.weighed", "ledger.reconciled")

Alarm = Callable[[str, str, str], None]
"""(kind, source, detail), as :mod:`controller.alarms` takes it."""
Listener = Callable[["Movement"], None]


def no_alarm(kind: str, source: str, detail: str) -> None:
    """Where nobody listens."""


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
    unaccounted_ul: float = 0.0
    """Corrections: what the balance or a person found that no transfer explains (gain > 0)."""

    @property
    def recycled_fraction(self) -> float:
        """Recycled over recycled and fresh (0..1): how much of what entered the loop had been there before."""
        entered = self.recycled_ul + self.fresh_ul
        return self.recycled_ul / entered if entered else 0.0


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
        complete = rig.vessels[rig.lines[rig.organs.gut.feed].from_].contains
        for name, vessel in rig.vessels.items():
            if vessel.contains != complete:
                self._vessels[name].parcel = replace(self._vessels[name].parcel, insulin=0.0)
        self.totals = Totals()
        self._booked_s = clock.now_s()
        self._evaporation_sd = 0.0
        self._rebuild()

    # --- what is known ----------------------------------------------------------------------------------

    def volumes(self) -> dict[str, Volume]:
        """Every vessel's volume now, with its standard deviation (µL)."""
        volumes = {name: vessel.volume() for name, vessel in self._vessels.items()}
        lost, sd = self._evaporated(self._clock.now_s() - self._booked_s)
        loop = self._vessels[self._loop]
        volumes[self._loop] = Volume(loop.ul - lost, math.sqrt(loop.variance + self._more_doubt(sd)))
        return volumes

    def parcels(self) -> dict[str, Parcel]:
        """What the medium of each vessel has been through."""
        since_s = max(self._clock.now_s() - self._booked_s, 0.0)
        return {name: replace(v.parcel, age_s=v.parcel.age_s + since_s) for name, v in self._vessels.items()}

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
        weight: Weight | None = None,
        run: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> int:
        """Book a transfer along `line`; `source` tells who measured it. Returns the journal row's number.

        With the settled `weight` after it, the spent vessel's volume is what the balance says.
        """
        body = {"line": line, "ul": volume_ul, "sd_ul": sd_ul, "source": source, **(detail or {})}
        if weight is not None:
            body["spent_ul"], body["spent_sd_ul"] = self._by_weight(weight)
        seq = self._journal.append("moved", body, run=run)
        self._advance(self._clock.now_s() - self._booked_s)
        self._booked_s = self._clock.now_s()
        self._book(body)
        return seq

    def weighed(self, weight: Weight) -> None:
        """Compare the spent vessel with the balance, and take the balance's word.

        Beyond k·σ the difference is more than noise: an alarm tells it (F4), and the doubt that is kept covers both.
        """
        vessel = self._vessels[self._spent]
        ul, sd = self._by_weight(weight)
        change = ul - vessel.ul
        bound = K * math.hypot(sd, math.sqrt(vessel.variance))
        if abs(change) > bound:
            sd = max(sd, abs(change) / K)
            self._alarm(
                "balance_drift",
                self._spent,
                f"the balance says {ul / 1000:.2f} mL, the ledger {vessel.ul / 1000:.2f} mL;"
                f" more than {bound / 1000:.2f} mL apart. Likely cause: a leak, a drip, or somebody handled the vessel."
                " Next: look at the spent vessel and its lines",
            )
        elif abs(change) < sd:
            return  # within the noise: not worth a row
        self._journal.append("ledger.weighed", {"vessel": self._spent, "ul": ul, "sd_ul": sd, "change_ul": change})
        self._correct(self._spent, ul, sd)

    def reconcile(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> None:
        """A person read a vessel's volume (or refilled it): take it over, with who and why (D4)."""
        before = self.volumes()[vessel].ul
        self._journal.append(
            "ledger.reconciled",
            {
                "vessel": vessel,
                "ul": volume_ul,
                "sd_ul": sd_ul,
                "change_ul": volume_ul - before,
                "user": user,
                "reason": reason,
            },
        )
        self._advance(self._clock.now_s() - self._booked_s)
        self._booked_s = self._clock.now_s()
        self._correct(vessel, volume_ul, sd_ul)

    def check_pump(self, line: str, nominal_ul: float, rel_sd: float, measured: Moved) -> None:
        """Alarm when what the balance saw is not what the pump was to deliver, beyond k·σ (F4)."""
        bound = K * math.hypot(rel_sd * nominal_ul, measured.sd_ul)
        if abs(measured.ul - nominal_ul) > bound:
            self._alarm(
                "balance_drift",
                self._rig.lines[line].pump or line,
                f"delivered {measured.ul / 1000:.2f} mL by the balance for {nominal_ul / 1000:.2f} mL nominal;"
                f" beyond {bound / 1000:.2f} mL. Likely cause: worn or wrong tubing, a clog, a leak."
                " Next: change the tubing and calibrate the pump",
            )

    # --- inside -----------------------------------------------------------------------------------------

    def _by_weight(self, weight: Weight) -> tuple[float, float]:
        """Volume of the spent vessel and its standard deviation (µL), from the weight of its medium alone."""
        ul = weight.g * DENSITY_UL_PER_G
        return ul, math.hypot(weight.sd_g * DENSITY_UL_PER_G, DENSITY_REL_SD * ul)

    def _book(self, body: Mapping[str, Any]) -> None:
        self._move(body["line"], body["ul"], body["sd_ul"])
        if "spent_ul" in body:
            self._correct(self._spent, body["spent_ul"], body["spent_sd_ul"])

    @staticmethod
    def _evaporated(seconds: float) -> tuple[float, float]:
        days = max(seconds, 0.0) / DAY_S
        return EVAPORATION_UL_D * days, EVAPORATION_SD_UL_D * days

    def _more_doubt(self, sd: float) -> float:
        """Variance that `sd` more of unseen evaporation adds: the rate is one unknown number, so its error adds up along
        a line and not as a random walk.
        """
        return (self._evaporation_sd + sd) ** 2 - self._evaporation_sd**2

    def _advance(self, seconds: float) -> None:
        """Book what left unseen since the last booking, and let all medium age."""
        lost, sd = self._evaporated(seconds)
        loop = self._vessels[self._loop]
        loop.ul -= lost
        loop.variance += self._more_doubt(sd)
        self._evaporation_sd += sd
        self.totals.evaporated_ul += lost
        for vessel in self._vessels.values():
            vessel.parcel = replace(vessel.parcel, age_s=vessel.parcel.age_s + max(seconds, 0.0))

    def _move(self, name: str, ul: float, sd_ul: float) -> None:
        line = self._rig.lines[name]
        source, target = self._vessels[line.from_], self._vessels[line.to]
        poured = source.parcel
        self._total(line, name, ul, poured)
        if line.to == self._loop:
            poured = replace(poured, passes=poured.passes + 1.0 - poured.unused, unused=0.0)
        source.ul -= ul
        source.variance += sd_ul**2
        target.variance += sd_ul**2
        after = target.ul + ul
        target.parcel = target.parcel.mixed(poured, min(max(ul / after, 0.0), 1.0) if after > 0 else 1.0)
        target.ul = after
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
        vessel = self._vessels[name]
        self.totals.unaccounted_ul += ul - vessel.ul
        vessel.ul, vessel.variance = ul, sd_ul**2
        if name == self._loop:
            self._evaporation_sd = 0.0

    def _rebuild(self) -> None:
        before: datetime | None = None
        for entry in self._journal.entries(kinds=("ledger.opened", *KINDS)):
            at = _utc(entry)
            if before is not None:
                self._advance((at - before).total_seconds())
            before = at
            self._replay(entry)
        if before is None:
            self._journal.append("ledger.opened", {name: vessel.ul for name, vessel in self._vessels.items()})
        else:
            # Water went on leaving while nobody looked; UTC is the only clock that ran through.
            self._advance((self._clock.utc() - before).total_seconds())

    def _replay(self, entry: Entry) -> None:
        body = entry.body
        if entry.kind == "moved":
            self._book(body)
        elif entry.kind == "ledger.opened":
            for name, ul in body.items():
                if name in self._vessels:
                    self._vessels[name].ul = ul
                    self._vessels[name].variance = (FILL_REL_SD * ul) ** 2
        else:
            self._correct(body["vessel"], body["ul"], body["sd_ul"])

    def to_json(self) -> dict[str, Any]:
        """Volumes and totals as plain data."""
        volumes = {name: asdict(volume) for name, volume in self.volumes().items()}
        return {"volumes": volumes, "totals": asdict(self.totals)}


def _utc(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.utc)
