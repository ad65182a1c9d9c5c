"""Hamilton Arc sensors against the manual's frames, and the driver against the simulated sensor."""

from __future__ import annotations

import asyncio
import math
import struct

import pytest

from drivers.commands import Quality
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.hamilton_arc import HamiltonPhArc, HamiltonVisifermDo
from drivers.settings import BadSetting
from sim.devices import hamilton_arc as sim
from tests.drivers.facts import MODBUS_READS, DriverFacts
from tests.drivers.fakes import crc
from tests.drivers.peer import linked, settings
from tests.drivers.sensor_bench import simulated
from tests.sim.bench import RecordingPlant

FACTS = {
    "hamilton-ph-arc": DriverFacts(
        line="19200 8N2",
        functions=(1, MODBUS_READS),
        stored=(
            {"address": 7, "unit": 0x200000, "_offset": 0.2},
            {"address": 1, "unit": 0x1000, "_offset": 0.0},
        ),
    ),
    "hamilton-visiferm-do": DriverFacts(
        line="19200 8N2",
        functions=(1, MODBUS_READS),
        stored=({"address": 7, "_offset": 0.2}, {"address": 1, "_offset": 0.0}),
    ),
}

pytestmark = pytest.mark.virtual_time

CONFIG = DeviceConfig("arc", address="1")
PH_BLOCK = bytes.fromhex("01 03 14 10 00 00 00 CD 0C 40 80 00 00 00 00 00 00 00 00 00 00 41 60 77 0D")
T_BLOCK = bytes.fromhex("01 03 14 00 04 00 00 DD E1 41 C2 00 00 00 00 00 00 C1 A0 00 00 43 02 8D 2D")
GOLDEN = {
    "01 03 08 29 00 0A 16 65": PH_BLOCK,
    "01 03 09 69 00 0A 16 4D": T_BLOCK,
    "01 03 10 BF 00 04 71 2D": bytes.fromhex("01 03 08 00 30 00 00 00 00 00 00 A5 D4"),
    "01 03 13 07 00 02 71 4E": bytes.fromhex("01 03 04 00 00 42 C8 CB 05"),
}


def golden(request: bytes) -> bytes | None:
    return GOLDEN.get(request.hex(" ").upper())


def block(
    value: float, *, unit: int = 0x1000, status: int = 0, low: float = 0.0, high: float = 14.0, address: int = 1
) -> bytes:
    words = b"".join(
        data[2:] + data[:2] for data in (struct.pack(">I", unit), struct.pack(">f", value), struct.pack(">I", status))
    ) + b"".join(data[2:] + data[:2] for data in (struct.pack(">f", low), struct.pack(">f", high)))
    return crc(bytes((address, 3, 20)) + words)


async def test_golden_ph_and_temperature() -> None:
    peer = Peer(golden)
    async with linked(HamiltonPhArc, peer, CONFIG) as arc:
        assert await arc.sensors["ph"].read() == pytest.approx(4.02503)
        assert await arc.sensors["temperature"].read() == pytest.approx(24.35834)
        assert peer.sent == [
            bytes.fromhex("01 03 08 29 00 0A 16 65"),
            bytes.fromhex("01 03 09 69 00 0A 16 4D"),
        ]
        assert (arc.sensors["ph"].unit, arc.sensors["temperature"].unit) == ("pH", "degC")
        assert arc.identity is not None
        assert arc.identity.model == "pH Arc"
        assert peer.lines[0].text == "19200 8N2"


async def test_golden_the_level_of_the_configuration_is_asked_for_with_its_password_and_read_back() -> None:
    level = [0x03]

    def answers(request: bytes) -> bytes | None:
        if request == bytes.fromhex("01 10 10 BF 00 04 08 00 0C 00 00 5D EA 01 14 21 07"):
            level[0] = 0x0C
            return bytes.fromhex("01 10 10 BF 00 04 F4 EE")
        if request == bytes.fromhex("01 03 10 BF 00 04 71 2D"):
            return crc(bytes((1, 3, 8, 0, level[0])) + bytes(6))
        return golden(request)

    config = DeviceConfig("arc", "1", settings(operator_level="A", operator_password=18111978))
    peer = Peer(answers)
    async with linked(HamiltonPhArc, peer, config) as arc:
        assert level == [0x0C]
        await arc.verify()
        assert not any(request[1] == 16 for request in peer.sent)  # already there


@pytest.mark.parametrize(
    ("status", "value", "quality"),
    [
        (0x00, 7.0, Quality.GOOD),
        (0x01, 7.0, Quality.MISSING),
        (0x02, 7.0, Quality.SUSPECT),
        (0x04, 7.0, Quality.SUSPECT),
        (0x08, 7.0, Quality.SUSPECT),
        (0x10, 7.0, Quality.MISSING),
        (0x18, 7.0, Quality.MISSING),
        (0x100, 7.0, Quality.SUSPECT),
        (0x00, 14.5, Quality.MISSING),
        (0x00, -0.5, Quality.MISSING),
    ],
)
async def test_the_sensors_own_status_is_the_quality(status: int, value: float, quality: Quality) -> None:
    peer = Peer(golden)
    async with linked(HamiltonPhArc, peer, CONFIG) as arc:
        peer.answers = lambda request: block(value, status=status)
        assert await arc.sensors["ph"].read() == pytest.approx(value)
        assert arc.sensors["ph"].quality is quality
        peer.answers = golden
        await arc.sensors["ph"].read()
        assert arc.sensors["ph"].quality is Quality.GOOD


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (PH_BLOCK[:-1] + b"\x00", BadReply),
        (PH_BLOCK[:-3], BadReply),
        (block(7.0, address=2), BadReply),
        (crc(bytes.fromhex("01 03 04 00 00 42 C8")), BadReply),  # the answer to something shorter
        (crc(bytes((1, 0x83, 2))), Refused),
        (block(math.nan), DeviceFault),
        (block(math.inf), DeviceFault),
        (block(59.0, unit=0x200000), DeviceFault),  # another unit
        (T_BLOCK, DeviceFault),  # the temperature is no pH
        (b"\x55" * 300, BadReply),
        (b"", NoReply),
    ],
)
async def test_C2_what_is_no_measurement_is_no_number(reply: bytes, error: type[DeviceError]) -> None:
    peer = Peer(golden)
    async with linked(HamiltonPhArc, peer, CONFIG) as arc:
        peer.answers = lambda request: reply or None
        with pytest.raises(error):
            await arc.sensors["ph"].read()
        peer.answers = golden
        assert await arc.sensors["ph"].read() == pytest.approx(4.02503)


