"""Upkeep of a rig: calibrations that expire, tubing that wears out, expired medium, stocks that run out, manual tasks.

Once a minute the records in the data directory are read, revolutions are counted from the pumps' totals, and the causes of
alarms are collected. The consequence follows at once: the gate refuses volumes to a transfer pump without a valid calibration
(F5). The heart goes on, because a slightly wrong flow feeds the tissue and none kills it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from controller.core.clock import Clock
from controller.core.state import ActuatorView, Volume
from controller.journal.journal import Journal
from controller.journal.terms import JournalUnwritten
from controller.ledger.batches import Whereabouts
from controller.memory.calibrations import FILE, Calibration, CalibrationError, current
from controller.rig.description import Rig
from controller.rig.upkeep import Disposable
from controller.runs.facts import LOOP_MARGIN_UL
from controller.safety.kernel import SIGMAS
from controller.safety.terms import PumpTrust
from controller.transfers.routes import Trust, dosing_of
from controller.upkeep.bottles import bottle_causes, day_of
from controller.upkeep.manual_tasks import ManualTasks, UnknownTask
from controller.upkeep.tubing import LIFE_REVOLUTIONS, Tubing, bore_of, fitted, moved_since, revolution_of
from drivers.commands import PumpStatus


def disposable_causes(rig: Rig, now_utc: str) -> dict[tuple[str, str], str]:
    """Return the causes of alarms in disposables, by alarm kind and name: used up, or soon.

    Days are those of the laboratory's time zone. The warning comes `calibration_due` before the last day.
    """
    today = datetime.fromisoformat(now_utc).astimezone(ZoneInfo(rig.time_zone)).date()
    soon = today + timedelta(seconds=rig.upkeep.calibration_due_s)
    causes = {}
    for name, disposable in rig.upkeep.disposables.items():
        last = disposable.last_day
        if last is not None and last < today:
            causes["disposable_over", name] = _text(disposable, last)
        elif last is not None and last <= soon:
            causes["disposable_due", name] = _text(disposable, last)
    return causes


def _text(disposable: Disposable, last: date) -> str:
    lot = f", lot {disposable.lot}" if disposable.lot else ""
    opened = f", opened on {disposable.opened}" if disposable.opened else ""
    return f"{disposable.what}{lot}{opened}: its last day is {last}"


logger = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0
COUNT_ROW_EVERY_S = 3600.0
"""Time between two journal rows of the revolutions (s). After a crash the pumps' own totals restore the count."""
BORE_TOLERANCE_MM = 0.015
"""Some pumps report 1.43 mm for tubing of 1.42 mm."""
LEVEL_REL = 0.05
"""Uncertainty (three standard deviations) of a large loop's volume, as a share of it, from which it is to be read."""
RATE_AFTER_S = 86_400.0
"""Minimum observation time of a bottle before its run-out time is estimated (s)."""
REFILL_UL = 500.0
"""Minimum increase within a minute that counts as a change of the bottle, and decrease as emptying of the waste."""
AGED_REL_SD = 0.03
"""Uncertainty of a pump's gain by ageing since its calibration: good tubing, some weeks (biology.md §2)."""
FACTORY = "factory"


class UpkeepError(Exception):
    """An entry is not possible. The message says what, where, the likely cause and the next action."""


