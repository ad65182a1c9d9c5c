"""Whether the sterile filter is whole, by what it took to push medium through it: the passes on record tell.

At rest, behind a closed valve, the pressure before the filter says nothing: it is that of the room for a whole filter and
for a burst one. While medium passes, a whole filter resists: flow, viscosity and permeability give how much. One that
needs much less has a hole, or what should pass it runs elsewhere; one that needed more than it stands may have burst of
it. Either is remembered until an integrity test (recipe filter-integrity) has been passed after it: that the filter was
replaced nobody can see from here, and a hole does not heal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.rig.description import Rig
from protocols.grading import Letter

WATER_ML_MIN_CM2_BAR = 10.0
"""What a 0.2 µm membrane lets through (maker's figures for PVDF; PES up to three times as much)."""
LEAST_SHARE = 0.25
"""Of what such a membrane needs: a whole filter of three times the permeability passes, one with a hole does not. On the
simulated bench a whole one needs 10.6 kPa at 4 mL/min, a torn one 1.3 kPa with its tubing; the least is 2.5 kPa."""
KPA_PER_BAR = 100.0
LEAST_POLLS = 3
"""A pass that the sensor has not seen so often may have been over before it was read at its height."""
MOVED_SHARE = 0.5
"""Where less of the asked volume went through than this, a low pressure is the pump's and not the filter's."""
KINDS = ("moved", "note.filter", "note.grade")


def least_kpa(rig: Rig) -> float:
    """What a whole filter of this rig needs at the least (kPa gauge) at the return's flow: by the rig file, or reckoned."""
    sterile = rig.filters[rig.organs.immune.filter]
    if sterile.least_pressure_kpa is not None:
        return sterile.least_pressure_kpa
    flow_ml_min = rig.organs.kidney.flow_ul_min / 1000.0
    return LEAST_SHARE * KPA_PER_BAR * flow_ml_min / (WATER_ML_MIN_CM2_BAR * sterile.area_cm2)


@dataclass(slots=True)
class FilterRecord:
    """What the journal tells of one rig's filter; :meth:`look` reads what is new in it."""

    rig: Rig
    journal: Journal
    _seq: int = 0
    _peak_kpa: float | None = None
    """Of the last pass that tells anything."""
    _failed: str = ""
    """Why it is not trusted; empty when nothing speaks against it."""

    @property
    def failed(self) -> bool:
        """Whether it failed, and no integrity test was passed since."""
        self._read()
        return bool(self._failed)

    def look(self) -> dict[str, Any]:
        """Plain data for a step's record; `sterile` is None as long as no pass is on record."""
        self._read()
        sterile = None if self._peak_kpa is None and not self._failed else not self._failed
        detail = self._failed or ("" if sterile else "no pass through the filter is on record")
        least, most = self._bounds
        return {"sterile": sterile, "peak_kpa": self._peak_kpa, "least_kpa": least, "most_kpa": most, "detail": detail}

    @property
    def _bounds(self) -> tuple[float, float]:
        return least_kpa(self.rig), self.rig.filters[self.rig.organs.immune.filter].max_pressure_kpa

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
        """A dose that may have passed the filter."""
        body = entry.body
        line, peak = self.rig.lines.get(body["line"]), body.get("peak_kpa")
        if line is None or line.filter != self.rig.organs.immune.filter or peak is None:
            return
        least, most = self._bounds
        if peak >= most:
            self._failed = f"{peak:.1f} kPa before it, and it stands {most:g} kPa ({entry.utc[:16]})"
        elif not self._tells(body):
            return
        elif peak < least:
            self._failed = f"it needed only {peak:.2f} kPa, a whole one at least {least:.2f} kPa ({entry.utc[:16]})"
        self._peak_kpa = peak

    def _tells(self, body: Any) -> bool:
        """Whether a pass was long enough, and medium enough moved, for a low pressure to be the filter's."""
        asked_ul = body.get("asked_ul") or 0.0
        every_s = self.rig.devices[self.rig.organs.immune.pressure.partition(".")[0]].every_s
        lasted_s = asked_ul / self.rig.organs.kidney.flow_ul_min * 60.0
        return bool(lasted_s >= LEAST_POLLS * every_s and body["ul"] >= MOVED_SHARE * asked_ul)

    def _tested(self, body: Any) -> None:
        """The note of an integrity test; other recipes that pass the filter do not look at it at rest before."""
        least, most = self._bounds
        peak = body.get("peak_kpa")
        if "at_rest_kpa" in body and isinstance(peak, int | float) and least <= peak < most:
            self._failed, self._peak_kpa = "", float(peak)
