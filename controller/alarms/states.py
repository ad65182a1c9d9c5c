"""The states of every alarm (ISA-18.2).

Announced: unacknowledged, acknowledged, return-to-normal unacknowledged. Suppressed: shelved by an operator for a limited
time, suppressed by design while a more urgent alarm has the same cause, out of service until an engineer returns it. All
others are normal. The off-delay of an alarm that chatters grows, so that a flickering cause makes few notices (L3). A journal
that cannot be written silences no alarm, and a restart forgets none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from controller.alarms.definitions import DEFINITIONS, URGENCY, Definition, Priority
from controller.journal.terms import Entry

logger = logging.getLogger(__name__)

CHATTER_WITHIN_S = 3600.0
CHATTER_AFTER = 3
MAX_DOUBLINGS = 7
"""From the fourth occurrence within an hour on, an alarm's off-delay doubles each time, up to 2⁷ times."""

MAX_ENDED = 200
"""Maximum number of ended alarms that are remembered, for the people who were notified of them."""

MAX_SHELF_S: dict[Priority, float] = {"critical": 3600.0, "high": 8 * 3600.0, "medium": 86_400.0, "low": 7 * 86_400.0}
"""Maximum shelving time by priority (s) (L4)."""

ROWS = (
    "alarm.raised", "alarm.unacknowledged", "alarm.acknowledged", "alarm.return_to_normal_unacknowledged", "alarm.normal",
    "alarm.shelved", "alarm.suppressed_by_design", "alarm.out_of_service",
)  # fmt: skip
"""Kinds of journal rows about alarm states."""


class AlarmState(StrEnum):
    """The state of one alarm."""

    NORMAL = "normal"
    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    RETURN_TO_NORMAL_UNACKNOWLEDGED = "return_to_normal_unacknowledged"
    """The cause is gone and the alarm is not acknowledged yet."""
    SHELVED = "shelved"
    SUPPRESSED_BY_DESIGN = "suppressed_by_design"
    OUT_OF_SERVICE = "out_of_service"


SUPPRESSED = (AlarmState.SHELVED, AlarmState.SUPPRESSED_BY_DESIGN, AlarmState.OUT_OF_SERVICE)


class ShelfError(ValueError):
    """An alarm cannot be suppressed, or returned, in this way."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm that is not normal."""

    id: str
    kind: str
    source: str
    state: AlarmState
    priority: Priority
    detail: str
    raised_utc: str
    raised_s: float
    consequence: str
    response: str
    respond_within: str
    acknowledged_by: str = ""
    times: int = 1
    """Number of events since the last acknowledgement."""
    suppressed_by: str = ""
    """Who shelved it or took it out of service; empty if it is suppressed by design."""
    suppression_reason: str = ""
    until_utc: str = ""
    """End of its shelving time."""
    until_s: float = float("inf")
    present: bool = False
    """While suppressed: whether it would be announced now."""


def _made(kind: str, source: str, detail: str, raised_utc: str, raised_s: float) -> Alarm:
    definition = DEFINITIONS[kind]
    return Alarm(
        f"{kind}:{source}",
        kind,
        source,
        AlarmState.UNACKNOWLEDGED,
        definition.priority,
        detail,
        raised_utc,
        raised_s,
        definition.consequence,
        definition.response,
        definition.respond_within,
    )


