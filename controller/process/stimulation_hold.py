"""Stop stimulation while the care of the tissue has failed: tissue in trouble is not stimulated on top of it.

An interlock acts at once. An alarm holds stimulation until it is normal again, which takes both the end of its cause and the
acknowledgement of a person; shelving it does not shorten that. Which alarms hold: :mod:`controller.alarms.care`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.alarms.care import ends_care, vital_devices
from controller.alarms.states import Alarm, Alarms
from controller.core.state import State
from controller.gate.emergency import Emergency
from controller.process.causes import interlock_causes
from controller.process.tasks import Tasks
from controller.rig.description import Rig


class StimulationHold:
    """Looks at the rig with each tick and orders the stop of stimulation, and its end, through the emergency stop."""

    def __init__(self, rig: Rig, alarms: Alarms, emergency: Emergency, tasks: Tasks) -> None:
        self._vital = vital_devices(rig)
        self._alarms = alarms
        self._emergency = emergency
        self._tasks = tasks

    def look(self, state: State) -> None:
        """Put into force what the state of this tick requires."""
        tripped = interlock_causes(state.trips, ())
        why = why_held(tripped, self._alarms.active(), self._alarms.suppressed(), self._vital)
        if bool(why) != bool(self._emergency.held) and not self._tasks.running("stimulation"):
            self._tasks.start("stimulation", self._emergency.hold_stimulation(why))


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
