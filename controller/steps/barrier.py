"""Judge whether the sterile filter is intact, from the pressure that recorded passes needed.

At rest, behind a closed valve, the pressure before the filter shows nothing: it is the room's for an intact filter and for
a burst one. While medium passes, an intact filter resists by an amount that follows from flow, viscosity and permeability.
A filter that needs much less has a hole, or the flow goes elsewhere; one that exceeded its rated pressure may have burst.
Either failure stands until an integrity test (recipe filter-integrity) has passed: a replacement of the filter cannot be
seen here, and a hole does not heal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.rig.description import Filter, Rig
from controller.rig.organs import ImmuneConfig, KidneyConfig
from protocols.grading import Letter

WATER_ML_MIN_CM2_BAR = 10.0
"""Permeability of a 0.2 µm membrane (maker's figures for PVDF; PES up to three times as much)."""
MIN_SHARE = 0.25
"""Minimum share of the pressure that such a membrane needs: an intact filter of three times the permeability passes, one
with a hole does not. On the simulated bench an intact one needs 10.6 kPa at 4 mL/min, a torn one 1.3 kPa with its tubing;
the minimum is 2.5 kPa."""
KPA_PER_BAR = 100.0
MIN_POLLS = 3
"""Minimum number of sensor polls in a pass; a shorter pass may be over before its peak is read."""
MOVED_SHARE = 0.5
"""Minimum share of the requested volume; with less moved, a low pressure is due to the pump, not to the filter."""
KINDS = ("moved", "note.filter", "note.grade")


def bounds_kpa(rig: Rig) -> tuple[float, float]:
    """Return minimum and maximum pressure (kPa gauge) of an intact filter; zeros on a rig without a sterile filter."""
    if rig.organs.immune is None:
        return 0.0, 0.0
    sterile = rig.filters[rig.organs.immune.filter]
    return min_filter_kpa(rig, sterile), sterile.max_pressure_kpa


def min_filter_kpa(rig: Rig, sterile: Filter) -> float:
    """Return the minimum pressure (kPa gauge) of an intact filter at the return flow: from the rig file, or computed."""
    if sterile.min_pressure_kpa is not None:
        return sterile.min_pressure_kpa
    if rig.organs.kidney is None:
        return 0.0  # nothing is returned through it
    flow_ml_min = rig.organs.kidney.flow_ul_min / 1000.0
    return MIN_SHARE * KPA_PER_BAR * flow_ml_min / (WATER_ML_MIN_CM2_BAR * sterile.area_cm2)


@dataclass(slots=True)
class FilterRecord:
    """What the journal shows of one rig's filter; :meth:`read` reads the rows that are new."""

    rig: Rig
    journal: Journal
    _seq: int = 0
    _peak_kpa: float | None = None
    """Peak pressure of the last pass that counts (kPa gauge)."""
    _failed: str = ""
    """Why the filter is not trusted; empty while nothing speaks against it."""

    @property
    def failed(self) -> bool:
        """Whether it failed, and no integrity test has passed since."""
        self._read()
        return bool(self._failed)

    def read(self) -> dict[str, Any]:
        """Return plain data for a step's record. `sterile` is None until a pass is on record."""
        self._read()
        sterile = None if self._peak_kpa is None and not self._failed else not self._failed
        unknown = "no pass through the filter is on record"
        if self.rig.organs.immune is None:
            unknown = "the rig has no sterile filter"
        detail = self._failed or ("" if sterile else unknown)
        min_kpa, max_kpa = bounds_kpa(self.rig)
        return {
            "sterile": sterile,
            "peak_kpa": self._peak_kpa,
            "min_kpa": min_kpa,
            "max_kpa": max_kpa,
            "detail": detail,
        }

    def _read(self) -> None:
        for entry in self.journal.entries(kinds=KINDS, after=self._seq):
            self._seq = entry.seq
            if entry.kind == "moved":
                self._passed(entry)
            elif entry.kind == "note.filter":
                self._tested(entry.body)
            elif entry.body.get("variables", {}).get("sterility", {}).get("grade") == Letter.D.value:
                self._failed = self._failed or f"a batch was found behind a failed barrier ({entry.utc[:16]})"

    def _passed(self, entry: Entry) -> None:
        """Take in a dose that may have passed the filter."""
        body, immune, kidney = entry.body, self.rig.organs.immune, self.rig.organs.kidney
        line, peak = self.rig.lines.get(body["line"]), body.get("peak_kpa")
        if immune is None or kidney is None or line is None or line.filter != immune.filter or peak is None:
            return
        min_kpa, max_kpa = bounds_kpa(self.rig)
        if peak >= max_kpa:
            self._failed = f"{peak:.1f} kPa before it, and it stands {max_kpa:g} kPa ({entry.utc[:16]})"
        elif not self._tells(body, immune, kidney):
            return
        elif peak < min_kpa:
            self._failed = f"it needed only {peak:.2f} kPa, a whole one at least {min_kpa:.2f} kPa ({entry.utc[:16]})"
        self._peak_kpa = peak

    def _tells(self, body: Any, immune: ImmuneConfig, kidney: KidneyConfig) -> bool:
        """Return whether a pass was long enough, and moved enough, for a low pressure to be due to the filter."""
        asked_ul = body.get("asked_ul") or 0.0
        every_s = self.rig.devices[immune.pressure.partition(".")[0]].every_s
        lasted_s = asked_ul / kidney.flow_ul_min * 60.0
        return bool(lasted_s >= MIN_POLLS * every_s and body["ul"] >= MOVED_SHARE * asked_ul)

    def _tested(self, body: Any) -> None:
        """Take in the note of an integrity test; only that recipe reads the filter at rest first."""
        min_kpa, max_kpa = bounds_kpa(self.rig)
        peak = body.get("peak_kpa")
        if "at_rest_kpa" in body and isinstance(peak, int | float) and min_kpa <= peak < max_kpa:
            self._failed, self._peak_kpa = "", float(peak)