@dataclass(frozen=True, slots=True)
class Standing:
    """State of one pump's calibration: its trust, its validity, and why it is refused, if it is."""

    pump: str
    line: str
    heart: bool
    trust: Trust
    by: str = ""
    at_utc: str = ""
    expires_utc: str = ""
    refusal: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
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
    """Upkeep of one rig; `medium` and `volumes` are the ledger's. Call :meth:`update` each tick; it acts once a minute."""

    def __init__(
        self,
        rig: Rig,
        *,
        journal: Journal,
        clock: Clock,
        data: Path,
        medium: Callable[[], Whereabouts] = Whereabouts,
        volumes: Callable[[], Mapping[str, Volume]] = dict,
    ) -> None:
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._data = data
        self._medium = medium
        self._volumes = volumes
        self._hearts = {rig.lines[heart.line].pump for heart in rig.organs.hearts.values()}
        self._lines: dict[str, str] = {}
        """By pump: its line, the first if its head drives several."""
        for name, line in rig.lines.items():
            if line.pump is not None:
                self._lines.setdefault(line.pump, name)
        self.tubing = {pump: fitted(rig, pump) for pump in self._lines}
        self._totals_ul: dict[str, float] = {}
        self._watched: dict[str, tuple[float, float, float]] = {}
        """By bottle or waste: time of its last change (s), and what was left then and last (µL)."""
        self._records: Mapping[str, Calibration] = {}
        self.tasks = ManualTasks(rig, journal=journal, clock=clock)
        self._file_seen: tuple[int, int] | None = None
        self._file_error: str | None = None
        self._taken: dict[str, str] = {}
        """By pump: the calibration that the journal has recorded."""
        self._next_look_s = float("-inf")
        self._next_row_s = clock.now_s() + COUNT_ROW_EVERY_S
        self._rebuild()
        self.standings: Mapping[str, Standing] = {}
        self.pumps: Mapping[str, PumpTrust] = {}
        """What the safety kernel has to know about each pump."""
        self.causes: Mapping[tuple[str, str], str] = {}
        """Detail by (alarm kind, source), as of the last look."""
        with suppress(JournalUnwritten):  # the first look tries again and raises the alarm
            self._judge()

    # --- once a tick ------------------------------------------------------------------------------------

    def update(self, actuators: Mapping[str, ActuatorView], revolution_ul: Callable[[str], float | None]) -> None:
        """Count revolutions, read new records and judge, if it is time."""
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
        """Record the count of revolutions in the journal."""
        counts = {
            pump: {"revolutions": round(tubing.revolutions, 1), "total_ul": self._totals_ul[pump]}
            for pump, tubing in self.tubing.items()
            if pump in self._totals_ul
        }
        if counts:
            self._journal.append("tubing.turned", {"pumps": counts})

    # --- entries by people ------------------------------------------------------------------------------

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
        """Record new tubing in a pump's head: its count begins at zero, and an earlier calibration is void."""
        if pump not in self.tubing:
            raise UpkeepError(
                f"no line has the pump “{pump}”. Likely cause: a typing error. Next: choose among {', '.join(self.tubing)}"
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

    def confirm(self, task: str, *, user: str, note: str) -> None:
        """Record that a person has done a manual task. Raises UpkeepError if the rig has no such task."""
        try:
            self.tasks.confirm(task, user=user, note=note)
        except UnknownTask as error:
            raise UpkeepError(str(error)) from error
        self._judge()

    # --- what is known ----------------------------------------------------------------------------------

    def trust(self, pump: str) -> Trust:
        """Return the trust in volumes of this pump."""
        return self.standings[pump].trust

    def refusal(self, pump: str, utc: str) -> str | None:
        """Return why the gate would refuse volumes to this pump at a later time (UTC, ISO 8601), or None."""
        standing = self._stand(pump, utc)
        return None if standing.heart else standing.refusal

    def to_json(self) -> list[dict[str, Any]]:
        """Return calibration and tubing of every pump."""
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
        per_turn_ul = revolution_ul(tubing.pump)
        if per_turn_ul is not None and per_turn_ul > 0.0:
            return per_turn_ul
        return None if tubing.bore_mm is None else revolution_of(tubing.bore_mm)

    def _judge(self) -> None:
        """Read new records, and judge every pump."""
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
            found = path.stat() if path.exists() else path.lstat()  # a broken link counts as a file
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
        heart = pump in self._hearts
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
        again = f"calibrate it: `choroid device calibrate-pump {pump} …`"
        if self._file_error is not None:
            return f"the records cannot be read: {self._file_error}"
        if not self._rig.factory_calibrated:
            return f"{pump} has no record. Likely cause: it was never calibrated on this rig. Next: {again}"
        return self._wrong_bore(tubing, bore_of(self._rig, pump), "the rig file reckons with")

    def _why_not(self, record: Calibration, tubing: Tubing, now_utc: str) -> str | None:
        """Return why this record allows no volumes, or None."""
        pump, again = record.point, f"calibrate again: `choroid device calibrate-pump {record.point} …`"
        if record.rig != self._rig.name:
            return f"the record of {pump} was made on the rig “{record.rig}”. Next: {again}"
        if record.expired(now_utc):
            return f"that of {pump} expired on {day_of(record.expires_utc)}. Next: {again}"
        if tubing.installed_utc > record.at_utc:
            return (
                f"that of {pump} was made with the tubing before; new tubing was fitted on {day_of(tubing.installed_utc)}."
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
        """Return the causes of alarms: what a person has to act on."""
        causes = self._calibrations(now_utc) | self._probes(now_utc) | self._tubing_causes()
        causes |= disposable_causes(self._rig, now_utc)
        volumes = self._volumes()
        causes |= bottle_causes(self._rig, self._medium(), volumes, now_utc)
        causes |= self._stocks(volumes)
        causes |= self.tasks.causes(now_utc)
        loop = self._rig.loop
        volume = None if loop is None else volumes.get(loop)
        if loop is not None and volume is not None and SIGMAS * volume.sd_ul > self._level_margin_ul(loop):
            within_ml = SIGMAS * volume.sd_ul / 1000
            causes["level_due", loop] = (
                f"{volume.ul / 1000:.1f} mL by the books, known within {within_ml:.1f} mL: nothing measures it, and the doubt"
                " of what evaporates adds up"
            )
        return causes

    def _level_margin_ul(self, loop: str) -> float:
        """Return how uncertain the volume of the loop may be (µL): what recipes keep in it, or a share of a large one."""
        return max(LOOP_MARGIN_UL, LEVEL_REL * self._rig.vessels[loop].volume_ul)

    def _calibrations(self, now_utc: str) -> dict[tuple[str, str], str]:
        """Return the causes of pumps whose calibration is invalid, or due."""
        causes: dict[tuple[str, str], str] = {}
        soon = datetime.fromisoformat(now_utc) + timedelta(seconds=self._rig.upkeep.calibration_due_s)
        for pump, standing in self.standings.items():
            if standing.refusal is not None:
                what = "it goes on circulating" if standing.heart else "it gives no volumes"
                causes["calibration_invalid", pump] = f"{what}: {standing.refusal}"
            elif standing.expires_utc and datetime.fromisoformat(standing.expires_utc) <= soon:
                causes["calibration_due", pump] = (
                    f"it expires on {day_of(standing.expires_utc)}, and no volumes after that"
                )
        return causes

    def _probes(self, now_utc: str) -> dict[tuple[str, str], str]:
        """Return the causes of probes whose calibration has expired."""
        causes: dict[tuple[str, str], str] = {}
        for point, record in self._records.items():
            mine = record.kind == "sensor" and record.rig == self._rig.name
            if mine and point.partition(".")[0] in self._rig.devices and record.expired(now_utc):
                causes["probe_calibration_over", point] = (
                    f"that of {record.at_utc[:10]} ran out on {day_of(record.expires_utc)}"
                )
        return causes

    def _tubing_causes(self) -> dict[tuple[str, str], str]:
        """Return the causes of tubing at or near the end of its life."""
        causes: dict[tuple[str, str], str] = {}
        for pump, tubing in self.tubing.items():
            count = f"{tubing.revolutions:,.0f} of {tubing.life_revolutions:,.0f} revolutions ({tubing.material})"
            if tubing.used >= 1.0:
                causes["tubing_over", pump] = f"it has made {count}"
            elif tubing.used >= self._rig.upkeep.tubing_due_pct / 100.0:
                causes["tubing_due", pump] = f"it has made {count}"
        return causes

    def _stocks(self, volumes: Mapping[str, Volume]) -> dict[tuple[str, str], str]:
        """Return the causes of bottles that are nearly empty and of a waste that is nearly full."""
        causes: dict[tuple[str, str], str] = {}
        share = self._rig.upkeep.stock_low_pct / 100.0
        for name, vessel in self._rig.vessels.items():
            if name not in volumes or vessel.kind not in ("source", "waste"):
                continue
            held_ul = volumes[name].ul
            if vessel.kind == "source":
                kind, left_ul, whole_ul = "stock_low", held_ul - vessel.floor_ul, vessel.capacity_ul - vessel.floor_ul
                text = (
                    f"of which {max(left_ul, 0.0) / 1000:.1f} mL may still be drawn; it holds"
                    f" {vessel.capacity_ul / 1000:g} mL"
                )
            else:
                kind, left_ul, whole_ul = "waste_full", vessel.limit_ul - held_ul, vessel.limit_ul
                text = f"and {vessel.limit_ul / 1000:g} mL is the most"
            lasts = self._lasts(name, left_ul)
            if left_ul <= share * whole_ul:
                causes[(kind, name)] = f"{held_ul / 1000:.1f} mL by the books, {text}{lasts}"
        return causes

    def _lasts(self, vessel: str, left_ul: float) -> str:
        """Return how long the rest lasts at the rate since the vessel was changed; empty while that is unknown."""
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
        """Restore from the journal: the fitted tubing and its counted revolutions."""
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
