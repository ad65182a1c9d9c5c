"""SLF3x on SHDLC: the maker's framing vectors, a session that the maker's library accepts, and the simulated cable."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from drivers.commands import Quality
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.sensirion_slf3x import SensirionSlf3x, checksum, request_frame, stuffed, take_frame, unstuffed
from drivers.settings import BadSetting
from sim.devices import sensirion_slf3x as sim
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.sensor_bench import simulated
from tests.sim.bench import RecordingPlant

FACTS = {
    "sensirion-slf3x": DriverFacts(
        line="115200 8N1",
        functions=(2, (0xD0, 0xD1, 0x24, 0x50, 0x53, 0x35)),
        stored=({"address": 7}, {"address": 0}),
        no_health="its flags come with each reading",
    ),
}

CONFIG = DeviceConfig("slf")


def answer(command: int, data: bytes = b"", *, state: int = 0, address: int = 0) -> bytes:
    body = bytes((address, command, state, len(data))) + data
    return b"\x7e" + stuffed(body + bytes((checksum(body),))) + b"\x7e"


class FakeCable:
    """A table of the session in the reference, not yet measuring."""

    def __init__(self) -> None:
        self.measuring = b""
        self.last = bytes.fromhex("02 71 12 D4 00 00")
        self.starts = 0

    def __call__(self, request: bytes) -> bytes | None:
        golden = {
            "7E 00 D1 00 2E 7E": "7E 00 D1 00 07 01 08 00 01 00 01 00 1C 7E",
            "7E 00 24 00 DB 7E": "7E 00 24 00 01 03 D7 7E",
            "7E 00 53 02 36 08 6C 7E": "7E 00 53 00 06 01 F4 08 45 00 00 64 7E",
        }
        match request.hex(" ").upper():
            case text if text in golden:
                return bytes.fromhex(golden[text])
            case "7E 00 33 04 00 64 36 08 26 7E":
                self.measuring = request[4:8]
                self.starts += 1
                return bytes.fromhex("7E 00 33 00 00 CC 7E")
            case "7E 00 34 00 CB 7E":
                self.measuring = b""
                return answer(0x34)
            case "7E 00 35 01 03 C6 7E":
                return answer(0x35, self.last if self.measuring else b"")
            case "7E 00 50 00 AF 7E":
                return answer(0x50, b"070302022212345\0")
        return answer(request[2], state=2)


# --- framing ----------------------------------------------------------------------------------------------


def test_golden_frames_of_the_makers_own_tests() -> None:
    assert request_frame(0, 0) == bytes.fromhex("7E 00 00 00 FF 7E")
    assert request_frame(0x7E, 0x7D, bytes.fromhex("11 12 13 14")) == bytes.fromhex(
        "7E 7D 5E 7D 5D 04 7D 31 12 7D 33 14 B6 7E"
    )
    reply = bytearray.fromhex("7E 7D 5E 7D 5D 7D 31 03 12 7D 33 14 B7 7E")
    assert take_frame(reply) == bytes.fromhex("7E 7D 11 03 12 13 14")
    assert reply == b""


@given(st.binary(max_size=80))
def test_C2_what_is_stuffed_comes_back_and_holds_no_byte_that_may_not_be_there(data: bytes) -> None:
    wire = stuffed(data)
    assert unstuffed(wire) == data
    assert not set(wire) & {0x7E, 0x11, 0x13}


@given(st.lists(st.binary(max_size=30), max_size=4), st.binary(max_size=40))
@hypothesis_settings(deadline=None)
def test_C2_a_frame_is_found_among_any_noise_or_none_is_made_up(noises: list[bytes], data: bytes) -> None:
    frame = answer(0x35, data)
    buffer = bytearray(b"".join(noises) + b"\x7e" + frame)
    found = []
    while (taken := take_frame(buffer)) is not None:
        found.append(taken)
    assert bytes((0, 0x35, 0, len(data))) + data in found


# --- against exact bytes ----------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_golden_flow_temperature_and_air_from_one_measurement() -> None:
    peer = Peer(FakeCable())
    async with linked(SensirionSlf3x, peer, CONFIG) as slf:
        assert await slf.sensors["flow"].read() == 1250.0
        assert await slf.sensors["temperature"].read() == 24.1
        assert await slf.sensors["air"].read() == 0.0
        assert peer.sent == [bytes.fromhex("7E 00 35 01 03 C6 7E")]
        assert [slf.sensors[name].unit for name in ("flow", "temperature", "air")] == ["uL/min", "degC", "1"]
        assert slf.identity is not None
        assert (slf.identity.model, slf.identity.serial) == ("SLF3S-1300F", "2212345")
        await asyncio.sleep(0.1)
        await slf.sensors["flow"].read()
        assert len(peer.sent) == 2


@pytest.mark.virtual_time
async def test_whatever_it_measured_before_it_is_stopped_and_started_for_our_liquid() -> None:
    cable = FakeCable()
    peer = Peer(cable)
    cable.measuring = bytes.fromhex("00 0A 36 15")  # left by another program
    async with linked(SensirionSlf3x, peer, CONFIG, verified=False) as slf:
        assert cable.measuring == bytes.fromhex("00 64 36 08")
        assert await slf.sensors["flow"].read() == 1250.0
        starts = [request for request in peer.sent if request[2] in (0x33, 0x34)]
        assert starts == [bytes.fromhex("7E 00 34 00 CB 7E"), bytes.fromhex("7E 00 33 04 00 64 36 08 26 7E")]

    def nothing_to_stop(request: bytes) -> bytes | None:
        return answer(0x34, state=3) if request[2] == 0x34 else cable(request)

    async with linked(SensirionSlf3x, Peer(nothing_to_stop), CONFIG) as slf:
        assert await slf.sensors["flow"].read() == 1250.0


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("flags", "quality", "air"),
    [
        (0, Quality.GOOD, 0.0),
        (1, Quality.MISSING, 1.0),
        (2, Quality.SUSPECT, 0.0),
        (3, Quality.MISSING, 1.0),
        (0x20, Quality.GOOD, 0.0),
    ],
)
async def test_flags_are_quality_and_the_point_air(flags: int, quality: Quality, air: float) -> None:
    cable = FakeCable()
    async with linked(SensirionSlf3x, Peer(cable), CONFIG) as slf:
        cable.last = bytes.fromhex("02 71 12 D4") + flags.to_bytes(2, "big")
        assert await slf.sensors["flow"].read() == 1250.0
        assert slf.sensors["flow"].quality is quality
        assert await slf.sensors["air"].read() == air


GOOD = answer(0x35, bytes.fromhex("02 71 12 D4 00 00"))


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (GOOD[:-2] + b"\x6c\x7e", BadReply),  # checksum
        (GOOD[:-1], BadReply),  # truncated
        (answer(0x35, bytes(6), address=1), BadReply),
        (answer(0x33, bytes(4)), BadReply),  # the answer to something else
        (answer(0x35, bytes(4)), BadReply),  # another length
        (answer(0x35, bytes(6), state=0x80), DeviceFault),
        (answer(0x35, state=3), Refused),
        (answer(0x35, bytes.fromhex("7F FF 12 D4 00 02")), DeviceFault),
        (answer(0x35, bytes.fromhex("80 00 12 D4 00 02")), DeviceFault),
        (b"\x7e" * 400, BadReply),
        (b"\x7d" * 700, BadReply),
        (b"", NoReply),
    ],
)
async def test_C2_what_is_no_measurement_is_no_number(reply: bytes, error: type[DeviceError]) -> None:
    cable = FakeCable()
    peer = Peer(cable)
    async with linked(SensirionSlf3x, peer, CONFIG) as slf:
        peer.answers = lambda request: reply or None
        with pytest.raises(error):
            await slf.sensors["flow"].read()
        peer.answers = cable
        assert await slf.sensors["flow"].read() == 1250.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("late_s", [0.31, 0.36, 0.5, 0.9, 1.3])
async def test_C2_a_late_flow_is_not_the_next_flow(late_s: float) -> None:
    cable = FakeCable()
    peer = Peer(cable)
    async with linked(SensirionSlf3x, peer, CONFIG) as slf:
        peer.answers = lambda request: [(late_s, GOOD)]
        with pytest.raises(NoReply):
            await slf.sensors["flow"].read()
        free_at = asyncio.get_running_loop().time() - 0.3 + late_s
        cable.last = bytes.fromhex("01 F4 12 D4 00 00")

        def in_order(request: bytes) -> list[Say]:
            wait_s = max(0.01, free_at - asyncio.get_running_loop().time() + 0.01)
            return [(wait_s, cable(request) or b"")]

        peer.answers = in_order
        for _ in range(6):
            with suppress(DeviceError):
                assert await slf.sensors["flow"].read() == 1000.0
            await asyncio.sleep(0.2)
        assert await slf.sensors["flow"].read() == 1000.0


@pytest.mark.virtual_time
async def test_another_sensor_or_an_unknown_unit_is_not_trusted() -> None:
    cable = FakeCable()
    for command, data in (
        (0x24, b"\x02"),
        (0x53, bytes.fromhex("01 F4 08 48 00 00")),
        (0x53, bytes.fromhex("00 00 08 45 00 00")),
    ):

        def other(request: bytes, command: int = command, data: bytes = data) -> bytes | None:
            return answer(command, data) if request[2] == command else cable(request)

        async with linked(SensirionSlf3x, Peer(other), CONFIG, verified=False) as slf:
            assert isinstance(slf.link.failures["slf"], WrongDevice)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "config",
    [
        DeviceConfig("slf", "255"),
        DeviceConfig("slf", "x"),
        DeviceConfig("slf", "", settings(liquid="blood")),
        DeviceConfig("slf", "", settings(interval_ms=5.0)),
        DeviceConfig("slf", "", settings(scale=500.0)),
    ],
)
async def test_settings_that_make_no_sense(config: DeviceConfig) -> None:
    with pytest.raises(BadSetting):
        async with linked(SensirionSlf3x, Peer(FakeCable()), config):
            pass


# --- against the simulated cable ---------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize("variant", [sim.SLF3S_0600F, sim.SLF3S_1300F])
async def test_the_whole_cycle_with_the_simulated_cable(variant: sim.Variant) -> None:
    plant = RecordingPlant(d__flow=0.0, d__temperature=37.0)
    async with simulated(SensirionSlf3x, sim.SensirionSlf3x, plant, verified=False) as (slf, device):
        assert isinstance(device, sim.SensirionSlf3x)
        device.variant = variant
        identity = await slf.verify()
        assert (identity.model, identity.serial, identity.firmware) == (variant.name, device.serial, "1.8")
        for ul_min in (0.0, 1234.0, -850.0, 3000.0):
            plant.values["d.flow"] = ul_min
            await asyncio.sleep(0.2)
            assert await slf.sensors["flow"].read() == pytest.approx(ul_min, abs=1.0)
            assert slf.sensors["flow"].quality is Quality.GOOD
        assert await slf.sensors["temperature"].read() == 37.0
        device.air = True
        await asyncio.sleep(0.2)
        await slf.sensors["flow"].read()
        assert slf.sensors["flow"].quality is Quality.MISSING
        assert await slf.sensors["air"].read() == 1.0
        device.fault = True
        await asyncio.sleep(0.2)
        with pytest.raises(DeviceFault, match="fault of its own"):
            await slf.sensors["flow"].read()


@pytest.mark.virtual_time
async def test_after_a_power_cut_it_is_started_again_by_itself() -> None:
    plant = RecordingPlant(d__flow=500.0, d__temperature=37.0)
    given = settings(liquid="ipa", interval_ms=50.0)
    async with simulated(SensirionSlf3x, sim.SensirionSlf3x, plant, settings=given) as (slf, device):
        assert isinstance(device, sim.SensirionSlf3x)
        assert (device.interval_ms, device.liquid, device.starts) == (50, 0x3615, 1)
        device.power_cycle()
        await asyncio.sleep(0.2)
        with pytest.raises(DeviceFault, match="measures nothing"):
            await slf.sensors["flow"].read()
        assert device.liquid == 0x3608  # the factory's, begun by the question itself
        await asyncio.sleep(2.0)
        assert await slf.sensors["flow"].read() == 500.0
        assert (device.interval_ms, device.liquid, device.starts) == (50, 0x3615, 3)


@pytest.mark.virtual_time
async def test_a_reading_cut_short_leaves_nothing_that_the_next_one_could_take() -> None:
    plant = RecordingPlant(d__flow=500.0, d__temperature=37.0)
    async with simulated(SensirionSlf3x, sim.SensirionSlf3x, plant) as (slf, _):
        await asyncio.sleep(0.2)
        reading = asyncio.ensure_future(slf.sensors["flow"].read())
        await asyncio.sleep(0.001)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert reading.cancelled()
        plant.values["d.flow"] = 900.0
        assert await slf.sensors["flow"].read() == 900.0
