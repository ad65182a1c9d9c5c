"""Properties of a driver on its line: no altered, late or foreign reply is accepted, and it recovers by itself.

The ids in brackets are those of docs/behaviours.md (C1, C2).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from drivers.commands import Command, Dispense, LevelStatus, PumpStatus, Status, Stop, SwitchStatus
from drivers.conformance.bench import Bench
from drivers.conformance.stage import SETTLE_S, Spoil, Stage, accepted_commands, is_on, on_stage
from drivers.conformance.trying import NotApplicable, expect, near_truth, now_s, patiently, tried, works_of
from drivers.errors import DeviceError

GARBAGE = (
    b"\x00" * 40,
    b"\xff" * 7,
    b"\r\n",
    b"*?#\r\n",
    b"A" * 400,
    b"nan\r",
    *(random.Random(seed).randbytes(24) for seed in range(3)),  # noqa: S311  (garbage, the same each time)
)
LATE_S = (0.25, 0.61, 1.05, 1.6, 2.6, 4.0)
CUTS = 10
OBEYED_S = 0.3
"""Maximum time until a device starts to obey (s)."""
HALF_OPEN_S = 30.0
"""Maximum time until a dead connection is reopened while it is polled every second (s)."""


async def survives_garbage(bench: Bench) -> None:
    """Check that garbage before or instead of replies raises only DeviceErrors, is never a reading, and is overcome
    (C2).
    """

    async def with_garbage(garbage: bytes, instead: bool) -> None:
        def spoil(reply: bytes) -> Sequence[tuple[float, bytes]]:
            return ((0.0, garbage),) if instead else ((0.0, garbage), (0.002, reply))

        await _spoilt(bench, spoil, f"garbage {garbage[:16]!r} {'instead of' if instead else 'before'} replies")

    for garbage in GARBAGE:
        for instead in (True, False):
            await with_garbage(garbage, instead)


async def survives_truncation(bench: Bench) -> None:
    """Check that a truncated reply is an error or nothing, never another reading (C2)."""
    for cut in range(CUTS):

        def cut_off(reply: bytes, cut: int = cut) -> Sequence[tuple[float, bytes]]:
            return ((0.0, reply[: max(1, len(reply) * cut // CUTS)]),)

        await _spoilt(bench, cut_off, f"replies cut off at {cut}/{CUTS}")
    await _spoilt(bench, lambda reply: ((0.0, reply[:-1]),), "replies without their last byte")


async def survives_flipped_bits(bench: Bench) -> None:
    """Check that a reply with one wrong bit never crashes the driver, which recovers afterwards (C2)."""
    for at in range(8):

        def flip(reply: bytes, at: int = at) -> Sequence[tuple[float, bytes]]:
            place = min(len(reply) - 1, len(reply) * at // 8)
            return ((0.0, reply[:place] + bytes((reply[place] ^ (1 << at),)) + reply[place + 1 :]),)

        # without a checksum a flipped digit is another number that no driver can detect, so readings are not
        # compared
        await _spoilt(bench, flip, f"a bit flipped at {at}/8", compare=False)


async def asks_in_harmless_words(bench: Bench) -> None:
    """Check that no single wrong bit turns a poll of a device at rest into a command (F2).

    Most text protocols have no checksum, and a query is sent ten thousand times a day: `D,?`, the obvious query of
    an EZO-PMP, is one bit from `D,7`, a dose of 7 mL.
    """
    async with on_stage(bench) as stage:
        device = stage.device
        if not device.actuators:
            raise NotApplicable("it has no outputs")
        for _ in range(2):  # a query that is sent only once after a start is not a poll
            stage.peer.sent.clear()
            for _, work in works_of(device, []):
                await asyncio.sleep(SETTLE_S)
                await work()
        polls = list(dict.fromkeys(stage.peer.sent))
    for poll in polls:
        flipped = [
            poll[:at] + bytes((byte ^ (1 << bit),)) + poll[at + 1 :] for at, byte in enumerate(poll) for bit in range(8)
        ]
        async with on_stage(bench) as stage:
            stage.requests = lambda data: None
            for request in flipped:
                stage.far.receive(request)
                await asyncio.sleep(OBEYED_S)
                expect(
                    not stage.moved,
                    f"one wrong bit makes {request!r} of the poll {poll!r}, and the device does {dict(stage.far.outputs())}",
                )


async def survives_duplication(bench: Bench) -> None:
    """Check that doubled replies are accepted once: every reading is current (C2)."""
    async with on_stage(bench) as stage:
        stage.replies = lambda reply: ((0.0, reply), (0.004, reply))
        for number in (1, 2):
            await asyncio.sleep(SETTLE_S)
            for point, sensor in stage.device.sensors.items():
                value = await patiently(sensor.read)
                near_truth(stage, point, value, "with every reply doubled")
            if number == 1:
                stage.shift()
        for point, command in await accepted_commands(bench):
            with_errors = await tried(stage.device.actuators[point].apply(command))
            await patiently(partial(stage.device.actuators[point].apply, Stop()))
            await asyncio.sleep(SETTLE_S)
            expect(not stage.moved, f"{command} ({with_errors}) and Stop, every reply doubled: still on")


async def never_takes_a_late_reply(bench: Bench) -> None:
    """Check that a late reply is never accepted as the answer to the next request (C2)."""
    async with on_stage(bench) as stage:
        sensors = list(stage.device.sensors)
    commands = await accepted_commands(bench)
    for late_s in LATE_S:
        for point in sensors[:3]:
            await _late_reading(bench, point, late_s)
        for point, command in commands[:3]:
            await _late_status(bench, point, command, late_s)


async def _late_reading(bench: Bench, point: str, late_s: float) -> None:
    async with on_stage(bench) as stage:
        await asyncio.sleep(SETTLE_S)
        stage.replies = _first_late(late_s)
        read = stage.device.sensors[point].read
        try:
            near_truth(stage, point, await read(), f"with its reply {late_s:g} s late")
        except DeviceError:
            stage.shift()
        else:
            stage.shift()
            await asyncio.sleep(SETTLE_S)
        for _ in range(3):
            near_truth(stage, point, await patiently(read), f"after a reply {late_s:g} s late")


async def _late_status(bench: Bench, point: str, command: Command, late_s: float) -> None:
    async with on_stage(bench) as stage:
        actuator = stage.device.actuators[point]
        resting = await actuator.status()
        await actuator.apply(command)
        await asyncio.sleep(SETTLE_S)
        stage.replies = _first_late(late_s)
        await tried(actuator.status())
        await patiently(partial(actuator.apply, Stop()))
        for _ in range(3):
            status = await patiently(actuator.status)
            expect(
                stage.moved or not is_on(status, resting),
                f"a status of {point} that came {late_s:g} s late is taken for the next: {status}",
            )
            await asyncio.sleep(late_s / 2)


async def ignores_other_addresses(bench: Bench) -> None:
    """Check that the answer of another device on the bus is never accepted (C2)."""
    if bench.other is None:
        raise NotApplicable("it has its line for itself")
    commands = await accepted_commands(bench)
    async with on_stage(bench) as own, on_stage(bench, bench.other) as other:
        resting = {point: await actuator.status() for point, actuator in own.device.actuators.items()}
        other.shift()
        for point, command in commands[:1]:
            await other.device.actuators[point].apply(command)
        theirs: list[bytes] = []
        mine: list[bytes] = []
        tellable = 0
        for (name, ask_mine), (_, ask_theirs) in zip(works_of(own.device, []), works_of(other.device, []), strict=True):
            await asyncio.sleep(SETTLE_S)
            mine.clear()
            theirs.clear()
            own.replies, other.replies = _keeping(mine), _keeping(theirs)
            await ask_mine()
            await ask_theirs()
            foreign = b"".join(theirs)
            if len(foreign) < 3 or foreign == b"".join(mine):
                continue  # too short to contain an address, or the same from all devices
            tellable += 1
            await asyncio.sleep(SETTLE_S)
            own.replies = _instead(foreign)
            try:
                value = await ask_mine()
            except DeviceError:
                value = None
            mistaken = f"{name} takes {foreign!r} of another device for {value}"
            _expect_truth(own, resting, name, value, told=f"{foreign!r} of another device", mistaken=mistaken)
            own.let_all_pass()
            expect(await own.recovered(), "it does not recover after another device's reply")
        if not tellable:
            raise NotApplicable("its replies carry no address")


async def comes_back(bench: Bench) -> None:
    """Check recovery and obedience after unplugging, at rest or during a command, and after a power cut (C1)."""
    async with on_stage(bench) as stage:
        for event in ("the cable was pulled", "the device lost its power"):
            if event.startswith("the cable"):
                stage.peer.hang_up()
            else:
                stage.far.power_cycle()
                stage.peer.hang_up()
            expect(await stage.recovered(), f"{event}: it is not verified again within a while")
            for sensor in stage.device.sensors.values():
                await patiently(sensor.read)
    for point, command in await accepted_commands(bench):
        for step in range(5):
            async with on_stage(bench) as stage:
                actuator = stage.device.actuators[point]
                begun_s = now_s()
                await actuator.apply(command)
                whole_s = now_s() - begun_s
                await patiently(partial(actuator.apply, Stop()))
                await asyncio.sleep(SETTLE_S)
                asyncio.get_running_loop().call_later(whole_s * step / 5, stage.peer.hang_up)
                again = replace(command, dose_id="again") if isinstance(command, Dispense) else command
                told = await tried(actuator.apply(again))
                expect(await stage.recovered(), f"cut off in {command} ({told}): it is not verified again")
                await patiently(partial(actuator.apply, Stop()))
                await asyncio.sleep(SETTLE_S)
                expect(not stage.moved, f"cut off in {command} ({told}), then Stop: still {dict(stage.far.outputs())}")


async def unplugged_at_any_byte(bench: Bench) -> None:
    """Check recovery, obedience and readings after unplugging at any byte of a request or reply (C1).

    Covers every byte of verification, of the first reading and status, and of each kind of command of the first
    point.
    """
    commands = await accepted_commands(bench)
    async with on_stage(bench) as stage:
        device, cut = stage.device, _Cut(stage)
        works: list[tuple[str, Callable[[int], Awaitable[object]]]] = [("verifying", lambda _: device.verify())]
        for name, ask in works_of(device, []):
            if name.partition(" ")[0] not in (known.partition(" ")[0] for known, _ in works):
                works.append((name, partial(_ignoring, ask)))
        for point, command in commands:
            if point == commands[0][0]:
                works.append((str(command), partial(_applying, device.actuators[point].apply, command)))
        for name, work in works:
            await work(-1)
            whole = cut.passed
            await _at_rest(stage)
            expect(whole > 0, f"{name} passes no byte")
            for after in range(whole):
                cut.arm(after)
                told = await tried(work(after))
                cut.disarm()
                expect(await stage.recovered(), f"{name}, unplugged after byte {after} ({told}): not verified again")
                await _at_rest(stage)
                expect(not stage.moved, f"{name}, unplugged after byte {after} ({told}), then Stop: still on")
            cut.passed = 0
            if name.startswith("reading "):  # the truth changes with what a command warms or fills
                point = name.removeprefix("reading ")
                near_truth(stage, point, await patiently(device.sensors[point].read), "after all that")


async def _ignoring(work: Callable[[], Awaitable[object]], _: int) -> object:
    return await work()


async def _applying(apply: Callable[[Command], Awaitable[None]], command: Command, number: int) -> None:
    """Apply `command`; a dose with a new id each time, since the same id is not given twice."""
    await apply(replace(command, dose_id=f"cut {number}") if isinstance(command, Dispense) else command)


async def notices_a_half_open_line(bench: Bench) -> None:
    """Check that a silent connection which does not break is reopened in time (C1)."""
    async with on_stage(bench) as stage:
        opening = stage.peer.openings
        stage.requests = lambda data: data if stage.peer.openings > opening else None
        end_s = now_s() + HALF_OPEN_S
        works = works_of(stage.device, [])
        while stage.peer.openings == opening:
            expect(now_s() < end_s, f"after {HALF_OPEN_S:g} s of silence the same dead connection is still used")
            for _, work in works:
                await tried(work())
            await asyncio.sleep(1.0)
        expect(await stage.recovered(), "it was opened again, and is not verified again")
        for _, work in works:
            await patiently(work)


class _Cut:
    """Counts the bytes on a stage in both directions, and pulls the cable after one of them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._after: int | None = None
        self.passed = 0
        stage.requests = self._pass
        stage.replies = lambda reply: ((0.0, self._pass(reply) or b""),)

    def arm(self, after: int) -> None:
        """From now on let `after` bytes pass, and none after them."""
        self.passed, self._after = 0, after

    def disarm(self) -> None:
        """Let all bytes pass again."""
        self._after = None

    def _pass(self, data: bytes) -> bytes | None:
        left = len(data) if self._after is None else max(0, self._after - self.passed)
        self.passed += len(data)
        if left < len(data):
            self._stage.peer.hang_up()
            self._after = None
        return data[:left]


