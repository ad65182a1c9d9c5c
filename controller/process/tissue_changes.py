"""Changes of tissue that people make: checked against the hazard table of the rig that results, then recorded."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.clock import Clock
from controller.hazards.table import hazards_of
from controller.hazards.terms import HazardVerdict
from controller.journal.journal import Journal
from controller.rig.description import Rig, TissueSpec
from controller.tissue.record import Culture, TissueError, TissueRecord


class TissueUnsafe(TissueError):
    """The rig does not protect the tissue in its new place; the message names each gap."""


class TissueChanges:
    """The changes of tissue of one rig. A change that was made already is entered with `sure`; an alarm stays then."""

    def __init__(self, rig: Rig, journal: Journal, clock: Clock) -> None:
        self._rig = rig
        self.record = TissueRecord(rig, journal, clock)
        self.causes: Mapping[tuple[str, str], str] = {}
        """Causes of the alarm `tissue_unsafe`."""
        self.record.listen(lambda _: self._look())
        self._look()

    def place(
        self,
        chamber: str,
        *,
        count: int,
        diameter_mm: float,
        age_d: float,
        user: str,
        role: str,
        reason: str,
        batch: str = "",
        cell_line: str = "",
        sure: bool = False,
    ) -> Culture:
        """Record tissue that was put into an empty chamber.

        Raises:
            TissueUnsafe: The rig does not protect it there, and `sure` is false.
            TissueError: The record refuses it.
        """
        spec = TissueSpec.model_construct(count=count, diameter_mm=diameter_mm, age_d=age_d)
        self._require_safe({**self.record.specs, chamber: spec}, chamber, sure=sure)
        told = {"batch": batch, "cell_line": cell_line, "user": user, "role": role, "reason": reason}
        return self.record.place(chamber, count=count, diameter_mm=diameter_mm, age_d=age_d, **told)

    def move(self, source: str, target: str, *, user: str, role: str, reason: str, sure: bool = False) -> Culture:
        """Record that the tissue of a chamber was moved into an empty one.

        Raises:
            TissueUnsafe: The rig does not protect it there, and `sure` is false.
            TissueError: The record refuses it.
        """
        after = self.record.specs
        if source in after:
            after[target] = after.pop(source)
            self._require_safe(after, target, sure=sure)
        return self.record.move(source, target, user=user, role=role, reason=reason)

    def remove(self, chamber: str, *, user: str, role: str, reason: str, count: int | None = None) -> None:
        """Record that tissue was taken out of a chamber; raise :class:`TissueError` where the record refuses it."""
        self.record.remove(chamber, user=user, role=role, reason=reason, count=count)

    # --- inside -----------------------------------------------------------------------------------------

    def _require_safe(self, tissue: Mapping[str, TissueSpec], chamber: str, *, sure: bool) -> None:
        vessel = self._rig.vessels.get(chamber)
        if sure or vessel is None or vessel.kind != "chamber":
            return  # the record refuses what is no chamber
        if gaps := self._new_gaps(tissue):
            raise TissueUnsafe(
                f"the rig does not protect tissue in {chamber}: {'; '.join(gaps)}. Likely cause: nothing perfuses or watches"
                " that chamber, or its set-points are for less tissue. Next: choose another chamber, or change the rig; if it"
                " is there already, enter it with --sure"
            )

    def _new_gaps(self, tissue: Mapping[str, TissueSpec]) -> list[str]:
        """Return the gaps that the rig does not have as its file describes it: those were judged when it was loaded."""
        described = self._rig.tissue
        if {name: _size(of) for name, of in tissue.items()} == {name: _size(of) for name, of in described.items()}:
            return []
        known = set(self._gaps(described))
        return [gap for gap in self._gaps(tissue) if gap not in known]

    def _gaps(self, tissue: Mapping[str, TissueSpec]) -> list[str]:
        """Return what the hazard table lacks with `tissue` in the chambers."""
        rows = hazards_of(self._rig.model_copy(update={"tissue": dict(tissue)}))
        return [f"{gap.what}. {gap.fix}" for row in rows if row.verdict is HazardVerdict.GAP for gap in row.gaps]

    def _look(self) -> None:
        gaps = self._new_gaps(self.record.specs)
        self.causes = {("tissue_unsafe", self._rig.name): "; ".join(gaps)} if gaps else {}


def _size(tissue: TissueSpec) -> tuple[int, float]:
    """Return what the hazard table takes into account."""
    return tissue.count, tissue.diameter_mm
