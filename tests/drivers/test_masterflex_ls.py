"""Masterflex L/S satellites: the frames of open clients, and what is made of answers that cannot be relied on."""

from __future__ import annotations

import asyncio
import re

import pytest

from drivers.commands import Dispense, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, Refused
from drivers.masterflex_ls import MasterflexLs
from drivers.settings import BadSetting
from sim.devices.masterflex_ls import MasterflexLs as SimMasterflexLs
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.pump_bench import joined

FACTS = {
    "masterflex-ls": DriverFacts(line="4800 7O1", queries=frozenset({"\x02P01I", "\x05", "\x02P01S", "\x02P01C"})),
}

pytestmark = pytest.mark.virtual_time

LS = settings(ul_per_rev=100.0, max_rpm=600.0)


class FakeDrive:
    """Number 1, given or not."""

    def __init__(self, *, numbered: bool = True) -> None:
        self.numbered = numbered
        self.speed = b"+000.0"
        self.state = 1
        self.turned = b"00012.50"

    def __call__(self, request: bytes) -> bytes | None:
        if request == b"\x05":
            return None if self.numbered else b"\x02P?0\r"
        if request == b"\x02P01\r":
            self.numbered = True
            return b"\x06"
        if not self.numbered:
            return None
        assert request.startswith(b"\x02P01")
        assert request.endswith(b"\r")
        match command := request[4:-1]:
            case b"I":
                return b"\x02P01I100%d0\r" % self.state
            case b"S":
                return b"\x02S" + self.speed + b"\r"
            case b"C":
                return b"\x02C" + self.turned + b"\r"
            case b"G" | b"G0":
                self.state = 3
            case b"H":
                self.state = 1
            case _ if command[:1] == b"S":
                self.speed = command[1:]
        return b"\x06"


async def test_a_fresh_drive_is_given_its_number() -> None:
    peer = Peer(FakeDrive(numbered=False))
    async with linked(MasterflexLs, peer, DeviceConfig("d", settings=LS), verified=False) as drive:
        await asyncio.sleep(3)
        assert drive.conversation.verified
        assert peer.sent == [b"\x02P01I\r", b"\x05", b"\x02P01\r", b"\x02P01I\r", b"\x02P01S\r"]


async def test_golden_run_and_dose() -> None:
    peer = Peer(FakeDrive())
    async with linked(MasterflexLs, peer, DeviceConfig("d", settings=LS)) as drive:
        await drive.pump.apply(Run(-6000.0))
        assert peer.sent == [
            *(b"\x02P01I\r", b"\x02P01I\r", b"\x02P01S-060.0\r", b"\x02P01S\r", b"\x02P01C\r"),
            *(b"\x02P01G0\r", b"\x02P01I\r"),
        ]
        status = await drive.pump.status()
        assert (status.running, status.flow_ul_min) == (True, -6000.0)
        assert (status.delivered_ul, status.resolution_ul) == (1250.0, 1.0)
        await drive.pump.apply(Stop())
        peer.sent.clear()
        await drive.pump.apply(Dispense(1000.0, 6000.0, "d"))
        assert b"\x02P01S+060.0\r" in peer.sent
        assert peer.sent[-5:] == [
            *(b"\x02P01Z\r", b"\x02P01V00010.00\r", b"\x02P01C\r", b"\x02P01G\r", b"\x02P01I\r"),
        ]


async def test_go_for_ever_counts_by_the_status_not_by_its_answer() -> None:
    async with joined(MasterflexLs, SimMasterflexLs, settings=LS, sim_settings={"go0_nak": True}) as rig:
        await rig.pump.apply(Run(2000.0))
        assert rig.flow == pytest.approx(2000.0)
        await rig.pump.apply(Stop())
        assert rig.flow == 0.0


async def test_a_dose_after_a_halted_one_is_not_more_than_was_asked() -> None:
    async with joined(MasterflexLs, SimMasterflexLs, settings=LS) as rig:
        await rig.pump.apply(Dispense(5000.0, 2000.0, "first"))
        await asyncio.sleep(10)
        await rig.pump.apply(Stop())
        before = rig.moved()
        await rig.pump.apply(Dispense(1000.0, 2000.0, "second"))
        await asyncio.sleep(120)
        assert rig.moved() - before == pytest.approx(1000.0, rel=1e-3)


async def test_a_blocked_head_is_told_as_a_fault_and_a_stop_still_ends_well() -> None:
    async with joined(MasterflexLs, SimMasterflexLs, settings=LS) as rig:
        await rig.pump.apply(Run(2000.0))
        assert isinstance(rig.sim, SimMasterflexLs)
        rig.sim.block()
        with pytest.raises(DeviceFault, match="overload"):
            await rig.pump.status()
        await rig.pump.apply(Stop())
        with pytest.raises(DeviceFault, match="does not run"):
            await rig.pump.apply(Run(2000.0))
        assert rig.flow == 0.0


async def test_a_local_drive_is_taken_over_before_a_start_only() -> None:
    async with joined(MasterflexLs, SimMasterflexLs, settings=LS) as rig:
        assert isinstance(rig.sim, SimMasterflexLs)
        assert not rig.sim.remote
        await rig.pump.apply(Stop())
        assert not rig.sim.remote
        await rig.pump.apply(Run(2000.0))
        assert rig.sim.remote


async def test_what_the_drive_does_not_take_is_refused_with_its_error() -> None:
    fake = FakeDrive()
    peer = Peer(lambda request: b"\x15" if request[4:6] == b"S+" else fake(request))
    async with linked(MasterflexLs, peer, DeviceConfig("d", settings=LS)) as drive:
        with pytest.raises(Refused, match=re.escape("does not take S+020.0")):
            await drive.pump.apply(Run(2000.0))
        assert fake.state == 1


@pytest.mark.parametrize(
    "reply",
    [b"\x02P02I10030\r", b"\x02P01I1003\r", b"\x02P01I10030", b"\x06", b"\x15", b"\x02S+060.0\r", b"\xff" * 30],
)
async def test_C2_what_is_no_status_of_this_drive_is_not_taken_for_one(reply: bytes) -> None:
    fake = FakeDrive()
    peer = Peer(fake)
    async with linked(MasterflexLs, peer, DeviceConfig("d", settings=LS)) as drive:
        peer.answers = lambda request: reply
        with pytest.raises(BadReply):
            await drive.pump.status()
        peer.answers = fake
        assert not (await drive.pump.status()).running


@pytest.mark.parametrize("reply", [b"\x06\x06", b"\x02P01I10010\r", b"*", b"\x06\r"])
async def test_C2_what_is_no_acknowledgement_is_not_taken_for_one(reply: bytes) -> None:
    fake = FakeDrive()
    peer = Peer(lambda request: reply if request[4:6] == b"S+" else fake(request))
    async with linked(MasterflexLs, peer, DeviceConfig("d", settings=LS)) as drive:
        with pytest.raises(DeviceError):
            await drive.pump.apply(Run(2000.0))
        assert fake.state == 1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DeviceConfig("d", settings=settings(max_rpm=600.0)), "ul_per_rev is missing"),
        (DeviceConfig("d", "26", LS), "1 to 25"),
        (DeviceConfig("d", settings=settings(ul_per_rev=100.0, max_rpm=1000.0)), "from 0.1 to 999.9"),
    ],
)
async def test_F5_D7_settings_that_cannot_be_are_refused(config: DeviceConfig, message: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(message)):
        async with linked(MasterflexLs, Peer(FakeDrive()), config):
            pass
