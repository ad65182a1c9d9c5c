"""Watson-Marlow's ASCII protocol against the manuals' own texts, where no command is ever acknowledged."""

from __future__ import annotations

import asyncio
import re

import pytest

from drivers.commands import Dispense, Guarantee, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, Refused
from drivers.settings import BadSetting
from drivers.watson_marlow import WatsonMarlow
from sim.devices.watson_marlow import WatsonMarlow as SimWatsonMarlow
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.pump_bench import joined

FACTS = {
    "watson-marlow-ascii": DriverFacts(
        line="9600 8N2",
        queries=frozenset({"1RS"}),
        stored=({"number": 7, "clockwise": False}, {"number": 1, "clockwise": True}),
    ),
}

pytestmark = pytest.mark.virtual_time

W520 = settings(series="520", max_rpm=220.0)
W323 = settings(series="323", max_rpm=400.0, ul_per_rev=100.0)


class FakePump:
    """Number 1; `status` is what RS answers, by speed, direction and running."""

    def __init__(self, status: bytes, *, echo: bool = False) -> None:
        self.status = status
        self.echo = echo
        self.speed = b"110"
        self.direction = b"CW"
        self.running = False

    def __call__(self, request: bytes) -> bytes | None:
        assert request.startswith(b"1")
        assert request.endswith(b"\r")
        match request[1:3]:
            case b"SP":
                self.speed = request[3:-1]
            case b"RR" | b"RL":
                self.direction = b"CW" if request[1:3] == b"RR" else b"CCW"
            case b"GO" | b"ST":
                self.running = request[1:3] == b"GO"
        reply = b""
        if request == b"1RS\r":
            reply = self.status % (self.speed, self.direction, self.running) + b"\r"
        return (request if self.echo else b"") + reply or None


LONG = b"520Du 15.84 520R 9.6MM %s %s P/N 1 123456789 %d !"
SHORT = b"323Du %s %s %d !"


@pytest.mark.parametrize("echo", [False, True])
async def test_golden_run_of_a_520(echo: bool) -> None:
    peer = Peer(FakePump(LONG, echo=echo))
    async with linked(WatsonMarlow, peer, DeviceConfig("d", settings=W520)) as pump:
        assert pump.identity is not None
        assert pump.identity.model == "520Du"
        await pump.pump.apply(Run(220.0 * 15_840.0))
        assert peer.sent == [b"1RS\r", b"1SP220.0\r", b"1RR\r", b"1RS\r", b"1GO\r", b"1RS\r"]
        status = await pump.pump.status()
        assert status.running
        assert status.flow_ul_min == pytest.approx(220.0 * 15_840.0)
        assert status.delivered_ul == pytest.approx(123_456_789 / 10_982 * 15_840.0)
        peer.sent.clear()
        await pump.pump.apply(Stop())
        assert peer.sent == [b"1ST\r", b"1RS\r", b"1RS\r"]


@pytest.mark.parametrize("echo", [False, True])
async def test_golden_run_of_a_323(echo: bool) -> None:
    peer = Peer(FakePump(SHORT, echo=echo))
    async with linked(WatsonMarlow, peer, DeviceConfig("d", settings=W323)) as pump:
        await pump.pump.apply(Run(-11_000.0))
        assert peer.sent == [b"1RS\r", b"1SP110\r", b"1RL\r", b"1RS\r", b"1GO\r", b"1RS\r"]
        assert (await pump.pump.status()).flow_ul_min == pytest.approx(-11_000.0)


async def test_ten_milliseconds_pass_between_two_commands() -> None:
    fake = FakePump(LONG)
    ended_s: list[float] = []
    began_s: list[float] = []

    def noted(request: bytes) -> bytes | None:
        now_s = asyncio.get_running_loop().time()
        began_s.append(now_s)
        ended_s.append(now_s + len(request) * 11 / 9600)  # when its last bit has left
        return fake(request)

    async with linked(WatsonMarlow, Peer(noted), DeviceConfig("d", settings=W520)) as pump:
        await pump.pump.apply(Run(1e6))
    assert len(began_s) > 5
    assert min(later - before for before, later in zip(ended_s[:-1], began_s[1:], strict=True)) >= 0.010


@pytest.mark.parametrize(
    "reply",
    [
        b"520Du 15.84 520R 9.6MM 220.0 CW P/N 2 123456789 1 !\r",  # another number
        b"520Du 15.84 520R 9.6MM 220.0 UP P/N 1 123456789 1 !\r",
        b"520Du 15.84 520R 9.6MM nan CW P/N 1 123456789 1 !\r",
        b"520Du 15.84 520R 9.6MM 220.0 CW P/N 1 123456789 2 !\r",
        b"323Du 110 CW 1 !\r",
        b"520Du 15.84 520R 9.6MM 220.0 CW P/N 1 1234",
        b"1RS\r",
        b"x" * 400,
    ],
)
async def test_C2_what_is_no_status_of_this_pump_is_not_taken_for_one(reply: bytes) -> None:
    peer = Peer(FakePump(LONG))
    async with linked(WatsonMarlow, peer, DeviceConfig("d", settings=W520)) as pump:
        peer.answers = lambda request: reply
        with pytest.raises(BadReply):
            await pump.pump.status()


