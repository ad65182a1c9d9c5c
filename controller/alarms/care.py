"""Which alarms mean that the care of the tissue has failed: stimulation rests then, and no statement calls the tissue well.

Which kinds do so is said by their definitions. The loss of a device counts if hearts, gas or warmth depend on it, or if it is
the array itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from controller.alarms.definitions import DEFINITIONS, alarm_kind
from controller.alarms.lines import LOST, shared_lines
from controller.alarms.states import SUPPRESSED, Alarm, AlarmState
from controller.core.state import State
from controller.rig.description import Rig
from controller.safety.limits import heart_pumps

NERVES = "nerves"
"""Source of the alarm that is raised when the electrode array gives no data."""
NO_FLOW = "no_heart_flow"


def vital_devices(rig: Rig) -> frozenset[str]:
    """Return the names of the devices on which hearts, gas and warmth depend, of their lines, and that of the array."""
    lung, skin = rig.organs.lung, rig.organs.skin
    points = [*heart_pumps(rig)]
    if lung is not None:
        points += [lung.air, lung.co2, lung.o2, lung.oxygen, lung.ph]
    if skin is not None:
        points += [skin.heater, skin.temperature]
    devices = {point.partition(".")[0] for point in points}
    lines = (line for line, members in shared_lines(rig).items() if devices & set(members))
    return frozenset({NERVES, *devices, *lines})


def ends_care(kind: str, source: str, vital: Collection[str]) -> bool:
    """Return whether the tissue may not be stimulated under an alarm; `vital` are the devices whose loss counts."""
    return DEFINITIONS[kind].holds_stimulation and (kind != LOST or source in vital)


class FailedCare:
    """Names what fails now, at each tick: tripped interlocks, alarms whose cause is present, and hearts not known to run."""

    def __init__(self, rig: Rig) -> None:
        self._vital = vital_devices(rig)
        self._hearts = tuple(heart_pumps(rig))

    def now(self, state: State, alarms: Iterable[Alarm], suppressed: Iterable[Alarm]) -> tuple[str, ...]:
        """Return each failure as text, without its changing detail.

        Args:
            state: The snapshot; its trips count before their alarm has waited for its delay.
            alarms: The announced alarms.
            suppressed: Those that are shelved, suppressed by design or out of service: they are silent, and as true.
        """
        found = [*self._tripped(state), *self._unknown_hearts(state)]
        found += [
            (alarm.kind, alarm.source)
            for alarm in (*alarms, *suppressed)
            if _present(alarm) and (_critical(alarm) or ends_care(alarm.kind, alarm.source, self._vital))
        ]
        return tuple(f"{kind.replace('_', ' ')} ({source})" for kind, source in dict.fromkeys(found))

    def _tripped(self, state: State) -> Iterator[tuple[str, str]]:
        for trip in state.trips:
            kind = alarm_kind(trip.interlock)
            if kind is not None and ends_care(kind, trip.point, self._vital):
                yield kind, trip.point

    def _unknown_hearts(self, state: State) -> Iterator[tuple[str, str]]:
        """Yield each heart whose pump was not read or has failed: its flow is unknown long before its status is stale."""
        for pump in self._hearts:
            view = state.actuators.get(pump)
            if view is None or view.fault:
                yield NO_FLOW, pump


def _present(alarm: Alarm) -> bool:
    if alarm.state in SUPPRESSED:
        return alarm.present
    return alarm.state in (AlarmState.UNACKNOWLEDGED, AlarmState.ACKNOWLEDGED)


def _critical(alarm: Alarm) -> bool:
    return alarm.priority == "critical"