async def _at_rest(stage: Stage) -> None:
    for actuator in stage.device.actuators.values():
        await patiently(partial(actuator.apply, Stop()))
    await asyncio.sleep(SETTLE_S)


async def _spoilt(bench: Bench, spoil: Spoil, told: str, *, compare: bool = True) -> None:
    """Do all work with altered replies: only DeviceErrors, no wrong reading, and recovery afterwards."""
    commands = await accepted_commands(bench)
    async with on_stage(bench) as stage:
        resting = {point: await actuator.status() for point, actuator in stage.device.actuators.items()}
        for name, work in works_of(stage.device, commands):
            await asyncio.sleep(SETTLE_S)
            stage.replies = spoil
            try:
                value = await work()
            except DeviceError:
                value = None
            except Exception as error:
                raise AssertionError(f"{name} with {told} raises {error!r}, which is no DeviceError") from error
            stage.let_all_pass()
            if compare:
                mistaken = f"{name} with {told} is {value}, but it is at rest"
                _expect_truth(stage, resting, name, value, told=told, mistaken=mistaken)
            expect(await stage.recovered(), f"{name} with {told}: it is not verified again within a while")
            for actuator in stage.device.actuators.values():
                await patiently(partial(actuator.apply, Stop()))
            await asyncio.sleep(SETTLE_S)
            expect(not stage.moved, f"{name} with {told}, then Stop: still {dict(stage.far.outputs())}")
        for point, sensor in stage.device.sensors.items():
            near_truth(stage, point, await patiently(sensor.read), f"after {told}")


