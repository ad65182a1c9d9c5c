"""A bench: how a driver is built, what stands at the far end of its line, and a stage on which both meet.

The far end is a simulator or a script. It knows the truth: what its outputs really do, and what it measures. On the
stage every byte between the two can be held back, spoilt, doubled or delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from drivers.conformance.peer import Answers, Peer
from drivers.device import (
    Actuator,
    Command,
    Device,
    DeviceConfig,
    Dispense,
    Level,
    LevelStatus,
    PumpStatus,
    Refused,
    Run,
    Status,
    Stop,
    Switch,
    SwitchStatus,
)
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl

Deliver = Callable[[bytes], None]
Spoil = Callable[[bytes], Sequence[tuple[float, bytes]]]
"""What becomes of a reply: pieces and their delays (s). Pieces never overtake each other, as on a wire."""

SETTLE_S = 1.0
"""Longer than any driver may serve an old frame, and than any reply is under way."""
RECOVERY_S = 25.0
"""A driver that was confused or cut off must be verified again within so long: five attempts of the supervisor's."""

FLOWS_UL_MIN = (2000.0, 500.0, 100.0, 20.0, 5.0, 10_000.0, 50_000.0)
DOSE_S = 30.0
"""How long a dose on the bench takes."""
LEVELS = (10.0, 37.0, 2.0, 1.0, 0.5, 0.05, 100.0)
TIMED_S = 5.0


class FarEnd(Protocol):
    """A device at the far end of the line, powered. Made while the loop runs in which it lives."""

    def connect(self, deliver: Deliver) -> None:
        """All that the device says goes to `deliver`, reply by reply."""

    def receive(self, data: bytes) -> None:
        """Bytes from the driver."""

    def outputs(self) -> Mapping[str, float]:
        """What each output truly does now (any number that differs between rest and work); {} if none can be seen."""
        ...

    def shift(self) -> None:
        """Every measured quantity becomes clearly another one, within the device's range."""

    def power_cycle(self) -> None:
        """The device loses power and comes back."""

    def memory_writes(self) -> int | None:
        """How often it has written its non-volatile memory; None when nobody counts."""
        ...


class ScriptedEnd:
    """A far end from a function of the request; `outputs`, `shift` and the rest may be given where there are any."""

    def __init__(
        self,
        answers: Answers,
        *,
        outputs: Callable[[], Mapping[str, float]] = dict,
        shift: Callable[[], None] = lambda: None,
        power_cycle: Callable[[], None] = lambda: None,
        memory_writes: Callable[[], int | None] = lambda: None,
        delay_s: float = 0.01,
    ) -> None:
        self._answers = answers
        self._delay_s = delay_s
        self._deliver: Deliver = lambda data: None
        self.outputs = outputs
        self.shift = shift
        self.power_cycle = power_cycle
        self.memory_writes = memory_writes

    def connect(self, deliver: Deliver) -> None:
        """All that the script says goes to `deliver`."""
        self._deliver = deliver

    def receive(self, data: bytes) -> None:
        """Answer `data` by the script."""
        said = self._answers(data)
        for n, say in enumerate(() if said is None else (said,) if isinstance(said, bytes) else said):
            delay_s, reply = say if isinstance(say, tuple) else (self._delay_s + 1e-6 * n, say)
            asyncio.get_running_loop().call_later(delay_s, self._deliver, reply)


@dataclass(frozen=True)
class Bench:
    """One driver ready to be examined.

    `far_end` makes the device that `config` describes. `other` is a second device of the model at another address, where
    the model shares a bus. `commands` by point; a point that is not named gets commands of its kind that it accepts.
    """

    driver: type[Device]
    far_end: Callable[[DeviceConfig], FarEnd]
    config: DeviceConfig
    other: DeviceConfig | None = None
    commands: Mapping[str, Sequence[Command]] = field(default_factory=dict)
    senses_outputs_only: bool = False
    """Whether its sensors measure nothing but its own outputs, so that the far end's `shift` cannot change them."""
    memory_writes_a_day: int = 100
    """What the device's memory stands: 100 a day are 100,000 in 2.7 years."""

    @property
    def model(self) -> str:
        """The model's id."""
        return self.driver.model.id

    def __str__(self) -> str:
        return self.model


