"""Texts of messages: what, where, since when (local time), what to do, by when, and the consequence otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from controller.alarms.definitions import DEFINITIONS, URGENCY, Priority
from controller.alarms.states import Alarm, AlarmState
from controller.delivery.channels import Message
from controller.delivery.escalation import Case

MAX_WHOLE = 5
"""Maximum number of alarms in full; more are summarised by priority, with the most urgent in full."""
ENDS = {
    AlarmState.ACKNOWLEDGED: "acknowledged",
    AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED: "its cause is gone; it still has to be acknowledged",
    AlarmState.NORMAL: "acknowledged, back to normal",
    AlarmState.SHELVED: "shelved",
    AlarmState.OUT_OF_SERVICE: "taken out of service",
}


def spoken(name: str) -> str:
    """Return a kind or a point as people read it."""
    return name.replace("_", " ").replace(".", " · ")


def local_text(moment: datetime, zone: ZoneInfo) -> str:
    """Return date and local time with the zone."""
    return moment.astimezone(zone).strftime("%a %d %b %Y, %H:%M:%S %Z")


def duration(seconds: float) -> str:
    """Return a duration in its largest fitting unit."""
    for unit_s, unit in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


def alarm_message(rig: str, cases: Sequence[Case], closing: Sequence[Case], now: datetime, zone: ZoneInfo) -> Message:
    """Return one message about alarms to be notified, and about alarms that have ended."""
    ordered = sorted(cases, key=lambda case: (URGENCY[case.alarm.priority], case.alarm.raised_s, case.id))
    parts = [_case_text(case, now, zone) for case in ordered[:MAX_WHOLE]]
    if len(ordered) > MAX_WHOLE:
        parts.insert(0, f"ALARM FLOOD: {len(ordered)} alarms ({_counts(ordered)}). The most urgent:")
        parts.append("The others: " + ", ".join(_name(case.alarm) for case in ordered[MAX_WHOLE : 4 * MAX_WHOLE]))
        if len(ordered) > 4 * MAX_WHOLE:
            parts[-1] += f" and {len(ordered) - 4 * MAX_WHOLE} more"
    parts += [f"{_name(case.alarm)}: {_end(case.alarm)}." for case in closing[: 4 * MAX_WHOLE]]
    parts.append(f"Rig {rig}, {local_text(now, zone)}.")
    data = {
        "rig": rig,
        "utc": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "alarms": [_data(case, now) for case in ordered],
        "ended": [{"id": case.id, "state": case.alarm.state.value} for case in closing],
    }
    priority: Priority = ordered[0].alarm.priority if ordered else "low"
    return Message(_title(rig, ordered, closing), "\n\n".join(parts), priority, data)


def channel_test_message(rig: str, channel: str, now: datetime, zone: ZoneInfo) -> Message:
    """Return the daily test message of a channel."""
    body = (
        f"This is the daily test of the channel {channel}. Nothing is wrong. If it does not come one day, alarms do not reach"
        f" you either: look at the page of the rig.\n\nRig {rig}, {local_text(now, zone)}."
    )
    utc = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Message(f"[test] {rig}: alarms reach you here", body, "low", {"rig": rig, "utc": utc, "test": channel})


def _title(rig: str, cases: Sequence[Case], closing: Sequence[Case]) -> str:
    if not cases:
        first = f"{_name(closing[0].alarm)} {ENDS.get(closing[0].alarm.state, 'ended').partition(';')[0]}"
        return f"[ended] {rig}: {first}" + (f" and {len(closing) - 1} more" if len(closing) > 1 else "")
    alarm = cases[0].alarm
    more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    return f"[{alarm.priority}] {rig}: {_name(alarm)}{more}"


def _name(alarm: Alarm) -> str:
    return f"{spoken(alarm.kind)} · {spoken(alarm.source)}"


def _case_text(case: Case, now: datetime, zone: ZoneInfo) -> str:
    alarm = case.alarm
    raised = datetime.fromisoformat(alarm.raised_utc)
    age_s = (now - raised).total_seconds()
    by = raised + timedelta(seconds=DEFINITIONS[alarm.kind].respond_within_s)
    returned = alarm.state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
    gone = " Its cause is gone by now; it is not acknowledged yet." if returned else ""
    again = f" Told again (round {case.round + 1})." if case.round else ""
    step = f" Escalated to step {case.step + 1}: it is not acknowledged yet." if case.step else ""
    return (
        f"{alarm.priority.upper()}: {_name(alarm)}\n{alarm.detail}\n"
        f"Since {local_text(raised, zone)}, {duration(age_s)} ago.{gone}{again}{step}\n"
        f"Do: {alarm.response}, by {local_text(by, zone)} (within {alarm.respond_within}).\n"
        f"Otherwise: {alarm.consequence}.\n"
        f"Acknowledge on the page, or: choroid alarm acknowledge {alarm.id}"
    )


def _end(alarm: Alarm) -> str:
    by = alarm.suppressed_by or alarm.acknowledged_by
    return ENDS.get(alarm.state, "ended") + (f" (by {by})" if by else "")


def _counts(cases: Sequence[Case]) -> str:
    counts = Counter(case.alarm.priority for case in cases)
    return ", ".join(f"{counts[priority]} {priority}" for priority in URGENCY if counts[priority])


def _data(case: Case, now: datetime) -> dict[str, Any]:
    alarm = case.alarm
    age_s = (now - datetime.fromisoformat(alarm.raised_utc)).total_seconds()
    return {
        "id": alarm.id,
        "priority": alarm.priority,
        "state": alarm.state.value,
        "detail": alarm.detail,
        "raised_utc": alarm.raised_utc,
        "age_s": round(age_s, 1),
        "response": alarm.response,
        "respond_within": alarm.respond_within,
        "consequence": alarm.consequence,
        "step": case.step + 1,
        "round": case.round + 1,
    }
