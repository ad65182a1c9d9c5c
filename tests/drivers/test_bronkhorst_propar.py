"""ProPar in both forms: the manual's messages, and a whole cycle against the simulated controller."""

from __future__ import annotations

import asyncio
import math
from contextlib import AbstractAsyncContextManager, suppress

import pytest

from drivers.bronkhorst_propar import BronkhorstPropar
from drivers.commands import Guarantee, Level, LevelStatus, Run, Stop
from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, LinkDown, NoReply, Refused, WrongDevice
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.devices.bronkhorst_propar import BronkhorstPropar as SimulatedPropar
from tests.drivers.against_sim import Pair, against
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings
from tests.sim.bench import RecordingPlant

FACTS = {
    "bronkhorst-propar": DriverFacts(
        line="38400 8N1", functions=(5, (4,)), stored=({"usertag": b"GAS 1"}, {"usertag": b"USERTAG"})
    ),
}

pytestmark = pytest.mark.virtual_time
both_modes = pytest.mark.parametrize("mode", ["binary", "ascii"])


def config(mode: str, address: str = "3") -> DeviceConfig:
    return DeviceConfig("gas", address, settings(full_scale_ml_min=100.0, mode=mode))


def propar(mode: str) -> AbstractAsyncContextManager[Pair[BronkhorstPropar, SimulatedPropar]]:
    return against(
        BronkhorstPropar,
        SimulatedPropar,
        address="3",
        settings=settings(full_scale_ml_min=100.0, mode=mode),
        plant=RecordingPlant(d__flow=0.0),
    )


def answers_of(request: bytes, *, flow: int = 16000, setpoint: int = 16000) -> bytes:
    """What an instrument on node 3 says in ASCII, by the manual's own frames."""
    raw = bytes.fromhex(request[1:-2].decode())
    if raw[2] == 1:
        return b":0403000005\r\n"
    if raw[5] == 113:
        return b":0403000405\r\n"  # an instrument without a serial number: status 4
    words = {0x20: flow.to_bytes(2, "big"), 0x21: setpoint.to_bytes(2, "big"), 0x4D: bytes.fromhex("42C80000")}
    reply = bytes((3, 2, raw[3], raw[4])) + words[raw[6]]
    return b":" + (bytes((len(reply),)) + reply).hex().upper().encode() + b"\r\n"


async def test_golden_ascii() -> None:
    peer = Peer(answers_of)
    async with linked(BronkhorstPropar, peer, config("ascii")) as gas:
        await asyncio.sleep(1)
        gas._sequence = 0
        peer.answers = {b":06030401210120\r\n": b":06030201213E80\r\n"}.get
        assert await gas.sensors["flow"].read() == 50.0
        gas._sequence = 0
        peer.answers = {b":06030401210121\r\n": b":06030201213E80\r\n"}.get
        assert await gas.setpoint_raw() == 16000


async def test_golden_set_point_of_any_node() -> None:
    def instrument(request: bytes) -> bytes:
        if request == b":06800101217D00\r\n":
            return b":0480000005\r\n"
        return (
            answers_of(request, setpoint=32000)
            .replace(b":0403", b":0480")
            .replace(b":0603", b":0680")
            .replace(b":0803", b":0880")
        )

    peer = Peer(instrument)
    async with linked(BronkhorstPropar, peer, config("ascii", "")) as gas:
        await gas.actuators["flow"].apply(Level(100.0))
        assert b":06800101217D00\r\n" in peer.sent


async def test_golden_binary() -> None:
    frames = {
        "10 02 01 80 05 04 01 21 01 20 10 03": "10 02 01 80 05 02 01 21 3E 80 10 03",
        "10 02 02 80 05 01 01 21 7D 00 10 03": "10 02 02 80 03 00 00 05 10 03",
        "10 02 03 80 05 04 01 23 01 21 10 03": "10 02 03 80 05 02 01 23 7D 00 10 03",
        # Index and sequence 16 are DLEs themselves.
        "10 02 10 10 80 05 04 01 30 01 20 10 03": "10 02 10 10 80 05 02 01 30 10 10 10 10 10 03",
    }
    table = {bytes.fromhex(request): bytes.fromhex(reply) for request, reply in frames.items()}
    peer = Peer(lambda request: None)
    async with linked(BronkhorstPropar, peer, config("binary", "128"), verified=False) as gas:
        peer.answers = table.get
        gas.conversation.verified = True
        gas.conversation._doubtful = False
        gas._sequence = 0
        assert await gas.sensors["flow"].read() == 50.0
        await gas.write_setpoint(32000)
        gas._sequence = 15
        gas._flow_at_s = -1.0
        assert await gas.sensors["flow"].read() == pytest.approx(0x1010 / 320)


