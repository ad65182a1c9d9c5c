"""What judges tissue, medium and probes: scores, health of probes, analysers."""

from __future__ import annotations

from controller.alarms.care import FailedCare
from controller.analysers.analysers import Analysers
from controller.process.core import ControllerCore
from controller.process.outside import NervesWatch
from controller.process.part import Part, TickStage
from controller.process.registry import part
from controller.upkeep.probe_health import ProbeHealthWatch
from controller.vitals.scoring import Scoring, last_grade
from controller.vitals.vitals import vital_signs
from nerves.summary import NervesSummary


@part(TickStage.JUDGE)
def scores(core: ControllerCore) -> Part:
    """Make the scores of viability and care."""
    vitals = vital_signs(
        core.rig,
        core.runs.estimator,
        grade=lambda: last_grade(core.journal),
        journal=core.journal,
        clock=core.clock,
    )
    scoring = core.provide(Scoring(vitals, care=FailedCare(core.rig), record=core.record))

    def summary() -> NervesSummary | None:
        nerves = core.find(NervesWatch)
        return None if nerves is None else nerves.summary

    return Part(
        "scores",
        update=lambda state: scoring.update(state, summary(), core.alarms),
        causes=lambda: scoring.concerns,
        describe=lambda: scoring.latest,
    )


@part(TickStage.JUDGE)
def health_of_probes(core: ControllerCore) -> Part | None:
    """Make the watch over the health that probes report of themselves."""
    if not core.devices.health:
        return None
    links = {name: spec.link for name, spec in core.rig.devices.items()}
    watch = ProbeHealthWatch(core.devices.health, links, record=core.record, clock=core.clock, start=core.tasks.start)
    core.provide(watch)
    return Part("health of probes", update=watch.update, causes=lambda: watch.causes, describe=watch.to_json)


@part(TickStage.JUDGE)
def analysers(core: ControllerCore) -> Part | None:
    """Make the way of at-line results into the assays."""
    if not core.devices.results:
        return None
    made = Analysers(
        core.rig,
        core.devices.results,
        enter=core.runs.enter_assay,
        book=core.assays.book,
        journal=core.journal,
        clock=core.clock,
        alarm=core.alarms.event,
        start=core.tasks.start,
    )
    return Part("analysers", update=lambda state: made.update(state.at_s), causes=lambda: made.causes)
