"""The tissue record by chamber: placed, moved and removed by people, each a row of the journal.

The rig file says what lives in a chamber at first. A row changes that from its time on, as long as the rig file says the same
of the chamber as when the row was written: a person who describes the chamber again knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, time
from math import pi
from typing import Any

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.rig.description import Rig, TissueSpec

PLACED, MOVED, REMOVED = "tissue.placed", "tissue.moved", "tissue.removed"
KINDS = (PLACED, MOVED, REMOVED)
DAY_S = 86_400.0
MAX_DIAMETER_MM, MAX_AGE_D, MAX_COUNT = 6.0, 3650.0, 10_000


class TissueError(Exception):
    """An entry is not possible. The message says what, where, the likely cause and the next action."""


@dataclass(frozen=True, slots=True)
class Culture:
    """Tissue of one identity in one chamber. `age_d` is its age at `as_of_utc`, from when it has been in the chamber."""

    chamber: str
    count: int
    diameter_mm: float
    age_d: float
    batch: str
    cell_line: str
    as_of_utc: str
    by: str = ""
    """The person who put it there; empty for what the rig file describes."""
    came_from: str = ""
    """The chamber that it was moved from."""

    def aged_d(self, now: datetime) -> float:
        """Return its age at a time (d)."""
        return self.age_d + max((now - datetime.fromisoformat(self.as_of_utc)).total_seconds(), 0.0) / DAY_S


class TissueRecord:
    """Records which tissue lives in each chamber of a rig, and what people have done with it."""

    def __init__(self, rig: Rig, journal: Journal, clock: Clock) -> None:
        self._rig = rig
        self._journal = journal
        self._clock = clock
        self._described = {name: spec.model_dump(mode="json") for name, spec in rig.tissue.items()}
        first = next(journal.entries(limit=1), None)
        began = clock.utc_text() if first is None else first.utc
        self._cultures = {name: _of_file(name, spec, began) for name, spec in rig.tissue.items()}
        self._history: dict[str, list[dict[str, Any]]] = {}
        self._volumes: list[tuple[int, dict[str, float]]] = [(0, self._volumes_mm3())]
        """Tissue by chamber (mm³) after each row: number of the row, volumes."""
        self._listeners: list[Callable[[int], None]] = []
        for entry in journal.entries(kinds=KINDS):
            self._fold(entry.seq, entry.kind, entry.body, entry.utc)

    @property
    def cultures(self) -> Mapping[str, Culture]:
        """The tissue by chamber; a chamber without tissue is left out."""
        return self._cultures

    @property
    def specs(self) -> dict[str, TissueSpec]:
        """The tissue by chamber as a rig file describes it, as of now."""
        return {name: self._spec(culture) for name, culture in self._cultures.items()}

    def listen(self, changed: Callable[[int], None]) -> None:
        """Call `changed` with the number of each row that is written from now on."""
        self._listeners.append(changed)

    def volumes_mm3(self, seq: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return the tissue by chamber (mm³) before and after row `seq`."""
        after = next(n for n, (row, _) in enumerate(self._volumes) if row == seq)
        return self._volumes[after - 1][1], self._volumes[after][1]

    def place(
        self,
        chamber: str,
        *,
        count: int,
        diameter_mm: float,
        age_d: float,
        user: str,
        role: str = "",
        reason: str,
        batch: str = "",
        cell_line: str = "",
    ) -> Culture:
        """Record tissue that a person has put into an empty chamber.

        Raises:
            TissueError: there is no such chamber, it is not empty, or the figures are impossible.
        """
        self._empty(chamber)
        possible = 1 <= count <= MAX_COUNT and 0 < diameter_mm <= MAX_DIAMETER_MM and 0 <= age_d <= MAX_AGE_D
        if not possible:
            raise TissueError(
                f"{count} organoids of {diameter_mm:g} mm and {age_d:g} d in {chamber} are impossible. Likely cause: a slip,"
                " or another unit. Next: give number, diameter in mm and age in days"
            )
        body = {"count": count, "diameter_mm": diameter_mm, "age_d": age_d, "batch": batch, "cell_line": cell_line}
        self._write(PLACED, {"chamber": chamber, **body}, (chamber,), user, role, reason)
        return self._cultures[chamber]

    def move(self, source: str, target: str, *, user: str, role: str = "", reason: str) -> Culture:
        """Record that the tissue of a chamber was moved into an empty one; it keeps its identity and its age.

        Raises:
            TissueError: there is no such chamber, nothing is in it, or the other is not empty.
        """
        held = self._there(source)
        self._empty(target)
        culture = {key: getattr(held, key) for key in ("count", "diameter_mm", "batch", "cell_line")}
        body = {"chamber": source, "target": target, **culture, "age_d": held.aged_d(self._clock.utc())}
        self._write(MOVED, body, (source, target), user, role, reason)
        return self._cultures[target]

    def remove(self, chamber: str, *, user: str, role: str = "", reason: str, count: int | None = None) -> None:
        """Record that a person has taken tissue out of a chamber: `count` organoids, or all.

        Raises:
            TissueError: there is no such chamber, or not so many are in it.
        """
        held = self._there(chamber).count
        taken = held if count is None else count
        if not 1 <= taken <= held:
            raise TissueError(f"{taken} organoids cannot leave {chamber}, which holds {held}. Next: count again")
        self._write(REMOVED, {"chamber": chamber, "count": taken, "left": held - taken}, (chamber,), user, role, reason)

    def to_json(self) -> list[dict[str, Any]]:
        """Return each chamber with its tissue (None without), its age now (d) and what people did with it, oldest first."""
        now = self._clock.utc()
        found = []
        for name in (name for name, vessel in self._rig.vessels.items() if vessel.kind == "chamber"):
            culture = self._cultures.get(name)
            tissue = None if culture is None else {**asdict(culture), "aged_d": round(culture.aged_d(now), 3)}
            found.append({"chamber": name, "tissue": tissue, "history": list(self._history.get(name, ()))})
        return found

    # --- inside -----------------------------------------------------------------------------------------

    def _has(self, name: str) -> bool:
        """Return whether the rig has a chamber of this name."""
        vessel = self._rig.vessels.get(name)
        return vessel is not None and vessel.kind == "chamber"

    def _chamber(self, name: str) -> None:
        if not self._has(name):
            chambers = ", ".join(each for each, other in self._rig.vessels.items() if other.kind == "chamber")
            raise TissueError(f"no chamber is called “{name}”. Likely cause: a slip. Next: name one of {chambers}")

    def _there(self, name: str) -> Culture:
        self._chamber(name)
        if name not in self._cultures:
            raise TissueError(f"there is no tissue in {name}. Likely cause: another chamber was meant. Next: name it")
        return self._cultures[name]

    def _empty(self, name: str) -> None:
        self._chamber(name)
        if (held := self._cultures.get(name)) is not None:
            batch = f" of batch {held.batch}" if held.batch else ""
            raise TissueError(
                f"{held.count} organoids{batch} are in {name}. Likely cause: another chamber was meant, or their removal was"
                " not entered. Next: enter that they were removed or moved"
            )

    def _write(
        self, kind: str, body: Mapping[str, Any], chambers: tuple[str, ...], user: str, role: str, reason: str
    ) -> None:
        if not reason.strip():
            raise TissueError("a change of tissue needs a reason. Next: give it, such as “split for imaging”")
        described = {name: self._described.get(name) for name in chambers}
        row = {**body, "described": described, "user": user, "role": role, "reason": reason}
        seq = self._journal.append(kind, row)
        self._fold(seq, kind, row, self._clock.utc_text())
        for changed in self._listeners:
            changed(seq)

    def _volumes_mm3(self) -> dict[str, float]:
        return {name: culture.count * pi / 6 * culture.diameter_mm**3 for name, culture in self._cultures.items()}

    def _spec(self, culture: Culture) -> TissueSpec:
        now = self._clock.utc()
        return TissueSpec.model_construct(
            count=culture.count,
            diameter_mm=culture.diameter_mm,
            age_d=culture.aged_d(now),
            age_on=now.date(),
            batch=culture.batch,
            cell_line=culture.cell_line,
        )

    def _fold(self, seq: int, kind: str, body: Mapping[str, Any], utc: str) -> None:
        """Apply a row to the chambers that the rig file still describes as it did then."""
        told = {key: value for key, value in body.items() if key != "described"}
        for name in body["described"]:
            self._history.setdefault(name, []).append({"kind": kind, "utc": utc, **told})
        described = body["described"]
        valid = {name for name in described if self._has(name) and described[name] == self._described.get(name)}
        for name, culture in self._changes(kind, body, utc).items():
            if name not in valid:
                continue
            if culture is None:
                self._cultures.pop(name, None)
            else:
                self._cultures[name] = culture
        self._volumes.append((seq, self._volumes_mm3()))

    def _changes(self, kind: str, body: Mapping[str, Any], utc: str) -> dict[str, Culture | None]:
        """Return what a row leaves in each chamber that it names."""
        chamber: str = body["chamber"]
        if kind == PLACED:
            return {chamber: _of_row(chamber, body, utc)}
        if kind == MOVED:
            target: str = body["target"]
            return {chamber: None, target: _of_row(target, body, utc, came_from=chamber)}
        held = self._cultures.get(chamber)
        return {chamber: None if not body["left"] or held is None else replace(held, count=body["left"])}


def _of_file(chamber: str, spec: TissueSpec, began_utc: str) -> Culture:
    """Return what the rig file describes; without `age_on`, as of the begin of the rig's own record."""
    as_of = began_utc if spec.age_on is None else datetime.combine(spec.age_on, time(), UTC).isoformat()
    return Culture(chamber, spec.count, spec.diameter_mm, spec.age_d, spec.batch, spec.cell_line, as_of)


def _of_row(chamber: str, body: Mapping[str, Any], utc: str, *, came_from: str = "") -> Culture:
    named = (body["count"], body["diameter_mm"], body["age_d"], body["batch"], body["cell_line"])
    return Culture(chamber, *named, as_of_utc=utc, by=body["user"], came_from=came_from)
