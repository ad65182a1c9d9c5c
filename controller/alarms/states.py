"""The states of every alarm (ISA-18.2).

Announced: unacknowledged, acknowledged, returned (the cause is gone and nobody has acknowledged yet). Set aside: shelved by
an operator for a limited time, suppressed by design while a more urgent alarm has the same cause, out of service until an
engineer returns it. Everything else is normal. An alarm that comes and goes takes ever longer to return, so that a
flickering cause makes few notices (L3). A journal that cannot be written silences no alarm, and a restart forgets none.
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
CHATTER_MOST = 7
"""From the fourth time within an hour on, an alarm's off-delay doubles each time, up to 2⁷ times."""

MAX_ENDED = 200
"""Alarms that have ended are remembered up to this number, for those who were told of them."""

MAX_SHELF_S: dict[Priority, float] = {"critical": 3600.0, "high": 8 * 3600.0, "medium": 86_400.0, "low": 7 * 86_400.0}
"""The longest time for which an alarm of each priority can be shelved (L4)."""

ROWS = (
    "alarm.raised", "alarm.unacknowledged", "alarm.acknowledged", "alarm.returned", "alarm.normal",
    "alarm.shelved", "alarm.suppressed", "alarm.out_of_service",
)  # fmt: skip
"""Kinds of journal rows that tell the life of alarms."""


class AlarmState(StrEnum):
    """The state of one alarm."""

    NORMAL = "normal"
    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    RETURNED = "returned"
    SHELVED = "shelved"
    SUPPRESSED = "suppressed"
    OUT_OF_SERVICE = "out_of_service"


ANNOUNCED = (AlarmState.UNACKNOWLEDGED, AlarmState.ACKNOWLEDGED, AlarmState.RETURNED)
SET_ASIDE = (AlarmState.SHELVED, AlarmState.SUPPRESSED, AlarmState.OUT_OF_SERVICE)