class Stage:
    """A driver and its far end, with a hand on every byte between them."""

    def __init__(self, bench: Bench, config: DeviceConfig | None = None) -> None:
        self.bench = bench
        self.far = bench.far_end(config or bench.config)
        self.requests: Callable[[bytes], bytes | None] = lambda data: data
        """What becomes of a request: bytes for the device, or None."""
        self.replies: Spoil = lambda data: ((0.0, data),)
        self.peer = Peer(self._asked)
        self._last_s = 0.0
        self.far.connect(self._said)
        self.link = Link(LinkUrl.parse("sim:conformance"), self.peer.open, line=bench.driver.line)
        self.device = bench.driver(self.link, config or bench.config)
        self.rest = dict(self.far.outputs())

    def _asked(self, data: bytes) -> None:
        passed = self.requests(data)
        if passed:
            self.far.receive(passed)

    def _said(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for delay_s, piece in self.replies(data):
            if delay_s <= 0.0 and self._last_s <= loop.time():
                self.peer.say(piece)
            else:
                self._last_s = max(loop.time() + delay_s, self._last_s + 1e-6)
                loop.call_at(self._last_s, self.peer.say, piece)

    def honest(self) -> None:
        """Let all bytes through again."""
        self.requests = lambda data: data
        self.replies = lambda data: ((0.0, data),)

    @property
    def moved(self) -> bool:
        """Whether any output truly does something else than at rest."""
        return dict(self.far.outputs()) != self.rest

    async def recovered(self) -> bool:
        """Wait until the driver is verified and every reply under way has come."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + RECOVERY_S
        while loop.time() < end_s:
            await asyncio.sleep(SETTLE_S)
            if self.device.conversation.verified:
                return True
        return False


@asynccontextmanager
async def on_stage(bench: Bench, config: DeviceConfig | None = None, *, mute: bool = False) -> AsyncIterator[Stage]:
    """A stage whose driver is verified, or, when `mute`, has a device that hears nothing."""
    stage = Stage(bench, config)
    if mute:
        stage.requests = lambda data: None
    await asyncio.sleep(2.0)  # what a device says at power-up has passed
    failures = await stage.link.start()
    try:
        if not mute:
            if failures:
                raise AssertionError(f"the driver does not verify its own device: {next(iter(failures.values()))}")
            stage.rest = dict(stage.far.outputs())
            stage.peer.sent.clear()
        yield stage
    finally:
        await stage.link.close()


def kinds(actuator: Actuator) -> list[list[Command]]:
    """For each kind of command that an actuator may know, candidates of which the first accepted one is used."""
    match actuator.kind:
        case "pump":
            doses = [Dispense(flow * DOSE_S / 60.0, flow, "bench") for flow in FLOWS_UL_MIN]
            return [[Run(flow) for flow in FLOWS_UL_MIN], [Run(-flow) for flow in FLOWS_UL_MIN], [*doses]]
        case "switch":
            return [[Switch(True)], [Switch(True, for_s=TIMED_S)]]
        case "level":
            return [[Level(value) for value in LEVELS]]


async def accepted_commands(bench: Bench) -> list[tuple[str, Command]]:
    """Commands that turn an output on: all kinds for the first two points, one for each further point up to four."""
    found: list[tuple[str, Command]] = []
    async with on_stage(bench) as stage:
        for number, (point, actuator) in enumerate(stage.device.actuators.items()):
            if number == 4:
                break
            given = bench.commands.get(point)
            choices = [[command] for command in given] if given is not None else kinds(actuator)
            for candidates in choices if number < 2 else choices[:1]:
                command = await _first_accepted(stage, actuator, candidates)
                if command is not None:
                    found.append((point, command))
    if stage.device.actuators and not found:
        raise AssertionError(
            f"none of its actuators ({', '.join(stage.device.actuators)}) accepts any command of its kind;"
            " give Bench.commands some that turn it on"
        )
    return found


async def _first_accepted(stage: Stage, actuator: Actuator, candidates: list[Command]) -> Command | None:
    for command in candidates:
        resting = await actuator.status()
        try:
            await actuator.apply(command)
        except Refused:
            continue
        does = stage.moved or is_on(await actuator.status(), resting)
        await actuator.apply(Stop())
        await asyncio.sleep(SETTLE_S)
        if does:
            return command
    return None


def is_on(status: Status, resting: Status) -> bool:
    """Whether a status tells of an output that is not at rest; `resting` is what it says at rest."""
    match status, resting:
        case PumpStatus(running=running), _:
            return running
        case SwitchStatus(on=on), _:
            return on
        case LevelStatus(setpoint=setpoint), LevelStatus(setpoint=low):
            return setpoint != low
    return False
