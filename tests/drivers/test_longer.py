"""Longer's E9 protocol against published frames, and what the driver does where the pump can do little."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.commands import Dispense, Guarantee, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import DeviceError, DeviceFault, NoReply
from drivers.longer import Longer, frame
from drivers.rotary_pump import HostCount
from drivers.settings import BadSetting
from sim.devices.longer import Longer as SimLonger
from sim.devices.longer import packed
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.pump_bench import joined

FACTS = {
    "longer-0xe9": DriverFacts(
        line="9600 8E1",
        functions=(3, (ord("R"),)),
        stored=({"address": 7, "speed": 321, "clockwise": False}, {"address": 1, "speed": 0, "clockwise": True}),
    ),
}

virtual = pytest.mark.virtual_time
PUMP = settings(ul_per_rev=10.0, max_rpm=600.0)


@pytest.mark.parametrize(
    ("address", "message", "wire"),
    [
        (1, b"WJ\x00\x96\x01\x01", "E9 01 06 57 4A 00 96 01 01 8C"),
        (1, b"WJ", "E9 01 02 57 4A 1E"),
        (4, b"WJ\x01\x40\x01\x01", "E9 04 06 57 4A 01 40 01 01 5E"),
        (4, b"WJ\x00\x32\x01\x00", "E9 04 06 57 4A 00 32 01 00 2C"),
        (4, b"WJ\x00\x32\x00\x00", "E9 04 06 57 4A 00 32 00 00 2D"),
        (1, b"WJ\x01\xf4\x01\x01", "E9 01 06 57 4A 01 F4 01 01 EF"),
        (1, b"WJ\x00\x00\x00\x01", "E9 01 06 57 4A 00 00 00 01 1B"),
        (1, b"WID\x07", "E9 01 04 57 49 44 07 58"),
        (1, b"RJ", "E9 01 02 52 4A 1B"),
        (1, b"WJ\x03\xe8\x01\x01", "E9 01 06 57 4A 03 E8 00 01 01 F1"),
    ],
)
def test_golden_frames(address: int, message: bytes, wire: str) -> None:
    assert frame(address, message) == bytes.fromhex(wire)


@given(address=st.integers(1, 31), message=st.binary(min_size=1, max_size=20))
def test_driver_and_simulator_write_the_same_frames(address: int, message: bytes) -> None:
    assert frame(address, message) == packed(address, message)


class FakeLonger:
    """Address 1; reports what was set."""

    def __init__(self) -> None:
        self.told = b"\x01\xf4\x00\x01"

    def __call__(self, request: bytes) -> bytes | None:
        if request == bytes.fromhex("E9 01 02 52 4A 1B"):
            return packed(1, b"RJ" + self.told)
        if request[:5] == bytes.fromhex("E9 01 06 57 4A"):
            self.told = request[5:-1].replace(b"\xe8\x00", b"\xe8")
            return bytes.fromhex("E9 01 02 57 4A 1E")
        return None


@virtual
async def test_golden_run_and_stop() -> None:
    peer = Peer(FakeLonger())
    async with linked(Longer, peer, DeviceConfig("d", settings=PUMP)) as pump:
        await pump.pump.apply(Run(1000.0))  # 100.0 rpm: a stuffed byte
        assert bytes.fromhex("E9 01 06 57 4A 03 E8 00 01 01 F1") in peer.sent
        await pump.pump.apply(Run(500.0))
        assert peer.sent[-2:] == [bytes.fromhex("E9 01 06 57 4A 01 F4 01 01 EF"), bytes.fromhex("E9 01 02 52 4A 1B")]
        await pump.pump.apply(Stop())
        assert bytes.fromhex("E9 01 06 57 4A 01 F4 00 01 EE") in peer.sent  # its speed stays


GOOD = packed(1, b"RJ\x00\x64\x01\x01")


@virtual
@pytest.mark.parametrize(
    "noise",
    [
        packed(2, b"RJ\x03\xe8\x01\x01"),  # another pump
        packed(1, b"WJ"),  # an older answer
        GOOD[:5],
        GOOD[:-1] + b"\x00",
        b"\xe9\xe8\x07",
        b"\x00\xff\xe8",
    ],
)
async def test_C2_the_true_frame_is_found_after_noise(noise: bytes) -> None:
    peer = Peer(FakeLonger())
    async with linked(Longer, peer, DeviceConfig("d", settings=PUMP)) as pump:
        peer.answers = lambda request: [(0.01, noise), (0.02, GOOD[:4]), (0.03, GOOD[4:])]
        assert (await pump.pump.status()).flow_ul_min == pytest.approx(100.0)


@virtual
async def test_Q4_an_echo_of_the_request_is_named_on_a_line_without_the_option() -> None:
    peer = Peer(FakeLonger())
    async with linked(Longer, peer, DeviceConfig("d", settings=PUMP)) as pump:
        peer.answers = lambda request: [(0.01, request), (0.02, GOOD)]
        with pytest.raises(DeviceFault, match="echoes"):
            await pump.pump.status()


@virtual
@pytest.mark.parametrize(
    "reply",
    [packed(2, b"RJ\x00\x64\x01\x01"), GOOD[:-1], packed(1, b"RJ\x00\x64\x09\x01"), packed(1, b"RJ\x00\x64\x01\x07")],
)
async def test_C2_frames_that_are_no_answer(reply: bytes) -> None:
    peer = Peer(FakeLonger())
    async with linked(Longer, peer, DeviceConfig("d", settings=PUMP)) as pump:
        peer.answers = lambda request: reply
        with pytest.raises(DeviceError):
            await pump.pump.status()


@virtual
@pytest.mark.parametrize("late_s", [0.61, 0.9, 1.3])
async def test_C2_a_late_status_is_not_the_next_status(late_s: float) -> None:
    fake = FakeLonger()
    peer = Peer(fake)
    async with linked(Longer, peer, DeviceConfig("d", settings=PUMP)) as pump:
        peer.answers = lambda request: [(late_s, packed(1, b"RJ\x00\x64\x01\x01"))]
        with pytest.raises(NoReply):
            await pump.pump.status()
        peer.answers = fake
        assert not (await pump.pump.status()).running


@virtual
async def test_the_wrong_reply_order_is_found_by_the_first_stop_not_by_harm() -> None:
    async with joined(Longer, SimLonger, settings=dict(PUMP), sim_settings={"reply_order": "direction-state"}) as rig:
        with pytest.raises(DeviceFault, match="reply_order"):
            await rig.pump.apply(Run(-1000.0))
        assert rig.flow == 0.0
        await rig.pump.apply(Run(1000.0))  # forwards both orders read the same
        with pytest.raises(DeviceFault, match="in another form than the rig says"):
            await rig.pump.apply(Stop())
        assert rig.flow == 0.0


@virtual
async def test_a_dose_lasts_on_while_the_line_is_down_and_is_ended_as_soon_as_it_is_back() -> None:
    async with joined(Longer, SimLonger, settings=dict(PUMP)) as rig:
        assert rig.pump.guarantee_for(Dispense(1.0, 1.0, "x")) is Guarantee.HOST
        await rig.pump.apply(Dispense(1000.0, 1000.0, "dose"))
        await asyncio.sleep(50)
        rig.line.unplug()
        await asyncio.sleep(30)
        assert rig.flow == pytest.approx(1000.0)  # nothing can stop it: this is the meaning of HOST
        rig.line.plug()
        await asyncio.sleep(8)
        assert rig.flow == 0.0
        status = await rig.status()
        assert status.delivered_ul == pytest.approx(rig.moved(), abs=status.resolution_ul)


@virtual
async def test_a_stop_at_the_keys_is_counted_with_its_doubt() -> None:
    async with joined(Longer, SimLonger, settings=dict(PUMP)) as rig:
        await rig.pump.apply(Run(1000.0))
        await asyncio.sleep(60)
        await rig.status()
        await asyncio.sleep(12)
        assert isinstance(rig.sim, SimLonger)
        rig.sim.state = 0
        rig.sim.motor.rest()
        await asyncio.sleep(48)
        status = await rig.status()
        assert not status.running
        assert abs(status.delivered_ul - rig.moved()) <= status.resolution_ul
        assert 450.0 < status.resolution_ul < 550.0


@virtual
async def test_counting_is_exact_for_what_was_commanded() -> None:
    count = HostCount(0.0)
    count.update(0.0)
    await asyncio.sleep(10)
    count.update(600.0, commanded=True)
    await asyncio.sleep(10)
    count.update(600.0)
    await asyncio.sleep(10)
    count.update(-1200.0, commanded=True)
    await asyncio.sleep(30)
    count.update(0.0, commanded=True)
    assert count.total_ul == pytest.approx(200.0 + 600.0)
    assert count.resolution_ul == 0.0


@virtual
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DeviceConfig("d", "31", PUMP), "1 to 30"),
        (DeviceConfig("d", "x", PUMP), "1 to 30"),
        (DeviceConfig("d"), "ul_per_rev is missing"),
        (DeviceConfig("d", settings=settings(ul_per_rev=10.0)), "max_rpm is missing"),
        (DeviceConfig("d", settings=settings(ul_per_rev=-1.0, max_rpm=100.0)), "write a number from 0.01"),
        (DeviceConfig("d", settings=settings(ul_per_rev=1.0, max_rpm=100.0, drive="x")), "choose bt100 or"),
        (DeviceConfig("d", settings=settings(ul_per_rev=1.0, max_rpm=100.0, baud=1200)), "baud is unknown"),
    ],
)
async def test_F5_D7_settings_that_cannot_be_are_refused(config: DeviceConfig, message: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(message)):
        async with linked(Longer, Peer(FakeLonger()), config):
            pass