def _expect_truth(
    stage: Stage, resting: Mapping[str, Status], name: str, value: object, *, told: str, mistaken: str
) -> None:
    """Check what a query of a device at rest returned: the true reading, or a status at rest.

    Args:
        resting: Status of each actuator at rest.
        name: Name of the query, as :func:`works_of` gives it.
        value: What the query returned; anything but a reading or a status is not checked.
        told: What was sent to the driver, for the message about a wrong reading.
        mistaken: Message about a wrong status.
    """
    if isinstance(value, float):
        near_truth(stage, name.removeprefix("reading "), value, f"with {told}")
    elif isinstance(value, PumpStatus | SwitchStatus | LevelStatus):
        expect(not is_on(value, resting[name.removeprefix("status of ")]), mistaken)


def _keeping(replies: list[bytes]) -> Spoil:
    """Return a function that passes replies and keeps them."""

    def keep(reply: bytes) -> Sequence[tuple[float, bytes]]:
        replies.append(reply)
        return ((0.0, reply),)

    return keep


def _instead(foreign: bytes) -> Spoil:
    """Return a function that sends `foreign` instead of the first reply, and nothing after it."""
    left = [foreign]
    return lambda reply: ((0.0, left.pop()),) if left else ()


def _first_late(late_s: float) -> Spoil:
    """Return a function that delays the first reply by `late_s` (s), and all others behind it."""
    left = [late_s]
    return lambda reply: ((left.pop() if left else 0.0, reply),)
