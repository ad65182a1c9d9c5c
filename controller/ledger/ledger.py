"""The ledger: volumes of all vessels with their uncertainty, and the path of every microlitre.

Each transfer is one journal row `moved`, which is also the outcome of the transfer, so that a crash can neither lose nor
double it. The ledger is rebuilt from those rows; :mod:`controller.ledger.books` evaluates them. The spent vessel is weighed,
and the balance corrects everything that a dose has touched: both vessels, the pump's gain and, through it, every vessel that
this pump has filled (:mod:`controller.ledger.reconcile`). Nothing measures the loop: its evaporation is booked at a declared
rate, and the uncertainty of that rate grows with time until a person reads its level.
"""

from __future__ import annotations

import logging
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
from controller.ledger.books import Books, Listener, min_change_ul
from controller.ledger.drift import PumpWatch
from controller.ledger.line_contents import LineContents
from controller.ledger.reconcile import K, Residual
from controller.ledger.samples import SAMPLED, AssaySample, objection, same_sample, sample_of
from controller.ledger.terms import Nominal, Parcel, Tests, Totals
from controller.ledger.witnesses import DENSITY_REL_SD, DENSITY_UL_PER_G, Weight
from controller.rig.description import Rig, required
from controller.rig.selectors import PumpedPath

LOADED = "ledger.loaded"
"""Kind of the rows of medium that a person put into a vessel."""
KINDS = (
    "moved",
    "ledger.weighed",
    "ledger.tared",
    "ledger.balanced",
    "ledger.reconciled",
    "ledger.level",
    LOADED,
    SAMPLED,
)
TOLD_SDS = 2.0
"""Uncertainty of a difference, in uncertainties of a weighing, from which a weighing is booked even if it fits."""

logger = logging.getLogger(__name__)

Alarm = Callable[[str, str, str], None]
"""Called with (kind, source, detail), as by :mod:`controller.alarms`."""


def no_alarm(kind: str, source: str, detail: str) -> None:
    """Ignore an alarm."""


class LedgerError(Exception):
    """Something cannot be booked. The message says what, where, the likely cause and the next action."""