@pytest.mark.parametrize("late_s", [0.51, 0.55, 0.7, 1.0, 1.6])
async def test_C2_a_late_value_is_not_the_next_value(late_s: float) -> None:
    peer = Peer(golden)
    async with linked(HamiltonPhArc, peer, CONFIG) as arc:
        peer.answers = lambda request: [(late_s, PH_BLOCK)]
        with pytest.raises(NoReply):
            await arc.sensors["ph"].read()
        free_at = asyncio.get_running_loop().time() - 0.5 + late_s

        def in_order(request: bytes) -> list[Say]:
            wait_s = max(0.01, free_at - asyncio.get_running_loop().time() + 0.01)
            said = block(6.5) if request[2:4] == b"\x08\x29" else golden(request)
            return [] if said is None else [(wait_s, said)]

        peer.answers = in_order
        for _ in range(6):
            try:
                assert await arc.sensors["ph"].read() == 6.5
            except DeviceError:
                await asyncio.sleep(0.2)
        assert await arc.sensors["ph"].read() == 6.5


async def test_another_unit_is_refused_with_words_or_changed_once_at_level_s() -> None:
    plant = RecordingPlant(d__oxygen=80.0, d__temperature=37.0)
    async with simulated(HamiltonVisifermDo, sim.HamiltonVisifermDo, plant, verified=False) as (arc, device):
        assert isinstance(device, sim.HamiltonVisifermDo)
        device.unit = 0x10
        with pytest.raises(WrongDevice, match=r"measures in %-vol, not in %-sat"):
            await arc.verify()
        assert device.memory_writes == 0
    given = settings(operator_level="S", operator_password=16021966)
    async with simulated(HamiltonVisifermDo, sim.HamiltonVisifermDo, plant, settings=given) as (arc, device):
        assert isinstance(device, sim.HamiltonVisifermDo)
        device.unit = 0x10
        for _ in range(3):
            await arc.verify()
        assert (device.unit, device.memory_writes) == (0x20, 1)
        assert await arc.sensors["oxygen"].read() == 80.0


async def test_a_wrong_password_is_told_and_nothing_is_trusted() -> None:
    plant = RecordingPlant(d__ph=7.0, d__temperature=37.0)
    given = settings(operator_level="S", operator_password=1)
    async with simulated(HamiltonPhArc, sim.HamiltonPhArc, plant, settings=given, verified=False) as (arc, _):
        assert isinstance(arc.link.failures["d"], Refused)
        assert not arc.conversation.verified


@pytest.mark.parametrize(
    "given",
    [
        settings(operator_level="X", operator_password=1),
        settings(operator_level="S"),
        settings(operator_level="S", operator_password="secret"),
        settings(operator_level="S", operator_password=1.5),
        settings(operator_level="S", operator_password=math.inf),
        settings(unit="mV"),
    ],
)
async def test_settings_that_make_no_sense(given: dict[str, float | str | bool]) -> None:
    with pytest.raises(BadSetting):
        async with linked(HamiltonPhArc, Peer(golden), DeviceConfig("arc", "1", given)):
            pass


async def test_a_ph_arc_is_no_visiferm() -> None:
    plant = RecordingPlant(d__ph=7.0, d__temperature=37.0)
    async with simulated(HamiltonVisifermDo, sim.HamiltonPhArc, plant, verified=False) as (arc, _):
        assert isinstance(arc.link.failures["d"], WrongDevice)


async def test_the_whole_cycle_with_the_simulated_sensor() -> None:
    plant = RecordingPlant(d__ph=7.2, d__temperature=37.0)
    async with simulated(HamiltonPhArc, sim.HamiltonPhArc, plant) as (arc, device):
        assert isinstance(device, sim.HamiltonPhArc)
        assert await arc.sensors["ph"].read() == pytest.approx(7.2)
        plant.values["d.ph"] = 7.1
        assert await arc.sensors["ph"].read() == pytest.approx(7.1)
        assert await arc.sensors["temperature"].read() == 37.0
        device.warnings[1] = 1
        await arc.sensors["ph"].read()
        assert arc.sensors["ph"].quality is Quality.SUSPECT
        device.power_off()
        with pytest.raises(NoReply):
            await arc.sensors["ph"].read()
        device.power_on()
        plant.values["d.ph"] = 6.9
        assert await arc.sensors["ph"].read() == pytest.approx(6.9)
        assert device.memory_writes == 0
