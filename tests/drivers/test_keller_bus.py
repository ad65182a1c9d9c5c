"""Keller bus: golden frames, errors, late replies, and the driver against the simulated transmitter."""

from __future__ import annotations

import asyncio
import math
import struct

import pytest

from drivers.commands import Quality
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.keller_bus import float_frame, initialise_frame, serial_frame, with_checksum
from drivers.keller_bus_transmitter import KellerBus
from drivers.settings import BadSetting
from sim.devices.keller_bus import KellerBus as SimulatedKellerBus
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.sensor_bench import simulated
from tests.sim.bench import RecordingPlant

FACTS = {
    "keller-bus": DriverFacts(
        line="9600 8N1", functions=(1, (48, 69, 73)), no_health="its faults are no number (NaN, infinite)"
    ),
}

pytestmark = pytest.mark.virtual_time

CONFIG = DeviceConfig("p", address="1")
GOOD = bytes.fromhex("01 49 3F 7C D6 A1 00 64 90")


class FakeTransmitter:
    def __init__(self) -> None:
        self.identity = bytes.fromhex("01 30 05 14 0C 28 08 01 CA C4")
        self.values = {1: bytes.fromhex("3F 7C D6 A1 00"), 4: struct.pack(">f", 36.5) + b"\0"}

    def __call__(self, request: bytes) -> bytes | None:
        assert with_checksum(request[:-2]) == request
        match request[1]:
            case 48:
                return self.identity
            case 69:
                return with_checksum(bytes.fromhex("01 45 00 AB CD EF"))
            case 73 if request[2] in self.values:
                return with_checksum(bytes.fromhex("01 49") + self.values[request[2]])
        return with_checksum(bytes((1, request[1] | 0x80, 2)))


def test_golden_requests() -> None:
    assert initialise_frame(1) == bytes.fromhex("01 30 34 00")
    assert serial_frame(1) == bytes.fromhex("01 45 D3 C1")
    assert float_frame(1, 1) == bytes.fromhex("01 49 01 50 D6")


async def test_golden_pressure_temperature_and_identity() -> None:
    fake = FakeTransmitter()
    peer = Peer(fake)
    async with linked(KellerBus, peer, CONFIG, verified=False) as gauge:
        assert peer.sent[0] == bytes.fromhex("01 30 34 00")  # before anything else
        peer.sent.clear()
        assert await gauge.sensors["pressure"].read() == pytest.approx(98.765, abs=1e-4)
        assert await gauge.sensors["temperature"].read() == 36.5
        assert peer.sent == [bytes.fromhex("01 49 01 50 D6"), with_checksum(b"\x01\x49\x04")]
        assert [gauge.sensors[point].unit for point in ("pressure", "temperature")] == ["kPa", "degC"]
        assert gauge.identity is not None
        assert (gauge.identity.serial, gauge.identity.firmware) == (str(0xABCDEF), "5.20-12.40")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (GOOD[:-1] + b"\x91", BadReply),
        (GOOD[:-2] + GOOD[:-3:-1], BadReply),  # the checksum as Modbus writes it
        (GOOD[:-3], BadReply),
        (with_checksum(b"\x02" + GOOD[1:-2]), BadReply),
        (with_checksum(bytes.fromhex("01 45 00 AB CD EF")), BadReply),
        (with_checksum(bytes.fromhex("01 C9 02")), Refused),
        (with_checksum(bytes.fromhex("01 C9 20")), DeviceFault),
        (with_checksum(b"\x01\x49" + struct.pack(">f", math.nan) + b"\0"), DeviceFault),
        (with_checksum(b"\x01\x49" + struct.pack(">f", math.inf) + b"\0"), DeviceFault),
        (with_checksum(b"\x01\x49" + struct.pack(">f", -math.inf) + b"\0"), DeviceFault),
        (b"\x01\x49" * 150, BadReply),
        (b"", NoReply),
    ],
)
async def test_C2_what_is_no_pressure_is_no_number(reply: bytes, error: type[DeviceError]) -> None:
    fake = FakeTransmitter()
    peer = Peer(fake)
    async with linked(KellerBus, peer, CONFIG) as gauge:
        peer.answers = lambda request: reply or None
        with pytest.raises(error):
            await gauge.sensors["pressure"].read()
        peer.answers = fake
        await asyncio.sleep(1.0)  # verified again, where that was needed
        assert await gauge.sensors["pressure"].read() == pytest.approx(98.765, abs=1e-4)


