"""Huber PB: recorded telegrams, and a whole cycle against the simulated thermostat."""

from __future__ import annotations

import asyncio
import math
from contextlib import AbstractAsyncContextManager

import pytest

from drivers.commands import Guarantee, Level, LevelStatus, Stop, Switch
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, LinkDown, NoReply, Refused, WrongDevice
from drivers.huber_pb import HuberPb
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.devices.huber_pb import HuberPb as SimulatedHuber
from tests.drivers.against_sim import Pair, against
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings

FACTS = {
    "huber-pb": DriverFacts(
        line="9600 8N1",
        queries=frozenset({"{M1B****", "{M1C****", "{M30****", "{M31****", "{M00****", "{M01****", "{M02****"}),
        stored=({"setpoint": 3700, "controlling": True}, {"setpoint": 2000, "controlling": False}),
    ),
}

pytestmark = pytest.mark.virtual_time

COLD = DeviceConfig("bath", "", settings(low_c=1.0, rest_c=-33.61))


def huber(**given: float | str | bool) -> AbstractAsyncContextManager[Pair[HuberPb, SimulatedHuber]]:
    return against(HuberPb, SimulatedHuber, settings=given)


class FakeHuber:
    def __init__(self) -> None:
        self.values = {0x00: "04DA", 0x01: "04DA", 0x02: "04DA", 0x1B: "0006", 0x1C: "1A80", 0x30: "EC78", 0x31: "3A98"}

    def __call__(self, request: bytes) -> bytes | None:
        assert len(request) == 10
        assert request.startswith(b"{M")
        variable, value = int(request[2:4], 16), request[4:8].decode()
        if variable not in self.values:
            return None
        if value != "****":
            self.values[variable] = value
        return f"{{S{variable:02X}{self.values[variable]}\r\n".encode()


async def test_golden_telegrams() -> None:
    fake = FakeHuber()
    peer = Peer(fake)
    async with linked(HuberPb, peer, COLD) as bath:
        await asyncio.sleep(1)
        assert bath.identity is not None
        assert bath.identity.serial == str(0x61A80)
        assert (bath.min_raw, bath.max_raw) == (-5000, 15000)
        setpoint = bath.actuators["setpoint"]
        assert await setpoint.status() == LevelStatus(12.42, 12.42)
        await setpoint.apply(Level(20.0))
        assert b"{M0007D0\r\n" in peer.sent
        assert await setpoint.status() == LevelStatus(20.0, 12.42)
        await setpoint.apply(Stop())
        assert peer.sent[-2:] == [b"{M00F2DF\r\n", b"{M00****\r\n"]
        fake.values[0x01] = "F830"
        assert await bath.sensors["temperature"].read() == -20.0
        assert peer.sent[-1] == b"{M01****\r\n"


async def test_a_whole_cycle() -> None:
    async with huber() as pair:
        setpoint = pair.driver.actuators["setpoint"]
        assert setpoint.guarantee_for(Level(37.0)) is Guarantee.GUARD
        assert await setpoint.status() == LevelStatus(0.0, pytest.approx(20.0, abs=0.1))  # type: ignore[arg-type]
        for value in (37.0, 37.0, 38.25):
            await setpoint.apply(Level(value))
            assert pair.box.bath.goal_c == value
        assert pair.box.setpoints_taken == 2
        await asyncio.sleep(1200)
        assert await setpoint.status() == LevelStatus(38.25, 38.25)
        assert await pair.driver.sensors["temperature"].read() == 38.25
        assert await pair.driver.sensors["return"].read() == 38.15
        for wrong in (24.9, 42.1, -5.0, math.nan, math.inf):
            with pytest.raises(Refused, match="outside 25 to 42"):
                await setpoint.apply(Level(wrong))
        with pytest.raises(Refused, match="does not know"):
            await setpoint.apply(Switch(True))
        await setpoint.apply(Level(0.0))
        assert pair.box.setpoint == 2000
        await setpoint.apply(Level(37.0))
        await pair.driver.close()
        assert pair.box.setpoint == 2000
        assert (await setpoint.status()).setpoint == 0.0  # type: ignore[union-attr]


async def test_C2_a_missing_process_sensor_is_a_fault() -> None:
    async with huber(regulates="process") as pair:
        with pytest.raises(DeviceFault, match="no value"):
            await pair.driver.sensors["temperature"].read()
        pair.box.process_sensor = True
        assert await pair.driver.sensors["temperature"].read() == pytest.approx(19.6, abs=0.1)


async def test_A7_a_controller_that_does_not_obey_is_told() -> None:
    async with huber() as pair:
        pair.box.locked = True
        with pytest.raises(DeviceFault, match="20 instead of 37"):
            await pair.driver.actuators["setpoint"].apply(Level(37.0))


async def test_the_thermostats_own_limits_are_kept() -> None:
    async with against(
        HuberPb, SimulatedHuber, settings=settings(high_c=100.0), prepare=lambda box: setattr(box, "max_setpoint", 6000)
    ) as pair:
        with pytest.raises(Refused, match="outside -50 to 60"):
            await pair.driver.actuators["setpoint"].apply(Level(80.0))
        assert pair.box.setpoints_taken == 0


