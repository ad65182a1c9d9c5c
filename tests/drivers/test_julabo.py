"""Julabo: the manual's commands, and a whole cycle against a simulated thermostat that loses what comes too soon."""

from __future__ import annotations

import asyncio
import math
from contextlib import AbstractAsyncContextManager

import pytest

from drivers.commands import Guarantee, Level, LevelStatus, Stop, Switch
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, LinkDown, NoReply, Refused
from drivers.julabo import Julabo
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.devices.julabo import Julabo as SimulatedJulabo
from tests.drivers.against_sim import Pair, against
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings

FACTS = {
    "julabo": DriverFacts(
        line="4800 7E1",
        queries=frozenset({"version", "in_mode_05", "in_pv_00", "in_pv_01"}),
        stored=({"remote": True, "setpoints": [37.0, 20.0, 20.0]}, {"remote": False, "setpoints": [20.0, 20.0, 20.0]}),
    ),
}

pytestmark = pytest.mark.virtual_time

CONFIG = DeviceConfig("bath", "", settings(high_c=60.0))


def julabo(
    address: str = "", **given: float | str | bool
) -> AbstractAsyncContextManager[Pair[Julabo, SimulatedJulabo]]:
    return against(Julabo, SimulatedJulabo, address=address, settings=given)


class FakeJulabo:
    def __init__(self, prefix: bytes = b"") -> None:
        self.prefix = prefix
        self.told: list[bytes] = []
        self.answers = {
            b"version": b"JULABO FL601",
            b"status": b"02 REMOTE STOP",
            b"in_pv_00": b"24.75",
            b"in_pv_01": b"13",
            b"in_sp_00": b"20.0",
            b"in_mode_05": b"0",
        }

    def __call__(self, request: bytes) -> bytes | None:
        assert request.startswith(self.prefix)
        assert request.endswith(b"\r")
        command = request[len(self.prefix) : -1]
        if command.startswith(b"out_"):
            self.told.append(command)
            name, _, value = command.partition(b" ")
            self.answers[name.replace(b"out", b"in")] = value
            return None
        answer = self.answers.get(command)
        return None if answer is None else self.prefix + answer + b"\n"


@pytest.mark.parametrize(("address", "prefix"), [("", b""), ("32", b"A032_")])
async def test_golden_commands(address: str, prefix: bytes) -> None:
    fake = FakeJulabo(prefix)
    peer = Peer(fake)
    async with linked(Julabo, peer, DeviceConfig("bath", address, settings(high_c=60.0))) as bath:
        assert peer.lines[0].text == "4800 7E1"
        await asyncio.sleep(1)
        assert await bath.sensors["temperature"].read() == 24.75
        assert await bath.sensors["power"].read() == 13.0
        await bath.actuators["setpoint"].apply(Level(55.5))
        assert fake.told == [b"out_sp_00 55.5", b"out_mode_05 1"]
        assert await bath.actuators["setpoint"].status() == LevelStatus(55.5, 24.75)
        await bath.actuators["setpoint"].apply(Stop())
        assert fake.told[-1] == b"out_mode_05 0"
        assert prefix + b"in_sp_00\r" in peer.sent


@pytest.mark.parametrize("address", ["", "32"])
async def test_a_whole_cycle(address: str) -> None:
    async with julabo(address) as pair:
        setpoint = pair.driver.actuators["setpoint"]
        assert pair.driver.identity is not None
        assert pair.driver.identity.model == "JULABO FP50-MH VERSION 1.0"
        assert setpoint.guarantee_for(Level(37.0)) is Guarantee.GUARD
        assert await setpoint.status() == LevelStatus(0.0, 20.0)
        for value in (37.0, 37.0, 38.25):
            await setpoint.apply(Level(value))
            assert pair.box.bath.goal_c == value
        await asyncio.sleep(1200)
        assert await setpoint.status() == LevelStatus(38.25, 38.25)
        assert await pair.driver.sensors["power"].read() == pytest.approx(14.6, abs=0.3)
        for wrong in (24.9, 42.1, -5.0, math.nan, math.inf):
            with pytest.raises(Refused, match="outside 25 to 42"):
                await setpoint.apply(Level(wrong))
        with pytest.raises(Refused, match="does not know"):
            await setpoint.apply(Switch(True))
        await setpoint.apply(Level(0.0))
        assert not pair.box.running
        await setpoint.apply(Level(37.0))
        await pair.driver.close()
        assert not pair.box.running
        assert (await setpoint.status()).setpoint == 0.0  # type: ignore[union-attr]
        assert pair.box.lost == 0  # 250 ms were kept throughout


async def test_many_askers_keep_the_pause_between_commands() -> None:
    async with julabo() as pair:
        setpoint = pair.driver.actuators["setpoint"]
        await asyncio.gather(
            setpoint.apply(Level(37.0)),
            *(pair.driver.sensors[name].read() for name in ("temperature", "power") * 5),
            setpoint.status(),
        )
        assert pair.box.lost == 0
        assert pair.box.running


async def test_the_external_sensor() -> None:
    async with julabo(external=True) as pair:
        assert await pair.driver.sensors["external"].read() == pytest.approx(19.7)
        assert await pair.driver.actuators["setpoint"].status() == LevelStatus(0.0, 19.7)


