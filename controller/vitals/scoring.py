"""Schedule of the scores of a running rig: when they are computed, recorded and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.alarms.care import FailedCare
from controller.alarms.states import Alarms
from controller.core.state import State
from controller.journal.journal import Journal
from controller.vitals.score_rows import ROW as SCORES_ROW
from controller.vitals.scores import Scores
from controller.vitals.vitals import VitalSigns, disturbance
from nerves.summary import NervesSummary
from protocols.tissue_loss import TissueLoss

EVERY_S = 60.0
RECORD_EVERY_S = 3600.0


class Scoring:
    """Computes the scores once a minute and records them once an hour."""

    def __init__(
        self,
        vitals: VitalSigns | None,
        *,
        care: FailedCare,
        record: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """Begin without scores.

        Args:
            vitals: The inputs of the scores; None on a rig that has none (:func:`controller.vitals.vitals.why_unscored`).
            care: Names what fails at each tick.
            record: Writes to the journal and never fails.
        """
        self._vitals = vitals
        self._care = care
        self._failed: tuple[str, ...] = ()
        self._record = record
        self._next_s = 0.0
        self._next_row_s = 0.0
        self._scores: Scores | None = None
        self._latest: dict[str, Any] | None = None

    @property
    def concerns(self) -> Mapping[tuple[str, str], str]:
        """What a person should examine in the tissue, by kind and source of alarm."""
        if self._vitals is None:
            return {}
        firing = self._vitals.firing
        found = {
            ("viability_loss", "tissue"): self._vitals.loss,
            ("activity_fall", "nerves"): self._vitals.concern,
            ("hypersynchrony", "nerves"): firing.hypersynchrony,
            ("response_lost", "nerves"): firing.lost_response,
            **self._vitals.faults.causes,
        }
        return {alarm: text for alarm, text in found.items() if text}

    @property
    def tissue_loss(self) -> TissueLoss | None:
        """What the estimate of the tissue says of a loss of viability; None on a rig without scores."""
        return None if self._vitals is None else self._vitals.tissue_loss

    @property
    def electrode_deviations(self) -> tuple[float, ...]:
        """:attr:`controller.vitals.firing.FiringSigns.electrode_scores`; empty on a rig without scores."""
        return () if self._vitals is None else self._vitals.firing.electrode_scores

    @property
    def latest(self) -> dict[str, Any] | None:
        """The latest scores (:meth:`controller.vitals.scores.Scores.to_json`); None before the first."""
        if self._latest is None and self._scores is not None:
            self._latest = self._scores.to_json(self._failed)
        return self._latest

    def update(self, state: State, summary: NervesSummary | None, alarms: Alarms) -> None:
        """Compute the scores when it is time. A failure changes what is said of the tissue at once, not at the next score."""
        if self._vitals is None:
            return
        self._vitals.restore_some()
        active = alarms.active()
        failed = self._care.now(state, active, alarms.suppressed())
        if failed != self._failed:
            self._failed, self._latest = failed, None
        if state.at_s < self._next_s:
            return
        self._next_s = state.at_s + EVERY_S
        why_unusual = disturbance(state.trips, active)
        self._scores = self._vitals.score(state, summary, why_unusual)
        self._latest = None
        if self._vitals.faults.reasons:  # what cannot be computed is tried each minute, not only when it is read
            self._latest = self._scores.to_json(self._failed)
        if state.at_s >= self._next_row_s:
            self._next_row_s = state.at_s + RECORD_EVERY_S
            self._record(SCORES_ROW, self._scores.to_json(self._failed))


def last_grade(journal: Journal) -> dict[str, Any] | None:
    """Return the note of the last graded batch: grade, limiting variable, reasons, variables, estimate."""
    row = journal.last("note.grade")
    return None if row is None else {"utc": row.utc, **row.body}
