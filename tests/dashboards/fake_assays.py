"""Provide assays for the interface tests: they enter the fake journal, and are refused like real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from controller.estimator.assays import AssayError, AssayRefused
from protocols.assay import ANALYTES, MEDIUM_ANALYTES

if TYPE_CHECKING:
    from tests.dashboards.fake_rig import FakeJournal

BELIEVED = {"value": 6.1, "low": 5.2, "high": 7.0}


class FakeAssays:
    """Accept values in mM or mOsm/kg; refuse a repeated one."""

    def __init__(self, journal: FakeJournal, utc_text: Callable[[], str]) -> None:
        self._journal = journal
        self._utc_text = utc_text

    def enter(
        self,
        analyte: str,
        value: str,
        *,
        vessel: str,
        taken: str,
        user: str,
        sd: str = "",
        volume: str = "",
        method: str = "",
        reason: str = "",
        zone: str = "",
        sure: bool = False,
    ) -> dict[str, Any]:
        known = ANALYTES.get(analyte)
        if known is None:
            raise AssayError(f"“{analyte}” is not estimated. Likely cause: a typing error. Next: choose lactate")
        row = {
            "analyte": analyte, "vessel": vessel, "where": "loop", "taken_utc": self._utc_text(), "sd": 0.2,
            "value": float(value.split()[0]), "unit": known.unit, "used": True, "sure": sure, "text": value,
            "volume": volume, "method": method, "user": user, "reason": reason, "off_sd": 1.2, "expected": BELIEVED,
            "taken": taken,
        }  # fmt: skip
        if any((old["text"], old["taken"]) == (value, taken) for old in self.recent()):
            raise AssayRefused("this assay was entered before. Likely cause: a command was repeated. Next: nothing")
        seq = self._journal.append("assay", row)
        return {"id": seq, "run": None, **row, "before": BELIEVED, "after": BELIEVED, "now": BELIEVED}

    def recent(self, limit: int = 50) -> list[dict[str, Any]]:
        rows = self._journal.entries(kinds=("assay",), newest_first=True, limit=limit)
        return [{"id": entry.seq, "entered_utc": entry.utc, **entry.body} for entry in rows]

    def medium(self) -> dict[str, Any]:
        species = {each.species: BELIEVED for each in MEDIUM_ANALYTES.values()}
        return {"utc": self._utc_text(), "loop": species, "spent": species, "lactate_umol_d": 84.0}
