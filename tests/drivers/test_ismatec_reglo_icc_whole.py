"""The Reglo ICC's driver against its simulator: doses over a time, events, legacy addressing in a chain."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from drivers.commands import Dispense, PumpStatus, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import ChannelConfig, DeviceConfig
from drivers.errors import DeviceFault, Refused
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc as SimRegloIcc
from sim.devices.wire import Bus
from sim.serving import open_in_memory
from tests.drivers.fakes import FakeReglo
from tests.drivers.peer import linked, settings
from tests.sim.bench import RecordingPlant, spec

pytestmark = pytest.mark.virtual_time


@dataclass
class Rig:
    """Pumps on one line; `plant` knows their points by device."""

    pumps: list[IsmatecRegloIcc]
    sims: list[SimRegloIcc]
    plant: RecordingPlant
    line: Bus


@asynccontextmanager
async def rigged(*addresses: str, **told: float | str | bool) -> AsyncIterator[Rig]:
    """One pump, or one at each of `addresses`, with a channel "1" called heart; `told` are their settings."""
    plant = RecordingPlant()
    line = Bus("sim:icc")
    sims = []
    for address in addresses or ("1",):
        device = SimRegloIcc(
            f"d{address}", spec(address=address, channels={"1": ("heart", 1.02)}, settings=told), plant
        )
        line.attach(device)
        device.power_on()
        sims.append(device)

    async def opener(_url: LinkUrl, _settings: LineSettings) -> Streams:
        return open_in_memory(line)

    link = Link(LinkUrl.parse("sim:icc"), opener, line=IsmatecRegloIcc.line)
    heart = {"1": ChannelConfig("heart", settings(tubing_mm=1.02))}
    pumps = [IsmatecRegloIcc(link, DeviceConfig(f"d{a}", a, dict(told), heart)) for a in addresses or ("1",)]
    failures = await link.start()
    try:
        assert not failures, failures
        yield Rig(pumps, sims, plant, line)
    finally:
        await link.close()
        for device in sims:
            device.power_off()


async def status_of(pump: IsmatecRegloIcc) -> PumpStatus:
    return await pump.channels["heart"].status()


# --- volume over time -------------------------------------------------------------------------------------


async def test_a_dose_over_a_time_meets_its_volume_and_its_time() -> None:
    async with rigged(dose_mode="time") as rig:
        heart = rig.pumps[0].channels["heart"]
        began_s = asyncio.get_running_loop().time()
        await heart.apply(Dispense(1500.0, 1500.0, "dose"))
        assert rig.sims[0].channels["1"].settings.mode == "G"
        await asyncio.sleep(100)
        assert rig.plant.moved("d1.heart", 1e6) == pytest.approx(1500.0, rel=1e-3)
        assert rig.plant.log[-1][0] - began_s == pytest.approx(60.0, abs=0.5)
        await heart.apply(Dispense(1500.0, 1500.0, "dose"))
        assert not (await status_of(rig.pumps[0])).running


async def test_golden_frames_of_a_dose_over_a_time() -> None:
    reglo = FakeReglo()
    times = {b"1xT": b"0"}

    def with_times(request: bytes) -> bytes | None:
        text = request[:-1]
        if match := re.fullmatch(rb"(1xT)(\d{8})", text):
            times[match[1]] = b"%d" % int(match[2])
            return b"*"
        if text in times:
            return times[text] + b"\r\n"
        return b"*" if text == b"1G" else reglo(request)

    peer = Peer(with_times)
    config = DeviceConfig("reglo", "1", settings(dose_mode="time"), FakeReglo.config.channels)
    async with linked(IsmatecRegloIcc, peer, config) as pump:
        await pump.channels["heart"].apply(Dispense(3000.0, 1200.0, "d"))
        assert peer.sent == [b"1~1\r", b"1E\r", b"1J\r", b"1v3000+0\r", b"1xT00001500\r", b"1xT\r", b"1G\r", b"1H\r"]


async def test_a_time_that_the_pump_cannot_tell_is_refused() -> None:
    async with rigged(dose_mode="time", time_unit_s=1.0) as rig:
        with pytest.raises(Refused, match=r"steps of 1 s"):
            await rig.pumps[0].channels["heart"].apply(Dispense(10.0, 4000.0, "drop"))
        assert rig.plant.log == []


# --- events -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cause", "told"), [("2", "overheated"), ("3", "overcurrent")])
async def test_a_fault_that_the_pump_tells_is_told_until_the_next_command(cause: str, told: str) -> None:
    async with rigged(events=True) as rig:
        heart = rig.pumps[0].channels["heart"]
        await heart.apply(Run(1000.0))
        assert (await heart.status()).running
        rig.sims[0].channels["1"].trip(cause)
        await asyncio.sleep(0.1)
        for _ in range(2):
            with pytest.raises(DeviceFault, match=told):
                await heart.status()
        await heart.apply(Stop())
        assert not (await heart.status()).running
        await heart.apply(Run(1000.0))
        assert (await heart.status()).running


async def test_events_between_request_and_reply_disturb_nothing() -> None:
    async with rigged(events=True) as rig:
        heart = rig.pumps[0].channels["heart"]
        await heart.apply(Dispense(200.0, 2000.0, "dose"))
        for _ in range(400):  # a status each 50 ms meets the events of every second in all places
            await heart.status()
            await asyncio.sleep(0.05)
        assert not (await heart.status()).running
        assert rig.plant.moved("d1.heart", 1e6) == pytest.approx(200.0, rel=1e-3)
        rig.sims[0].channels["1"].trip("1")  # a hand at the pump is no fault
        await asyncio.sleep(0.1)
        assert not (await heart.status()).running


async def test_without_events_none_is_asked_for() -> None:
    async with rigged() as rig:
        assert not rig.sims[0].events
    async with rigged(events=True) as rig:
        assert rig.sims[0].events


@pytest.mark.parametrize("noise", [b"^X1|2", b"^X1|9\r\n", b"X1|2\r\n", b"^X2|3\r\n", b"^^\r\n", b"\xff" * 300])
async def test_C2_what_is_no_fault_of_this_channel_is_not_taken_for_one(noise: bytes) -> None:
    config = DeviceConfig("reglo", "1", settings(events=True), {"1": ChannelConfig("heart")})
    reglo = FakeReglo()
    peer = Peer(lambda request: b"*" if request == b"0xE1\r" else reglo(request))
    async with linked(IsmatecRegloIcc, peer, config) as pump:
        peer.say(noise)
        await asyncio.sleep(0.1)
        assert not (await status_of(pump)).running


# --- legacy addressing ------------------------------------------------------------------------------------


async def test_two_pumps_in_a_chain_are_told_apart_by_legacy_addresses() -> None:
    async with rigged("1", "2", addressing="legacy") as rig:
        first, second = rig.pumps
        await first.channels["heart"].apply(Run(1000.0))
        assert rig.plant.last("d1.heart") == pytest.approx(1000.0, rel=1e-3)
        assert rig.plant.last("d2.heart") == 0.0
        assert (await status_of(first)).running
        assert not (await status_of(second)).running
        await second.channels["heart"].apply(Dispense(500.0, 1000.0, "dose"))
        await first.channels["heart"].apply(Stop())
        assert rig.plant.last("d1.heart") == 0.0
        await asyncio.sleep(60)
        assert rig.plant.moved("d2.heart", 1e6) == pytest.approx(500.0, rel=1e-3)


async def test_channel_addressing_left_on_is_turned_off() -> None:
    async with rigged(addressing="legacy") as rig:
        assert not rig.sims[0].channel_addressing
        rig.sims[0].channel_addressing = True
        await rig.pumps[0].verify()
        assert not rig.sims[0].channel_addressing


@pytest.mark.parametrize(
    ("told", "channels", "message"),
    [
        (settings(addressing="legacy"), FakeReglo.config.channels, "name only the channel"),
        (settings(addressing="legacy", events=True), {}, "with legacy addressing"),
        (settings(addressing="x"), {}, "choose channels or legacy"),
        (settings(dose_mode="x"), {}, "choose rate or time"),
        (settings(events="yes"), {}, "write true or false"),
    ],
)
async def test_F5_D7_settings_that_cannot_be_are_refused(
    told: dict[str, float | str | bool], channels: dict[str, ChannelConfig], message: str
) -> None:
    with pytest.raises(BadSetting, match=re.escape(message)):
        async with linked(IsmatecRegloIcc, Peer(FakeReglo()), DeviceConfig("r", "1", told, channels)):
            pass
