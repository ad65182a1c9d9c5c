"""Which culture was in each chamber at each row of the journal: described by the rig file, placed, moved, removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.journal.terms import Entry
from controller.rig.description import Rig
from controller.tissue.record import KINDS as TISSUE_ROWS
from controller.tissue.record import MOVED, PLACED

STARTED = "controller.started"
CULTURE_ROWS = (STARTED, *TISSUE_ROWS)


@dataclass(frozen=True, slots=True)
class CultureInChamber:
    """A culture in a chamber. `id` names the row that put it into the rig, and stays when the culture is moved."""

    id: str
    chamber: str
    organoids: int
    batch: str
    cell_line: str
    diameter_mm: float
    """Diameter of an organoid when it was described or placed (mm)."""
    age_d: float
    """Age when it was described or placed (d)."""


class Occupancy:
    """The cultures by chamber, row by row. Rows of :data:`CULTURE_ROWS` are applied in their order.

    A row holds what the rig file said of its chambers when it was written. Where two rows differ in that, the rig file was
    changed between them, and a new culture begins with the start of the controller between them.
    """

    def __init__(self, rig: Rig, rows: Iterable[Entry]) -> None:
        """Read the rows of the whole journal; the state is that before its first row."""
        self._chambers = [name for name, vessel in rig.vessels.items() if vessel.kind == "chamber"]
        self._cultures: dict[str, CultureInChamber] = {}
        today = {name: spec.model_dump(mode="json") for name, spec in rig.tissue.items()}
        self._redescribed: dict[int, dict[str, Any]] = {}
        """By number of the row of a start: what the rig file said from then on."""
        self._read(list(rows), today)

    @property
    def cultures(self) -> Mapping[str, CultureInChamber]:
        """The cultures by chamber; a chamber without tissue is left out."""
        return self._cultures

    def concerned(self, places: Iterable[str]) -> list[CultureInChamber]:
        """Return the cultures in the chambers among `places`; without a chamber among them, all cultures of the rig."""
        named = [name for name in self._chambers if name in set(places)]
        return [self._cultures[name] for name in named or self._chambers if name in self._cultures]

    def apply(self, row: Entry) -> None:
        """Apply a row."""
        for chamber, described in self._redescribed.get(row.seq, {}).items():
            self._describe(chamber, described, row.seq)
        body = row.body
        if row.kind == PLACED:
            self._put(str(body["chamber"]), row.seq, body)
        elif row.kind == MOVED:
            source, target = str(body["chamber"]), str(body["target"])
            if (moved := self._cultures.pop(source, None)) is None:
                self._put(target, row.seq, body)
            else:
                self._cultures[target] = replace(moved, chamber=target)
        elif row.kind in TISSUE_ROWS:
            chamber = str(body["chamber"])
            if (held := self._cultures.pop(chamber, None)) is not None and body["left"]:
                self._cultures[chamber] = replace(held, organoids=int(body["left"]))

    # --- inside -----------------------------------------------------------------------------------------

    def _read(self, rows: list[Entry], today: Mapping[str, Any]) -> None:
        for chamber in self._chambers:
            told: Any = None
            begun = False
            start = 0
            for row in rows:
                if row.kind == STARTED:
                    start = row.seq
                    continue
                if chamber not in row.body["described"]:
                    continue
                described = row.body["described"][chamber]
                if not begun:
                    self._describe(chamber, described, 0)
                elif described != told:
                    self._redescribed.setdefault(start, {})[chamber] = described
                told, begun = described, True
            if not begun:
                self._describe(chamber, today.get(chamber), 0)
            elif today.get(chamber) != told and start > max(r.seq for r in rows if chamber in _of(r)):
                self._redescribed.setdefault(start, {})[chamber] = today.get(chamber)

    def _describe(self, chamber: str, described: Mapping[str, Any] | None, seq: int) -> None:
        self._cultures.pop(chamber, None)
        if described is not None:
            self._put(chamber, seq, described)

    def _put(self, chamber: str, seq: int, body: Mapping[str, Any]) -> None:
        count, batch, line = int(body["count"]), str(body["batch"]), str(body["cell_line"])
        diameter, age = float(body["diameter_mm"]), float(body["age_d"])
        self._cultures[chamber] = CultureInChamber(f"{chamber}#{seq}", chamber, count, batch, line, diameter, age)


def _of(row: Entry) -> Mapping[str, Any]:
    """Return what a row of tissue says of the rig file; nothing for another row."""
    return {} if row.kind == STARTED else row.body["described"]