@pytest.mark.parametrize("late_s", [0.31, 0.36, 0.5, 0.9, 2.1])
async def test_C2_a_late_temperature_is_no_pressure(late_s: float) -> None:
    """The answer does not say which channel it is of."""
    fake = FakeTransmitter()
    peer = Peer(fake)
    async with linked(KellerBus, peer, CONFIG) as gauge:
        peer.answers = lambda request: [(late_s, fake(request) or b"")]
        with pytest.raises(NoReply):
            await gauge.sensors["temperature"].read()
        free_at = asyncio.get_running_loop().time() - 0.3 + late_s

        def in_order(request: bytes) -> list[Say]:
            wait_s = max(0.01, free_at - asyncio.get_running_loop().time() + 0.01)
            return [(wait_s, fake(request) or b"")]

        peer.answers = in_order
        for _ in range(6):
            try:
                assert await gauge.sensors["pressure"].read() == pytest.approx(98.765, abs=1e-4)
            except DeviceError:
                await asyncio.sleep(0.2)
        await asyncio.sleep(3.0)
        assert await gauge.sensors["pressure"].read() == pytest.approx(98.765, abs=1e-4)


async def test_a_status_makes_a_value_uncertain() -> None:
    fake = FakeTransmitter()
    async with linked(KellerBus, Peer(fake), CONFIG) as gauge:
        fake.values[1] = bytes.fromhex("3F 7C D6 A1 02")
        assert await gauge.sensors["pressure"].read() == pytest.approx(98.765, abs=1e-4)
        assert gauge.sensors["pressure"].quality is Quality.SUSPECT


async def test_another_class_or_a_pressure_of_no_transmitter_is_not_trusted() -> None:
    fake = FakeTransmitter()
    fake.identity = with_checksum(bytes.fromhex("01 30 01 01 0C 28 08 01"))
    async with linked(KellerBus, Peer(fake), CONFIG, verified=False) as gauge:
        assert isinstance(gauge.link.failures["p"], WrongDevice)
    fake = FakeTransmitter()
    fake.values[1] = struct.pack(">f", 1e6) + b"\0"
    async with linked(KellerBus, Peer(fake), CONFIG, verified=False) as gauge:
        assert isinstance(gauge.link.failures["p"], WrongDevice)


@pytest.mark.parametrize(
    "config",
    [
        DeviceConfig("p", "0"),
        DeviceConfig("p", "251"),
        DeviceConfig("p", "one"),
        DeviceConfig("p", "1", settings(zero_kpa=300.0)),
        DeviceConfig("p", "1", settings(temperature_channel="P2")),
        DeviceConfig("p", "1", settings(range=1.0)),
    ],
)
async def test_settings_that_make_no_sense(config: DeviceConfig) -> None:
    with pytest.raises(BadSetting):
        async with linked(KellerBus, Peer(FakeTransmitter()), config):
            pass


@pytest.mark.parametrize("echo", [False, True])
async def test_the_whole_cycle_with_the_simulated_transmitter(echo: bool) -> None:
    plant = RecordingPlant(d__pressure=40.0, d__temperature=36.5)
    given = settings(zero_kpa=2.0)
    async with simulated(KellerBus, SimulatedKellerBus, plant, address="7", settings=given, echo=echo) as (
        gauge,
        device,
    ):
        assert isinstance(device, SimulatedKellerBus)
        assert gauge.identity is not None
        assert gauge.identity.serial == str(device.serial)
        assert await gauge.sensors["pressure"].read() == pytest.approx(38.0, abs=1e-4)
        assert await gauge.sensors["temperature"].read() == 36.5
        plant.values["d.pressure"] = 5000.0
        with pytest.raises(DeviceFault, match="out of range"):
            await gauge.sensors["pressure"].read()
        plant.values["d.pressure"] = 12.0
        device.power_cycle()
        with pytest.raises(DeviceFault, match="lost its power"):
            await gauge.sensors["pressure"].read()
        await asyncio.sleep(1.0)
        assert await gauge.sensors["pressure"].read() == pytest.approx(10.0, abs=1e-4)
        assert device.zero_bar == 0.0


async def test_a_reading_cut_short_leaves_nothing_that_the_next_one_could_take() -> None:
    plant = RecordingPlant(d__pressure=40.0, d__temperature=36.5)
    async with simulated(KellerBus, SimulatedKellerBus, plant) as (gauge, _):
        reading = asyncio.ensure_future(gauge.sensors["temperature"].read())
        await asyncio.sleep(0.005)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert await gauge.sensors["pressure"].read() == pytest.approx(40.0, abs=1e-4)
