"""Reglo Digital and IPC against the manual's own frames (IPC 14-013 pp. 36 to 41)."""

from __future__ import annotations

import asyncio
import re

import pytest

from drivers.commands import Dispense, PumpStatus, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceFault, NoReply, Refused, WrongDevice
from drivers.ismatec_reglo_digital import IsmatecRegloDigital
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.opener import Streams
from drivers.transport.url import LinkUrl
from sim.devices.ismatec_reglo_digital import IsmatecRegloDigital as SimRegloDigital
from sim.serving import open_in_memory
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.drivers.pump_bench import joined

FACTS = {
    "ismatec-reglo-digital": DriverFacts(
        line="9600 8N1",
        queries=frozenset({"1#", "1+", "1!", "1[", "1f", "1E", "1:"}),
        stored=(
            {"address": 7, "tubing": 102, "calibrated_ml_min": 3.3},
            {"address": 1, "tubing": 160, "calibrated_ml_min": None},
        ),
    ),
}

pytestmark = pytest.mark.virtual_time

IPC = DeviceConfig("d", settings=settings(variant="ipc", tubing_mm=3.17))


class FakeIpc:
    """Exact replies of the manual."""

    def __init__(self) -> None:
        self.running = False
        self.speed = 500
        self.answers = {
            b"1#": b"IPC 403\r\n",
            b"1+": b"1.6 mm\r\n",
            b"1!": b"25.03 ml/min\r\n",
            b"1[": b"2\r\n",
            b"1:": b"4.983 ml\r\n",
        }

    def __call__(self, request: bytes) -> bytes:
        assert request.endswith(b"\r"), request
        text = request[:-1]
        match text:
            case b"1E":
                return b"+" if self.running else b"-"
            case b"1H":
                self.running = True
            case b"1I":
                self.running = False
            case b"1S":
                return b"%.1f\r\n" % (self.speed / 10)
            case _ if text in self.answers:
                return self.answers[text]
            case _ if text.startswith(b"1S"):
                self.speed = int(text[2:])
        return b"*"


async def test_golden_frames_of_verification_and_status() -> None:
    peer = Peer(FakeIpc())
    async with linked(IsmatecRegloDigital, peer, IPC, verified=False) as pump:
        assert peer.sent == [b"1#\r", b"1+\r", b"1+0317\r", b"1!\r", b"1[\r", b"1S\r"]
        assert pump.identity is not None
        assert (pump.identity.model, pump.identity.firmware) == ("IPC", "403")
        status = await pump.pump.status()
        assert (status.running, status.delivered_ul, round(status.resolution_ul, 9)) == (False, 4983.0, 1.0)


async def test_golden_run_and_dose() -> None:
    peer = Peer(FakeIpc())
    async with linked(IsmatecRegloDigital, peer, IPC) as pump:
        await pump.pump.apply(Run(0.603 * 25030.0))
        assert peer.sent == [b"1E\r", b"1L\r", b"1J\r", b"1S00603\r", b"1S\r", b"1H\r"]
        await pump.pump.apply(Stop())
        peer.sent.clear()
        await pump.pump.apply(Dispense(25_000.0, 0.603 * 25030.0, "d"))
        assert peer.sent == [b"1E\r", b"1O\r", b"1[02500\r", b"1J\r", b"1S00603\r", b"1S\r", b"1H\r"]


async def test_tubing_that_is_set_already_is_not_written_again() -> None:
    peer = Peer(FakeIpc())
    config = DeviceConfig("d", settings=settings(variant="ipc", tubing_mm=1.65))
    async with linked(IsmatecRegloDigital, peer, config, verified=False):
        assert b"1+0165\r" not in peer.sent


@pytest.mark.parametrize("variant", ["reglo-digital", "ipc"])
async def test_F5_a_pump_that_runs_with_other_tubing_is_stopped_and_told_the_right_one(variant: str) -> None:
    """As an old controller leaves it: it turns, and takes no tubing while it does."""
    told = settings(variant=variant, tubing_mm=1.02)
    async with joined(IsmatecRegloDigital, SimRegloDigital, settings=told) as before:
        assert isinstance(before.sim, SimRegloDigital)
        await before.pump.apply(Run(2000.0))

        async def opener(*_: object) -> Streams:
            return open_in_memory(before.line)

        link = Link(LinkUrl.parse("sim:again"), opener, line=IsmatecRegloDigital.line)
        after = IsmatecRegloDigital(link, DeviceConfig("d", settings=settings(variant=variant, tubing_mm=1.42)))
        try:
            assert not await link.start()
            assert after.conversation.verified
            assert before.flow == 0.0
            assert before.sim.tubing == 142
            await after.pump.apply(Run(3000.0))
            assert before.sim.motor.running
            await after.pump.apply(Stop())
            assert not before.sim.motor.running
        finally:
            await link.close()


