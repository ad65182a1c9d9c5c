"""Eurotherm 3200: golden frames, and a whole cycle against the simulated controller that never wears its EEPROM."""

from __future__ import annotations

import asyncio
import math
import struct
from contextlib import AbstractAsyncContextManager

import pytest

from drivers.commands import Guarantee, Level, LevelStatus, Stop, Switch
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, LinkDown, NoReply, Refused, WrongDevice
from drivers.eurotherm_3200 import REFRESH_S, Eurotherm3200
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.devices.eurotherm_3200 import Eurotherm3200 as SimulatedEurotherm
from tests.drivers.against_sim import Pair, against
from tests.drivers.facts import MODBUS_READS, DriverFacts
from tests.drivers.fakes import crc
from tests.drivers.peer import linked, settings

FACTS = {
    "eurotherm-3200": DriverFacts(
        line="9600 8N1",
        functions=(1, MODBUS_READS),
        stored=({"address": 7, "remote_selected": True}, {"address": 1, "remote_selected": False}),
    ),
}

pytestmark = pytest.mark.virtual_time

GOLDEN_READ = (bytes.fromhex("01 03 00 01 00 01 D5 CA"), bytes.fromhex("01 03 02 01 72 39 F1"))
WRITE = bytes.fromhex("01 06 00 1A 01 72")


class FakeController:
    """Addresses 1 to 5, 11, 12, 26 and 107."""

    def __init__(self) -> None:
        self.words = {1: 370, 2: 200, 3: 0, 4: 125, 5: 200, 11: -100, 12: 1000, 26: 0, 107: 0x0210}
        self.writes: list[tuple[int, int]] = []

    def __call__(self, request: bytes) -> bytes:
        assert crc(request[:-2]) == request
        address, value = struct.unpack(">Hh", request[2:6])
        if request[1] == 6:
            self.writes.append((address, value))
            self.words[address] = self.words[5] = value
            return request
        words = [self.words[address + at] for at in range(value)]
        return crc(bytes((1, 3, 2 * value)) + struct.pack(f">{value}h", *words))


CONFIG = DeviceConfig("bath", "1")


def eurotherm(**given: float | str | bool) -> AbstractAsyncContextManager[Pair[Eurotherm3200, SimulatedEurotherm]]:
    return against(Eurotherm3200, SimulatedEurotherm, address="1", settings=given)


async def test_golden_frames() -> None:
    fake = FakeController()
    peer = Peer(fake)
    async with linked(Eurotherm3200, peer, CONFIG) as bath:
        await asyncio.sleep(1)
        assert await bath.sensors["temperature"].read() == 37.0
        assert await bath.sensors["power"].read() == 12.5
        assert peer.sent == [crc(bytes.fromhex("01 03 00 01 00 05"))]
        await bath.actuators["setpoint"].apply(Level(37.0))
        assert crc(WRITE) in peer.sent
        peer.answers = {GOLDEN_READ[0]: GOLDEN_READ[1]}.get
        assert await bath.unit.read_holding_registers(1, 1) == b"\x01\x72"
        golden_write = bytes.fromhex("01 06 00 02 01 72 A9 BF")
        peer.answers = lambda request: request
        await bath.unit.write_register(2, 0x172)
        assert peer.sent[-1] == golden_write


