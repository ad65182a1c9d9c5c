"""GMP251/252 against the guide's frames, and the driver against the simulated probe."""

from __future__ import annotations

import asyncio
import math
import struct

import pytest

from drivers.commands import Quality
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.settings import BadSetting
from drivers.vaisala_gmp25x import VaisalaGmp25x
from sim.devices import vaisala_gmp25x as sim
from tests.drivers.facts import MODBUS_READS, DriverFacts
from tests.drivers.fakes import crc
from tests.drivers.peer import linked, settings
from tests.drivers.sensor_bench import simulated
from tests.sim.bench import RecordingPlant

FACTS = {
    "vaisala-gmp25x": DriverFacts(
        line="19200 8N2",
        functions=(1, MODBUS_READS),
        stored=(
            {"address": 7, "stored": [950.0, 37.0, 90.0, 20.0], "filtering": 50},
            {"address": 240, "stored": [1013.25, 25.0, 0.0, 0.0], "filtering": 100},
        ),
        no_health="its status comes with each reading",
    ),
}

pytestmark = pytest.mark.virtual_time

CONFIG = DeviceConfig("co2")
CO2 = bytes.fromhex("F0 03 04 D4 7A 43 E8 33 AB")
IDENTITY = crc(bytes.fromhex("F0 2B 0E 01 01 00 00 03 00 07") + b"Vaisala\x01\x06GMP251\x02\x051.2.0")


class FakeProbe:
    def __init__(self) -> None:
        self.co2 = CO2
        self.status = bytes(4)
        self.identity: bytes | None = IDENTITY

    def __call__(self, request: bytes) -> bytes | None:
        assert crc(request[:-2]) == request
        match request.hex(" ").upper():
            case "F0 03 00 00 00 02 D1 2A":
                return self.co2
            case "F0 03 08 00 00 02 D3 4A":
                return crc(bytes.fromhex("F0 03 04") + self.status)
            case text if text.startswith("F0 03 00 00 00 04"):
                return crc(bytes.fromhex("F0 03 08") + self.co2[3:7] + bytes(4))
            case text if text.startswith("F0 03 02 08 00 08"):
                compensations = b"".join(_low_word_first(value) for value in (1013.0, 25.0, 0.0, 0.0))
                return crc(bytes.fromhex("F0 03 10") + compensations)
            case text if text.startswith("F0 2B 0E 01 00"):
                return self.identity
        return crc(bytes((0xF0, request[1] | 0x80, 2)))


def _low_word_first(value: float) -> bytes:
    data = struct.pack(">f", value)
    return data[2:] + data[:2]


def block(ppm: float, address: int = 0xF0) -> bytes:
    data = struct.pack(">f", ppm)
    return crc(bytes((address, 3, 4)) + data[2:] + data[:2])


async def test_golden_reading() -> None:
    peer = Peer(FakeProbe())
    async with linked(VaisalaGmp25x, peer, CONFIG) as probe:
        assert await probe.sensors["co2"].read() == pytest.approx(465.65997)
        assert probe.sensors["co2"].unit == "ppm"
        assert peer.sent == [bytes.fromhex("F0 03 00 00 00 02 D1 2A"), bytes.fromhex("F0 03 08 00 00 02 D3 4A")]
        assert peer.lines[0].text == "19200 8N2"
        assert probe.identity is not None
        assert (probe.identity.model, probe.identity.firmware) == ("GMP251", "1.2.0")


@pytest.mark.parametrize(
    ("status", "quality"),
    [
        ("0000 0000", Quality.GOOD),
        ("0004 0000", Quality.SUSPECT),
        ("0000 0002", Quality.MISSING),
        ("0000 0400", Quality.SUSPECT),
        ("0000 0100", None),
        ("0001 0000", None),
        ("0002 0000", None),
        ("0006 0000", None),
    ],
)
async def test_the_probes_own_status_is_quality_or_fault(status: str, quality: Quality | None) -> None:
    fake = FakeProbe()
    async with linked(VaisalaGmp25x, Peer(fake), CONFIG) as probe:
        fake.status = bytes.fromhex(status)
        if quality is None:
            with pytest.raises(DeviceFault):
                await probe.sensors["co2"].read()
        else:
            assert await probe.sensors["co2"].read() == pytest.approx(465.66)
            assert probe.sensors["co2"].quality is quality


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (CO2[:-1] + b"\x00", BadReply),
        (CO2[:-2], BadReply),
        (block(400.0, address=0xF1), BadReply),
        (crc(bytes.fromhex("F0 03 08") + bytes(8)), BadReply),
        (crc(bytes.fromhex("F0 83 02")), Refused),
        (block(math.nan), DeviceFault),
        (block(math.inf), DeviceFault),
        (block(1e9), WrongDevice),
        (block(-1e9), WrongDevice),
        (b"\xff" * 300, BadReply),
        (b"", NoReply),
    ],
)
async def test_C2_what_is_no_concentration_is_no_number(reply: bytes, error: type[DeviceError]) -> None:
    fake = FakeProbe()
    peer = Peer(fake)
    async with linked(VaisalaGmp25x, peer, CONFIG) as probe:
        peer.answers = lambda request: (reply or None) if request[2] == 0 else fake(request)
        with pytest.raises(error):
            await probe.sensors["co2"].read()
        peer.answers = fake
        assert await probe.sensors["co2"].read() == pytest.approx(465.66)


