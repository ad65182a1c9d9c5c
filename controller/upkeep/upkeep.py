"""What has to be looked after: calibrations that expire, tubing that wears out, medium past its date, bottles that run out.

Once a minute the records in the data directory are looked at, revolutions are counted from what the pumps say of
themselves, and the causes of alarms are made. What a pump may do follows at once: a transfer pump without a valid
calibration is refused volumes at the gate (F5); the heart goes on, for a flow that is a little off feeds and none kills.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.core.state import ActuatorView, Volume
from controller.journal.journal import Journal
from controller.journal.terms import JournalUnwritten
from controller.ledger.batches import Batch
from controller.memory.calibrations import FILE, Calibration, CalibrationError, current
from controller.rig.description import Rig
from controller.runs.facts import LOOP_MARGIN_UL
from controller.safety.kernel import SIGMAS
from controller.safety.terms import PumpTrust
from controller.transfers.routes import Trust, dosing_of
from controller.upkeep.tubing import LIFE_REVOLUTIONS, Tubing, bore_of, fitted, moved_since, revolution_of
from drivers.commands import PumpStatus

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0
COUNT_ROW_EVERY_S = 3600.0
"""How often the revolutions go into the journal; what a crash loses of the count, the pump's own total brings back."""
BORE_TOLERANCE_MM = 0.015
"""Some pumps say 1.43 mm of tubing of 1.42 mm."""
RATE_AFTER_S = 86_400.0
"""How long a bottle has to be watched until it is told how long it will last."""
REFILL_UL = 500.0
"""A bottle with so much more in it than a minute ago was changed or filled up, a waste with so much less emptied."""
AGED_REL_SD = 0.03
"""What a pump's gain may have changed since it was calibrated: well tubing, some weeks (biology.md §2)."""
FACTORY = "factory"


class UpkeepError(Exception):
    """Something that cannot be entered: what, where, likely cause, next action."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one pump stands: what its volumes are worth (`trust`), since when and until when, and why not, if not."""

    pump: str
    line: str
    heart: bool
    trust: Trust
    by: str = ""
    at_utc: str = ""
    expires_utc: str = ""
    refusal: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "calibration": self.trust.calibration,
            "valid": self.refusal is None,
            "refusal": self.refusal,
            "by": self.by,
            "at_utc": self.at_utc,
            "expires_utc": self.expires_utc,
            "gain": self.trust.gain,
            "rel_sd": self.trust.rel_sd,
        }


