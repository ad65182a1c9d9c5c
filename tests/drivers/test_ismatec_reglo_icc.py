"""Ismatec Reglo ICC against the manual's own frames (14-036-E, sections 14 to 18)."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.commands import Dispense, Guarantee, Level, PumpStatus, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import ChannelConfig, DeviceConfig
from drivers.errors import BadReply, NoReply, Refused, WrongDevice
from drivers.ismatec_formats import (
    parse_count,
    parse_flow_ul_min,
    parse_tubing_mm,
    parse_volume_1,
    time_2,
    tubing_2,
    volume_2,
)
from drivers.ismatec_reglo_icc import IsmatecRegloIcc
from drivers.settings import BadSetting
from tests.drivers.facts import DriverFacts
from tests.drivers.fakes import FakeReglo
from tests.drivers.peer import linked, settings

FACTS = {
    "ismatec-reglo-icc": DriverFacts(
        line="9600 8N1", queries=frozenset({"0#", "0x!", "1+", "1!", "2+", "2!", "1E", "1xG", "2E", "2xG"})
    ),
}

virtual = pytest.mark.virtual_time


# --- number formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "wire"),
    [(0.0013, b"1300-3"), (300.0, b"3000+2"), (100.0, b"1000+2"), (0.012, b"1200-2"), (1.3, b"1300+0")],
)
def test_golden_volume_2_of_requests(value: float, wire: bytes) -> None:
    assert volume_2(value) == wire


@pytest.mark.parametrize(
    ("wire", "value"),
    [(b"1300E-3", 0.0013), (b"3000E+2", 300.0), (b"1200E-2", 0.012), (b"1000E+2", 100.0), (b"1300E+0", 1.3)],
)
def test_golden_volume_1_of_replies(wire: bytes, value: float) -> None:
    assert parse_volume_1(wire, "x") == pytest.approx(value)


@given(st.floats(1e-6, 9e5))
def test_volume_survives_the_way_there_and_back_within_its_four_digits(value: float) -> None:
    wire = volume_2(value)
    assert re.fullmatch(rb"[1-9]\d{3}[+-]\d", wire)
    assert parse_volume_1(wire[:4] + b"E" + wire[4:], "x") == pytest.approx(value, rel=5.1e-4)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e12])
def test_what_is_no_volume_is_not_sent(value: float) -> None:
    with pytest.raises(ValueError, match="volume"):
        volume_2(value)


def test_golden_times_tubing_flow_and_counts() -> None:
    assert time_2(150.0) == b"00001500"  # 1xT00001500 is 150 s in the manual
    assert time_2(1500.0, unit_s=1.0) == b"00001500"  # and 1xP00001500 is 1500 s: the manual contradicts itself
    assert tubing_2(0.13) == b"0013"
    assert tubing_2(1.02) == b"0102"
    assert parse_tubing_mm(b"3.17 mm", "x") == 3.17
    assert parse_flow_ul_min(b"11.4 ml/min", "x") == pytest.approx(11400.0)
    assert parse_count(b"0000100000", "x") == 100000
    assert parse_count(b"2", "x") == 2


@given(st.binary(max_size=24))
def test_C2_the_number_parsers_take_whole_numbers_or_refuse(data: bytes) -> None:
    for parse in (parse_volume_1, parse_tubing_mm, parse_flow_ul_min, parse_count):
        try:
            value = parse(data, "x")
        except BadReply:
            continue
        assert value >= 0
        assert any(character in b"0123456789" for character in data)


# --- what goes over the wire ------------------------------------------------------------------------------


@virtual
async def test_golden_verification_asks_and_sets_in_order_and_moves_nothing() -> None:
    reglo = FakeReglo()
    reglo.tubing["2"] = b"3.17 mm"
    peer = Peer(reglo)
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config, verified=False) as pump:
        assert peer.sent == [
            *(b"1~1\r", b"0#\r", b"0xE0\r", b"0x!\r"),
            *(b"1+\r", b"1!\r"),
            *(b"2+\r", b"2+0102\r", b"2!\r"),
        ]
        assert pump.identity is not None
        assert (pump.identity.model, pump.identity.firmware) == ("Reglo ICC", "0208 protocol 2")
        assert reglo.starts == []


@virtual
async def test_B4_no_request_asks_for_the_serial_number() -> None:
    """`xS` with what follows writes it: a query that a pulled cable cuts off joins the next request."""
    peer = Peer(FakeReglo())
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config) as pump:
        for name, actuator in pump.actuators.items():
            for command in (Run(1000.0), Run(-1000.0), Stop(), Dispense(100.0, 1000.0, f"dose of {name}"), Stop()):
                await actuator.apply(command)
                await actuator.status()
        await pump.verify()
    assert len(peer.sent) > 50
    assert not any(b"xS" in request for request in peer.sent)
    assert IsmatecRegloIcc.queries is not None
    assert IsmatecRegloIcc.queries.fullmatch(b"0xS\r") is None


@virtual
async def test_golden_continuous_flow_on_change_reverse_and_off() -> None:
    reglo = FakeReglo()
    peer = Peer(reglo)
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config) as pump:
        heart = pump.actuators["heart"]
        await heart.apply(Run(1300.0))
        assert peer.sent == [b"1~1\r", b"1E\r", b"1M\r", b"1J\r", b"1f1300+0\r", b"1H\r"]
        peer.sent.clear()
        await heart.apply(Run(2000.0))
        assert peer.sent == [b"1~1\r", b"1E\r", b"1xM\r", b"1xD\r", b"1f2000+0\r"]  # it turns on without a stop
        peer.sent.clear()
        await heart.apply(Run(-2000.0))
        assert peer.sent[4:] == [b"1I\r", b"1E\r", b"1M\r", b"1K\r", b"1f2000+0\r", b"1H\r"]
        assert await heart.status() == PumpStatus(True, -2000.0, 0.0, 1000.0)
        peer.sent.clear()
        await heart.apply(Stop())
        assert peer.sent == [b"1I\r", b"1E\r"]
        assert not (await heart.status()).running  # type: ignore[union-attr]


@virtual
async def test_golden_a_dose_is_volume_at_rate_and_the_pump_ends_it() -> None:
    reglo = FakeReglo()
    peer = Peer(reglo)
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        assert peer.sent == [b"1~1\r", b"2E\r", b"2O\r", b"2J\r", b"2f4000+0\r", b"2v2000+0\r", b"2H\r"]
        assert (await draw.status()).running  # type: ignore[union-attr]
        reglo.running["2"], reglo.total_ml["2"] = False, 2
        assert await draw.status() == PumpStatus(False, 0.0, 2000.0, 1000.0)


@virtual
async def test_A4_a_dose_given_twice_is_delivered_once() -> None:
    reglo = FakeReglo()
    async with linked(IsmatecRegloIcc, Peer(reglo), FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        for _ in range(3):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        reglo.running["2"] = False
        await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        assert reglo.starts == ["2"]
        await draw.apply(Dispense(2000.0, 4000.0, "d2"))
        assert reglo.starts == ["2", "2"]


@virtual
async def test_A4_run_and_stop_twice_equal_once() -> None:
    reglo = FakeReglo()
    async with linked(IsmatecRegloIcc, Peer(reglo), FakeReglo.config) as pump:
        heart = pump.actuators["heart"]
        await heart.apply(Run(1000.0))
        await heart.apply(Run(1000.0))
        assert reglo.starts == ["1"]
        await heart.apply(Stop())
        await heart.apply(Stop())
        assert not reglo.on


@virtual
async def test_A4_a_dose_whose_start_was_not_confirmed_is_stopped_and_never_given_again() -> None:
    reglo = FakeReglo()

    def loses_the_answer(request: bytes) -> bytes | None:
        answer = reglo(request)
        return None if request == b"2H\r" else answer

    peer = Peer(loses_the_answer)
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        with pytest.raises(NoReply):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        assert reglo.starts == ["2"]
        assert not reglo.on
        with pytest.raises(Refused, match=r"begun before.*Next: read the pump's total"):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        assert reglo.starts == ["2"]


@virtual
async def test_A4_a_start_that_is_answered_strangely_may_have_begun_the_dose() -> None:
    """`*` with one wrong bit is `+`: the channel turns. It is stopped, and the dose is not given a second time."""
    reglo = FakeReglo()

    def flipped(request: bytes) -> bytes | None:
        answer = reglo(request)
        return b"+" if request == b"2H\r" else answer

    peer = Peer(flipped)
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        with pytest.raises(BadReply, match="started"):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        assert reglo.starts == ["2"]
        assert not reglo.on
        peer.answers = reglo
        with pytest.raises(Refused, match="begun before"):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        assert reglo.starts == ["2"]


@virtual
async def test_a_dose_that_was_never_begun_may_be_asked_again() -> None:
    reglo = FakeReglo()
    deaf_once = [True]

    def answers(request: bytes) -> bytes | None:
        if request == b"2v2000+0\r" and deaf_once.pop() is True:
            deaf_once.append(False)
            return None
        if request == b"2v2000+0\r":
            deaf_once.append(False)
        return reglo(request)

    async with linked(IsmatecRegloIcc, Peer(answers), FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        with pytest.raises(NoReply):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        assert reglo.starts == ["2"]


@virtual
async def test_a_running_channel_takes_no_dose() -> None:
    reglo = FakeReglo()
    async with linked(IsmatecRegloIcc, Peer(reglo), FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        with pytest.raises(Refused, match="still running"):
            await draw.apply(Dispense(2000.0, 4000.0, "d2"))


@virtual
async def test_refusals_say_why() -> None:
    reglo = FakeReglo()
    async with linked(IsmatecRegloIcc, Peer(reglo), FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        reglo.refuse_start = b"R 1140E+1"
        with pytest.raises(Refused, match=r"above 1140E\+1 mL/min"):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        reglo.refuse_start = b"V 9999E+2"
        with pytest.raises(Refused, match="volume is above"):
            await draw.apply(Dispense(2000.0, 4000.0, "d1"))
        with pytest.raises(Refused, match="12000 µL/min cannot be pumped; the tubing carries 11400"):
            await draw.apply(Run(12000.0))
        with pytest.raises(Refused, match="does not know Level"):
            await draw.apply(Level(1.0))
        for bad in (float("nan"), float("inf"), -1.0, 0.0):
            with pytest.raises(Refused):
                await draw.apply(Dispense(bad, 4000.0, "bad"))
            with pytest.raises(Refused):
                await draw.apply(Dispense(2000.0, bad, "bad"))
        assert not reglo.on


@virtual
async def test_A7_an_echo_that_differs_is_refused_before_the_start() -> None:
    reglo = FakeReglo()

    def clips(request: bytes) -> bytes | None:
        reglo(request) if not request.startswith(b"1f") else None
        return b"1000E+0\r\n" if request.startswith(b"1f") else reglo(request)

    async with linked(IsmatecRegloIcc, Peer(clips), FakeReglo.config) as pump:
        with pytest.raises(Refused, match="took 1000 instead of 2000 µL/min"):
            await pump.actuators["heart"].apply(Run(2000.0))
        assert reglo.starts == []


@virtual
async def test_a_stop_during_a_start_wins() -> None:
    reglo = FakeReglo()
    async with linked(IsmatecRegloIcc, Peer(reglo), FakeReglo.config) as pump:
        heart = pump.actuators["heart"]
        starting = asyncio.ensure_future(heart.apply(Run(1000.0)))
        await asyncio.sleep(0.05)
        await heart.apply(Stop())
        await starting
        assert not reglo.on


@virtual
async def test_event_messages_are_no_replies() -> None:
    reglo = FakeReglo()

    def with_events(request: bytes) -> bytes | None:
        return b"^X2|A\r\n^U3|A|0000000000|0000100000|0000\r\n" + (reglo(request) or b"")

    async with linked(IsmatecRegloIcc, Peer(with_events), FakeReglo.config) as pump:
        await pump.actuators["heart"].apply(Run(1000.0))
        assert (await pump.actuators["heart"].status()).running  # type: ignore[union-attr]


@virtual
async def test_a_resting_channel_costs_one_request_and_a_person_at_the_keys_is_noticed() -> None:
    reglo = FakeReglo()
    peer = Peer(reglo)
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config) as pump:
        draw = pump.actuators["draw"]
        await draw.status()
        peer.sent.clear()
        for _ in range(5):
            await draw.status()
        assert peer.sent == [b"2E\r"] * 5
        reglo.running["2"], reglo.values["2f"], reglo.direction["2"] = True, b"5000E-1", "K"
        assert (await draw.status()).flow_ul_min == pytest.approx(-500.0)  # type: ignore[union-attr]


@virtual
async def test_the_volume_per_revolution_follows_from_the_maximum_flow() -> None:
    """It is the basis of tubing life; the pump reports 11.4 mL/min at 100 rpm."""
    async with linked(IsmatecRegloIcc, Peer(FakeReglo()), FakeReglo.config) as pump:
        assert pump.actuators["heart"].revolution_ul == pytest.approx(114.0)


@virtual
async def test_another_pump_is_not_trusted() -> None:
    reglo = FakeReglo()
    peer = Peer(lambda request: b"MCP 404 306\r\n" if request == b"0#\r" else reglo(request))
    async with linked(IsmatecRegloIcc, peer, FakeReglo.config, verified=False) as pump:
        assert isinstance(pump.link.failures["reglo"], WrongDevice)
        assert not pump.conversation.verified


@virtual
async def test_guarantees_are_told_for_each_command() -> None:
    async with linked(IsmatecRegloIcc, Peer(FakeReglo()), FakeReglo.config) as pump:
        heart = pump.actuators["heart"]
        assert heart.guarantee_for(Dispense(1.0, 1.0, "x")) is Guarantee.DEVICE
        assert heart.guarantee_for(Run(1.0)) is Guarantee.GUARD


@pytest.mark.parametrize(
    ("channels", "address", "message"),
    [
        ({"5": ChannelConfig("x")}, "1", 'use "1" to "4"'),
        ({"1": ChannelConfig("x", settings(tubing_mm=1.0))}, "1", "which the pump does not support"),
        ({"1": ChannelConfig("x", settings(tubing="1 mm"))}, "1", "tubing is unknown"),
        ({"1": ChannelConfig("x", settings(direction="left"))}, "1", "choose cw or ccw"),
        ({}, "9", '"1" to "8"'),
    ],
)
@virtual
async def test_F5_D7_settings_that_cannot_be_are_refused(
    channels: dict[str, ChannelConfig], address: str, message: str
) -> None:
    with pytest.raises(BadSetting, match=re.escape(message)):
        async with linked(IsmatecRegloIcc, Peer(FakeReglo()), DeviceConfig("r", address, channels=channels)):
            pass