async def test_C2_no_external_sensor_is_no_number() -> None:
    async with against(Julabo, SimulatedJulabo, settings=settings(external=True), box_settings={}) as pair:
        with pytest.raises(BadReply):
            await pair.driver.sensors["external"].read()
        assert await pair.driver.sensors["temperature"].read() == 20.0


async def test_A7_local_mode_and_alarms_are_told_with_its_own_words() -> None:
    async with julabo() as pair:
        pair.box.remote = False
        with pytest.raises(Refused, match="set-point is 20 instead of 37; it says “00 MANUAL STOP”"):
            await pair.driver.actuators["setpoint"].apply(Level(37.0))
        pair.box.remote = True
        pair.box.fail("-01 LOW LEVEL ALARM")
        with pytest.raises(Refused, match="does not start; it says “-01 LOW LEVEL ALARM”"):
            await pair.driver.actuators["setpoint"].apply(Level(37.0))
        pair.box.alarm = ""
        await pair.driver.actuators["setpoint"].apply(Level(37.0))
        pair.box.remote = False
        with pytest.raises(Refused, match="still runs"):
            await pair.driver.actuators["setpoint"].apply(Stop())


async def test_a_stop_that_was_not_received_is_sent_again() -> None:
    async with julabo() as pair:
        await pair.driver.actuators["setpoint"].apply(Level(37.0))
        listen, lost = pair.box.command, [True]

        def deaf_once(text: str) -> None:
            if not (text == "out_mode_05 0" and lost and lost.pop()):
                listen(text)

        pair.box.command = deaf_once  # type: ignore[method-assign]
        await pair.driver.actuators["setpoint"].apply(Stop())
        assert not pair.box.running
        assert not lost


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"", NoReply),
        (b"24.75", BadReply),
        (b"24.7.5\n", BadReply),
        (b"nan\n", BadReply),
        (b"1e2\n", BadReply),
        (b"---.--\n", BadReply),
        (b"A033_24.75\n", BadReply),
        (b"JULABO\n", BadReply),
        (b"\xb2\xb4.75\n", BadReply),
        (b"Z" * 400, BadReply),
    ],
)
async def test_C2_what_is_no_answer_is_never_a_temperature(reply: bytes, error: type[DeviceError]) -> None:
    fake = FakeJulabo()
    peer = Peer(fake)
    async with linked(Julabo, peer, CONFIG) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: reply or None
        with pytest.raises(error):
            await bath.sensors["temperature"].read()
        peer.answers = fake
        assert await bath.sensors["temperature"].read() == 24.75


@pytest.mark.parametrize("late_s", [0.51, 0.7, 0.95, 2.0])
async def test_C2_a_late_temperature_is_not_the_next(late_s: float) -> None:
    fake = FakeJulabo()
    peer = Peer(fake)
    async with linked(Julabo, peer, CONFIG) as bath:
        await asyncio.sleep(1)
        peer.answers = lambda request: [(late_s, fake(request) or b"")]
        with pytest.raises(NoReply):
            await bath.sensors["temperature"].read()
        fake.answers[b"in_pv_00"] = b"10.0"
        free_at = asyncio.get_running_loop().time() - 0.5 + late_s
        peer.answers = lambda request: [
            (max(0.01, free_at - asyncio.get_running_loop().time() + 0.01), fake(request) or b"")
        ]
        for _ in range(6):
            try:
                assert await bath.sensors["temperature"].read() == 10.0
            except DeviceError:
                await asyncio.sleep(0.2)
        await asyncio.sleep(1)
        assert await bath.sensors["temperature"].read() == 10.0


async def test_A2_cancelled_at_every_await_it_is_stopped() -> None:
    for step in range(60):
        async with julabo() as pair:
            await asyncio.sleep(1)
            applying = asyncio.ensure_future(pair.driver.actuators["setpoint"].apply(Level(37.0)))
            await asyncio.sleep(2.5 * step / 60)
            done = applying.done()
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)
            assert pair.box.running == done


async def test_A6_nothing_is_told_before_it_has_said_who_it_is() -> None:
    fake = FakeJulabo()
    del fake.answers[b"version"]
    async with linked(Julabo, Peer(fake), CONFIG, verified=False) as bath:
        assert isinstance(bath.link.failures["bath"], NoReply)
        with pytest.raises(LinkDown):
            await bath.actuators["setpoint"].apply(Level(37.0))
        assert fake.told == []


@pytest.mark.parametrize(
    ("given", "address", "key"),
    [
        ({"low_c": 0.5}, "", "low_c"),
        ({"low_c": 50.0, "high_c": 42.0}, "", "low_c"),
        ({"external": "yes"}, "", "external"),
        ({"rest_c": 20.0}, "", "rest_c"),
        ({}, "128", "address"),
        ({}, "A", "address"),
    ],
)
async def test_D7_settings_that_cannot_be(given: dict[str, float | str | bool], address: str, key: str) -> None:
    with pytest.raises(BadSetting, match=key):
        Julabo(Link(LinkUrl.parse("sim:x"), Peer(lambda _: None).open), DeviceConfig("bath", address, given))