class Upkeep:
    """One rig's. `batches` and `volumes` are those of the ledger; :meth:`look` is called once a tick and does its work once
    a minute.
    """

    def __init__(
        self,
        rig: Rig,
        *,
        journal: Journal,
        clock: Clock,
        data: Path,
        batches: Callable[[], Mapping[str, Batch]] = dict,
        volumes: Callable[[], Mapping[str, Volume]] = dict,
    ) -> None:
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._data = data
        self._batches = batches
        self._volumes = volumes
        self._heart = rig.lines[rig.organs.heart.line].pump
        self._lines = {line.pump: name for name, line in rig.lines.items() if line.pump is not None}
        self.tubing = {pump: fitted(rig, pump) for pump in self._lines}
        self._totals_ul: dict[str, float] = {}
        self._watched: dict[str, tuple[float, float, float]] = {}
        """Bottle or waste → when it was changed, or first seen (s), what was left in it then, and last (µL)."""
        self._records: Mapping[str, Calibration] = {}
        self._file_seen: tuple[int, int] | None = None
        self._file_error: str | None = None
        self._taken: dict[str, str] = {}
        """Pump → the calibration that the journal knows it by."""
        self._next_look_s = float("-inf")
        self._next_row_s = clock.now_s() + COUNT_ROW_EVERY_S
        self._rebuild()
        self.standings: Mapping[str, Standing] = {}
        self.pumps: Mapping[str, PumpTrust] = {}
        """What the safety kernel has to know."""
        self.causes: Mapping[tuple[str, str], str] = {}
        """Alarm kind and source → detail, as of the last look."""
        with suppress(JournalUnwritten):  # the first look tries again, and tells
            self._judge()

    # --- what happens once a tick -----------------------------------------------------------------------

    def look(self, actuators: Mapping[str, ActuatorView], revolution_ul: Callable[[str], float | None]) -> None:
        """Count, read what is new, judge; does nothing between two looks."""
        now_s = self._clock.now_s()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_EVERY_S
        self._count(actuators, revolution_ul)
        self._judge()
        if now_s >= self._next_row_s:
            self._next_row_s = now_s + COUNT_ROW_EVERY_S
            self.write()

    def write(self) -> None:
        """Put the count of revolutions into the journal."""
        counts = {
            pump: {"revolutions": round(tubing.revolutions, 1), "total_ul": self._totals_ul[pump]}
            for pump, tubing in self.tubing.items()
            if pump in self._totals_ul
        }
        if counts:
            self._journal.append("tubing.turned", {"pumps": counts})

    # --- what people do ---------------------------------------------------------------------------------

    def install(
        self,
        pump: str,
        *,
        material: str,
        bore_mm: float | None,
        user: str,
        reason: str,
        lot: str = "",
        life_revolutions: float | None = None,
    ) -> Tubing:
        """New tubing is in a pump's head: the count begins at nothing, and a calibration from before no longer holds."""
        if pump not in self.tubing:
            raise UpkeepError(
                f"no line has the pump “{pump}”. Likely cause: a slip. Next: choose among {', '.join(self.tubing)}"
            )
        if material not in LIFE_REVOLUTIONS:
            raise UpkeepError(
                f"tubing of “{material}” is not known here. Next: choose among {', '.join(LIFE_REVOLUTIONS)}; “other” with"
                " its life in revolutions is right for anything else"
            )
        body = {
            "pump": pump,
            "material": material,
            "bore_mm": bore_mm if bore_mm is not None else bore_of(self._rig, pump),
            "life_revolutions": life_revolutions or LIFE_REVOLUTIONS[material],
            "lot": lot,
            "by": user,
        }
        before = self.tubing[pump]
        old = {"material": before.material, "bore_mm": before.bore_mm, "revolutions": round(before.revolutions, 1)}
        self._journal.append("tubing.installed", body | {"reason": reason, "old": old})
        self._installed(body, self._clock.utc_text())
        self._judge()
        return self.tubing[pump]

    # --- what is known ----------------------------------------------------------------------------------

    def trust(self, pump: str) -> Trust:
        """What a volume that this pump is asked for is worth."""
        return self.standings[pump].trust

    def refusal(self, pump: str, utc: str) -> str | None:
        """Why the gate would refuse this pump volumes at a time to come (UTC, ISO 8601), as far as is known now; or None."""
        standing = self._stand(pump, utc)
        return None if standing.heart else standing.refusal

    def to_json(self) -> list[dict[str, Any]]:
        """Every pump: calibration and tubing."""
        return [
            {
                "pump": pump,
                "line": standing.line,
                "circulates": standing.heart,
                "calibration": standing.to_json(),
                "tubing": self.tubing[pump].to_json(),
            }
            for pump, standing in self.standings.items()
        ]

    # --- inside -----------------------------------------------------------------------------------------

    def _count(self, actuators: Mapping[str, ActuatorView], revolution_ul: Callable[[str], float | None]) -> None:
        for pump, tubing in self.tubing.items():
            view = actuators.get(pump)
            if view is None or not isinstance(view.status, PumpStatus):
                continue
            total_ul = view.status.delivered_ul
            moved_ul = moved_since(self._totals_ul.get(pump), total_ul)
            self._totals_ul[pump] = total_ul
            if moved_ul > 0.0 and (per_turn_ul := self._per_turn_ul(tubing, revolution_ul)) is not None:
                self.tubing[pump] = tubing.turned(moved_ul / per_turn_ul)

    @staticmethod
    def _per_turn_ul(tubing: Tubing, revolution_ul: Callable[[str], float | None]) -> float | None:
        told = revolution_ul(tubing.pump)
        if told is not None and told > 0.0:
            return told
        return None if tubing.bore_mm is None else revolution_of(tubing.bore_mm)

    def _judge(self) -> None:
        """Read the records if they are new, and see how every pump stands."""
        self._read()
        now_utc = self._clock.utc_text()
        self.standings = {pump: self._stand(pump, now_utc) for pump in self._lines}
        self.pumps = {
            pump: PumpTrust(standing.refusal, standing.trust.gain)
            for pump, standing in self.standings.items()
            if not standing.heart
        }
        self.causes = self._see(now_utc)
        for pump, standing in self.standings.items():
            if standing.trust.calibration != self._taken.get(pump, FACTORY):
                self._journal.append("calibration.taken", {"pump": pump, **standing.to_json()})
                self._taken[pump] = standing.trust.calibration

    def _read(self) -> None:
        path = self._data / FILE
        try:
            found = path.stat() if path.exists() else path.lstat()  # a link to nothing is no absence of records
            seen = (found.st_mtime_ns, found.st_size)
        except OSError:
            seen = None
        if seen == self._file_seen:
            return
        self._file_seen = seen
        try:
            self._records, self._file_error = current(self._data), None
        except (CalibrationError, OSError) as error:
            logger.error("calibrations cannot be read: %s", error)
            self._records, self._file_error = {}, str(error)

    def _stand(self, pump: str, now_utc: str) -> Standing:
        tubing, record = self.tubing[pump], self._records.get(pump)
        heart = pump == self._heart
        dosing = dosing_of(self._rig, pump)
        fresh = f"+{tubing.installed_utc}" if tubing.installed_utc else ""
        trust = Trust(1.0, dosing.rel_sd, dosing.dose_sd_ul, FACTORY + fresh)
        line = self._lines[pump]
        if record is None:
            return Standing(pump, line, heart, trust, refusal=self._without_record(pump, tubing))
        rel_sd = min(dosing.rel_sd, (record.rel_sd**2 + AGED_REL_SD**2) ** 0.5)
        trust = Trust(record.gain, rel_sd, dosing.dose_sd_ul, record.at_utc + fresh)
        refusal = self._why_not(record, tubing, now_utc)
        return Standing(pump, line, heart, trust, record.by, record.at_utc, record.expires_utc, refusal)

    def _without_record(self, pump: str, tubing: Tubing) -> str | None:
        again = f"calibrate it: `choroid calibrate pump {pump} …`"
        if self._file_error is not None:
            return f"the records cannot be read: {self._file_error}"
        if not self._rig.factory_calibrated:
            return f"{pump} has no record. Likely cause: it was never calibrated on this rig. Next: {again}"
        return self._wrong_bore(tubing, bore_of(self._rig, pump), "the rig file reckons with")

    def _why_not(self, record: Calibration, tubing: Tubing, now_utc: str) -> str | None:
        """Why this record allows no volumes, or None."""
        pump, again = record.point, f"calibrate again: `choroid calibrate pump {record.point} …`"
        if record.rig != self._rig.name:
            return f"the record of {pump} was made on the rig “{record.rig}”. Next: {again}"
        if record.expired(now_utc):
            return f"that of {pump} expired on {_day(record.expires_utc)}. Next: {again}"
        if tubing.installed_utc > record.at_utc:
            return (
                f"that of {pump} was made with the tubing before; new tubing was fitted on {_day(tubing.installed_utc)}."
                f" Next: {again}"
            )
        wrong = self._wrong_bore(tubing, record.tubing_mm, "the calibration was made with")
        return wrong or self._wrong_bore(tubing, bore_of(self._rig, pump), "the rig file reckons with")

    @staticmethod
    def _wrong_bore(tubing: Tubing, bore_mm: float | None, whose: str) -> str | None:
        if bore_mm is None or tubing.bore_mm is None or abs(bore_mm - tubing.bore_mm) <= BORE_TOLERANCE_MM:
            return None
        return (
            f"wrong tubing: {tubing.pump} has {tubing.bore_mm:g} mm, {whose} {bore_mm:g} mm. Next: fit the right tubing, or"
            " change the rig file; then calibrate again"
        )

    def _see(self, now_utc: str) -> dict[tuple[str, str], str]:
        """What a person has to do something about."""
        causes: dict[tuple[str, str], str] = {}
        soon = datetime.fromisoformat(now_utc) + timedelta(seconds=self._rig.upkeep.calibration_due_s)
        for pump, standing in self.standings.items():
            if standing.refusal is not None:
                what = "it goes on circulating" if standing.heart else "it gives no volumes"
                causes[("calibration_invalid", pump)] = f"{what}: {standing.refusal}"
            elif standing.expires_utc and datetime.fromisoformat(standing.expires_utc) <= soon:
                causes[("calibration_due", pump)] = (
                    f"it expires on {_day(standing.expires_utc)}, and no volumes after that"
                )
        for point, record in self._records.items():
            mine = record.kind == "sensor" and record.rig == self._rig.name
            if mine and point.partition(".")[0] in self._rig.devices and record.expired(now_utc):
                causes[("probe_calibration_over", point)] = (
                    f"that of {record.at_utc[:10]} ran out on {_day(record.expires_utc)}"
                )
        for pump, tubing in self.tubing.items():
            told = f"{tubing.revolutions:,.0f} of {tubing.life_revolutions:,.0f} revolutions ({tubing.material})"
            if tubing.used >= 1.0:
                causes[("tubing_over", pump)] = f"it has made {told}"
            elif tubing.used >= self._rig.upkeep.tubing_due_pct / 100.0:
                causes[("tubing_due", pump)] = f"it has made {told}"
        for batch in self._batches().values():
            if batch.expired(now_utc):
                causes[("medium_expired", batch.vessel)] = f"lot {batch.lot} expired on {_day(batch.expires_utc)}"
        volumes = self._volumes()
        causes |= self._stocks(volumes)
        loop = self._rig.organs.lung.vessel
        volume = volumes.get(loop)
        if volume is not None and SIGMAS * volume.sd_ul > LOOP_MARGIN_UL:
            within_ml = SIGMAS * volume.sd_ul / 1000
            causes[("level_due", loop)] = (
                f"{volume.ul / 1000:.1f} mL by the books, known within {within_ml:.1f} mL: nothing measures it, and the doubt"
                " of what evaporates adds up"
            )
        return causes

    def _stocks(self, volumes: Mapping[str, Volume]) -> dict[tuple[str, str], str]:
        """Bottles that are nearly used up, a waste that is nearly full."""
        causes: dict[tuple[str, str], str] = {}
        share = self._rig.upkeep.stock_low_pct / 100.0
        for name, vessel in self._rig.vessels.items():
            if name not in volumes or vessel.kind not in ("source", "waste"):
                continue
            held_ul = volumes[name].ul
            if vessel.kind == "source":
                kind, left_ul, whole_ul = "stock_low", held_ul - vessel.floor_ul, vessel.capacity_ul - vessel.floor_ul
                told = (
                    f"of which {max(left_ul, 0.0) / 1000:.1f} mL may still be drawn; it holds"
                    f" {vessel.capacity_ul / 1000:g} mL"
                )
            else:
                kind, left_ul, whole_ul = "waste_full", vessel.limit_ul - held_ul, vessel.limit_ul
                told = f"and {vessel.limit_ul / 1000:g} mL is the most"
            lasts = self._lasts(name, left_ul)
            if left_ul <= share * whole_ul:
                causes[(kind, name)] = f"{held_ul / 1000:.1f} mL by the books, {told}{lasts}"
        return causes

    def _lasts(self, vessel: str, left_ul: float) -> str:
        """How long what is left lasts, if it goes on as since the vessel was changed; nothing while nobody can tell."""
        now_s = self._clock.now_s()
        since_s, first_ul, last_ul = self._watched.get(vessel, (now_s, left_ul, left_ul))
        if left_ul - last_ul > REFILL_UL:
            since_s, first_ul = now_s, left_ul
        self._watched[vessel] = since_s, first_ul, left_ul
        used_ul = first_ul - left_ul
        if now_s - since_s < RATE_AFTER_S or used_ul <= 0.0:
            return ""
        left_d = max(left_ul, 0.0) / used_ul * (now_s - since_s) / 86_400.0
        return f"; as it has gone so far, enough for {left_d:.1f} d"

    def _installed(self, body: Mapping[str, Any], utc: str) -> None:
        pump = body["pump"]
        if pump in self.tubing:
            self.tubing[pump] = Tubing(
                pump, body["material"], body["bore_mm"], body["life_revolutions"], utc, body["by"], body["lot"]
            )

    def _rebuild(self) -> None:
        """Take up what the journal knows: tubing that was fitted, revolutions that were counted."""
        for entry in self._journal.entries(kinds=("tubing.installed", "tubing.turned", "calibration.taken")):
            if entry.kind == "tubing.installed":
                self._installed(entry.body, entry.utc)
            elif entry.kind == "calibration.taken":
                self._taken[entry.body["pump"]] = entry.body["calibration"]
            else:
                for pump, count in entry.body["pumps"].items():
                    if pump in self.tubing:
                        turned = count["revolutions"] - self.tubing[pump].revolutions
                        self.tubing[pump] = self.tubing[pump].turned(turned)
                        self._totals_ul[pump] = count["total_ul"]


def _day(utc: str) -> str:
    return utc[:16].replace("T", " ") + " UTC"
