"""What pages, clients and tests read of the parts of a controller."""

from __future__ import annotations

from typing import Any

from controller.delivery.people import People
from controller.imaging.imaging import Imaging
from controller.process.core import ControllerCore
from controller.process.outside import NervesWatch
from controller.upkeep.probe_health import ProbeHealthWatch
from controller.vitals.scoring import Scoring, last_grade
from nerves.summary import NervesSource, NervesSummary


class Observed(ControllerCore):
    """Gives what the parts know; None or nothing where there is no such part, and before the start."""

    @property
    def imaging(self) -> Imaging | None:
        """The cameras."""
        return self.find(Imaging)

    @property
    def people(self) -> People | None:
        """The delivery of alarms to people."""
        return self.find(People)

    @property
    def nerves(self) -> NervesSource | None:
        """The electrode engine."""
        return None if (watch := self.find(NervesWatch)) is None else watch.source

    @property
    def nerves_summary(self) -> NervesSummary | None:
        """The present summary of the electrode engine; None if it has sent nothing recently."""
        return None if (watch := self.find(NervesWatch)) is None else watch.summary

    @property
    def scores(self) -> dict[str, Any] | None:
        """The latest scores (:meth:`controller.vitals.scores.Scores.to_json`)."""
        return None if (scoring := self.find(Scoring)) is None else scoring.latest

    @property
    def electrode_deviations(self) -> tuple[float, ...]:
        """Distance of each electrode's rate from its own baseline, in spreads; NaN where it is not known."""
        return () if (scoring := self.find(Scoring)) is None else scoring.electrode_deviations

    def last_grade(self) -> dict[str, Any] | None:
        """Return the note of the last graded batch: grade, limiting variable, reasons, variables, estimate."""
        return last_grade(self.journal)

    def probe_health(self) -> list[dict[str, Any]]:
        """Return what each probe last reported of its health."""
        return [] if (watch := self.find(ProbeHealthWatch)) is None else watch.to_json()
