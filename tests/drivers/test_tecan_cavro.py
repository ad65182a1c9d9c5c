"""Cavro syringe pumps: frames by the manual, and doses against a simulated pump that loses power, stalls and is disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from drivers.commands import Dispense, Guarantee, PumpStatus, Run, Stop
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.settings import BadSetting
from drivers.tecan_cavro import TecanCavro
from drivers.tecan_cavro_wire import NOTHING, NUMBER, dt_answer, dt_frame, oem_answer, oem_frame
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.devices.tecan_cavro import TecanCavro as SimulatedCavro
from tests.drivers.against_sim import Pair, against
from tests.drivers.facts import DriverFacts
from tests.drivers.peer import linked, settings

FACTS = {
    "tecan-cavro": DriverFacts(
        line="9600 8N1", functions=(3, (ord("Q"), ord("?"), ord("&"))), stored=({"ports": 6}, {"ports": 0})
    ),
}

pytestmark = pytest.mark.virtual_time

GIVEN: dict[str, float | str | bool] = {"series": "xcalibur", "syringe_ul": 1000.0}
CavroPair = Pair[TecanCavro, SimulatedCavro]


def cavro(address: str = "", **more: float | str) -> AbstractAsyncContextManager[CavroPair]:
    return against(TecanCavro, SimulatedCavro, address=address, settings={**GIVEN, **more})


async def status(pair: CavroPair) -> PumpStatus:
    return await pair.driver.pump.status()


def moved(pair: CavroPair) -> float:
    return pair.plant.moved("d.pump", asyncio.get_running_loop().time())


async def rested(pair: CavroPair) -> PumpStatus:
    """Wait for the end of a dose; return the status then."""
    for _ in range(2000):
        told = await status(pair)
        if not told.running:
            return told
        await asyncio.sleep(0.5)
    raise AssertionError("it never comes to rest")


# --- frames ---------------------------------------------------------------------------------------------------------


def test_golden_frames_of_both_protocols() -> None:
    assert oem_frame(1, b"Q") == bytes.fromhex("02 31 31 51 03 50")
    assert oem_frame(1, b"ZR") == bytes.fromhex("02 31 31 5A 52 03 09")
    assert oem_frame(15, b"?") == bytes.fromhex("02 3F 31 3F 03 30")
    assert dt_frame(1, b"ZR") == b"/1ZR\r", "as the manual has a person type it (3.2.3)"


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("error", [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 15])
def test_golden_status_bytes_of_table_3_9(error: int, busy: bool) -> None:
    byte = (0x40 if busy else 0x60) + error
    block = bytes((0x02, 0x30, byte, 0x03))
    check = 0x02 ^ 0x30 ^ byte ^ 0x03
    for reply in (
        oem_answer(NOTHING)(bytearray(b"\xff" + block + bytes((check,)))),
        dt_answer(NOTHING)(bytearray(b"/0" + bytes((byte,)) + b"\x03\r\n")),
    ):
        assert reply is not None
        assert (reply.ready, reply.error, reply.data) == (not busy, error, b"")


def test_an_answer_is_taken_whole_or_not_at_all() -> None:
    whole = bytes.fromhex("02 30 60 33 30 30 03 62")
    for end in range(len(whole)):
        assert oem_answer(NUMBER)(bytearray(whole[:end])) is None
    for at in range(len(whole)):
        for bit in range(8):
            wrong = bytearray(whole)
            wrong[at] ^= 1 << bit
            assert oem_answer(NUMBER)(wrong) is None
    taken = oem_answer(NUMBER)(bytearray(b"\x02\x30" + bytes.fromhex("02 30 60 03 51") + whole + b"\x02"))
    assert taken is not None
    assert taken.data == b"300", "not the stale answer without data"
    assert dt_answer(NUMBER)(bytearray(b"/0`30\x03\r")) is None
    assert dt_answer(NUMBER)(bytearray(b"/0`3x\x03\r\n/1`7\x03\r\n/0P7\x03\r\n")) is None


async def test_golden_dialogue_of_a_dose() -> None:
    """600 µL of 1000 are 1800 of 3000 increments; 1200 µL/min are 20 µL/s, which are 120 half increments a second."""
    positions = iter([b"0", b"0", b"0", b"0", b"900", b"1800", b"1800", b"1790"])
    states = iter([0x60, 0x40, 0x60, 0x40])

    def answer(request: bytes) -> bytes:
        data = {b"&": b"737230 A", b"?15": b"7"}.get(request[3:-2], b"")
        state = next(states, 0x60) if request[3:4] == b"Q" else 0x60
        if request[3:-2] == b"?":
            data = next(positions, b"0")
        block = b"\x020" + bytes((state,)) + data + b"\x03"
        check = 0
        for byte in block:
            check ^= byte
        return block + bytes((check,))

    peer = Peer(answer)
    async with linked(TecanCavro, peer, DeviceConfig("syringe", "", settings(**GIVEN))) as device:
        assert device.identity is not None
        assert device.identity.firmware == "737230 A"
        await device.pump.apply(Dispense(600.0, 1200.0, "a"))
        said = [request[3:-2] for request in peer.sent]
        assert [word for word in said if word not in (b"Q", b"?")] == [b"N0V600IA1800R", b"N0V120OA0R"]
        assert all(request[:3] == b"\x0211" for request in peer.sent)


# --- doses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["oem", "dt"])
@pytest.mark.parametrize("series", ["xp-3000", "xcalibur", "xlp-6000"])
async def test_a_dose_of_one_stroke_is_whole_and_ends_by_itself(series: str, protocol: str) -> None:
    async with cavro("3", series=series, protocol=protocol) as pair:
        pump = pair.driver.pump
        dose = Dispense(500.0, 2000.0, "a")
        assert pump.guarantee_for(dose) is Guarantee.DEVICE
        await pump.apply(dose)
        told = await status(pair)
        assert told.running
        assert (
            told.flow_ul_min == pytest.approx(pair.plant.last("d.pump"), rel=0.001) == pytest.approx(2000.0, rel=0.02)
        )
        told = await rested(pair)
        assert told == PumpStatus(False, 0.0, told.delivered_ul, told.resolution_ul, host_counted=True)
        assert told.delivered_ul == pytest.approx(500.0)
        assert moved(pair) == pytest.approx(500.0)
        await pump.apply(dose)
        await asyncio.sleep(30)
        assert moved(pair) == pytest.approx(500.0), "its id came again"
        assert pair.box.initialisations == 1


async def test_a_large_dose_is_given_in_equal_strokes_and_counted() -> None:
    async with cavro(input_port=3, output_port=5) as pair:
        pump = pair.driver.pump
        await pump.apply(Dispense(2500.0, 3000.0, "a"))
        seen = [await status(pair)]
        while seen[-1].running:
            assert seen[-1].delivered_ul == pytest.approx(moved(pair), abs=8.0)
            if moved(pair) < 2400.0:
                with pytest.raises(Refused, match="still running"):
                    await pump.apply(Dispense(10.0, 1000.0, "another"))
            await asyncio.sleep(1.0)
            seen.append(await status(pair))
        assert any(each.running and each.flow_ul_min == 0.0 for each in seen), "it was seen to refill"
        assert {round(each.flow_ul_min) for each in seen} == {0, 3000}
        assert moved(pair) == pytest.approx(2500.0)
        assert seen[-1].delivered_ul == pytest.approx(2500.0)
        assert pair.box.held == 0.0


@pytest.mark.parametrize("after_s", [0.5, 4.0, 9.5, 15.0, 28.5, 31.0, 40.0])
async def test_a_stop_holds_in_a_fill_a_stroke_and_between_strokes(after_s: float) -> None:
    async with cavro() as pair:
        pump = pair.driver.pump
        giving = asyncio.ensure_future(pump.apply(Dispense(2000.0, 3000.0, "a")))
        await asyncio.sleep(after_s)
        await pump.apply(Stop())
        before = moved(pair)
        await asyncio.wait((giving,))
        if not giving.cancelled() and (error := giving.exception()) is not None:
            assert isinstance(error, Refused)
        await asyncio.sleep(120)
        told = await status(pair)
        assert not told.running
        assert moved(pair) == before
        assert told.delivered_ul == pytest.approx(before, abs=0.5)
        left = pair.box.held
        await pump.apply(Dispense(900.0, 3000.0, "next"))
        await rested(pair)
        assert moved(pair) == pytest.approx(before + 900.0, abs=0.5)
        assert pair.box.held == pytest.approx(max(0.0, left - 2700.0), abs=1.0), "what was left is used first"


async def test_a_stop_is_not_delayed_by_a_slow_fill() -> None:
    async with cavro(fill_s=600) as pair:
        giving = asyncio.ensure_future(pair.driver.pump.apply(Dispense(900.0, 3000.0, "a")))
        await asyncio.sleep(60)
        begun_s = asyncio.get_running_loop().time()
        await pair.driver.pump.apply(Stop())
        assert asyncio.get_running_loop().time() - begun_s < 1.0
        with pytest.raises(Refused, match="stopped"):
            await giving
        assert not pair.box.busy


async def test_a_new_driver_counts_and_stops_the_stroke_of_the_one_before() -> None:
    async with cavro() as pair:
        await pair.driver.pump.apply(Dispense(900.0, 1000.0, "a"))
        await pair.driver.link.close()
        link = Link(LinkUrl.parse("sim:again"), pair.driver.link._opener, line=TecanCavro.line)
        second = TecanCavro(link, DeviceConfig("d", "", dict(GIVEN)))
        assert not await link.start()
        first = await second.pump.status()
        assert first.running
        assert first.flow_ul_min == pytest.approx(1000.0)
        before = moved(pair)
        await asyncio.sleep(12)
        told = await second.pump.status()
        assert told.delivered_ul - first.delivered_ul == pytest.approx(moved(pair) - before, abs=3.0)
        await second.pump.apply(Stop())
        assert pair.plant.last("d.pump") == 0.0
        await link.close()


# --- what is lost ---------------------------------------------------------------------------------------------------


async def expect_held(pair: CavroPair, what: str) -> None:
    """The fault holds: for the status, for a dose, and after the line was lost; the pump is not moved."""
    before, initialised = moved(pair), pair.box.initialisations
    for number in range(3):
        with pytest.raises(DeviceFault, match=what):
            await status(pair)
        with pytest.raises(DeviceFault, match=what):
            await pair.driver.pump.apply(Dispense(100.0, 1000.0, f"held {number}"))
        if number == 1:
            pair.line.unplug()
            pair.line.plug()
            for _ in range(60):
                await asyncio.sleep(0.5)
                if pair.driver.conversation.verified:
                    break
        await pair.driver.pump.apply(Stop())
    await asyncio.sleep(120)
    assert moved(pair) == before
    assert pair.box.initialisations == initialised, "the driver never initialises"


async def expect_healed(pair: CavroPair, total_ul: float) -> None:
    """A person has initialised the pump: it doses again, and the total goes on."""
    pair.box.initialise()
    told = await status(pair)
    assert told.delivered_ul == pytest.approx(total_ul, abs=0.5)
    before = moved(pair)
    await pair.driver.pump.apply(Dispense(300.0, 2000.0, "after"))
    told = await rested(pair)
    assert moved(pair) - before == pytest.approx(300.0)
    assert told.delivered_ul == pytest.approx(total_ul + 300.0, abs=0.5)


@pytest.mark.parametrize("tells", [True, False])
async def test_power_lost_in_a_stroke_is_a_fault_that_holds(tells: bool) -> None:
    async with cavro() as pair:
        pair.box.tells_uninitialised = tells
        await pair.driver.pump.apply(Dispense(2000.0, 2000.0, "a"))
        await asyncio.sleep(10)
        counted = (await status(pair)).delivered_ul
        pair.box.power_cycle()
        await asyncio.sleep(0.5)
        await expect_held(pair, "not initialised" if tells else "no command explains")
        assert moved(pair) == pytest.approx(counted, abs=10.0), "no other stroke was given"
        await expect_healed(pair, counted)


async def test_power_lost_at_rest_is_found_at_the_next_dose() -> None:
    """Some firmware may not say by itself that it was not initialised: then the first move does."""
    async with cavro() as pair:
        pair.box.tells_uninitialised = False
        pair.box.power_cycle()
        assert not (await status(pair)).running
        with pytest.raises(DeviceFault, match="not initialised"):
            await pair.driver.pump.apply(Dispense(100.0, 1000.0, "a"))
        await expect_held(pair, "not initialised")
        assert moved(pair) == 0.0
        await expect_healed(pair, 0.0)


async def test_power_lost_with_liquid_in_the_syringe_is_seen_at_rest() -> None:
    async with cavro() as pair:
        await pair.driver.pump.apply(Dispense(900.0, 2000.0, "a"))
        await asyncio.sleep(5)
        await pair.driver.pump.apply(Stop())
        assert (await status(pair)).delivered_ul < 900.0
        pair.box.tells_uninitialised = False
        pair.box.power_cycle()
        await expect_held(pair, "no command explains")


@pytest.mark.parametrize(
    ("break_it", "what"),
    [
        (lambda box: setattr(box, "blocked", True), r"overloaded \(error 9\)"),
        (lambda box: setattr(box, "jammed", True), r"valve was overloaded \(error 10\)"),
    ],
)
async def test_an_overload_ends_a_dose_and_holds(break_it: Callable[[SimulatedCavro], None], what: str) -> None:
    async with cavro() as pair:
        await pair.driver.pump.apply(Dispense(2000.0, 3000.0, "a"))
        break_it(pair.box)
        await asyncio.sleep(60)
        assert moved(pair) == pytest.approx(1000.0), "only the stroke that was under way"
        await expect_held(pair, what)
        pair.box.blocked = pair.box.jammed = False
        await expect_held(pair, what)
        await expect_healed(pair, 1000.0)


async def test_an_overload_in_the_first_fill_leaves_the_dose_to_be_asked_again() -> None:
    async with cavro() as pair:
        pair.box.blocked = True
        with pytest.raises(DeviceFault, match="error 9"):
            await pair.driver.pump.apply(Dispense(300.0, 3000.0, "a"))
        pair.box.blocked = False
        pair.box.initialise()
        await pair.driver.pump.apply(Dispense(300.0, 3000.0, "a"))
        await rested(pair)
        assert moved(pair) == pytest.approx(300.0)


async def test_an_xp_3000_counts_no_initialisations_and_needs_a_new_driver() -> None:
    async with cavro(series="xp-3000") as pair:
        pair.box.power_cycle()
        await expect_held(pair, "not initialised")
        pair.box.initialise()
        await expect_held(pair, "not initialised")
        await pair.driver.link.close()
        link = Link(LinkUrl.parse("sim:again"), pair.driver.link._opener, line=TecanCavro.line)
        second = TecanCavro(link, DeviceConfig("d", "", {**GIVEN, "series": "xp-3000"}))
        assert not await link.start()
        await second.pump.apply(Dispense(100.0, 1000.0, "a"))
        await asyncio.sleep(20)
        assert moved(pair) == pytest.approx(100.0)
        await link.close()


async def test_a_plunger_that_another_program_moves_is_a_fault() -> None:
    async with cavro() as pair:
        assert not (await status(pair)).running
        pair.box.receive(oem_frame(1, b"IA500R"))
        await asyncio.sleep(10)
        with pytest.raises(DeviceFault, match="from 0 to 500, which no command explains"):
            await status(pair)


# --- a disturbed line -----------------------------------------------------------------------------------------------


def _lose(number: int) -> Callable[[bytes], Sequence[tuple[float, bytes]]]:
    count = 0

    def outward(data: bytes) -> Sequence[tuple[float, bytes]]:
        nonlocal count
        count += 1
        return () if count % number == 0 else ((0.0, data),)

    return outward


def _garble(number: int) -> Callable[[bytes], Sequence[tuple[float, bytes]]]:
    count = 0

    def outward(data: bytes) -> Sequence[tuple[float, bytes]]:
        nonlocal count
        count += 1
        if count % number:
            return ((0.0, data),)
        at = count % len(data)
        return ((0.0, data[:at] + bytes((data[at] ^ 0x15,)) + data[at + 1 :]),)

    return outward


@pytest.mark.parametrize("fault", [_lose, _garble])
@pytest.mark.parametrize("number", [2, 3, 7, 13, 40])
async def test_lost_and_garbled_answers_never_give_more_than_the_dose(
    fault: Callable[[int], Callable[[bytes], Sequence[tuple[float, bytes]]]], number: int
) -> None:
    async with cavro() as pair:
        pair.line.outward.append(fault(number))
        done = False
        try:
            await pair.driver.pump.apply(Dispense(2500.0, 3000.0, "a"))
            done = True
        except DeviceError:
            pass
        await asyncio.sleep(400)
        pair.line.outward.clear()
        await asyncio.sleep(30)
        given = moved(pair)
        assert given <= 2500.0 + 1e-6
        assert pair.plant.last("d.pump") == 0.0
        told = await rested(pair)
        assert told.delivered_ul == pytest.approx(given, abs=0.5)
        if done and number >= 13:
            assert given == pytest.approx(2500.0), "a few lost answers do not end a dose"


@pytest.mark.parametrize("lost", range(1, 30))
async def test_a_command_that_is_lost_on_its_way_is_noticed(lost: int) -> None:
    """One block to the pump misses a byte: nothing is given twice, and a dose that is confirmed is whole."""
    async with cavro() as pair:
        count = 0

        def inward(data: bytes) -> bytes:
            nonlocal count
            count += 1
            return data[:3] + data[4:] if count == lost else data

        pair.line.inward.append(inward)
        try:
            await pair.driver.pump.apply(Dispense(200.0, 3000.0, "a"))
        except NoReply:
            await asyncio.sleep(60)
            assert moved(pair) < 200.0
            assert pair.plant.last("d.pump") == 0.0
            return
        await asyncio.sleep(60)
        assert moved(pair) == pytest.approx(200.0)


async def test_a_dose_of_several_strokes_goes_on_when_the_cable_is_back() -> None:
    async with cavro() as pair:
        await pair.driver.pump.apply(Dispense(2000.0, 2000.0, "a"))
        pair.line.unplug()
        await asyncio.sleep(35)
        assert moved(pair) == pytest.approx(1000.0), "the stroke ends, and no other begins"
        pair.line.plug()
        await asyncio.sleep(90)
        told = await rested(pair)
        assert moved(pair) == pytest.approx(2000.0)
        assert told.delivered_ul == pytest.approx(2000.0)


async def test_a_dose_is_not_continued_after_a_long_silence() -> None:
    async with cavro() as pair:
        await pair.driver.pump.apply(Dispense(2000.0, 2000.0, "a"))
        pair.line.unplug()
        await asyncio.sleep(200)
        pair.line.plug()
        await asyncio.sleep(120)
        told = await status(pair)
        assert not told.running
        assert moved(pair) == pytest.approx(1000.0)
        assert told.delivered_ul == pytest.approx(1000.0)


# --- limits and settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "flow", "why"),
    [
        (100.0, 49.0, "this syringe carries 50 to 10000"),
        (100.0, 10_100.0, "this syringe carries"),
        (100.0, 55.0, "lies between its steps"),
        (0.5, 1000.0, "its increments would make"),
        (50_001.0, 1000.0, "cannot be given at once"),
    ],
)
async def test_what_does_not_fit_the_syringe_is_refused(volume: float, flow: float, why: str) -> None:
    async with cavro() as pair:
        with pytest.raises(Refused, match=why):
            await pair.driver.pump.apply(Dispense(volume, flow, "a"))
        with pytest.raises(Refused, match="does not know Run"):
            await pair.driver.pump.apply(Run(1000.0))
        await asyncio.sleep(10)
        assert pair.plant.log == []


async def test_fine_positions_and_the_wrong_series_are_told_apart() -> None:
    def fine(box: SimulatedCavro) -> None:
        box.receive(oem_frame(1, b"IP600N1R"))

    async with against(TecanCavro, SimulatedCavro, settings=GIVEN, verified=False, prepare=fine) as pair:
        await asyncio.sleep(20)
        with pytest.raises(WrongDevice, match="the stroke of series xcalibur ends at 3000"):
            await pair.driver.verify()
    wrong = {**GIVEN, "series": "xlp-6000"}
    async with against(TecanCavro, SimulatedCavro, settings=wrong, box_settings=GIVEN) as pair:
        with pytest.raises(Refused, match="invalid operand"):
            await pair.driver.pump.apply(Dispense(900.0, 1000.0, "a"))
        assert moved(pair) == 0.0
    other = {**GIVEN, "series": "xlp-6000"}
    async with against(TecanCavro, SimulatedCavro, settings=GIVEN, box_settings=other) as pair:
        await pair.driver.pump.apply(Dispense(900.0, 6000.0, "a"))
        with pytest.raises(DeviceFault, match="which no command explains"):
            await rested(pair)


@pytest.mark.parametrize(
    ("address", "more", "why"),
    [
        ("16", {}, "address"),
        ("A", {}, "address"),
        ("", {"series": "centris"}, "series"),
        ("", {"syringe_ul": 0}, "syringe_ul"),
        ("", {"input_port": 3}, "two different ports"),
        ("", {"input_port": 3, "output_port": 3}, "two different ports"),
        ("", {"input_port": 1.5, "output_port": 3}, "whole number"),
        ("", {"protocol": "can"}, "protocol"),
        ("", {"syringe": 5}, "unknown"),
    ],
)
def test_settings_that_are_wrong_are_named(address: str, more: dict[str, float | str], why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        TecanCavro(
            Link(LinkUrl.parse("sim:x"), Peer(lambda _: None).open), DeviceConfig("d", address, {**GIVEN, **more})
        )
