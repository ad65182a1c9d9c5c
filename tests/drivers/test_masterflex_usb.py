"""Masterflex USB drives against the frames of the maker's own client."""

from __future__ import annotations

import asyncio
import re

import pytest

from drivers.commands import Dispense, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, Refused, WrongDevice
from drivers.masterflex_usb import MasterflexUsb
from drivers.settings import BadSetting
from sim.devices.masterflex_usb import MasterflexUsb as SimMasterflexUsb
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.pump_bench import joined

FACTS = {
    "masterflex-usb": DriverFacts(
        line="115200 8N1",
        queries=frozenset({"1#", "1(", "1RC", "1RB"}),
        stored=({"address": 7, "timed": True}, {"address": 1, "timed": False}),
    ),
}

pytestmark = pytest.mark.virtual_time

LS = settings(ul_per_rev=100.0, max_rpm=600.0)


class FakeDrive:
    """Address 1; `end` follows each acknowledgement."""

    def __init__(self, end: bytes = b"\r\n") -> None:
        self.end = end
        self.running = False
        self.values = {b"1R": b"123.45", b"1RV": b"00:00:00.0", b"1RB": b"12.50"}
        self.model = b"MFLX 3"

    def __call__(self, request: bytes) -> bytes:
        assert request.endswith(b"\r")
        text = request[:-1]
        if text == b"1RC":
            return b"1,%d,0\r\n" % self.running
        if text == b"1#":
            return self.model + b"\r\n"
        if text == b"1(":
            return b"1.2\r\n"
        if text in self.values:
            return self.values[text] + b"\r\n"
        if match := re.fullmatch(rb"1R(\d{6})", text):
            self.values[b"1R"] = b"%.2f" % (int(match[1]) / 100)
        elif match := re.fullmatch(rb"1RV(\d\d)(\d\d)(\d\d)(\d)", text):
            self.values[b"1RV"] = b"%s:%s:%s.%s" % match.groups()
        elif text in (b"1H", b"1I"):
            self.running = text == b"1H"
        return b"*" + self.end


@pytest.mark.parametrize("end", [b"\r\n", b""])
async def test_golden_frames(end: bytes) -> None:
    peer = Peer(FakeDrive(end))
    async with linked(MasterflexUsb, peer, DeviceConfig("d", settings=LS), verified=False) as pump:
        assert peer.sent == [b"1RE1\r", b"1#\r", b"1(\r", b"1RC\r"]
        assert pump.identity is not None
        assert (pump.identity.model, pump.identity.firmware) == ("MFLX", "1.2 protocol 3")
        peer.sent.clear()
        await pump.pump.apply(Run(12_345.0))
        assert peer.sent == [b"1RC\r", b"1L\r", b"1J\r", b"1R012345\r", b"1R\r", b"1H\r"]
        status = await pump.pump.status()
        assert (status.running, status.flow_ul_min) == (True, 12_345.0)
        assert (status.delivered_ul, status.resolution_ul) == (1250.0, 1.0)
        await pump.pump.apply(Stop())
        peer.sent.clear()
        await pump.pump.apply(Dispense(1000.0, 2000.0, "d"))
        assert peer.sent == [
            *(b"1RC\r", b"1N\r", b"1RV0000300\r", b"1RV\r", b'1"00001\r', b'1R"\r'),
            *(b"1J\r", b"1R002000\r", b"1R\r", b"1H\r"),
        ]


@pytest.mark.parametrize("reply", [b"2,0,0\r\n", b"1,2,0\r\n", b"1,0\r\n", b"1,0,0", b"*\r\n", b"9,9,9\r\n"])
async def test_C2_what_is_no_status_is_not_taken_for_one(reply: bytes) -> None:
    fake = FakeDrive()
    peer = Peer(fake)
    async with linked(MasterflexUsb, peer, DeviceConfig("d", settings=LS)) as pump:
        peer.answers = lambda request: reply if request == b"1RC\r" else fake(request)
        with pytest.raises(BadReply):
            await pump.pump.status()


@pytest.mark.parametrize("text", [b"nan", b"-1.5", b"1e3", b"12.5 rev", b""])
async def test_C2_what_is_no_count_is_not_taken_for_one(text: bytes) -> None:
    fake = FakeDrive()
    async with linked(MasterflexUsb, Peer(fake), DeviceConfig("d", settings=LS)) as pump:
        fake.values[b"1RB"] = text
        with pytest.raises(BadReply):
            await pump.pump.status()


async def test_a_drive_that_left_its_serial_mode_is_brought_back_and_a_stop_does_it_at_once() -> None:
    async with joined(MasterflexUsb, SimMasterflexUsb, settings=LS) as rig:
        assert isinstance(rig.sim, SimMasterflexUsb)
        await rig.pump.apply(Run(2000.0))
        rig.sim.serial_mode = False
        with pytest.raises(Refused, match="no longer in its serial mode"):
            await rig.status()
        await asyncio.sleep(10)
        assert (await rig.status()).running
        rig.sim.serial_mode = False
        await rig.pump.apply(Stop())
        assert rig.flow == 0.0


async def test_a_dose_is_a_time_and_its_speed_is_moved_so_that_the_volume_is_met() -> None:
    async with joined(MasterflexUsb, SimMasterflexUsb, settings=LS) as rig:
        await rig.pump.apply(Dispense(1234.5, 2000.0, "dose"))
        rig.line.unplug()
        await asyncio.sleep(120)
        assert rig.moved() == pytest.approx(1234.5, rel=5e-4)
        rig.line.plug()
        await asyncio.sleep(10)
        assert (await rig.status()).delivered_ul == pytest.approx(1234.5, abs=1.0)
        assert isinstance(rig.sim, SimMasterflexUsb)
        assert rig.sim.memory_writes == 0


async def test_a_dose_too_small_for_the_drives_steps_is_refused() -> None:
    async with joined(MasterflexUsb, SimMasterflexUsb, settings=LS) as rig:
        with pytest.raises(Refused, match="its own steps would make"):
            await rig.pump.apply(Dispense(0.05, 3.5, "drop"))
        assert rig.plant.log == []


async def test_an_ismatec_is_not_taken_for_it() -> None:
    fake = FakeDrive()
    fake.model = b"IPC 403"
    async with linked(MasterflexUsb, Peer(fake), DeviceConfig("d", settings=LS), verified=False) as pump:
        assert isinstance(pump.link.failures["d"], WrongDevice)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DeviceConfig("d", settings=settings(max_rpm=600.0)), "ul_per_rev is missing"),
        (DeviceConfig("d", settings=settings(ul_per_rev=100.0)), "max_rpm is missing"),
        (DeviceConfig("d", "9", LS), '"1" to "8"'),
        (DeviceConfig("d", settings=settings(ul_per_rev=0.0, max_rpm=1.0)), "from 0.01"),
    ],
)
async def test_F5_D7_settings_that_cannot_be_are_refused(config: DeviceConfig, message: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(message)):
        async with linked(MasterflexUsb, Peer(FakeDrive()), config):
            pass
