"""Rules of escalation: who is notified of an alarm, and when. Pure: without clock, files or channels.

An unacknowledged alarm goes to the channels of the first step at once. Without acknowledgement the next step follows after a
third of the alarm's time to respond. After the last step all are notified again, at longer intervals. A step is skipped if no
channel takes the alarm, or if the alarm is critical and no channel of the step could deliver it (L5). Acknowledgement, and
the alarm's return to normal, end the escalation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.alarms.definitions import DEFINITIONS, URGENCY, Priority
from controller.alarms.states import Alarm, AlarmState
from controller.rig.notify import DAYS, ChannelSpec, NotifySpec, Quiet

MIN_WAIT_S = 60.0
MAX_WAIT_S: dict[Priority, float] = {"critical": 300.0, "high": 1800.0, "medium": 14_400.0, "low": 86_400.0}
REPEAT_S: dict[Priority, float] = {"critical": 900.0, "high": 7200.0, "medium": 86_400.0, "low": 7 * 86_400.0}
"""Time after the last step until all are notified again (s)."""
RETURN_STABLE_S = 600.0
"""Time (s) that a return to normal must last before it is notified; a flickering cause notifies nothing (L3)."""
FLOOD_ALARMS, FLOOD_S = 10, 600.0
"""ISA-18.2: more than ten alarms in ten minutes are a flood; one person cannot respond to them one by one."""

UNACKNOWLEDGED, RETURNED = AlarmState.UNACKNOWLEDGED, AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED


@dataclass(slots=True)
class Case:
    """One alarm from its raising until its last notification. Times are monotonic (s)."""

    alarm: Alarm
    state_since_s: float
    step: int = 0
    step_since_s: float = 0.0
    round: int = 0
    told: dict[str, int] = field(default_factory=dict)
    """The last round that each channel has confirmed."""
    failed: set[str] = field(default_factory=set)
    """Channels whose latest attempt in this step failed."""
    closing: dict[str, str] = field(default_factory=dict)
    """The end state that each channel has confirmed."""

    @property
    def id(self) -> str:
        """The alarm's id."""
        return self.alarm.id

    @property
    def undelivered(self) -> bool:
        """Whether no channel has confirmed it."""
        return not self.told

    def delivered(self, channel: str, round_: int, *, ok: bool) -> None:
        """Record the result of an attempt to deliver the alarm in a round."""
        if ok:
            self.told[channel] = max(self.told.get(channel, -1), round_)
            self.failed.discard(channel)
        else:
            self.failed.add(channel)


def wait_s(spec: NotifySpec, priority: Priority, kind: str) -> float:
    """Return how long a step waits for acknowledgement (s)."""
    chosen = spec.escalate_after.of(priority)
    if chosen is not None:
        return chosen
    return min(max(DEFINITIONS[kind].respond_within_s / 3.0, MIN_WAIT_S), MAX_WAIT_S[priority])


def repeat_s(spec: NotifySpec, priority: Priority) -> float:
    """Return the time after the last step until all are notified again (s)."""
    return spec.repeat.of(priority) or REPEAT_S[priority]


def is_quiet(quiet: Quiet | None, local: datetime) -> bool:
    """Return whether `local` lies in the quiet hours; hours over midnight belong to the day on which they begin."""
    if quiet is None:
        return False
    now, today = local.time().replace(tzinfo=None), DAYS[local.weekday()]
    if quiet.begin <= quiet.end:
        return today in quiet.days and quiet.begin <= now < quiet.end
    yesterday = DAYS[(local - timedelta(days=1)).weekday()]
    return (today in quiet.days and now >= quiet.begin) or (yesterday in quiet.days and now < quiet.end)


def takes(channel: ChannelSpec, priority: Priority, local: datetime) -> bool:
    """Return whether a channel is used for this priority now. Quiet hours never hold back a critical alarm."""
    if URGENCY[priority] > URGENCY[channel.min_priority]:
        return False
    return priority == "critical" or not is_quiet(channel.quiet, local)


def advance(case: Case, spec: NotifySpec, now_s: float, local: datetime) -> bool:
    """Go on to the next step or round if it is time. Return whether anything changed."""
    alarm = case.alarm
    if alarm.state is not UNACKNOWLEDGED and not (alarm.state is RETURNED and case.undelivered):
        return False
    waits, changed = alarm.state is UNACKNOWLEDGED, False
    while case.step < len(spec.steps) - 1:
        if _step_goes_on(case, spec, now_s, local, waits=waits):
            return changed
        case.step, case.step_since_s, changed = case.step + 1, now_s, True
        case.failed.clear()
    if waits and now_s - case.step_since_s >= repeat_s(spec, alarm.priority):
        start_round(case, now_s)
        changed = True
    return changed


def _step_goes_on(case: Case, spec: NotifySpec, now_s: float, local: datetime, *, waits: bool) -> bool:
    """Return whether the present step has a channel that takes the alarm, and time left."""
    alarm = case.alarm
    willing = [name for name in spec.steps[case.step] if takes(spec.channels[name], alarm.priority, local)]
    reached = [name for name in willing if case.told.get(name) == case.round]
    undelivered = alarm.priority == "critical" and not reached and case.failed.issuperset(willing)
    over = waits and now_s - case.step_since_s >= wait_s(spec, alarm.priority, alarm.kind)
    return bool(willing) and not undelivered and not over


def start_round(case: Case, now_s: float) -> None:
    """Notify all again, from the first step."""
    case.round, case.step, case.step_since_s = case.round + 1, 0, now_s
    case.failed.clear()


def due(case: Case, spec: NotifySpec, channel: str, local: datetime) -> bool:
    """Return whether this channel has to be notified of the alarm itself."""
    alarm = case.alarm
    if not takes(spec.channels[channel], alarm.priority, local):
        return False
    if channel not in {name for step in spec.steps[: case.step + 1] for name in step}:
        return False
    if alarm.state is UNACKNOWLEDGED:
        return case.told.get(channel, -1) < case.round
    return alarm.state is RETURNED and case.undelivered


def closing_due(case: Case, spec: NotifySpec, channel: str, now_s: float, local: datetime) -> bool:
    """Return whether this channel was notified of an urgent alarm and has to be notified of its end."""
    alarm = case.alarm
    if channel not in case.told or URGENCY[alarm.priority] > URGENCY["high"]:
        return False
    if alarm.state is UNACKNOWLEDGED or case.closing.get(channel) == alarm.state.value:
        return False
    if alarm.state is RETURNED and now_s - case.state_since_s < RETURN_STABLE_S:
        return False
    if alarm.state is AlarmState.SUPPRESSED_BY_DESIGN:
        return False
    return takes(spec.channels[channel], alarm.priority, local)


def over(case: Case, spec: NotifySpec, now_s: float, local: datetime) -> bool:
    """Return whether nothing remains to be notified of an alarm that is no longer announced."""
    return not any(closing_due(case, spec, name, now_s, local) for name in spec.channels)


def follow(case: Case, alarm: Alarm, now_s: float) -> bool:
    """Update the case with the present alarm. Return whether its state changed."""
    before = case.alarm.state
    case.alarm = alarm
    if alarm.state is before:
        return False
    case.state_since_s = now_s
    if alarm.state is UNACKNOWLEDGED:  # it is back: a channel that was notified of its end is notified again
        if RETURNED.value in case.closing.values():
            start_round(case, now_s)
        case.closing.clear()
    return True
