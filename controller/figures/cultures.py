"""Which culture was in each chamber at each row of the journal: described by the rig file, placed, moved, removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.figures.transfers import seconds
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
    begun_utc: str
    """When it came into the rig: when it was placed, or the begin of the journal or of the rig file that describes it."""


class Occupancy:
    """The cultures by chamber, row by row. Rows of :data:`CULTURE_ROWS` are applied in their order.

    A row holds what the rig file said of its chambers when it was written. Where two rows differ in that, the rig file was
    changed between them, and a new culture begins with the start of the controller between them.
    """

    def __init__(self, rig: Rig, rows: Iterable[Entry], begun_utc: str = "") -> None:
        """Read the rows of the whole journal; the state is that before its first row, which was written at `begun_utc`."""
        self._chambers = [name for name, vessel in rig.vessels.items() if vessel.kind == "chamber"]
        self._cultures: dict[str, CultureInChamber] = {}
        today = {name: spec.model_dump(mode="json") for name, spec in rig.tissue.items()}
        self._redescribed: dict[int, dict[str, Any]] = {}
        """By number of the row of a start: what the rig file said from then on."""
        self._begun_utc = begun_utc
        self._read(list(rows), today)
        self._past: list[tuple[float, Mapping[str, CultureInChamber]]] = []
        """Times of the rows that changed something (UTC s), each with the cultures before it, oldest first."""

    @property
    def cultures(self) -> Mapping[str, CultureInChamber]:
        """The cultures by chamber; a chamber without tissue is left out."""
        return self._cultures

    def concerned(self, places: Iterable[str], at: float | None = None) -> list[CultureInChamber]:
        """Return the cultures in the chambers among `places`; without a chamber among them, all cultures of the rig.

        Args:
            places: Names of vessels.
            at: A time up to now (UTC s), for what was in the chambers then.
        """
        held: Mapping[str, CultureInChamber] = self._cultures
        if at is not None:
            held = next((before for changed, before in self._past if at < changed), held)
        named = [name for name in self._chambers if name in set(places)]
        return [held[name] for name in named or self._chambers if name in held]

    def apply(self, row: Entry) -> None:
        """Apply a row."""
        before = dict(self._cultures)
        self._apply(row)
        if self._cultures != before:
            self._past.append((seconds(row.utc), before))

    # --- inside -----------------------------------------------------------------------------------------

    def _apply(self, row: Entry) -> None:
        for chamber, described in self._redescribed.get(row.seq, {}).items():
            self._describe(chamber, described, row.seq, row.utc)
        body = row.body
        if row.kind == PLACED:
            self._put(str(body["chamber"]), row.seq, row.utc, body)
        elif row.kind == MOVED:
            source, target = str(body["chamber"]), str(body["target"])
            if (moved := self._cultures.pop(source, None)) is None:
                self._put(target, row.seq, row.utc, body)
            else:
                self._cultures[target] = replace(moved, chamber=target)
        elif row.kind in TISSUE_ROWS:
            chamber = str(body["chamber"])
            if (held := self._cultures.pop(chamber, None)) is not None and body["left"]:
                self._cultures[chamber] = replace(held, organoids=int(body["left"]))

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
                    self._describe(chamber, described, 0, self._begun_utc)
                elif described != told:
                    self._redescribed.setdefault(start, {})[chamber] = described
                told, begun = described, True
            if not begun:
                self._describe(chamber, today.get(chamber), 0, self._begun_utc)
            elif today.get(chamber) != told and start > max(r.seq for r in rows if chamber in _of(r)):
                self._redescribed.setdefault(start, {})[chamber] = today.get(chamber)

    def _describe(self, chamber: str, described: Mapping[str, Any] | None, seq: int, utc: str) -> None:
        self._cultures.pop(chamber, None)
        if described is not None:
            self._put(chamber, seq, utc, described)

    def _put(self, chamber: str, seq: int, utc: str, body: Mapping[str, Any]) -> None:
        count, batch, line = int(body["count"]), str(body["batch"]), str(body["cell_line"])
        diameter, age = float(body["diameter_mm"]), float(body["age_d"])
        self._cultures[chamber] = CultureInChamber(f"{chamber}#{seq}", chamber, count, batch, line, diameter, age, utc)


def _of(row: Entry) -> Mapping[str, Any]:
    """Return what a row of tissue says of the rig file; nothing for another row."""
    return {} if row.kind == STARTED else row.body["described"]