@both_modes
async def test_a_whole_cycle(mode: str) -> None:
    async with propar(mode) as pair:
        gas, plant = pair.driver, pair.plant
        flow = gas.actuators["flow"]
        assert gas.identity is not None
        assert "capacity 100" in gas.identity.model
        assert flow.guarantee_for(Level(1.0)) is Guarantee.GUARD
        assert await gas.sensors["flow"].read() == 0.0
        for value in (5.0, 5.0, 100.0, 0.05):
            await flow.apply(Level(value))
            assert plant.last("d.flow") == pytest.approx(value, abs=100 / 32000)
            status = await flow.status()
            assert isinstance(status, LevelStatus)
            assert status.setpoint == pytest.approx(value, abs=100 / 32000)
            assert status.measured == pytest.approx(value, abs=100 / 32000)
        for wrong in (-0.1, 100.1, math.nan, math.inf):
            with pytest.raises(Refused, match="outside 0 to 100"):
                await flow.apply(Level(wrong))
        with pytest.raises(Refused, match="does not know"):
            await flow.apply(Run(1.0))
        await flow.apply(Stop())
        assert await flow.status() == LevelStatus(0.0, 0.0)
        await flow.apply(Level(7.0))
        await gas.close()
        assert plant.last("d.flow") == 0.0


@both_modes
async def test_a_flow_below_zero_is_read_as_such(mode: str) -> None:
    async with propar(mode) as pair:
        pair.plant.values["d.flow"] = -0.5
        await asyncio.sleep(1)
        assert await pair.driver.sensors["flow"].read() == pytest.approx(-0.5, abs=0.01)
        pair.plant.values["d.flow"] = 130.0
        await asyncio.sleep(1)
        assert await pair.driver.sensors["flow"].read() == pytest.approx(130.0, abs=0.01)


@both_modes
async def test_A7_a_set_point_that_is_not_taken_is_told(mode: str) -> None:
    async with propar(mode) as pair:
        pair.box.listens = False
        with pytest.raises(Refused, match="control mode"):
            await pair.driver.actuators["flow"].apply(Level(50.0))
        assert pair.plant.log == []


@both_modes
async def test_the_nearest_to_what_is_beyond_full_scale_is_full_scale(mode: str) -> None:
    async with propar(mode) as pair:
        flow = pair.driver.actuators["flow"]
        assert flow.nearest(Level(250.0)) == Level(100.0)
        assert flow.nearest(Level(60.0)) == Level(60.0)
        assert flow.nearest(Level(60.0), 20.0) == Level(20.0)
        assert flow.nearest(Stop()) == Stop()
        with pytest.raises(Refused, match="full scale"):
            await flow.apply(Level(250.0))


@both_modes
async def test_A6_another_capacity_is_another_instrument(mode: str) -> None:
    given = settings(full_scale_ml_min=100.0, capacity=50.0, mode=mode)
    async with against(
        BronkhorstPropar,
        SimulatedPropar,
        address="3",
        settings=given,
        box_settings=settings(capacity=20.0),
        plant=RecordingPlant(d__flow=0.0),
        verified=False,
    ) as pair:
        assert isinstance(pair.failures["d"], WrongDevice)
        assert "capacity is 20, not 50" in str(pair.failures["d"])
        with pytest.raises(LinkDown):
            await pair.driver.actuators["flow"].apply(Level(1.0))
        assert pair.plant.log == []


async def _read_again(pair: Pair[BronkhorstPropar, SimulatedPropar]) -> float:
    pair.line.tamper = None
    return await pair.driver.sensors["flow"].read()


@both_modes
@pytest.mark.parametrize("what", ["lost", "truncated", "garbled", "another", "noise"])
async def test_C2_what_is_no_answer_is_never_a_flow(mode: str, what: str) -> None:
    async with propar(mode) as pair:
        pair.plant.values["d.flow"] = 50.0
        other = {
            "binary": bytes.fromhex("10 02 1E 03 05 02 01 3E 7D 00 10 03"),
            "ascii": b":060302013E7D00\r\n",
        }[mode]

        def tamper(data: bytes) -> bytes:
            return {
                "lost": b"",
                "truncated": data[:-3],
                "garbled": data[:3] + b"\xff" + data[4:],
                "another": other,
                "noise": b"\x10\x02\x10\x03:\r\n" * 3,
            }[what]

        await asyncio.sleep(1)
        pair.line.tamper = tamper
        with pytest.raises((NoReply, BadReply)):
            await pair.driver.sensors["flow"].read()
        assert await _read_again(pair) == 50.0