class Alarms:
    """All alarms of a rig. `record` writes to the journal; `utc` comes from the clock."""

    def __init__(self, record: Callable[[str, Mapping[str, Any]], object], utc: Callable[[], str]) -> None:
        self._record = record
        self._utc = utc
        self._alarms: dict[str, Alarm] = {}
        self._suppressed: dict[str, Alarm] = {}
        self._pending_on: dict[str, float] = {}
        self._pending_off: dict[str, float] = {}
        self._beginnings: dict[str, list[float]] = {}
        self._ended: dict[str, Alarm] = {}
        self._now_s = 0.0
        self.raised = 0

    def restore(self, rows: Iterable[Entry], now_s: float) -> None:
        """Restore the states at the end of the last process from its journal rows :data:`ROWS`. Writes none."""
        self._now_s = now_s
        now = datetime.fromisoformat(self._utc())
        for row in rows:
            identifier = row.body["alarm"]
            kind, _, source = identifier.partition(":")
            if kind not in DEFINITIONS:
                continue  # an alarm of another release
            known = self._alarms.get(identifier)
            event = row.kind.removeprefix("alarm.")
            if event == "raised":
                gone_s = max((now - datetime.fromisoformat(row.utc)).total_seconds(), 0.0)
                self._alarms[identifier] = _made(kind, source, row.body["detail"], row.utc, now_s - gone_s)
                continue
            state = AlarmState(event)
            if state is AlarmState.NORMAL:
                self._alarms.pop(identifier, None)
                self._suppressed.pop(identifier, None)
            elif state in SUPPRESSED:
                self._alarms.pop(identifier, None)
                until_utc = row.body.get("until_utc", "")
                left_s = (datetime.fromisoformat(until_utc) - now).total_seconds() if until_utc else float("inf")
                self._suppressed[identifier] = replace(
                    known or _made(kind, source, row.body.get("detail", ""), row.utc, now_s),
                    state=state,
                    suppressed_by=row.body.get("user", ""),
                    suppression_reason=row.body.get("reason", ""),
                    until_utc=until_utc,
                    until_s=now_s + left_s,
                    present=bool(row.body.get("present", False)),
                )
            elif known is not None:
                user = row.body.get("user", known.acknowledged_by)
                self._alarms[identifier] = replace(known, state=state, acknowledged_by=user)

    def active(self) -> list[Alarm]:
        """Return every announced alarm, the most urgent first."""
        return sorted(self._alarms.values(), key=_urgency)

    def suppressed(self) -> list[Alarm]:
        """Return every alarm that is shelved, suppressed by design or out of service, the most urgent first."""
        return sorted(self._suppressed.values(), key=_urgency)

    def ended(self, identifier: str) -> Alarm | None:
        """Return an alarm that was recently acknowledged to normal, with the name of the person."""
        return self._ended.get(identifier)

    def event(self, kind: str, source: str, detail: str) -> None:
        """Raise an event, which stays until it is acknowledged. Never raises an exception."""
        if kind not in DEFINITIONS:
            kind, detail = "defect", f"{kind}: {detail}"
        identifier = f"{kind}:{source}"
        known, suppressed = self._alarms.get(identifier), self._suppressed.get(identifier)
        if suppressed is not None:
            times = suppressed.times + 1 if suppressed.present else 1
            self._suppressed[identifier] = replace(suppressed, detail=detail, times=times, present=True)
            if not suppressed.present:
                self._row_suppressed(self._suppressed[identifier])  # a restart must not forget that it happened
        elif known is None:
            self._raise(identifier, kind, source, detail)
        else:
            self._alarms[identifier] = replace(known, detail=detail, times=known.times + 1)

    def levels(
        self, present: Mapping[tuple[str, str], str], now_s: float, unseen: Collection[tuple[str, str]] = ()
    ) -> None:
        """Process the causes that are present now; raise, return and clear alarms by their delays.

        Args:
            present: detail by (kind, source).
            now_s: loop time (s).
            unseen: causes whose presence is unknown now: their alarms keep their state.
        """
        self._now_s = now_s
        if not any((present, self._alarms, self._pending_on, self._suppressed)):
            return
        here = {f"{kind}:{source}": (kind, source, detail) for (kind, source), detail in present.items()}
        dark = {f"{kind}:{source}" for kind, source in unseen}
        announced = {
            alarm.kind
            for alarm in self._alarms.values()
            if alarm.state is not AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
        }
        self._suppress_by_design(here, announced)
        self._follow_suppressed(here, dark, announced)
        self._look_for_causes(here)
        for identifier in self._pending_on.keys() - here.keys() - dark:
            del self._pending_on[identifier]
        for identifier, alarm in list(self._alarms.items()):
            if identifier not in here:
                self._without_cause(alarm, dark)

    def _without_cause(self, alarm: Alarm, dark: Collection[str]) -> None:
        """Let an alarm whose cause is not present return to normal after its off-delay."""
        definition = DEFINITIONS[alarm.kind]
        if definition.event or alarm.state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED:
            return
        if alarm.id in dark:
            self._pending_off.pop(alarm.id, None)
            return
        since_s = self._pending_off.setdefault(alarm.id, self._now_s)
        if self._now_s - since_s >= self._off_delay_s(alarm.id, definition):
            del self._pending_off[alarm.id]
            if alarm.state is AlarmState.ACKNOWLEDGED:
                self._clear(alarm)
            else:
                self._change(alarm, AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED)

    def acknowledge(self, identifier: str, user: str) -> Alarm:
        """Acknowledge an alarm. Raises KeyError if it is not announced."""
        alarm = self._alarms[identifier]
        if alarm.state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED or DEFINITIONS[alarm.kind].event:
            self._row("alarm.acknowledged", {"alarm": identifier, "user": user})
            self._clear(alarm)
            self._ended.pop(identifier, None)
            ended = self._ended[identifier] = replace(alarm, state=AlarmState.NORMAL, acknowledged_by=user)
            while len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]
            return ended
        if alarm.state is AlarmState.UNACKNOWLEDGED:
            self._change(alarm, AlarmState.ACKNOWLEDGED, user=user)
        return self._alarms[identifier]

    def shelve(self, identifier: str, for_s: float, user: str, reason: str) -> Alarm:
        """Shelve an alarm: do not announce it for a limited time (s). Interlocks act as before.

        Raises:
            ShelfError: for an unknown alarm, a missing reason, a time above :data:`MAX_SHELF_S`, or an alarm that is out of
                service.
        """
        max_s = MAX_SHELF_S[self._definition(identifier).priority]
        if not 0 < for_s <= max_s:
            raise ShelfError(
                f"{identifier} cannot be shelved for {for_s:g} s. Likely cause: its priority allows at most {max_s:g} s."
                " Next: choose a shorter time and shelve it again when that is over"
            )
        self._check_not_in(identifier, AlarmState.OUT_OF_SERVICE)
        until = datetime.fromisoformat(self._utc()) + timedelta(seconds=for_s)
        until_utc = until.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self._suppress(identifier, AlarmState.SHELVED, user, reason, self._now_s + for_s, until_utc)

    def take_out_of_service(self, identifier: str, user: str, reason: str) -> Alarm:
        """Do not announce an alarm until it is returned to service. Raises :class:`ShelfError` like :meth:`shelve`."""
        self._definition(identifier)
        return self._suppress(identifier, AlarmState.OUT_OF_SERVICE, user, reason, float("inf"), "")

    def bring_back(self, identifier: str, user: str) -> None:
        """End shelving or out of service. An alarm whose cause is present is announced again.

        Raises:
            ShelfError: for an alarm that is neither shelved nor out of service.
        """
        alarm = self._suppressed.get(identifier)
        if alarm is None or alarm.state is AlarmState.SUPPRESSED_BY_DESIGN:
            raise ShelfError(
                f"{identifier} is neither shelved nor out of service. Likely cause: its shelf time is over. Next: look at"
                " the list again"
            )
        self._return(alarm, user)

    def _definition(self, identifier: str) -> Definition:
        kind, _, source = identifier.partition(":")
        if kind not in DEFINITIONS or not source:
            raise ShelfError(
                f"there is no alarm “{identifier}”. Next: write KIND:SOURCE, as the list of alarms shows it"
            )
        return DEFINITIONS[kind]

    def _check_not_in(self, identifier: str, state: AlarmState) -> None:
        alarm = self._suppressed.get(identifier)
        if alarm is not None and alarm.state is state:
            raise ShelfError(f"{identifier} is {state.value.replace('_', ' ')}. Next: return it to service first")

    def _suppress(
        self, identifier: str, state: AlarmState, user: str, reason: str, until_s: float, until_utc: str
    ) -> Alarm:
        if state is not AlarmState.SUPPRESSED_BY_DESIGN and not reason.strip():
            raise ShelfError(f"{identifier} needs a reason, for the record. Next: say why it need not be announced")
        kind, _, source = identifier.partition(":")
        known = self._alarms.pop(identifier, None) or self._suppressed.get(identifier)
        self._pending_off.pop(identifier, None)
        present = known is not None and (known.present or known.state is AlarmState.UNACKNOWLEDGED)
        alarm = self._suppressed[identifier] = replace(
            known or _made(kind, source, "", self._utc(), self._now_s),
            state=state,
            suppressed_by=user,
            suppression_reason=reason,
            until_s=until_s,
            until_utc=until_utc,
            present=present,
        )
        self._row_suppressed(alarm)
        return alarm

    def _row_suppressed(self, alarm: Alarm) -> None:
        body = {"alarm": alarm.id, "reason": alarm.suppression_reason, "detail": alarm.detail, "present": alarm.present}
        body |= {"user": alarm.suppressed_by} if alarm.suppressed_by else {}
        self._row(f"alarm.{alarm.state.value}", body | ({"until_utc": alarm.until_utc} if alarm.until_utc else {}))

    def _suppress_by_design(self, here: dict[str, tuple[str, str, str]], announced: Collection[str]) -> None:
        """Suppress present causes while a more urgent alarm of the same cause is announced."""
        for identifier, (kind, _, detail) in here.items():
            more_urgent = sorted(set(DEFINITIONS[kind].suppressed_by).intersection(announced))
            if identifier not in self._suppressed and more_urgent:
                cause = ", ".join(more_urgent)
                self._suppress(identifier, AlarmState.SUPPRESSED_BY_DESIGN, "", cause, float("inf"), "")
                self._suppressed[identifier] = replace(self._suppressed[identifier], detail=detail)

    def _follow_suppressed(
        self, here: dict[str, tuple[str, str, str]], dark: Collection[str], announced: Collection[str]
    ) -> None:
        """Follow the causes of suppressed alarms, and end shelving times and suppressions that are over."""
        for identifier, alarm in list(self._suppressed.items()):
            definition = DEFINITIONS[alarm.kind]
            if not definition.event and identifier not in dark:
                detail = here[identifier][2] if identifier in here else alarm.detail
                alarm = self._suppressed[identifier] = replace(alarm, present=identifier in here, detail=detail)
            by_design = alarm.state is AlarmState.SUPPRESSED_BY_DESIGN
            over = by_design and not (alarm.present and set(definition.suppressed_by).intersection(announced))
            if over or self._now_s >= alarm.until_s:
                self._return(alarm, "")

    def _look_for_causes(self, here: dict[str, tuple[str, str, str]]) -> None:
        for identifier, (kind, source, detail) in here.items():
            if identifier in self._suppressed:
                self._pending_on.pop(identifier, None)
                continue
            self._pending_off.pop(identifier, None)
            known = self._alarms.get(identifier)
            if known is None:
                since_s = self._pending_on.setdefault(identifier, self._now_s)
                if self._now_s - since_s >= DEFINITIONS[kind].on_delay_s:
                    self._raise(identifier, kind, source, detail)
            elif known.state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED:
                self._began(identifier)
                self._change(known, AlarmState.UNACKNOWLEDGED, detail=detail)
            elif known.detail != detail:
                self._alarms[identifier] = replace(known, detail=detail)

    def _return(self, alarm: Alarm, user: str) -> None:
        """End the suppression of an alarm: unacknowledged if its cause is present, else normal."""
        del self._suppressed[alarm.id]
        self._row("alarm.normal", {"alarm": alarm.id} | ({"user": user} if user else {}))
        if alarm.present:
            self._raise(alarm.id, alarm.kind, alarm.source, alarm.detail)

    def _off_delay_s(self, identifier: str, definition: Definition) -> float:
        chatter = len(self._beginnings.get(identifier, ())) - CHATTER_AFTER
        return float(definition.off_delay_s * 2 ** min(max(chatter, 0), MAX_DOUBLINGS))

    def _began(self, identifier: str) -> None:
        earlier = self._beginnings.get(identifier, [])
        self._beginnings[identifier] = [at_s for at_s in earlier if self._now_s - at_s < CHATTER_WITHIN_S] + [
            self._now_s
        ]

    def _raise(self, identifier: str, kind: str, source: str, detail: str) -> None:
        self._pending_on.pop(identifier, None)
        self._began(identifier)
        self.raised += 1
        alarm = self._alarms[identifier] = _made(kind, source, detail, self._utc(), self._now_s)
        self._row("alarm.raised", {"alarm": identifier, "priority": alarm.priority, "detail": detail})

    def _change(self, alarm: Alarm, state: AlarmState, *, detail: str | None = None, user: str = "") -> None:
        self._alarms[alarm.id] = replace(
            alarm, state=state, detail=detail or alarm.detail, acknowledged_by=user or alarm.acknowledged_by
        )
        row: dict[str, Any] = {"alarm": alarm.id}
        self._row(f"alarm.{state.value}", row | ({"user": user} if user else {}))

    def _clear(self, alarm: Alarm) -> None:
        del self._alarms[alarm.id]
        self._row("alarm.normal", {"alarm": alarm.id})

    def _row(self, kind: str, body: Mapping[str, Any]) -> None:
        try:
            self._record(kind, body)
        except Exception:
            logger.exception("%s could not be recorded: %s", kind, body)


def _urgency(alarm: Alarm) -> tuple[int, float, str]:
    return URGENCY[alarm.priority], alarm.raised_s, alarm.id
