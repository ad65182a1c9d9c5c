"""The ledger: how much is in each vessel, how certain that is, and where every microlitre went.

Each transfer is one journal row `moved`, which is also the outcome of the transfer itself, so that a crash can neither lose
nor double it; the ledger is rebuilt from those rows, and :mod:`controller.ledger.books` is what they come to. The spent
vessel is weighed, and what the balance says corrects all that a dose has touched: both vessels, the pump's gain and, with
them, every vessel that this pump has filled before (:mod:`controller.ledger.reconcile`). Nothing measures the loop: what
evaporates there unseen is booked at a declared rate, and the doubt about that rate grows with time, until somebody reads its
level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from controller.core.clock import Clock
from controller.core.state import Volume
from controller.journal.rows import JournalRows
from controller.journal.terms import Entry
from controller.ledger.batches import Batch, Whereabouts
from controller.ledger.books import Books, Listener, least_change_ul
from controller.ledger.drift import PumpWatch
from controller.ledger.reconcile import K, Residual
from controller.ledger.terms import Nominal, Parcel, Tests, Totals
from controller.ledger.witnesses import DENSITY_UL_PER_G, Weight
from controller.rig.description import Rig

KINDS = ("moved", "ledger.weighed", "ledger.reconciled", "ledger.level", "ledger.loaded")


Alarm = Callable[[str, str, str], None]
"""(kind, source, detail), as :mod:`controller.alarms` takes it."""


def no_alarm(kind: str, source: str, detail: str) -> None:
    """Where nobody listens."""


class LedgerError(Exception):
    """Something that cannot be booked: what, where, likely cause, next action."""


class Ledger:
    """Volumes, totals and the history of the medium of one rig."""

    def __init__(self, rig: Rig, journal: JournalRows, clock: Clock, *, alarm: Alarm = no_alarm) -> None:
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._alarm = alarm
        self._spent = rig.organs.kidney.vessel
        self._books = Books(rig)
        self._booked_s = clock.now_s()
        self._rebuild()

    # --- what is known ----------------------------------------------------------------------------------

    def volumes(self) -> dict[str, Volume]:
        """Every vessel's volume now, with its standard deviation (µL)."""
        return self._books.volumes(self._clock.now_s() - self._booked_s)

    def parcels(self) -> dict[str, Parcel]:
        """What the medium of each vessel has been through."""
        return self._books.parcels(self._clock.now_s() - self._booked_s)

    def gain(self, pump: str) -> tuple[float, float] | None:
        """What a pump delivers over what its calibration says, and the standard deviation of that; None before any dose."""
        return self._books.gain(pump)

    def unexplained(self) -> Volume:
        """The balance error (µL, gain > 0), with the standard deviation that it has if nothing leaks."""
        return self._books.unexplained()

    @property
    def totals(self) -> Totals:
        """Since the journal began."""
        return self._books.totals

    @property
    def tests(self) -> Tests:
        """How the residuals of weighed doses and read levels came out."""
        return self._books.tests

    @property
    def pumps(self) -> Mapping[str, PumpWatch]:
        """What the doses of each pump have told, since its calibration or tubing last changed."""
        return self._books.pumps

    @property
    def whereabouts(self) -> Whereabouts:
        """Which lots are where."""
        return self._books.whereabouts

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every booking from now on."""
        self._books.listen(listener)

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
        drift = self._books.book("moved", body, self._clock.utc_text())
        if drift is not None:
            self._alarm("pump_drift", drift.pump, drift.text)
        return seq

    def weighed(self, weight: Weight) -> None:
        """Compare the spent vessel with the balance, and take the balance's word.

        Beyond k·σ the difference is more than noise: an alarm tells it (F4), and the doubt that is kept covers both.
        """
        ul, noise = weight.g * DENSITY_UL_PER_G, weight.sd_g * DENSITY_UL_PER_G
        self._up_to_now()  # what evaporated since the last booking is expected, and so is its doubt
        before = self._books.booked_ul()[self._spent]
        residual = self._books.weighing(ul, noise)
        change, sd = residual.value, noise
        if residual.gross:
            sd = max(noise, abs(change) / K)
            self._alarm(
                "balance_drift",
                self._spent,
                f"the balance says {ul / 1000:.2f} mL, the ledger {before / 1000:.2f} mL;"
                f" more than {K * residual.sd / 1000:.2f} mL apart. Likely cause: a leak, a drip, or somebody handled the"
                " vessel. Next: look at the spent vessel and its lines",
            )
        elif abs(change) < least_change_ul(ul, noise):
            return  # within the noise: not worth a row
        body = {"vessel": self._spent, "ul": ul, "sd_ul": sd, "noise_ul": noise, "change_ul": change}
        self._write("ledger.weighed", body)

    def medium(self, vessel: str) -> dict[str, Any]:
        """What a vessel's medium has been through and which lots it is of, as :meth:`reconcile` of another rig takes it."""
        return {"parcel": asdict(self.parcels()[vessel]), **self.whereabouts.told(vessel)}

    def reconcile(
        self,
        vessel: str,
        volume_ul: float,
        sd_ul: float,
        *,
        user: str,
        reason: str,
        medium: Mapping[str, Any] | None = None,
    ) -> None:
        """A person changed a vessel's volume or knows better: take it over, with who and why (D4).

        With `medium` (see :meth:`medium`) what is in it now is another medium than before. Raises :class:`LedgerError` for
        what cannot be, or without a reason.
        """
        self._known(vessel)
        self._may_hold(vessel, volume_ul, sd_ul)
        if not reason.strip():
            raise LedgerError(
                f"{vessel} was changed by hand, and nobody would know why. Next: give the reason, such as “emptied”"
            )
        before = self.volumes()[vessel].ul
        body = {
            "vessel": vessel,
            "ul": volume_ul,
            "sd_ul": sd_ul,
            "change_ul": volume_ul - before,
            "user": user,
            "reason": reason,
        }
        if medium is not None:
            body["medium"] = dict(medium)
        self._write("ledger.reconciled", body)

    def level(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> Residual:
        """A person (or a level probe) read a vessel's volume: one equation more for all that is unknown.

        It corrects the pumps' gains, the rate of evaporation and the other vessels by their shares of the doubt. Returns
        its residual; a gross one is an alarm, and the reading is taken over as :meth:`reconcile` does.
        """
        self._known(vessel)
        self._may_hold(vessel, volume_ul, sd_ul)
        self._up_to_now()
        residual = self._books.reading(vessel, volume_ul, sd_ul)
        believed = self._books.booked_ul()[vessel]
        body = {"vessel": vessel, "ul": volume_ul, "sd_ul": sd_ul, "change_ul": residual.value}
        self._write("ledger.level", {**body, "gross": residual.gross, "user": user, "reason": reason})
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
        self._write("ledger.loaded", body)

    # --- inside -----------------------------------------------------------------------------------------

    def _known(self, vessel: str) -> None:
        if vessel not in self._rig.vessels:
            raise LedgerError(
                f"there is no vessel “{vessel}”. Likely cause: a slip. Next: choose among {', '.join(self._rig.vessels)}"
            )

    def _may_hold(self, vessel: str, volume_ul: float, sd_ul: float) -> None:
        if not (math.isfinite(volume_ul) and volume_ul >= 0 and math.isfinite(sd_ul) and sd_ul > 0):
            raise LedgerError(
                f"a level of {volume_ul:g} ± {sd_ul:g} µL in {vessel} cannot be. Likely cause: a slip. Next: give a volume"
                " and how exactly it was read, such as 38.5 mL within 0.5 mL"
            )
        capacity_ul = self._rig.vessels[vessel].capacity_ul
        if volume_ul > capacity_ul + 3.0 * sd_ul:
            raise LedgerError(
                f"a level of {volume_ul / 1000:g} mL cannot be in {vessel}, which holds {capacity_ul / 1000:g} mL. Likely"
                " cause: a unit slipped, or another vessel was meant. Next: read it again"
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

    def _write(self, kind: str, body: Mapping[str, Any]) -> None:
        self._journal.append(kind, body)
        self._up_to_now()
        self._books.book(kind, body, self._clock.utc_text())

    def _up_to_now(self) -> None:
        self._books.advance(self._clock.now_s() - self._booked_s)
        self._booked_s = self._clock.now_s()

    def _rebuild(self) -> None:
        before: datetime | None = None
        for entry in self._journal.entries(kinds=("ledger.opened", *KINDS)):
            at = _utc(entry)
            if before is not None:
                self._books.advance((at - before).total_seconds())
            before = at
            self._books.book(entry.kind, entry.body, entry.utc)
        if before is None:
            body = self._books.booked_ul()
            self._journal.append("ledger.opened", body)
            self._books.book("ledger.opened", body, self._clock.utc_text())
        else:
            # Water went on leaving while nobody looked; UTC is the only clock that ran through.
            self._books.advance((self._clock.utc() - before).total_seconds())

    def to_json(self) -> dict[str, Any]:
        """Volumes, totals and how the tests of the residuals came out, as plain data."""
        volumes = {name: asdict(volume) for name, volume in self.volumes().items()}
        return {"volumes": volumes, "totals": asdict(self.totals), "tests": asdict(self.tests)}


def _utc(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.utc)