@both_modes
@pytest.mark.parametrize("late_s", [0.31, 0.45, 0.9, 1.8])
async def test_C2_a_late_flow_is_not_the_next_flow(mode: str, late_s: float) -> None:
    async with propar(mode) as pair:
        pair.plant.values["d.flow"] = 50.0
        await asyncio.sleep(1)
        held: list[bytes] = []

        def hold(data: bytes) -> bytes:
            held.append(data)
            return b""

        pair.line.tamper = hold
        with pytest.raises(NoReply):
            await pair.driver.sensors["flow"].read()
        pair.line.tamper = None
        pair.plant.values["d.flow"] = 20.0
        client = pair.line.clients[0]
        asyncio.get_running_loop().call_later(late_s - 0.3, client.deliver, held[0])
        for _ in range(8):
            with suppress(DeviceError):
                assert await pair.driver.sensors["flow"].read() == 20.0
            await asyncio.sleep(0.25)
        assert await pair.driver.sensors["flow"].read() == 20.0


@both_modes
async def test_C2_the_true_answer_is_found_after_noise(mode: str) -> None:
    async with propar(mode) as pair:
        pair.plant.values["d.flow"] = 50.0
        await asyncio.sleep(1)
        noise = {"binary": b"\x10\x10\xff\x10\x02\x01", "ascii": b"\xff\x00:06\r\n"}[mode]
        pair.line.tamper = lambda data: noise + data
        assert await pair.driver.sensors["flow"].read() == 50.0


@both_modes
async def test_A2_cancelled_at_every_await_no_gas_flows(mode: str) -> None:
    for step in range(40):
        async with propar(mode) as pair:
            await asyncio.sleep(1)
            applying = asyncio.ensure_future(pair.driver.actuators["flow"].apply(Level(10.0)))
            await asyncio.sleep(0.2 * step / 40)
            done = applying.done()
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)
            assert (pair.box.setpoint > 0) == done


@both_modes
async def test_A2_a_lost_acknowledgement_ends_closed(mode: str) -> None:
    async with propar(mode) as pair:
        await asyncio.sleep(1)
        flow = pair.driver.actuators["flow"]

        def lose_acknowledgement() -> None:
            before = pair.box.setpoint
            lost: list[bytes] = []

            def tamper(data: bytes) -> bytes:
                if pair.box.setpoint == before or lost:
                    return data
                lost.append(data)
                return b""

            pair.line.tamper = tamper

        lose_acknowledgement()
        with pytest.raises(NoReply):
            await flow.apply(Level(10.0))
        assert pair.box.setpoint == 0
        await flow.apply(Level(10.0))
        lose_acknowledgement()
        with pytest.raises(NoReply):
            await flow.apply(Level(20.0))
        assert pair.box.setpoint == 6400  # gas flowed before; the readback tells how much


async def test_a_status_instead_of_an_answer_is_told() -> None:
    peer = Peer(answers_of)
    async with linked(BronkhorstPropar, peer, config("ascii")) as gas:
        await asyncio.sleep(1)
        peer.answers = lambda request: b":0403000403\r\n"
        with pytest.raises(Refused, match="no such parameter"):
            await gas.sensors["flow"].read()
        peer.answers = lambda request: b":0403000105\r\n"
        with pytest.raises(Refused, match="claimed"):
            await gas.write_setpoint(0)


async def test_C2_answers_sent_twice_are_taken_once() -> None:
    def twice(request: bytes) -> list[Say]:
        return [(0.01, answers_of(request)), (0.02, answers_of(request))]

    peer = Peer(twice)
    async with linked(BronkhorstPropar, peer, config("ascii")) as gas:
        for _ in range(5):
            await asyncio.sleep(0.3)
            assert await gas.sensors["flow"].read() == 50.0


@pytest.mark.parametrize(
    ("given", "address", "key"),
    [
        ({}, "3", "full_scale_ml_min"),
        ({"full_scale_ml_min": 0.0}, "3", "full_scale_ml_min"),
        ({"full_scale_ml_min": 1.0, "mode": "modbus"}, "3", "mode"),
        ({"full_scale_ml_min": 1.0, "capacity": "x"}, "3", "capacity"),
        ({"full_scale_ml_min": 1.0, "units": "slpm"}, "3", "units"),
        ({"full_scale_ml_min": 1.0}, "129", "address"),
        ({"full_scale_ml_min": 1.0}, "0", "address"),
        ({"full_scale_ml_min": 1.0}, "A", "address"),
    ],
)
async def test_D7_settings_that_cannot_be(given: dict[str, float | str | bool], address: str, key: str) -> None:
    with pytest.raises(BadSetting, match=key):
        BronkhorstPropar(Link(LinkUrl.parse("sim:x"), Peer(lambda _: None).open), DeviceConfig("gas", address, given))
