"""VICI multi-position actuators: the note's replies, and a whole cycle against a simulated one that receives nothing while
it turns.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from drivers.commands import Guarantee, Level, LevelStatus, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, LinkDown, NoReply, Refused, WrongDevice
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from drivers.vici_actuator import ViciActuator
from sim.devices.vici_actuator import ViciActuator as SimulatedVici
from tests.drivers.against_sim import Pair, against
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings

FACTS = {
    "vici-actuator": DriverFacts(
        line="9600 8N1",
        queries=frozenset({"AM", "NP", "CP"}),
        stored=({"unit": "7", "positions": 6}, {"unit": "", "positions": 10}),
    ),
}

pytestmark = pytest.mark.virtual_time

CONFIG = DeviceConfig("valve", "", settings(positions=10))


def vici(
    address: str = "", **more: float | str | bool
) -> AbstractAsyncContextManager[Pair[ViciActuator, SimulatedVici]]:
    return against(ViciActuator, SimulatedVici, address=address, settings={"positions": 10, **more})


class FakeVici:
    def __init__(self) -> None:
        self.replies = {b"AM\r": b"AM3\r", b"NP\r": b"NP10\r", b"CP\r": b"CP01\r"}

    def __call__(self, request: bytes) -> bytes | None:
        return self.replies.get(request)


@pytest.mark.parametrize(
    "reply",
    [b"CP01\r", b"CP1\r", b"CP01\r\n", b"CP1\n", b'Position is  = "01"\r', b"Position is = 1\r", b"CP 1 \r"],
)
async def test_golden_positions_in_every_form(reply: bytes) -> None:
    fake = FakeVici()
    peer = Peer(fake)
    async with linked(ViciActuator, peer, CONFIG) as valve:
        await asyncio.sleep(1)
        fake.replies[b"CP\r"] = reply
        assert await valve.sensors["position"].read() == 1.0
        assert peer.sent == [b"CP\r"]


async def test_golden_move() -> None:
    fake = FakeVici()
    peer = Peer(fake)
    async with linked(ViciActuator, peer, CONFIG) as valve:
        moving = asyncio.ensure_future(valve.actuators["valve"].apply(Level(3.0)))
        await asyncio.sleep(1)
        fake.replies[b"CP\r"] = b"CP03\r"
        await moving
        assert peer.sent == [b"CP\r", b"GO3\r", b"CP\r"]


@pytest.mark.parametrize("address", ["", "7"])
async def test_a_whole_cycle(address: str) -> None:
    async with vici(address, rest_position=2) as pair:
        valve = pair.driver.actuators["valve"]
        assert valve.guarantee_for(Level(3.0)) is Guarantee.GUARD
        assert await valve.status() == LevelStatus(0.0, 0.0)
        for position in (3, 3, 10, 5):
            await valve.apply(Level(float(position)))
            assert pair.box.position == position
            assert await valve.status() == LevelStatus(position, position)
            assert await pair.driver.sensors["position"].read() == position
        assert pair.box.moves == 3
        assert pair.plant.last("d.valve") == 5.0
        for wrong in (11.0, -1.0, 2.5, 2.0, float("nan"), float("inf")):
            with pytest.raises(Refused, match="no position to go to"):
                await valve.apply(Level(wrong))
        with pytest.raises(Refused, match="does not know"):
            await valve.apply(Run(1.0))
        await valve.apply(Stop())
        assert pair.box.position == 2
        await valve.apply(Level(7.0))
        await pair.driver.close()
        assert pair.box.position == 2
        assert await valve.status() == LevelStatus(0.0, 0.0)
        assert pair.plant.last("d.valve") == 2.0


@pytest.mark.parametrize("change", [("long", True), ("response", 1), ("end_of_line", "\r\n"), ("width", 1)])
async def test_every_way_an_actuator_may_be_set(change: tuple[str, object]) -> None:
    async with vici() as pair:
        setattr(pair.box, *change)
        await pair.driver.actuators["valve"].apply(Level(4.0))
        assert await pair.driver.actuators["valve"].status() == LevelStatus(4.0, 4.0)


async def test_who_asks_during_a_move_waits_for_its_end() -> None:
    async with vici() as pair:
        moving = asyncio.ensure_future(pair.driver.actuators["valve"].apply(Level(6.0)))
        await asyncio.sleep(0.1)
        readings = await asyncio.gather(*(pair.driver.sensors["position"].read() for _ in range(5)))
        assert readings == [6.0] * 5
        await moving
        assert pair.driver.conversation.verified


async def test_A2_cancelled_at_every_await_the_valve_goes_to_rest() -> None:
    for step in range(50):
        async with vici() as pair:
            valve = pair.driver.actuators["valve"]
            await asyncio.sleep(1)
            applying = asyncio.ensure_future(valve.apply(Level(6.0)))
            await asyncio.sleep(2.5 * step / 50)
            done = applying.done()
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)
            await asyncio.sleep(3)
            assert pair.box.position == (6 if done else 1)


async def test_A7_a_valve_that_sticks_is_a_fault() -> None:
    async with vici() as pair:
        pair.box.stuck = True
        with pytest.raises(DeviceFault, match="at 1 instead of 4"):
            await pair.driver.actuators["valve"].apply(Level(4.0))
        assert await pair.driver.actuators["valve"].status() == LevelStatus(0.0, 0.0)


async def test_a_lost_move_is_found_by_the_readback() -> None:
    async with vici() as pair:
        listen = pair.box.command
        lost: list[str] = []

        def loses_the_first_move(text: str) -> None:
            if text.startswith("GO") and not lost:
                lost.append(text)
            else:
                listen(text)

        pair.box.command = loses_the_first_move  # type: ignore[method-assign]
        with pytest.raises(DeviceFault, match="instead of 4"):
            await pair.driver.actuators["valve"].apply(Level(4.0))
        await pair.driver.actuators["valve"].apply(Level(4.0))
        assert pair.box.position == 4


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"", NoReply),
        (b"CP0", BadReply),
        (b"NP10\r", BadReply),
        (b"CPx\r", BadReply),
        (b"CP1.5\r", BadReply),
        (b"\xffCP01\r", BadReply),
        (b"CP12345678\r", BadReply),
        (b"Z" * 400, BadReply),
        (b"CP12\r", DeviceFault),
        (b"CP00\r", DeviceFault),
        (b"CPA\r", WrongDevice),
        (b'Position is = "B"\r', WrongDevice),
    ],
)
async def test_C2_what_is_no_answer_is_never_a_position(reply: bytes, error: type[DeviceError]) -> None:
    fake = FakeVici()
    peer = Peer(fake)
    async with linked(ViciActuator, peer, CONFIG) as valve:
        await asyncio.sleep(1)
        fake.replies[b"CP\r"] = reply
        peer.answers = lambda request: fake(request) or None
        with pytest.raises(error):
            await valve.sensors["position"].read()
        fake.replies[b"CP\r"] = b"CP05\r"
        assert await valve.sensors["position"].read() == 5.0


@pytest.mark.parametrize("late_s", [0.31, 0.5, 0.9, 2.0])
async def test_C2_a_late_position_is_not_the_next(late_s: float) -> None:
    fake = FakeVici()
    peer = Peer(fake)
    async with linked(ViciActuator, peer, CONFIG) as valve:
        await asyncio.sleep(1)
        peer.answers = lambda request: [(late_s, b"CP01\r")]
        with pytest.raises(NoReply):
            await valve.sensors["position"].read()
        fake.replies[b"CP\r"] = b"CP05\r"
        free_at = asyncio.get_running_loop().time() - 0.3 + late_s
        peer.answers = lambda request: [
            (max(0.01, free_at - asyncio.get_running_loop().time() + 0.01), fake(request) or b"")
        ]
        for _ in range(6):
            try:
                assert await valve.sensors["position"].read() == 5.0
            except DeviceError:
                await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        assert await valve.sensors["position"].read() == 5.0


async def test_A6_another_valve_is_told_and_not_moved() -> None:
    given, theirs = settings(positions=10), settings(positions=6)
    async with against(ViciActuator, SimulatedVici, settings=given, box_settings=theirs, verified=False) as pair:
        assert isinstance(pair.failures["d"], WrongDevice)
        assert "6 positions, not 10" in str(pair.failures["d"])
        with pytest.raises(LinkDown):
            await pair.driver.actuators["valve"].apply(Level(3.0))
        assert pair.box.moves == 0


@pytest.mark.parametrize(
    ("given", "address", "key"),
    [
        ({}, "", "positions"),
        ({"positions": 1}, "", "positions"),
        ({"positions": 4.5}, "", "positions"),
        ({"positions": 4, "rest_position": 5}, "", "rest_position"),
        ({"positions": 4, "move_s": 0}, "", "move_s"),
        ({"positions": 4, "speed": 1}, "", "speed"),
        ({"positions": 4}, "77", "address"),
        ({"positions": 4}, "?", "address"),
    ],
)
async def test_D7_settings_that_cannot_be(given: dict[str, float | str | bool], address: str, key: str) -> None:
    with pytest.raises(BadSetting, match=key):
        ViciActuator(Link(LinkUrl.parse("sim:x"), Peer(lambda _: None).open), DeviceConfig("valve", address, given))
