"""Stop stimulation while the care of the tissue has failed: tissue in trouble is not stimulated on top of it.

An interlock acts at once. An alarm holds stimulation until it is normal again, which takes both the end of its cause and the
acknowledgement of a person; shelving it does not shorten that. Which alarms hold is said by their definitions. The loss of a
device holds if hearts, gas or warmth depend on it, or if it is the array itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import Alarm, Alarms
from controller.core.state import State
from controller.gate.emergency import Emergency
from controller.process.causes import interlock_causes
from controller.process.tasks import Tasks
from controller.rig.description import Rig
from controller.safety.limits import heart_pumps

NERVES = "nerves"
"""Source of the alarm that is raised when the electrode array gives no data."""


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


def vital_devices(rig: Rig) -> frozenset[str]:
    """Return the names of the devices on which hearts, gas and warmth depend, and that of the array."""
    lung, skin = rig.organs.lung, rig.organs.skin
    points = [*heart_pumps(rig)]
    if lung is not None:
        points += [lung.air, lung.co2, lung.o2, lung.oxygen, lung.ph]
    if skin is not None:
        points += [skin.heater, skin.temperature]
    return frozenset({NERVES, *(point.partition(".")[0] for point in points)})


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
        if _holds(kind, source, vital):
            return f"an interlock acts on the rig ({kind}: {source}); stimulation rests until it ends"
    for alarm in (*alarms, *(each for each in suppressed if each.present)):
        if _holds(alarm.kind, alarm.source, vital):
            return (
                f"alarm {alarm.kind}: {alarm.source} ({alarm.detail}); stimulation rests until the cause has ended and a"
                " person has acknowledged the alarm"
            )
    return ""


def _holds(kind: str, source: str, vital: Collection[str]) -> bool:
    return DEFINITIONS[kind].holds_stimulation and (kind != "device_lost" or source in vital)