class ShelfError(ValueError):
    """An alarm cannot be set aside, or returned, in this way."""


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
    """How often an event has happened since it was last acknowledged."""
    aside_by: str = ""
    """Who set it aside; empty when the design did."""
    aside_reason: str = ""
    until_utc: str = ""
    """When its shelf time ends."""
    until_s: float = float("inf")
    present: bool = False
    """Set aside: whether it would be announced now."""


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
    """Every alarm of a rig. `record` writes to the journal; `utc` comes from the clock."""

    def __init__(self, record: Callable[[str, Mapping[str, Any]], object], utc: Callable[[], str]) -> None:
        self._record = record
        self._utc = utc
        self._alarms: dict[str, Alarm] = {}
        self._aside: dict[str, Alarm] = {}
        self._pending_on: dict[str, float] = {}
        self._pending_off: dict[str, float] = {}
        self._beginnings: dict[str, list[float]] = {}
        self._ended: dict[str, Alarm] = {}
        self._now_s = 0.0
        self.raised = 0

    def restore(self, rows: Iterable[Entry], now_s: float) -> None:
        """Take up the states in which the last process ended, by its journal rows :data:`ROWS`. Writes none."""
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
            elif event == "normal":
                self._alarms.pop(identifier, None)
                self._aside.pop(identifier, None)
            elif event in SET_ASIDE:
                self._alarms.pop(identifier, None)
                until_utc = row.body.get("until_utc", "")
                left_s = (datetime.fromisoformat(until_utc) - now).total_seconds() if until_utc else float("inf")
                self._aside[identifier] = replace(
                    known or _made(kind, source, row.body.get("detail", ""), row.utc, now_s),
                    state=AlarmState(event),
                    aside_by=row.body.get("user", ""),
                    aside_reason=row.body.get("reason", ""),
                    until_utc=until_utc,
                    until_s=now_s + left_s,
                    present=bool(row.body.get("present", False)),
                )
            elif known is not None:
                user = row.body.get("user", known.acknowledged_by)
                self._alarms[identifier] = replace(known, state=AlarmState(event), acknowledged_by=user)

    def active(self) -> list[Alarm]:
        """Every alarm that is announced, the most urgent first."""
        return sorted(self._alarms.values(), key=_urgency)

    def set_aside(self) -> list[Alarm]:
        """Every alarm that is shelved, suppressed by design or out of service, the most urgent first."""
        return sorted(self._aside.values(), key=_urgency)

    def ended(self, identifier: str) -> Alarm | None:
        """An alarm that a person has acknowledged to normal lately, with that person's name."""
        return self._ended.get(identifier)

    def event(self, kind: str, source: str, detail: str) -> None:
        """Something happened that a person must know; it stays until acknowledged. Never raises."""
        if kind not in DEFINITIONS:
            kind, detail = "defect", f"{kind}: {detail}"
        identifier = f"{kind}:{source}"
        known, aside = self._alarms.get(identifier), self._aside.get(identifier)
        if aside is not None:
            times = aside.times + 1 if aside.present else 1
            self._aside[identifier] = replace(aside, detail=detail, times=times, present=True)
            if not aside.present:
                self._row_aside(self._aside[identifier])  # a restart must not forget that it happened
        elif known is None:
            self._raise(identifier, kind, source, detail)
        else:
            self._alarms[identifier] = replace(known, detail=detail, times=known.times + 1)

    def levels(
        self, present: Mapping[tuple[str, str], str], now_s: float, unseen: Collection[tuple[str, str]] = ()
    ) -> None:
        """The causes that are there now, (kind, source) -> detail; raises, returns and clears by their delays.

        `unseen` are causes of which nobody can say now whether they are there: their alarms stay as they are.
        """
        self._now_s = now_s
        if not present and not self._alarms and not self._pending_on and not self._aside:
            return
        here = {f"{kind}:{source}": (kind, source, detail) for (kind, source), detail in present.items()}
        dark = {f"{kind}:{source}" for kind, source in unseen}
        self._look_aside(here, dark)
        self._look_for_causes(here)
        for identifier in [name for name in self._pending_on if name not in here and name not in dark]:
            del self._pending_on[identifier]
        for identifier, alarm in list(self._alarms.items()):
            definition = DEFINITIONS[alarm.kind]
            if identifier in here or definition.event or alarm.state is AlarmState.RETURNED:
                continue
            if identifier in dark:
                self._pending_off.pop(identifier, None)
                continue
            since_s = self._pending_off.setdefault(identifier, now_s)
            if now_s - since_s >= self._off_delay_s(identifier, definition):
                del self._pending_off[identifier]
                if alarm.state is AlarmState.ACKNOWLEDGED:
                    self._clear(alarm)
                else:
                    self._change(alarm, AlarmState.RETURNED)

    def acknowledge(self, identifier: str, user: str) -> Alarm:
        """A person has seen it. Raises KeyError for an alarm that is not announced."""
        alarm = self._alarms[identifier]
        if alarm.state is AlarmState.RETURNED or DEFINITIONS[alarm.kind].event:
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
        """Do not announce an alarm for a limited time (s). Interlocks act as before.

        Raises :class:`ShelfError` for an unknown alarm, no reason, a time beyond :data:`MAX_SHELF_S`, or an alarm that is
        out of service.
        """
        longest_s = MAX_SHELF_S[self._definition(identifier).priority]
        if not 0 < for_s <= longest_s:
            raise ShelfError(
                f"{identifier} cannot be shelved for {for_s:g} s. Likely cause: its priority allows at most {longest_s:g} s."
                " Next: choose a shorter time and shelve it again when that is over"
            )
        self._check_not_in(identifier, AlarmState.OUT_OF_SERVICE)
        until = datetime.fromisoformat(self._utc()) + timedelta(seconds=for_s)
        until_utc = until.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self._put_aside(identifier, AlarmState.SHELVED, user, reason, self._now_s + for_s, until_utc)

    def take_out_of_service(self, identifier: str, user: str, reason: str) -> Alarm:
        """Do not announce an alarm until it is returned to service. Raises :class:`ShelfError` as :meth:`shelve`."""
        self._definition(identifier)
        return self._put_aside(identifier, AlarmState.OUT_OF_SERVICE, user, reason, float("inf"), "")

    def bring_back(self, identifier: str, user: str) -> None:
        """End shelving or out of service; an alarm whose cause is there is announced anew.

        Raises :class:`ShelfError` for an alarm that no person has set aside.
        """
        aside = self._aside.get(identifier)
        if aside is None or aside.state is AlarmState.SUPPRESSED:
            raise ShelfError(
                f"{identifier} is neither shelved nor out of service. Likely cause: its shelf time is over. Next: look at"
                " the list again"
            )
        self._return(aside, user)

    def _definition(self, identifier: str) -> Definition:
        kind, _, source = identifier.partition(":")
        if kind not in DEFINITIONS or not source:
            raise ShelfError(
                f"there is no alarm “{identifier}”. Next: write KIND:SOURCE, as the list of alarms shows it"
            )
        return DEFINITIONS[kind]

    def _check_not_in(self, identifier: str, state: AlarmState) -> None:
        aside = self._aside.get(identifier)
        if aside is not None and aside.state is state:
            raise ShelfError(f"{identifier} is {state.value.replace('_', ' ')}. Next: return it to service first")

    def _put_aside(
        self, identifier: str, state: AlarmState, user: str, reason: str, until_s: float, until_utc: str
    ) -> Alarm:
        if state is not AlarmState.SUPPRESSED and not reason.strip():
            raise ShelfError(f"{identifier} needs a reason, for the record. Next: say why it need not be announced")
        kind, _, source = identifier.partition(":")
        known = self._alarms.pop(identifier, None) or self._aside.get(identifier)
        self._pending_off.pop(identifier, None)
        present = known is not None and (known.present or known.state is AlarmState.UNACKNOWLEDGED)
        aside = self._aside[identifier] = replace(
            known or _made(kind, source, "", self._utc(), self._now_s),
            state=state,
            aside_by=user,
            aside_reason=reason,
            until_s=until_s,
            until_utc=until_utc,
            present=present,
        )
        self._row_aside(aside)
        return aside

    def _row_aside(self, aside: Alarm) -> None:
        body = {"alarm": aside.id, "reason": aside.aside_reason, "detail": aside.detail, "present": aside.present}
        body |= {"user": aside.aside_by} if aside.aside_by else {}
        self._row(f"alarm.{aside.state.value}", body | ({"until_utc": aside.until_utc} if aside.until_utc else {}))

    def _look_aside(self, here: dict[str, tuple[str, str, str]], dark: Collection[str]) -> None:
        """Follow the causes of what is set aside, and end shelf times and suppressions that are over."""
        announced = {alarm.kind for alarm in self._alarms.values() if alarm.state is not AlarmState.RETURNED}
        for identifier, (kind, _, detail) in here.items():
            if identifier not in self._aside and announced.intersection(DEFINITIONS[kind].suppressed_by):
                cause = ", ".join(sorted(announced.intersection(DEFINITIONS[kind].suppressed_by)))
                self._put_aside(identifier, AlarmState.SUPPRESSED, "", cause, float("inf"), "")
                self._aside[identifier] = replace(self._aside[identifier], detail=detail)
        for identifier, aside in list(self._aside.items()):
            definition = DEFINITIONS[aside.kind]
            if not definition.event and identifier not in dark:
                detail = here[identifier][2] if identifier in here else aside.detail
                aside = self._aside[identifier] = replace(aside, present=identifier in here, detail=detail)
            suppressed = aside.state is AlarmState.SUPPRESSED
            over = suppressed and not (aside.present and announced.intersection(definition.suppressed_by))
            if over or self._now_s >= aside.until_s:
                self._return(aside, "")

    def _look_for_causes(self, here: dict[str, tuple[str, str, str]]) -> None:
        for identifier, (kind, source, detail) in here.items():
            if identifier in self._aside:
                self._pending_on.pop(identifier, None)
                continue
            self._pending_off.pop(identifier, None)
            known = self._alarms.get(identifier)
            if known is None:
                since_s = self._pending_on.setdefault(identifier, self._now_s)
                if self._now_s - since_s >= DEFINITIONS[kind].on_delay_s:
                    self._raise(identifier, kind, source, detail)
            elif known.state is AlarmState.RETURNED:
                self._began(identifier)
                self._change(known, AlarmState.UNACKNOWLEDGED, detail=detail)
            elif known.detail != detail:
                self._alarms[identifier] = replace(known, detail=detail)

    def _return(self, aside: Alarm, user: str) -> None:
        """End an alarm's time aside: to unacknowledged if its cause is there, else to normal."""
        del self._aside[aside.id]
        self._row("alarm.normal", {"alarm": aside.id} | ({"user": user} if user else {}))
        if aside.present:
            self._raise(aside.id, aside.kind, aside.source, aside.detail)

    def _off_delay_s(self, identifier: str, definition: Definition) -> float:
        chatter = len(self._beginnings.get(identifier, ())) - CHATTER_AFTER
        return float(definition.off_delay_s * 2 ** min(max(chatter, 0), CHATTER_MOST))

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