class Ledger:
    """Volumes, totals and the history of the medium of one rig."""

    def __init__(self, rig: Rig, journal: JournalRows, clock: Clock, *, alarm: Alarm = no_alarm) -> None:
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._alarm = alarm
        self._books = Books(rig)
        self._lifted: set[str] = set()
        """The vessels whose weight cannot be that of their contents: they do not stand on their balance."""
        self._flowing: dict[str, tuple[float, float]] = {}
        """By line: what has flowed since its last row, with its standard deviation (µL)."""
        self._settle: Callable[[], None] = lambda: None
        self._load_listeners: list[Callable[[int], None]] = []
        self._booked_s = clock.now_s()
        self.unread: dict[int, str] = {}
        """The rows that could not be evaluated at the start, by number, and why."""
        self._rebuild()

    # --- what is known ----------------------------------------------------------------------------------

    def volumes(self) -> dict[str, Volume]:
        """Return every vessel's present volume with its standard deviation (µL)."""
        volumes = self._books.volumes(self._clock.now_s() - self._booked_s)
        return self._books.with_flow(volumes, self._flowing) if self._flowing else volumes

    def parcels(self) -> dict[str, Parcel]:
        """Return the history of the medium in each vessel."""
        return self._books.parcels(self._clock.now_s() - self._booked_s)

    def gain(self, pump: str) -> tuple[float, float] | None:
        """Return the ratio of delivered to nominal volume of a pump and its standard deviation; None before any dose."""
        return self._books.gain(pump)

    def unexplained(self) -> Volume:
        """Return the balance error (µL, gain > 0), with its standard deviation if nothing leaks."""
        return self._books.unexplained()

    @property
    def totals(self) -> Totals:
        """Totals since the journal began."""
        return self._books.totals

    @property
    def tests(self) -> Tests:
        """Results of the residual tests of weighed doses and read levels."""
        return self._books.tests

    @property
    def pumps(self) -> Mapping[str, PumpWatch]:
        """What the doses of each pump have shown since its calibration or tubing last changed."""
        return self._books.pumps

    @property
    def whereabouts(self) -> Whereabouts:
        """The lots in each vessel."""
        return self._books.whereabouts

    def carry_over_ul(self, path: PumpedPath, ul: float) -> float:
        """Return the maximum volume of other medium in a dose of `ul` along a path (µL)."""
        return self._books.contents.other_ul(path, ul)

    def line_contents(self) -> LineContents:
        """Return a copy of what stands in the lines that several media pass."""
        return self._books.contents.copy()

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every booking from now on."""
        self._books.listen(listener)

    def listen_to_loads(self, loaded: Callable[[int], None]) -> None:
        """Call `loaded` with the number of each row of medium that a person puts into a vessel from now on."""
        self._load_listeners.append(loaded)

    def flowing(self, line: str, ul: float, sd_ul: float) -> None:
        """Note what has flowed along a line since its last row (µL): :meth:`volumes` contains it until it is booked."""
        self._flowing[line] = ul, sd_ul

    def settled_by(self, settle: Callable[[], None]) -> None:
        """Call `settle` before an entry of a person: it books what has flowed until then."""
        self._settle = settle

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
        """Book a transfer along `line`. Return the number of its journal row.

        A line with a straw moves only what stands above it; the rest of the volume is air (`liquid_ul` of the row).

        Args:
            line: the line.
            volume_ul: the moved volume (µL).
            sd_ul: its standard deviation (µL).
            source: what measured it.
            nominal: the volume by the pump's calibration. Its uncertainty is then booked as the pump's, not the dose's.
            weight: the settled weight of the spent vessel afterwards, which then gives that vessel's volume. With `nominal`
                it also shows whether the pump still delivers what it should (F4).
            run: the run that ordered the transfer.
            detail: further keys of the row.
        """
        body = {"line": line, "ul": volume_ul, "sd_ul": sd_ul, "source": source, **(detail or {})}
        if nominal is not None:
            body |= nominal.to_json()
        if weight is not None:
            body["spent_ul"], body["spent_sd_ul"] = weight.g * DENSITY_UL_PER_G, weight.sd_g * DENSITY_UL_PER_G
        if weight is None and (liquid_ul := self._above_straw_ul(line, body.get("ports"))) < volume_ul:
            body["liquid_ul"] = liquid_ul
        body |= self._ageing_of(line)
        seq = self._journal.append("moved", body, run=run)
        try:
            self._up_to_now()
        finally:  # what was delivered is booked, also if the age of some medium cannot be computed
            drift = self._books.evaluate("moved", body, self._clock.utc_text())
        if drift is not None:
            self._alarm("pump_drift", drift.pump, drift.text)
        return seq

    def weighed(self, weight: Weight) -> None:
        """Compare the spent vessel with the balance, and book the balance's value.

        A difference beyond k·σ is more than noise: it raises an alarm (F4). The uncertainty then covers both values, also
        over later doses, until a person states the volume or the weight is back.
        """
        vessel = required(self._rig.organs.kidney, "a kidney").vessel
        ul, noise = weight.g * DENSITY_UL_PER_G, weight.sd_g * DENSITY_UL_PER_G
        self._up_to_now()  # evaporation since the last booking is expected, and so is its uncertainty
        before = self._books.booked_ul()[vessel]
        residual = self._books.weighing(ul, noise)
        change, sd = residual.value, noise
        if residual.gross:
            sd = max(noise, abs(change) / K)
            self._alarm(
                "balance_drift",
                vessel,
                f"the balance says {ul / 1000:.2f} mL, the ledger {before / 1000:.2f} mL;"
                f" more than {K * residual.sd / 1000:.2f} mL apart. Likely cause: a leak, a drip, or a person handled the"
                " vessel, or the balance drifts. Next: look at the spent vessel and its lines, and enter its volume; until"
                " then it is as uncertain as the two are apart",
            )
        elif abs(change) < min_change_ul(ul, noise) and residual.sd < self._rig.vessels[vessel].capacity_ul:
            return  # within the noise, and nothing is learnt from it: no row
        body = {"vessel": vessel, "ul": ul, "sd_ul": sd, "noise_ul": noise, "change_ul": change}
        self._write("ledger.weighed", body)

    def balanced(self, vessel: str, weight: Weight) -> None:
        """Take in the settled weight of a vessel that stands on a balance with all that hangs on it.

        The first one gives its tare. A later one corrects the vessel, the pumps that fill or empty it, and its evaporation.
        A gross residual raises an alarm; what cannot be the vessel's contents is not booked.
        """
        gross_ul, noise = weight.g * DENSITY_UL_PER_G, weight.sd_g * DENSITY_UL_PER_G
        self._up_to_now()
        net_ul = self._books.net_ul(vessel, gross_ul)
        if net_ul is None:
            self._write("ledger.tared", {"vessel": vessel, "gross_ul": gross_ul, "noise_ul": noise})
            return
        believed = self._books.booked_ul()[vessel]
        noise = math.hypot(noise, DENSITY_REL_SD * (net_ul - believed))
        residual = self._books.balancing(vessel, net_ul, noise)
        if abs(residual.value) < noise and residual.sd < TOLD_SDS * noise:
            return  # within the noise, and nothing is learnt from it: no row
        possible = 0.0 <= net_ul <= self._rig.vessels[vessel].capacity_ul + K * noise
        if residual.gross and (possible or vessel not in self._lifted):
            self._alarm(
                "balance_drift",
                vessel,
                f"the balance says {net_ul / 1000:.2f} mL, the ledger {believed / 1000:.2f} mL; more than"
                f" {K * residual.sd / 1000:.2f} mL apart. Likely cause: a leak, a drip, or a person handled the vessel or"
                f" its tubing. Next: look at “{vessel}” and its lines; enter what was changed by hand",
            )
        if not possible:
            self._lifted.add(vessel)
            return
        self._lifted.discard(vessel)
        body = {"vessel": vessel, "ul": net_ul, "noise_ul": noise, "change_ul": residual.value, "gross": residual.gross}
        self._write("ledger.balanced", body)

    def medium(self, vessel: str) -> dict[str, Any]:
        """Return history and lots of a vessel's medium, in the form that another rig's :meth:`reconcile` takes."""
        return {"parcel": asdict(self.parcels()[vessel]), **self.whereabouts.to_json(vessel)}

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
        """Book a volume that a person has changed or knows better, with name and reason (D4).

        With `medium` (see :meth:`medium`) the vessel now holds other medium than before.

        Raises:
            LedgerError: for an impossible value, or without a reason.
        """
        self._settle()
        self._known(vessel)
        self._may_hold(vessel, volume_ul, sd_ul)
        if not reason.strip():
            raise LedgerError(f"{vessel}: a change by hand needs a reason. Next: give the reason, such as “emptied”")
        if medium is not None:
            _may_take(vessel, medium)
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
        """Book a volume that a person or a level probe has read: one more equation for all unknowns.

        It corrects the pumps' gains, the evaporation rate and the other vessels by their shares of the uncertainty. A gross
        residual raises an alarm, and the reading is booked as by :meth:`reconcile`.

        Returns:
            The residual of the reading.
        """
        self._settle()
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
        """Book medium with a lot number that a person put into a vessel: a new bottle (`replaces`), or a refill.

        Raises:
            LedgerError: for what the vessel or its declared medium does not allow.
        """
        self._settle()
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
        seq = self._write(LOADED, body)
        for loaded in self._load_listeners:
            loaded(seq)

    def sample(self, vessel: str, volume_ul: float, taken: datetime) -> AssaySample | None:
        """Return the sample of a volume that was taken out of a vessel; None if it is booked already.

        Raises:
            LedgerError: it cannot be.
        """
        self._known(vessel)
        sample, booked = (
            sample_of(self._rig, self._journal, vessel, volume_ul, taken),
            same_sample(self._journal, vessel, taken),
        )
        if (why := objection(sample, self.volumes()[vessel], booked)) is not None:
            raise LedgerError(why)
        return sample if booked is None else None

    def sampled(self, sample: AssaySample, *, user: str, reason: str) -> None:
        """Book the volume of a sample (see :meth:`sample`)."""
        self._settle()
        self._write(SAMPLED, {**sample.to_json(), "user": user, "reason": reason})

    # --- inside -----------------------------------------------------------------------------------------

    def _above_straw_ul(self, line: str, ports: Mapping[str, int] | None) -> float:
        """Return the volume that a line can draw before its straw takes air (µL); infinite without one."""
        spec = self._books.straw_of(line, ports)
        if spec.draws_above_ul <= 0.0:
            return math.inf
        return max(self.volumes()[spec.from_].ul - spec.draws_above_ul, 0.0)

    def _ageing_of(self, line: str) -> dict[str, float]:
        """Return the key of a row that states what the bottle of a line has lost, if it can be computed.

        What was delivered must be booked whatever happens here: without the key, the bottle counts as its label.
        """
        try:
            left = self._books.glutamine_left(line, self._clock.now_s() - self._booked_s)
        except Exception:
            logger.exception("%s: the age of its bottle cannot be computed; booked as by its label", line)
            return {}
        return {"glutamine": left} if left < 1.0 else {}

    def _known(self, vessel: str) -> None:
        if vessel not in self._rig.vessels:
            raise LedgerError(
                f"there is no vessel “{vessel}”. Likely cause: a typing error."
                f" Next: choose among {', '.join(self._rig.vessels)}"
            )

    def _may_hold(self, vessel: str, volume_ul: float, sd_ul: float) -> None:
        if not (math.isfinite(volume_ul) and volume_ul >= 0 and math.isfinite(sd_ul) and sd_ul > 0):
            raise LedgerError(
                f"a level of {volume_ul:g} ± {sd_ul:g} µL in {vessel} is impossible. Likely cause: a typing error."
                " Next: give a volume and how exactly it was read, such as 38.5 mL within 0.5 mL"
            )
        capacity_ul = self._rig.vessels[vessel].capacity_ul
        if volume_ul > capacity_ul + 3.0 * sd_ul:
            raise LedgerError(
                f"a level of {volume_ul / 1000:g} mL cannot be in {vessel}, which holds {capacity_ul / 1000:g} mL. Likely"
                " cause: a unit slipped, or another vessel was meant. Next: read it again"
            )

    def _may_load(self, batch: Batch, volume_ul: float, sd_ul: float, *, replaces: bool) -> None:
        """Raise LedgerError unless a vessel may receive this medium."""
        what = f"lot {batch.lot or '?'} in {batch.vessel}"
        if not batch.lot.strip():
            raise LedgerError("a bottle without a lot number cannot be followed. Next: enter the number on its label")
        if not (math.isfinite(volume_ul) and volume_ul > 0 and math.isfinite(sd_ul) and sd_ul >= 0):
            raise LedgerError(
                f"{what}: {volume_ul:g} ± {sd_ul:g} µL is impossible. Next: give the volume that was put in"
            )
        self._fits(batch, what)
        vessel = self._rig.vessels[batch.vessel]
        there_ul = 0.0 if replaces else self.volumes()[batch.vessel].ul
        if there_ul + volume_ul > vessel.capacity_ul:
            raise LedgerError(
                f"{what}: {(there_ul + volume_ul) / 1000:.1f} mL do not go into {vessel.capacity_ul / 1000:g} mL. Likely"
                " cause: it was meant to replace what is there, or the unit is wrong. Next: say which, and how much"
            )

    def _fits(self, batch: Batch, what: str) -> None:
        """Raise LedgerError unless the lot is of the declared medium, its dates exist, and it is not expired."""
        vessel = self._rig.vessels[batch.vessel]
        if wrong := batch.no_dates():
            raise LedgerError(f"{what}: {wrong}. Likely cause: a typing error. Next: give it as 2026-03-31")
        if vessel.contains != batch.medium:
            raise LedgerError(
                f"{what}: it is {batch.medium or 'of no medium'}, and the rig file has {vessel.contains or 'no medium'}"
                f" in {batch.vessel}. Likely cause: the wrong bottle. Next: take the right one, or change the rig file"
            )
        if batch.expired(self._clock.utc_text()):
            raise LedgerError(f"{what}: it expired on {batch.expires_utc[:10]}. Next: take a lot that has not")

    def _write(self, kind: str, body: Mapping[str, Any]) -> int:
        """Journal a row and book it; return its number."""
        seq = self._journal.append(kind, body)
        self._up_to_now()
        self._books.book(kind, body, self._clock.utc_text())
        return seq

    def _up_to_now(self) -> None:
        self._books.advance(self._clock.now_s() - self._booked_s)
        self._booked_s = self._clock.now_s()

    def _rebuild(self) -> None:
        before: datetime | None = None
        self.opened = self._clock.utc()
        """When this ledger began."""
        for entry in self._journal.entries(kinds=("ledger.opened", *KINDS)):
            at = _utc(entry)
            if before is None:
                self.opened = at
            else:
                self._books.advance((at - before).total_seconds())
            before = at
            self._evaluate(entry)
        if self.unread:
            why = "Likely cause: written by another release, or for another rig file"
            next_ = "Next: read the levels of the vessels concerned, and enter them: until then nothing is dosed there"
            self._alarm("balance_drift", "ledger", f"{'; '.join(self.unread.values())}; left out. {why}. {next_}")
        if before is None:
            body = self._books.booked_ul()
            self._journal.append("ledger.opened", body)
            self._books.book("ledger.opened", body, self._clock.utc_text())
        else:
            # Water evaporated while no controller ran; UTC is the only clock that went on.
            self._books.advance((self._clock.utc() - before).total_seconds())

    def _evaluate(self, entry: Entry) -> None:
        """Evaluate a row that was written before. One that cannot be is left out: it must not keep the controller down.

        The volumes that it may have changed are unknown from then on, so that the gate refuses doses there.
        """
        try:
            self._books.evaluate(entry.kind, entry.body, entry.utc)
        except Exception as error:
            place = entry.body.get("vessel") or entry.body.get("line") or "all vessels"
            why = f"row {entry.seq} ({entry.kind}, {place}) cannot be evaluated ({type(error).__name__}: {error})"
            self.unread[entry.seq] = why
            logger.exception("%s; left out", why)

    def to_json(self) -> dict[str, Any]:
        """Return volumes, totals and the results of the residual tests as plain data."""
        volumes = {name: asdict(volume) for name, volume in self.volumes().items()}
        return {"volumes": volumes, "totals": asdict(self.totals), "tests": asdict(self.tests)}


def _may_take(vessel: str, medium: Mapping[str, Any]) -> None:
    """Raise LedgerError unless this release knows all that is stated of a medium of another rig."""
    try:
        Parcel(**medium["parcel"])
        Whereabouts().take(vessel, medium)
    except (TypeError, KeyError) as error:
        raise LedgerError(
            f"{vessel}: the history of the medium cannot be read ({error}). Likely cause: another release wrote it. Next: use"
            " that release here as well"
        ) from error


def _utc(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.utc)
