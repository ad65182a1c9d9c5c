"""A notifier in virtual time: alarms, a journal, channels that fail or hang as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from controller.alarms.states import Alarms
from controller.core.clock import Clock
from controller.delivery.channels import SEND_S, DeliveryOutcome, Message
from controller.delivery.notifier import Notifier
from controller.rig.notify import NotifySpec

CRITICAL, HIGH, MEDIUM, LOW = (
    ("no_heart_flow", "heart"),
    ("device_lost", "ph"),
    ("stock_low", "bottle"),
    ("level_due", "loop"),
)


class FakeChannel:
    """A channel whose far end works, fails or hangs; `got` holds what it confirmed, with the time (s)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.got: list[tuple[float, Message]] = []
        self.tests: list[tuple[datetime, Message]] = []
        self.works = True
        self.hangs_s = 0.0
        self.attempts = 0

    async def send(self, message: Message) -> DeliveryOutcome:
        self.attempts += 1
        if self.hangs_s:
            await asyncio.sleep(min(self.hangs_s, SEND_S))
            if self.hangs_s >= SEND_S:
                return DeliveryOutcome(False, "it hangs")
        if not self.works:
            return DeliveryOutcome(False, "it is down")
        if "test" in message.data:
            self.tests.append((self._clock.utc(), message))
        else:
            self.got.append((self._clock.now_s(), message))
        return DeliveryOutcome(True, "ok")

    def told(self, identifier: str) -> list[float]:
        """Return the times (s) of the messages about an alarm over this channel."""
        return [at_s for at_s, message in self.got if identifier in [each["id"] for each in message.data["alarms"]]]

    def ends(self, identifier: str) -> list[str]:
        """Return the ends of an alarm that were sent over this channel."""
        return [each["state"] for _, message in self.got for each in message.data["ended"] if each["id"] == identifier]


class Memory:
    """Notes that outlive the notifier."""

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {}
        self.full = False

    def load(self) -> dict[str, Any]:
        return dict(self.notes)

    async def save(self, notes: Mapping[str, Any]) -> str | None:
        if self.full:
            return "the disk is full"
        for name, body in notes.items():
            if body is None:
                self.notes.pop(name, None)
            else:
                self.notes[name] = body
        return None


def spec_of(**notify: Any) -> NotifySpec:
    return NotifySpec.model_validate(notify)


ANNA_BERT = spec_of(
    channels={"anna": {"url_env": "A", "min_priority": "low"}, "bert": {"url_env": "B", "min_priority": "high"}},
    escalation=[["anna"], ["bert"]],
    test_at="09:00",
)


@dataclass
class Desk:
    """One rig's alarms and its notifier; `live` lets time pass with ticks."""

    spec: NotifySpec = ANNA_BERT
    zone: str = "Europe/Berlin"
    epoch: datetime = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
    present: dict[tuple[str, str], str] = field(default_factory=dict)
    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    tested: bool = True
    """Whether today's test is taken as done."""

    def __post_init__(self) -> None:
        self.clock = Clock(follow_system=False, epoch=self.epoch)
        self.channels = {name: FakeChannel(self.clock) for name in self.spec.channels}
        self.alarms = Alarms(self.record, self.clock.utc_text)
        if self.tested:
            day = self.epoch.astimezone(ZoneInfo(self.zone)).date().isoformat()
            for name in self.channels:
                self.memory.notes[f"channel {name}"] = {"problem": "", "tested": day}
        self.begin()

    def record(self, kind: str, body: Mapping[str, Any]) -> None:
        self.rows.append((kind, dict(body)))

    def begin(self) -> None:
        """Start a notifier, as a process does."""
        self.notifier = Notifier(
            self.spec, rig="bench", zone=ZoneInfo(self.zone), channels=self.channels, store=self.memory,
            clock=self.clock, record=self.record,
        )  # fmt: skip
        self._task = asyncio.create_task(self.notifier.run())

    async def live(self, seconds: float, *, step_s: float = 1.0) -> None:
        end_s = self.clock.now_s() + seconds
        while self.clock.now_s() < end_s - 1e-6:
            self.alarms.levels(self.present | self.notifier.causes(), self.clock.now_s())
            self.notifier.update(self.alarms)
            await asyncio.sleep(step_s)

    async def raise_now(self, cause: tuple[str, str], detail: str = "it happened") -> float:
        """Let a cause appear and last until its alarm is raised; returns when that was (s)."""
        self.present[cause] = detail
        identifier = ":".join(cause)
        while identifier not in {each.id for each in self.alarms.active()}:
            await self.live(1)
        return self.clock.now_s() - 1.0

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def __getitem__(self, name: str) -> FakeChannel:
        return self.channels[name]