@pytest.mark.parametrize(
    ("low", "error", "words"), [(2100, BadSetting, "rest_c is 20"), (15000, WrongDevice, "from 150 to 150")]
)
async def test_A6_limits_that_leave_no_rest_are_told_before_anything_is_set(
    low: int, error: type[DeviceError], words: str
) -> None:
    async with against(
        HuberPb, SimulatedHuber, prepare=lambda box: setattr(box, "min_setpoint", low), verified=False
    ) as pair:
        assert isinstance(pair.failures["d"], error)
        assert words in str(pair.failures["d"])
        with pytest.raises(LinkDown):
            await pair.driver.actuators["setpoint"].apply(Level(37.0))
        assert pair.box.setpoints_taken == 0


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"", NoReply),
        (b"{S0104DA", BadReply),
        (b"{S0104DA\r", BadReply),
        (b"{S0004DA\r\n", BadReply),
        (b"{S0104D\r\n", BadReply),
        (b"{S0104DG\r\n", BadReply),
        (b"{M0104DA\r\n", BadReply),
        (b"{S0104DA0\r\n", BadReply),
        (b"{S01 4DA\r\n", BadReply),
        (b"Z" * 400, BadReply),
    ],
)
async def test_C2_what_is_no_answer_is_never_a_temperature(reply: bytes, error: type[DeviceError]) -> None:
    fake = FakeHuber()
    peer = Peer(fake)
    async with linked(HuberPb, peer, COLD) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: reply or None
        with pytest.raises(error):
            await bath.sensors["temperature"].read()
        peer.answers = fake
        assert await bath.sensors["temperature"].read() == 12.42


async def test_C2_the_true_answer_is_found_after_noise() -> None:
    fake = FakeHuber()
    peer = Peer(fake)
    async with linked(HuberPb, peer, COLD) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: [(0.01, b"\xff\r\n{S0107D0\r{S1B0001\r\nx"), (0.02, fake(request) or b"")]
        assert await bath.sensors["temperature"].read() == 12.42


@pytest.mark.parametrize("late_s", [0.31, 0.5, 0.9, 2.0])
async def test_C2_a_late_temperature_is_not_the_next(late_s: float) -> None:
    fake = FakeHuber()
    peer = Peer(fake)
    async with linked(HuberPb, peer, COLD) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: [(late_s, fake(request) or b"")]
        with pytest.raises(NoReply):
            await bath.sensors["temperature"].read()
        fake.values[0x01] = "03E8"
        free_at = asyncio.get_running_loop().time() - 0.3 + late_s
        peer.answers = lambda request: [
            (max(0.01, free_at - asyncio.get_running_loop().time() + 0.01), fake(request) or b"")
        ]
        for _ in range(6):
            try:
                assert await bath.sensors["temperature"].read() == 10.0
            except DeviceError:
                await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        assert await bath.sensors["temperature"].read() == 10.0


async def test_A2_cancelled_at_every_await_it_rests() -> None:
    for step in range(40):
        async with huber() as pair:
            await asyncio.sleep(1)
            applying = asyncio.ensure_future(pair.driver.actuators["setpoint"].apply(Level(37.0)))
            await asyncio.sleep(0.3 * step / 40)
            done = applying.done()
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)
            assert pair.box.setpoint == (3700 if done else 2000)


async def test_A2_a_lost_confirmation_ends_at_rest() -> None:
    fake = FakeHuber()
    peer = Peer(fake)
    async with linked(HuberPb, peer, DeviceConfig("bath")) as bath:
        fake.values[0x00] = "07D0"
        await asyncio.sleep(1)

        def loses_what_heats(request: bytes) -> bytes | None:
            was, answer = fake.values[0x00], fake(request)
            return None if fake.values[0x00] == "0E74" != was else answer

        peer.answers = loses_what_heats
        with pytest.raises(NoReply):
            await bath.actuators["setpoint"].apply(Level(37.0))
        assert fake.values[0x00] == "07D0"


@pytest.mark.parametrize(
    ("given", "address", "key"),
    [
        ({"low_c": 0.0}, "", "low_c"),
        ({"rest_c": 25.0}, "", "rest_c"),
        ({"regulates": "jacket"}, "", "regulates"),
        ({"pump": 1.0}, "", "pump"),
        ({}, "1", "address"),
    ],
)
async def test_D7_settings_that_cannot_be(given: dict[str, float | str | bool], address: str, key: str) -> None:
    with pytest.raises(BadSetting, match=key):
        HuberPb(Link(LinkUrl.parse("sim:x"), Peer(lambda _: None).open), DeviceConfig("bath", address, given))


@pytest.mark.virtual_time
async def test_B4_a_device_with_another_serial_number_gets_no_command_after_a_reconnection() -> None:
    async with against(HuberPb, SimulatedHuber) as pair:
        serial, bath = pair.box.serial, next(iter(pair.driver.actuators.values()))
        pair.box.serial = serial + 1
        with pytest.raises(WrongDevice, match=f"serial number {serial + 1} answers, and it was {serial}"):
            await pair.driver.verify()
        assert not pair.driver.conversation.verified
        with pytest.raises(LinkDown):
            await bath.apply(Level(37.0))
        pair.box.serial = serial
        await pair.driver.verify()
        assert pair.driver.conversation.verified