@pytest.mark.parametrize(("variant", "changed"), [("reglo-digital", b"1f5000+0"), ("ipc", b"1S00794")])
async def test_A7_a_flow_that_is_changed_at_the_keys_is_told_by_the_next_poll(variant: str, changed: bytes) -> None:
    told = settings(tubing_mm=1.02, variant=variant, direction="ccw")
    async with joined(IsmatecRegloDigital, SimRegloDigital, settings=told) as rig:
        await rig.pump.apply(Run(1000.0))
        assert (await rig.status()).flow_ul_min == pytest.approx(1000.0, rel=0.01)
        assert isinstance(rig.sim, SimRegloDigital)
        rig.sim.command(changed.decode())
        assert rig.flow == pytest.approx(-5000.0, rel=0.01)
        assert (await rig.status()).flow_ul_min == pytest.approx(5000.0, rel=0.01)


async def test_the_flow_of_a_running_pump_is_asked_each_time_and_that_of_a_resting_one_never() -> None:
    fake = FakeIpc()
    peer = Peer(fake)
    async with linked(IsmatecRegloDigital, peer, IPC) as pump:
        await pump.pump.status()
        assert b"1S\r" not in peer.sent, "at rest there is no flow to ask for"
        for fake.running, fake.speed in ((True, 250), (True, 300), (True, 25)):  # at its keys
            assert (await pump.pump.status()).flow_ul_min == pytest.approx(fake.speed / 1000.0 * 25030.0)


async def test_A4_a_start_that_is_answered_strangely_may_have_begun_the_dose() -> None:
    """`*` with one wrong bit is `+`: the pump turns. It is stopped, and the dose is not given a second time."""
    fake = FakeIpc()
    starts = 0

    def flipped(request: bytes) -> bytes:
        nonlocal starts
        answer = fake(request)
        starts += request == b"1H\r"
        return bytes((answer[0] ^ 1,)) if request == b"1H\r" else answer

    peer = Peer(flipped)
    async with linked(IsmatecRegloDigital, peer, IPC) as pump:
        dose = Dispense(25_000.0, 0.603 * 25030.0, "d")
        with pytest.raises(BadReply, match="started"):
            await pump.pump.apply(dose)
        assert not fake.running
        peer.answers = fake
        with pytest.raises(Refused, match="begun before"):
            await pump.pump.apply(dose)
        assert starts == 1
        assert not fake.running


@pytest.mark.parametrize("answer", [b"-", b"#"])
async def test_a_start_that_is_refused_has_begun_nothing(answer: bytes) -> None:
    fake = FakeIpc()
    peer = Peer(lambda request: answer if request == b"1H\r" else fake(request))
    async with linked(IsmatecRegloDigital, peer, IPC) as pump:
        dose = Dispense(25_000.0, 0.603 * 25030.0, "d")
        with pytest.raises(Refused, match="will not start"):
            await pump.pump.apply(dose)
        peer.answers = fake
        await pump.pump.apply(dose)
        assert fake.running


@pytest.mark.parametrize(
    ("text", "total_ul", "step_ul"),
    [(b"983.0 ul", 983.0, 0.1), (b"49.83 ml", 49830.0, 10.0), (b"1.204 l", 1_204_000.0, 1000.0)],
)
async def test_the_total_comes_with_its_unit_and_step(text: bytes, total_ul: float, step_ul: float) -> None:
    fake = FakeIpc()
    async with linked(IsmatecRegloDigital, Peer(fake), IPC) as pump:
        fake.answers[b"1:"] = text + b"\r\n"
        status = await pump.pump.status()
        assert status.delivered_ul == pytest.approx(total_ul)
        assert status.resolution_ul == pytest.approx(step_ul)


@pytest.mark.parametrize("text", [b"nan ml", b"4.983", b"-4.983 ml", b"4.983 gal", b"4,983 ml", b"IPC 403", b""])
async def test_C2_what_is_no_total_is_not_taken_for_one(text: bytes) -> None:
    fake = FakeIpc()
    async with linked(IsmatecRegloDigital, Peer(fake), IPC) as pump:
        fake.answers[b"1:"] = text + b"\r\n"
        with pytest.raises(BadReply):
            await pump.pump.status()


async def test_overload_is_a_fault_and_a_stop_ends_it_standing() -> None:
    async with joined(IsmatecRegloDigital, SimRegloDigital, settings={"tubing_mm": 1.02}) as rig:
        assert isinstance(rig.sim, SimRegloDigital)
        await rig.pump.apply(Run(2000.0))
        rig.sim.block()
        with pytest.raises(DeviceFault, match="overloaded"):
            await rig.pump.status()
        with pytest.raises(DeviceFault, match="overloaded"):
            await rig.pump.apply(Run(2000.0))
        assert rig.sim.overload
        await rig.pump.apply(Stop())
        assert not rig.sim.overload
        assert rig.flow == 0.0
        await rig.pump.apply(Run(2000.0))
        assert rig.flow == pytest.approx(2000.0, rel=0.01)