@pytest.mark.parametrize("late_s", [0.51, 0.55, 0.7, 1.0, 1.6])
async def test_C2_a_late_status_is_no_concentration_and_a_late_value_not_the_next(late_s: float) -> None:
    fake = FakeProbe()
    peer = Peer(fake)
    async with linked(VaisalaGmp25x, peer, CONFIG) as probe:
        for late in (b"\x00\x00", b"\x08\x00"):

            def delayed(request: bytes, late: bytes = late) -> list[Say]:
                return [(late_s if request[2:4] == late else 0.01, fake(request) or b"")]

            peer.answers = delayed
            asked_s = asyncio.get_running_loop().time()
            with pytest.raises(NoReply):
                await probe.sensors["co2"].read()
            fake.co2 = block(800.0)
            free_at = asked_s + late_s + 0.1

            def in_order(request: bytes, free_at: float = free_at) -> list[Say]:
                wait_s = max(0.01, free_at - asyncio.get_running_loop().time() + 0.01)
                return [(wait_s, fake(request) or b"")]

            peer.answers = in_order
            for _ in range(6):
                try:
                    assert await probe.sensors["co2"].read() == 800.0
                except DeviceError:
                    await asyncio.sleep(0.2)
            assert await probe.sensors["co2"].read() == 800.0


async def test_who_says_to_be_another_is_not_trusted_and_a_gateway_that_hides_it_will_do() -> None:
    fake = FakeProbe()
    for text in (b"\x00\x07Vaisala\x01\x05HMP7x\x02\x011", b"\x00\x04Acme\x01\x06GMP252\x02\x011"):
        fake.identity = crc(bytes.fromhex("F0 2B 0E 01 01 00 00 03") + text)
        async with linked(VaisalaGmp25x, Peer(fake), CONFIG, verified=False) as probe:
            assert isinstance(probe.link.failures["co2"], WrongDevice)
    for silent in (None, crc(bytes.fromhex("F0 AB 01")), IDENTITY[:-4], IDENTITY[:-1] + b"\x00"):
        fake.identity = silent
        async with linked(VaisalaGmp25x, Peer(fake), CONFIG) as probe:
            assert await probe.sensors["co2"].read() == pytest.approx(465.66)


@pytest.mark.parametrize(
    "given",
    [
        settings(pressure_hpa=600.0),
        settings(temperature_c=81.0),
        settings(humidity_percent=-1.0),
        settings(oxygen_percent=True),
        settings(filter=1.0),
    ],
)
async def test_settings_beyond_the_makers_range(given: dict[str, float | str | bool]) -> None:
    with pytest.raises(BadSetting):
        async with linked(VaisalaGmp25x, Peer(FakeProbe()), DeviceConfig("co2", "", given)):
            pass


async def test_a_compensation_that_the_probe_does_not_take_is_told() -> None:
    fake = FakeProbe()

    def deaf(request: bytes) -> bytes | None:
        if request[1] == 16:
            return crc(request[:6])
        if request[2:4] == b"\x02\x08":
            return crc(bytes((0xF0, 3, 16)) + bytes(16))
        return fake(request)

    config = DeviceConfig("co2", "", settings(oxygen_percent=20.9))
    peer = Peer(deaf)
    async with linked(VaisalaGmp25x, peer, config, verified=False) as probe:
        assert isinstance(probe.link.failures["co2"], Refused)
        assert crc(bytes.fromhex("F0 10 02 0E 00 02 04 33 33 41 A7")) in peer.sent


async def test_the_whole_cycle_with_the_simulated_probe() -> None:
    plant = RecordingPlant(d__co2=50_000.0)
    given = settings(humidity_percent=95.0, pressure_hpa=980.0)
    async with simulated(VaisalaGmp25x, sim.VaisalaGmp25x, plant, settings=given) as (probe, device):
        assert isinstance(device, sim.VaisalaGmp25x)
        assert device.volatile == [980.0, 25.0, 95.0, 0.0]
        assert await probe.sensors["co2"].read() == 50_000.0
        assert probe.sensors["co2"].quality is Quality.GOOD
        plant.values["d.co2"] = 412.5
        assert await probe.sensors["co2"].read() == 412.5
        device.power_cycle()
        assert device.volatile == [1013.25, 25.0, 0.0, 0.0]
        with pytest.raises(DeviceFault, match="no measurement yet"):
            await probe.sensors["co2"].read()
        assert device.volatile == [980.0, 25.0, 95.0, 0.0]  # written again at once
        await asyncio.sleep(3)
        assert [await probe.sensors["co2"].read(), probe.sensors["co2"].quality] == [412.5, Quality.MISSING]
        await asyncio.sleep(10)
        assert [await probe.sensors["co2"].read(), probe.sensors["co2"].quality] == [412.5, Quality.GOOD]
        device.power_cycle()
        await asyncio.sleep(60)  # a reset that was not noticed
        assert [await probe.sensors["co2"].read(), probe.sensors["co2"].quality] == [412.5, Quality.SUSPECT]
        assert [await probe.sensors["co2"].read(), probe.sensors["co2"].quality] == [412.5, Quality.GOOD]
        assert device.volatile == [980.0, 25.0, 95.0, 0.0]
        assert device.memory_writes == 0


async def test_a_reading_cut_short_leaves_nothing_that_the_next_one_could_take() -> None:
    plant = RecordingPlant(d__co2=400.0)
    async with simulated(VaisalaGmp25x, sim.VaisalaGmp25x, plant) as (probe, _):
        reading = asyncio.ensure_future(probe.sensors["co2"].read())
        await asyncio.sleep(0.004)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        plant.values["d.co2"] = 900.0
        assert await probe.sensors["co2"].read() == 900.0
