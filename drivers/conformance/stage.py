"""The stage of a bench: a driver and its far end, with control of every byte between them.

Every byte can be held back, altered, doubled or delayed, while the far end knows the truth.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from drivers.commands import Command, Dispense, Level, LevelStatus, PumpStatus, Run, Status, Stop, Switch, SwitchStatus
from drivers.conformance.bench import Bench
from drivers.conformance.far_end import FarEnd
from drivers.conformance.peer import Peer
from drivers.device import Actuator, DeviceConfig
from drivers.errors import Refused
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl

Spoil = Callable[[bytes], Sequence[tuple[float, bytes]]]
"""Turns a reply into pieces with delays (s). Pieces never overtake each other, as on a wire."""

SETTLE_S = 1.0
"""Longer than any driver may serve an old frame, and than any reply is in transit."""
RECOVERY_S = 25.0
"""Maximum time until a confused or disconnected driver is verified again (s): five attempts of the supervisor."""

FLOWS_UL_MIN = (2000.0, 500.0, 100.0, 20.0, 5.0, 10_000.0, 50_000.0)
DOSE_S = 30.0
"""Duration of a dose on the bench (s)."""
LEVELS = (10.0, 37.0, 2.0, 1.0, 0.5, 0.05, 100.0)
TIMED_S = 5.0


class Stage:
    """Connects a driver to its far end, with control of every byte between them."""

    def __init__(self, bench: Bench, config: DeviceConfig | None = None, far: FarEnd | None = None) -> None:
        self.bench = bench
        self.far = far or bench.far_end(config or bench.config)
        if far is None:
            for point, sense in bench.senses.items():
                if sense.values:
                    self.far.measure(point, sense.values[0])
        self.requests: Callable[[bytes], bytes | None] = lambda data: data
        """Turns a request into bytes for the device, or None to drop it."""
        self.replies: Spoil = lambda data: ((0.0, data),)
        self.peer = Peer(self._asked)
        self.said_longest_s = 0.0
        """Maximum time that received bytes blocked the loop (s of processor time)."""
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
        if self.bench.pushes and self.requests(b"") is None:
            return
        loop = asyncio.get_running_loop()
        for delay_s, piece in self.replies(data):
            if delay_s <= 0.0 and self._last_s <= loop.time():
                self._say(piece)
            else:
                self._last_s = max(loop.time() + delay_s, self._last_s + 1e-6)
                loop.call_at(self._last_s, self._say, piece)

    def _say(self, piece: bytes) -> None:
        began = time.thread_time()
        self.peer.say(piece)
        self.said_longest_s = max(self.said_longest_s, time.thread_time() - began)

    def exchange(self, far: FarEnd) -> None:
        """Put another device at the far end; the old one no longer receives or sends."""
        self.far.connect(lambda data: None)
        self.far = far
        far.connect(self._said)

    def let_all_pass(self) -> None:
        """Let all bytes pass unchanged again."""
        self.requests = lambda data: data
        self.replies = lambda data: ((0.0, data),)

    def shift(self) -> None:
        """Make the second value of the bench true wherever the device measures."""
        for point, sense in self.bench.senses.items():
            if sense.values:
                self.far.measure(point, sense.values[1])

    @property
    def moved(self) -> bool:
        """Whether any output truly does something else than at rest."""
        return dict(self.far.outputs()) != self.rest

    async def recovered(self) -> bool:
        """Wait until the driver is verified and every reply in transit has arrived."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + RECOVERY_S
        while loop.time() < end_s:
            await asyncio.sleep(SETTLE_S)
            if self.device.conversation.verified:
                return True
        return False


@asynccontextmanager
async def on_stage(
    bench: Bench,
    config: DeviceConfig | None = None,
    *,
    mute: bool = False,
    far: FarEnd | None = None,
    verified: bool = True,
) -> AsyncIterator[Stage]:
    """Yield a stage whose driver is verified, or, when `mute`, has a device that receives nothing.

    `far` replaces the far end; without `verified`, the result of verification is ignored.
    """
    stage = Stage(bench, config, far)
    if mute:
        stage.requests = lambda data: None
    await asyncio.sleep(2.0)  # messages of the device at power-up have passed
    failures = await stage.link.start()
    try:
        if not mute:
            if failures and verified:
                raise AssertionError(f"the driver does not verify its own device: {next(iter(failures.values()))}")
            stage.rest = dict(stage.far.outputs())
            stage.peer.sent.clear()
        yield stage
    finally:
        await stage.link.close()


def kinds(actuator: Actuator) -> list[list[Command]]:
    """Return, for each kind of command that an actuator may support, candidates of which the first accepted one is
    used.
    """
    match actuator.kind:
        case "pump":
            doses = [Dispense(flow * DOSE_S / 60.0, flow, "bench") for flow in FLOWS_UL_MIN]
            return [[Run(flow) for flow in FLOWS_UL_MIN], [Run(-flow) for flow in FLOWS_UL_MIN], [*doses]]
        case "switch":
            return [[Switch(True)], [Switch(True, for_s=TIMED_S)]]
        case "level":
            return [[Level(value) for value in LEVELS]]


async def accepted_commands(bench: Bench) -> list[tuple[str, Command]]:
    """Return commands that turn an output on: all kinds for the first two points, one for each further point up to
    four.
    """
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
    accepted: Command | None = None
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
        accepted = accepted or command
    return accepted  # without any effect: the properties that check effects report it


def is_on(status: Status, resting: Status) -> bool:
    """Return whether a status reports an output that is not at rest; `resting` is its status at rest."""
    match status, resting:
        case PumpStatus(running=running), _:
            return running
        case SwitchStatus(on=on), _:
            return on
        case LevelStatus(setpoint=setpoint), LevelStatus(setpoint=low):
            return setpoint != low
    return False