async def test_a_whole_cycle() -> None:
    async with eurotherm() as pair:
        bath, box = pair.driver, pair.box
        setpoint = bath.actuators["setpoint"]
        assert bath.identity is not None
        assert bath.identity.firmware == "0210"
        assert setpoint.guarantee_for(Level(37.0)) is Guarantee.GUARD
        assert await setpoint.status() == LevelStatus(0.0, 20.0)
        await setpoint.apply(Level(37.0))
        await setpoint.apply(Level(37.0))
        assert box.bath.goal_c == 37.0
        for _ in range(600):
            await asyncio.sleep(1)
            await bath.sensors["temperature"].read()
        status = await setpoint.status()
        assert status == LevelStatus(37.0, 36.9)
        assert 0.0 < await bath.sensors["power"].read() < 50.0
        for wrong in (24.9, 42.1, -5.0, math.nan, math.inf):
            with pytest.raises(Refused, match="outside 25 to 42"):
                await setpoint.apply(Level(wrong))
        with pytest.raises(Refused, match="does not know"):
            await setpoint.apply(Switch(True))
        await setpoint.apply(Level(0.0))
        assert box.bath.goal_c == 20.0
        await setpoint.apply(Level(38.0))
        await bath.close()
        assert box.bath.goal_c == 20.0
        assert (await setpoint.status()) == LevelStatus(0.0, pytest.approx(36.9, abs=0.3))  # type: ignore[arg-type]
        assert box.memory_writes == 0


async def test_the_remote_set_point_is_repeated_by_polls_and_forgotten_without_them() -> None:
    async with eurotherm() as pair:
        setpoint = pair.driver.actuators["setpoint"]
        await setpoint.apply(Level(37.0))
        for _ in range(15):
            await asyncio.sleep(2)
            await pair.driver.sensors["temperature"].read()
            assert pair.box.working() == 370
        await asyncio.sleep(5.1)  # the host is gone: nothing polls
        assert pair.box.bath.goal_c == 20.0
        assert pair.box.memory_writes == 0


async def test_A6_after_a_new_connection_nothing_is_repeated_unasked() -> None:
    async with eurotherm() as pair:
        setpoint = pair.driver.actuators["setpoint"]
        await setpoint.apply(Level(37.0))
        pair.line.unplug()
        await asyncio.sleep(8)
        pair.line.plug()
        await asyncio.sleep(12)
        for _ in range(5):
            await asyncio.sleep(REFRESH_S)
            await pair.driver.sensors["temperature"].read()
        assert pair.box.working() == 200
        assert (await setpoint.status()).setpoint == 0.0  # type: ignore[union-attr]


async def test_A7_a_controller_that_does_not_follow_is_told_and_set_to_rest() -> None:
    async with eurotherm() as pair:
        pair.box.remote_selected = False
        pair.box._stored[24] = 250
        with pytest.raises(Refused, match="remote set-point is not selected") as caught:
            await pair.driver.actuators["setpoint"].apply(Level(37.0))
        assert "25 instead of 37" in str(caught.value)
        assert pair.box.bath.goal_c == 25.0


async def test_C2_a_broken_sensor_is_a_fault() -> None:
    async with eurotherm() as pair:
        pair.box.sensor_broken = True
        await asyncio.sleep(1)
        with pytest.raises(DeviceFault, match="broken or unplugged sensor"):
            await pair.driver.sensors["temperature"].read()


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (crc(bytes((1, 3, 10)) + bytes(10))[:-1] + b"\x01", BadReply),
        (crc(bytes((1, 3, 10)) + bytes(10))[:-4], BadReply),
        (crc(bytes((2, 3, 10)) + bytes(10)), BadReply),
        (crc(bytes((1, 4, 10)) + bytes(10)), BadReply),
        (GOLDEN_READ[1], BadReply),
        (crc(bytes((1, 0x83, 2))), Refused),
        (b"", NoReply),
    ],
)
async def test_C2_what_is_no_answer_is_never_a_temperature(reply: bytes, error: type[DeviceError]) -> None:
    fake = FakeController()
    peer = Peer(fake)
    async with linked(Eurotherm3200, peer, CONFIG) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: reply or None
        with pytest.raises(error):
            await bath.sensors["temperature"].read()
        peer.answers = fake
        assert await bath.sensors["temperature"].read() == 37.0


