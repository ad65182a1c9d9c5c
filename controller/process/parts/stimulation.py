"""Stop stimulation while the care of the tissue has failed: tissue in trouble is not stimulated on top of it.

An interlock acts at once. An alarm holds stimulation until it is normal again, which takes both the end of its cause and the
acknowledgement of a person; shelving it does not shorten that. Which alarms hold: :mod:`controller.alarms.care`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.alarms.care import ends_care, vital_devices
from controller.alarms.definitions import alarm_kind
from controller.alarms.states import Alarm
from controller.core.state import State
from controller.process.core import ControllerCore
from controller.process.part import Causes, Part, TickStage
from controller.process.registry import part


@part(TickStage.HOLD)
def stimulation(core: ControllerCore) -> Part:
    """Make the hold of stimulation: it is ordered, and ended, through the emergency stop."""
    vital = vital_devices(core.rig)

    def update(state: State) -> None:
        tripped = [(kind, trip.point) for trip in state.trips if (kind := alarm_kind(trip.interlock))]
        why = why_held(tripped, core.alarms.active(), core.alarms.suppressed(), vital)
        if bool(why) != bool(core.emergency.held) and not core.tasks.running("stimulation"):
            core.tasks.start("stimulation", core.emergency.hold_stimulation(why))

    return Part("stimulation", update=update)


@part(TickStage.REPORT)
def stimulator(core: ControllerCore) -> Part | None:
    """Make the alarms about what stimulates: its ledger, its electrode card, its recordings."""
    engine = core.stimulator
    if engine is None:
        return None

    def causes() -> Causes:
        found = {
            ("stimulation_ledger_lost", "stimulation ledger"): engine.ledger_problem,
            ("device_lost", "electrode card"): engine.card_problem,
            ("recording_incomplete", "electrode array"): engine.recording_problem,
        }
        return {cause: problem for cause, problem in found.items() if problem}

    return Part("stimulator", causes=causes)


def why_held(
    tripped: Iterable[tuple[str, str]], alarms: Iterable[Alarm], suppressed: Iterable[Alarm], vital: Collection[str]
) -> str:
    """Return why stimulation has to rest, or an empty text.

    Args:
        tripped: Kind of alarm and source of each interlock that acts.
        alarms: The announced alarms, the most urgent first.
        suppressed: The alarms that are shelved, suppressed by design or out of service.
        vital: The devices whose loss holds stimulation.
    """
    for kind, source in tripped:
        if ends_care(kind, source, vital):
            return f"an interlock acts on the rig ({kind}: {source}); stimulation rests until it ends"
    for alarm in (*alarms, *(each for each in suppressed if each.present)):
        if ends_care(alarm.kind, alarm.source, vital):
            return (
                f"alarm {alarm.kind}: {alarm.source} ({alarm.detail}); stimulation rests until the cause has ended and a"
                " person has acknowledged the alarm"
            )
    return ""