async def test_a_pump_that_is_still_starting_is_waited_for() -> None:
    async with joined(
        IsmatecRegloDigital, SimRegloDigital, settings={"tubing_mm": 1.02}, sim_settings={"boot_s": 5.0}, verified=False
    ) as rig:
        assert not rig.device.conversation.verified
        await asyncio.sleep(15)
        assert rig.device.conversation.verified
        await rig.pump.apply(Run(2000.0))
        assert rig.flow == pytest.approx(2000.0, rel=0.01)


async def test_a_dose_that_its_decimals_cannot_tell_is_refused() -> None:
    async with joined(IsmatecRegloDigital, SimRegloDigital, settings={"tubing_mm": 1.02}) as rig:
        with pytest.raises(Refused, match="its own steps would make"):
            await rig.pump.apply(Dispense(14.0, 2000.0, "small"))
        assert rig.plant.log == []


@pytest.mark.parametrize("believed", ["decimal", "whole"])
@pytest.mark.parametrize("pumps", ["decimal", "whole"])
async def test_the_mantissa_is_read_as_the_rig_file_says(believed: str, pumps: str) -> None:
    """Told right, the pump moves what is wanted. Told wrong, it takes a thousand times as much or as little, unseen."""
    told: dict[str, float | str | bool] = {"tubing_mm": 1.02, "mantissa": believed}
    async with joined(IsmatecRegloDigital, SimRegloDigital, settings=told, sim_settings={"mantissa": pumps}) as rig:
        if believed == "decimal" and pumps == "whole":
            with pytest.raises(Refused, match="instead of 2000"):
                await rig.pump.apply(Run(2000.0))  # 2 L/min are beyond any tubing
            await rig.pump.apply(Run(2.0))
            assert rig.flow == pytest.approx(2000.0, rel=0.01)
            return
        await rig.pump.apply(Run(6300.0))
        assert rig.flow == pytest.approx(6300.0 if pumps == believed else 6.3, rel=0.01)
        status = await rig.pump.status()
        assert isinstance(status, PumpStatus)
        assert status.running


async def test_nothing_is_ever_stored_and_the_total_never_reset() -> None:
    async with joined(IsmatecRegloDigital, SimRegloDigital, settings={"tubing_mm": 1.02}) as rig:
        for flow in (1000.0, 2000.0, -1000.0):
            await rig.pump.apply(Run(flow))
        await rig.pump.apply(Stop())
        assert isinstance(rig.sim, SimRegloDigital)
        assert rig.sim.memory_writes == 0
        assert (await rig.status()).delivered_ul > 0.0


@pytest.mark.parametrize(
    ("text", "variant"), [(b"REGLO ICC 0208 306", "reglo-digital"), (b"IPC 403", "reglo-digital"), (b"MCP 404", "ipc")]
)
async def test_another_pump_is_not_trusted(text: bytes, variant: str) -> None:
    config = DeviceConfig("d", settings=settings(variant=variant))
    async with linked(IsmatecRegloDigital, Peer(lambda request: text + b"\r\n"), config, verified=False) as pump:
        assert isinstance(pump.link.failures["d"], WrongDevice)
        assert not pump.conversation.verified


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DeviceConfig("d", "9"), '"1" to "8"'),
        (DeviceConfig("d", settings=settings(tubing_mm=1.0)), "no tubing of the maker's"),
        (DeviceConfig("d", settings=settings(variant="mcp")), "choose reglo-digital or ipc"),
        (DeviceConfig("d", settings=settings(direction="up")), "choose cw or ccw"),
        (DeviceConfig("d", settings=settings(rpm=3.0)), "rpm is unknown"),
    ],
)
async def test_F5_D7_settings_that_cannot_be_are_refused(config: DeviceConfig, message: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(message)):
        async with linked(IsmatecRegloDigital, Peer(FakeIpc()), config):
            pass


@pytest.mark.parametrize("late_s", [0.61, 0.7, 1.0, 1.2])
async def test_C2_a_late_reply_of_one_pump_in_a_chain_is_not_taken_for_the_others(late_s: float) -> None:
    pumps = {b"1": FakeIpc(), b"2": FakeIpc()}
    late: list[float] = []

    def chain(request: bytes) -> list[tuple[float, bytes]]:
        reply = pumps[request[:1]](b"1" + request[1:])
        return [(late.pop() if late else 0.01, reply)]

    peer = Peer(chain)
    link = Link(LinkUrl.parse("sim:chain"), peer.open, line=IsmatecRegloDigital.line)
    first, second = (IsmatecRegloDigital(link, DeviceConfig(f"d{n}", n, settings(variant="ipc"))) for n in ("1", "2"))
    assert not await link.start()
    try:
        pumps[b"1"].running = True
        late.append(late_s)
        with pytest.raises(NoReply):
            await first.pump.status()
        assert not (await second.pump.status()).running
        assert (await first.pump.status()).running
    finally:
        await link.close()