@pytest.mark.parametrize("late_s", [0.31, 0.5, 0.9, 2.0])
async def test_C2_a_late_temperature_is_not_the_next(late_s: float) -> None:
    fake = FakeController()
    peer = Peer(fake)
    async with linked(Eurotherm3200, peer, CONFIG) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: [(late_s, fake(request))]
        with pytest.raises(NoReply):
            await bath.sensors["temperature"].read()
        fake.words[1] = 100
        free_at = asyncio.get_running_loop().time() - 0.3 + late_s
        peer.answers = lambda request: [(max(0.01, free_at - asyncio.get_running_loop().time() + 0.01), fake(request))]
        for _ in range(6):
            try:
                assert await bath.sensors["temperature"].read() == 10.0
            except DeviceError:
                await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        assert await bath.sensors["temperature"].read() == 10.0


async def test_A2_cancelled_at_every_await_it_rests() -> None:
    for step in range(40):
        async with eurotherm() as pair:
            await asyncio.sleep(1)
            applying = asyncio.ensure_future(pair.driver.actuators["setpoint"].apply(Level(37.0)))
            await asyncio.sleep(0.3 * step / 40)
            done = applying.done()
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)
            assert (pair.box.working() == 370) == done


async def test_A2_a_lost_confirmation_ends_at_rest() -> None:
    fake = FakeController()
    peer = Peer(fake)
    async with linked(Eurotherm3200, peer, CONFIG) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: None if fake(request)[1] == 6 and fake.words[5] == 370 else fake(request)
        with pytest.raises(NoReply):
            await bath.actuators["setpoint"].apply(Level(37.0))
        assert fake.words[5] == 200
        assert {address for address, _ in fake.writes} == {26}


async def test_a_stop_is_not_overtaken_by_a_repetition() -> None:
    async with eurotherm() as pair:
        setpoint = pair.driver.actuators["setpoint"]
        await setpoint.apply(Level(37.0))
        await asyncio.sleep(2)
        await asyncio.gather(
            pair.driver.sensors["temperature"].read(), setpoint.apply(Stop()), pair.driver.sensors["power"].read()
        )
        for _ in range(5):
            await asyncio.sleep(2)
            await pair.driver.sensors["temperature"].read()
            assert pair.box.working() == 200


async def test_A6_another_device_is_told() -> None:
    fake = FakeController()
    fake.words[11], fake.words[12] = 5, 5
    async with linked(Eurotherm3200, Peer(fake), CONFIG, verified=False) as bath:
        assert isinstance(bath.link.failures["bath"], WrongDevice)
        with pytest.raises(LinkDown):
            await bath.actuators["setpoint"].apply(Level(37.0))
        assert fake.writes == []


@pytest.mark.parametrize("decimals", [0, 1, 2])
async def test_decimal_places(decimals: int) -> None:
    async with eurotherm(decimals=decimals) as pair:
        await pair.driver.actuators["setpoint"].apply(Level(37.0))
        assert pair.box.bath.goal_c == pytest.approx(37.0)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"decimals": 3}, "decimals"),
        ({"decimals": 1.5}, "decimals"),
        ({"low_c": 0.0}, "low_c"),
        ({"low_c": 43.0, "high_c": 42.0}, "low_c"),
        ({"rest_c": 25.0}, "rest_c"),
        ({"rest_c": "cold"}, "rest_c"),
        ({"ramp": 1.0}, "ramp"),
    ],
)
async def test_D7_settings_that_cannot_be(given: dict[str, float | str | bool], key: str) -> None:
    with pytest.raises(BadSetting, match=key):
        Eurotherm3200(Link(LinkUrl.parse("sim:x"), Peer(lambda _: None).open), DeviceConfig("bath", "1", given))


async def test_a_level_that_was_there_before_survives_a_failed_change() -> None:
    fake = FakeController()
    peer = Peer(fake)
    async with linked(Eurotherm3200, peer, DeviceConfig("bath", "1", settings(low_c=30.0))) as bath:
        await bath.actuators["setpoint"].apply(Level(37.0))
        peer.answers = lambda request: None if request[1] == 6 else fake(request)
        with pytest.raises(NoReply):
            await bath.actuators["setpoint"].apply(Level(38.0))
        assert fake.words[5] == 370
