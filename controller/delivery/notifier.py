"""The notifier: follows the alarms tick by tick, and notifies people over channels until an alarm is acknowledged.

The control loop calls :meth:`Notifier.update`, which only compares and never waits. Delivery runs in one task per channel, so
that a hanging channel delays no other; the alarms that are due on a channel are combined into one message.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from controller.alarms.states import Alarm, Alarms, AlarmState
from controller.core.clock import Clock
from controller.delivery import escalation as rules
from controller.delivery.channels import Channel, DeliveryOutcome
from controller.delivery.escalation import Case
from controller.delivery.messages import alarm_message, channel_test_message
from controller.delivery.store import NoteStore
from controller.rig.notify import NotifySpec


def moment_of_test(day: date, at: time, zone: ZoneInfo) -> datetime:
    """Return the time of the test of one local day as UTC.

    If the clock is put forward over it, the test comes later by the shift; if the clock is put back, the first of the two
    hours counts. Each local day thus has one test.
    """
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


def day_to_test(now: datetime, tested: date | None, at: time, zone: ZoneInfo) -> date | None:
    """Return the local day whose test is due, or None. A channel that was never tested is due at once."""
    today = now.astimezone(zone).date()
    if tested is not None and (tested >= today or now < moment_of_test(today, at, zone)):
        return None
    return today


logger = logging.getLogger(__name__)

LOOK_S = 1.0
SETTLE_S = 2.0
"""Time (s) in which alarms of one cause are collected for one message."""
CRITICAL_GAP_S = 15.0
GAP_S = 60.0
FLOOD_GAP_S = 300.0
"""Minimum time between two messages on a channel (s): with critical alarms, without, and in an alarm flood."""
FIRST_RETRY_S, LAST_RETRY_S = 10.0, 300.0
CRITICAL_RETRY_S = 60.0
FIRST_TEST_RETRY_S, LAST_TEST_RETRY_S = 60.0, 3600.0
SAME_S = 5.0
"""Tolerance (s) between the journal's time of an alarm and the alarm's own."""


@dataclass(slots=True)
class ChannelHealth:
    """State of one channel. Times are monotonic (s)."""

    problem: str = ""
    failures: int = 0
    next_try_s: float = 0.0
    failed_s: float = 0.0
    last_sent_s: float = float("-inf")
    waiting_since_s: float | None = None
    tested: date | None = None
    test_failures: int = 0
    next_test_s: float = 0.0
    delivered: int = 0


class Notifier:
    """Notifies people of alarms. Start `run` as a separate task, and call `look` at each tick."""

    def __init__(
        self,
        spec: NotifySpec,
        *,
        rig: str,
        zone: ZoneInfo,
        channels: Mapping[str, Channel],
        store: NoteStore,
        clock: Clock,
        record: Callable[[str, Mapping[str, Any]], object],
    ) -> None:
        """`record` writes to the journal."""
        self._spec = spec
        self._rig = rig
        self._zone = zone
        self._channels = channels
        self._store = store
        self._clock = clock
        self._record = record
        self._cases: dict[str, Case] = {}
        self._health = {name: ChannelHealth() for name in channels}
        self._raised_s: deque[float] = deque(maxlen=100)
        self._dirty: set[str] = set()
        self._unsaved: str | None = None
        self._testing = asyncio.Lock()
        self._load()

    # --- called by the control loop ------------------------------------------------------------------------------------

    def update(self, alarms: Alarms) -> None:
        """Follow the alarms. Called at each tick."""
        now_s, local = self._clock.now_s(), self._local()
        announced = {alarm.id: alarm for alarm in alarms.active()}
        for alarm in announced.values():
            self._follow(alarm, now_s)
        suppressed = {alarm.id: alarm for alarm in alarms.suppressed()}
        for case in list(self._cases.values()):
            if case.id not in announced:
                self._end(case, suppressed.get(case.id) or alarms.ended(case.id), now_s, local)
            elif rules.advance(case, self._spec, now_s, local):
                self._dirty.add(case.id)

    def causes(self) -> dict[tuple[str, str], str]:
        """Return the alarms about delivery itself: detail by (kind, source)."""
        found = {("channel_failed", name): each.problem for name, each in self._health.items() if each.problem}
        if self._unsaved is not None:
            found["channel_failed", "outbox"] = self._unsaved
        return found

    def status(self) -> list[dict[str, Any]]:
        """Return every channel, for people: its settings, its state, and the number of waiting alarms."""
        local, now_s = self._local(), self._clock.now_s()
        return [
            {
                "name": name,
                "step": next(n for n, step in enumerate(self._spec.steps, 1) if name in step),
                "min_priority": self._spec.channels[name].min_priority,
                "quiet": rules.is_quiet(self._spec.channels[name].quiet, local),
                "ok": not health.problem,
                "problem": health.problem,
                "delivered": health.delivered,
                "waiting": sum(rules.due(case, self._spec, name, local) for case in self._cases.values()),
                "tested": "" if health.tested is None else health.tested.isoformat(),
                "last_s_ago": None if health.last_sent_s == float("-inf") else now_s - health.last_sent_s,
            }
            for name, health in self._health.items()
        ]

    # --- delivery ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for name in self._channels:
                    group.create_task(self._serve(name), name=f"alarms to {name}")
                group.create_task(self._save_often(), name="alarms: record of notifications")
        finally:
            await asyncio.shield(self._save())

    async def test(self, user: str) -> list[dict[str, Any]]:
        """Send the test message over every channel. Return each channel's result."""
        async with self._testing:
            outcomes = await asyncio.gather(*(self._test(name, user) for name in self._channels))
        return [
            {"name": name, "ok": each.ok, "detail": each.detail}
            for name, each in zip(self._channels, outcomes, strict=True)
        ]

    async def _serve(self, name: str) -> None:
        while True:
            try:
                await self._step(name)
            except Exception:  # a defect here must not end the other channels
                logger.exception("delivery over the channel %s failed; it is tried again", name)
                self._health[name].problem = "a defect in the delivery; see the controller's log"
            await asyncio.sleep(LOOK_S)

    async def _step(self, name: str) -> None:
        health, now_s, local = self._health[name], self._clock.now_s(), self._local()
        cases = list(self._cases.values())
        pending = [case for case in cases if rules.due(case, self._spec, name, local)]
        closing = [case for case in cases if rules.closing_due(case, self._spec, name, now_s, local)]
        if not pending and not closing:
            health.waiting_since_s = None
        elif now_s >= self._may_send_s(health, pending, now_s):
            await self._deliver(name, pending, closing)
        await self._test_if_due(name, health, retest=bool(health.problem) and not pending)

    async def _test_if_due(self, name: str, health: ChannelHealth, *, retest: bool) -> None:
        """Send the daily test, or a test of a channel that has failed."""
        day = day_to_test(self._clock.utc(), health.tested, self._spec.test_at, self._zone)
        if (day is not None or retest) and self._clock.now_s() >= health.next_test_s:
            async with self._testing:
                await self._test(name, "")

    def _may_send_s(self, health: ChannelHealth, pending: Iterable[Case], now_s: float) -> float:
        """Return when the next message may be sent: collected, no faster than people can read, with back-off on failure."""
        if health.waiting_since_s is None:
            health.waiting_since_s = now_s
        critical = any(case.alarm.priority == "critical" for case in pending)
        gap_s = CRITICAL_GAP_S if critical else FLOOD_GAP_S if self._flood(now_s) else GAP_S
        retry_s = health.next_try_s
        if critical and health.failures:
            retry_s = min(retry_s, health.failed_s + CRITICAL_RETRY_S)
        return max(health.waiting_since_s + SETTLE_S, health.last_sent_s + gap_s, retry_s)

    async def _deliver(self, name: str, pending: list[Case], closing: list[Case]) -> None:
        rounds = {case.id: (case, case.round) for case in pending}
        ends = {case.id: (case, case.alarm.state.value) for case in closing}
        message = alarm_message(self._rig, pending, closing, self._clock.utc(), self._zone)
        outcome = await self._send(name, message)
        for case, round_ in rounds.values():
            case.delivered(name, round_, ok=outcome.ok)
        if outcome.ok:
            for case, state in ends.values():
                case.closing[name] = state
            self._health[name].waiting_since_s = None
        self._dirty |= rounds.keys() | ends.keys()
        body = {"channel": name, "alarms": list(rounds), "ended": list(ends)}
        if outcome.ok or self._health[name].failures == 1:
            self._write("notice.sent" if outcome.ok else "notice.failed", body | {"detail": outcome.detail})

    async def _test(self, name: str, user: str) -> DeliveryOutcome:
        now = self._clock.utc()
        outcome = await self._send(name, channel_test_message(self._rig, name, now, self._zone))
        health = self._health[name]
        first = health.tested != now.astimezone(self._zone).date() or bool(user)
        health.tested = now.astimezone(self._zone).date()
        health.test_failures = 0 if outcome.ok else health.test_failures + 1
        pause_s = min(FIRST_TEST_RETRY_S * 2 ** min(health.test_failures, 10), LAST_TEST_RETRY_S)
        health.next_test_s = self._clock.now_s() + pause_s
        self._dirty.add(f"channel {name}")
        if first or outcome.ok:
            body = {"channel": name, "ok": outcome.ok, "detail": outcome.detail}
            self._write("notice.tested", body | ({"user": user} if user else {}))
        return outcome

    async def _send(self, name: str, message: Any) -> DeliveryOutcome:
        """Deliver a message and record the state of the channel."""
        health = self._health[name]
        try:
            outcome = await self._channels[name].send(message)
        except Exception as error:  # a channel must not raise; one that does has failed
            logger.exception("the channel %s raised", name)
            outcome = DeliveryOutcome(False, f"{type(error).__name__} in the channel")
        now_s = self._clock.now_s()
        if outcome.ok:
            health.problem, health.failures, health.last_sent_s, health.next_try_s = "", 0, now_s, now_s
            health.delivered += 1
        else:
            if not health.failures:
                logger.warning("alarms do not get through over %s: %s", name, outcome.detail)
            health.problem, health.failed_s = outcome.detail, now_s
            health.next_try_s = now_s + min(FIRST_RETRY_S * 2 ** min(health.failures, 10), LAST_RETRY_S)
            health.failures += 1
            health.next_test_s = max(health.next_test_s, now_s + FIRST_TEST_RETRY_S)
        self._dirty.add(f"channel {name}")
        return outcome

    # --- cases ---------------------------------------------------------------------------------------------------------

    def _follow(self, alarm: Alarm, now_s: float) -> None:
        case = self._cases.get(alarm.id)
        if case is not None and abs(_age_s(alarm.raised_utc, case.alarm.raised_utc)) > SAME_S:
            case = None  # it was acknowledged and raised again
        if case is None:
            since_s = min(alarm.raised_s, now_s)
            self._cases[alarm.id] = Case(alarm, now_s, step_since_s=since_s)
            self._raised_s.append(now_s)
            self._dirty.add(alarm.id)
        elif rules.follow(case, alarm, now_s):
            self._dirty.add(alarm.id)

    def _end(self, case: Case, known: Alarm | None, now_s: float, local: datetime) -> None:
        """Follow an alarm that is no longer announced, until all who were notified of it know its end."""
        if known is not None:
            if rules.follow(case, known, now_s):
                self._dirty.add(case.id)
        elif case.undelivered and case.alarm.state in (rules.UNACKNOWLEDGED, rules.RETURNED):
            # Neither acknowledged nor known any more: the journal was lost. People are notified of its end all the same.
            if case.alarm.state is rules.UNACKNOWLEDGED:
                rules.follow(case, _with_state(case.alarm, rules.RETURNED), now_s)
            rules.advance(case, self._spec, now_s, local)
            return
        elif case.alarm.state is not AlarmState.NORMAL:
            rules.follow(case, _with_state(case.alarm, AlarmState.NORMAL), now_s)
        if rules.over(case, self._spec, now_s, local):
            del self._cases[case.id]
            self._dirty.add(case.id)

    def _flood(self, now_s: float) -> bool:
        return sum(now_s - at_s <= rules.FLOOD_S for at_s in self._raised_s) > rules.FLOOD_ALARMS

    def _local(self) -> datetime:
        return self._clock.utc().astimezone(self._zone)

    def _write(self, kind: str, body: Mapping[str, Any]) -> None:
        try:
            self._record(kind, body)
        except Exception:
            logger.warning("%s could not be recorded: %s", kind, body)

    # --- persistence ---------------------------------------------------------------------------------------------------

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._save()

    async def _save(self) -> None:
        if not self._dirty:
            return
        names, self._dirty = self._dirty, set()
        notes = {name: self._note(name) for name in sorted(names)}
        self._unsaved = await self._store.save(notes)
        if self._unsaved is not None:
            self._dirty |= names

    def _note(self, name: str) -> dict[str, Any] | None:
        if name.startswith("channel "):
            health = self._health[name.removeprefix("channel ")]
            tested = None if health.tested is None else health.tested.isoformat()
            return {"problem": health.problem, "tested": tested}
        case = self._cases.get(name)
        if case is None:
            return None
        now, now_s = self._clock.utc(), self._clock.now_s()
        alarm = asdict(case.alarm) | {"state": case.alarm.state.value, "raised_s": 0.0, "until_s": 0.0}
        since_utc_s = now.timestamp() - (now_s - case.step_since_s)
        return {
            "alarm": alarm, "step": case.step, "step_since_utc_s": since_utc_s, "round": case.round, "told": case.told,
            "closing": case.closing,
        }  # fmt: skip

    def _load(self) -> None:
        for name, note in self._store.load().items():
            try:
                if name.startswith("channel "):
                    self._load_channel(name.removeprefix("channel "), note)
                else:
                    self._cases[name] = self._case_of(note)
            except (KeyError, TypeError, ValueError):
                logger.exception("a stored notification cannot be read and is left out: %s", name)

    def _load_channel(self, name: str, note: Mapping[str, Any]) -> None:
        health = self._health.get(name)
        if health is not None:
            health.problem = str(note["problem"])
            health.tested = date.fromisoformat(note["tested"]) if note["tested"] else None

    def _case_of(self, note: Mapping[str, Any]) -> Case:
        now, now_s = self._clock.utc(), self._clock.now_s()
        raised_s = now_s - max(_age_s(note["alarm"]["raised_utc"], now.isoformat()), 0.0)
        alarm = Alarm(**note["alarm"] | {"state": AlarmState(note["alarm"]["state"]), "raised_s": raised_s})
        step_since_s = now_s - max(now.timestamp() - note["step_since_utc_s"], 0.0)
        closing = {channel: AlarmState(state).value for channel, state in note["closing"].items()}
        return Case(
            alarm, now_s, int(note["step"]), step_since_s, int(note["round"]), dict(note["told"]), set(), closing,
        )  # fmt: skip


def _age_s(begin_utc: str, end_utc: str) -> float:
    begin, end = datetime.fromisoformat(begin_utc), datetime.fromisoformat(end_utc)
    return (end.astimezone(UTC) - begin.astimezone(UTC)).total_seconds()


def _with_state(alarm: Alarm, state: AlarmState) -> Alarm:
    return replace(alarm, state=state)