@pytest.mark.parametrize("reply", [b"2RS\r323Du 110 CW 1 !\r", b"520Du 15.84 520R 9.6MM 220.0 CW P/N 1 12 1 !\r"])
async def test_C2_the_answer_of_another_323_is_known_by_the_echo_before_it(reply: bytes) -> None:
    peer = Peer(FakePump(SHORT, echo=True))
    async with linked(WatsonMarlow, peer, DeviceConfig("d", settings=W323)) as pump:
        peer.answers = lambda request: reply
        with pytest.raises(BadReply):
            await pump.pump.status()
        peer.answers = lambda request: reply + b"1RS\r323Du 100 CCW 1 !\r"
        assert (await pump.pump.status()).flow_ul_min == pytest.approx(-10_000.0)


async def test_a_command_the_line_lost_is_given_once_more_and_then_refused() -> None:
    fake = FakePump(LONG)
    lost = [1]

    def losing(request: bytes) -> bytes | None:
        if request[1:3] == b"SP" and lost[0]:
            lost[0] -= 1
            return None
        return fake(request)

    peer = Peer(losing)
    async with linked(WatsonMarlow, peer, DeviceConfig("d", settings=W520)) as pump:
        await pump.pump.apply(Run(158_400.0))
        assert fake.speed == b"10.0"
        await pump.pump.apply(Stop())
        lost[0] = 100
        with pytest.raises(Refused, match="remote mode"):
            await pump.pump.apply(Run(316_800.0))
        assert not fake.running


async def test_a_pump_in_local_mode_is_told_as_a_fault_and_nothing_is_thought_to_run() -> None:
    fake = FakePump(LONG)
    peer = Peer(lambda request: None if request[1:3] == b"GO" else fake(request))
    async with linked(WatsonMarlow, peer, DeviceConfig("d", settings=W520)) as pump:
        with pytest.raises(DeviceFault, match="does not run"):
            await pump.pump.apply(Run(158_400.0))
        assert not (await pump.pump.status()).running


async def test_a_dose_is_given_in_pulses_of_the_tacho() -> None:
    tubing = {"ul_per_rev": 150.0}
    async with joined(WatsonMarlow, SimWatsonMarlow, settings={**W520, **tubing}) as rig:
        assert rig.pump.guarantee_for(Dispense(1.0, 1.0, "x")) is Guarantee.DEVICE
        await rig.pump.apply(Dispense(1500.0, 3000.0, "dose"))
        rig.line.unplug()
        await asyncio.sleep(120)
        assert rig.moved() == pytest.approx(1500.0, rel=1e-4)
        rig.line.plug()
        await asyncio.sleep(10)
        assert (await rig.status()).delivered_ul == pytest.approx(1500.0, abs=0.1)


async def test_a_dose_so_small_that_it_is_over_before_it_is_looked_at_counts_as_given() -> None:
    async with joined(WatsonMarlow, SimWatsonMarlow, settings={**W520, "ul_per_rev": 150.0}) as rig:
        await rig.pump.apply(Dispense(5.0, 30_000.0, "drop"))
        assert rig.moved() == pytest.approx(5.0, rel=0.02)
        await rig.pump.apply(Dispense(5.0, 30_000.0, "drop"))
        assert rig.moved() == pytest.approx(5.0, rel=0.02)


async def test_a_323_is_stopped_by_the_host_and_says_so() -> None:
    async with joined(WatsonMarlow, SimWatsonMarlow, settings=W323) as rig:
        assert rig.pump.guarantee_for(Dispense(1.0, 1.0, "x")) is Guarantee.HOST
        assert rig.pump.guarantee is Guarantee.HOST


async def test_another_series_is_not_trusted() -> None:
    config = DeviceConfig("d", settings=settings(series="720", max_rpm=300.0))
    async with linked(WatsonMarlow, Peer(FakePump(LONG)), config, verified=False) as pump:
        assert "series" in str(pump.link.failures["d"])
        with pytest.raises(DeviceError):
            await pump.pump.apply(Run(1000.0))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DeviceConfig("d", settings=settings(max_rpm=100.0)), "series is missing"),
        (DeviceConfig("d", settings=settings(series="520")), "max_rpm is missing"),
        (DeviceConfig("d", settings=settings(series=521.0, max_rpm=100.0)), "choose 323 or 505"),
        (DeviceConfig("d", settings=settings(series=True, max_rpm=100.0)), "choose 323 or 505"),
        (DeviceConfig("d", settings=settings(series="505", max_rpm=220.0)), "pulses_per_rev is missing"),
        (DeviceConfig("d", "33", W520), "1 to 16"),
        (DeviceConfig("d", "#", W520), "1 to 16"),
        (DeviceConfig("d", settings=settings(series="520", max_rpm=2000.0)), "from 1 to 999.9"),
    ],
)
async def test_F5_D7_settings_that_cannot_be_are_refused(config: DeviceConfig, message: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(message)):
        async with linked(WatsonMarlow, Peer(FakePump(LONG)), config):
            pass
