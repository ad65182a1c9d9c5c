"""The simulated Cavro pump against the XCalibur manual (733085-B), by bytes on its line."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.tecan_cavro import TecanCavro
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line

pytestmark = pytest.mark.virtual_time

BUSY, READY = b"@", b"`"


async def pump(**more: float | str) -> tuple[TecanCavro, Talker, RecordingPlant]:
    plant = RecordingPlant()
    given = {"series": "xcalibur", "syringe_ul": 1000.0, **more}
    device = device_on_a_line(TecanCavro, plant, address="1", settings=given)
    assert isinstance(device, TecanCavro)
    return device, await client_of(device), plant


def oem(data: bytes, sequence: bytes = b"1") -> bytes:
    block = b"\x021" + sequence + data + b"\x03"
    check = 0
    for byte in block:
        check ^= byte
    return block + bytes((check,))


async def told(talker: Talker, text: str, wait_s: float = 0.1) -> str:
    """Send `text` by the DT protocol; return status character and data of the answer."""
    answer = await talker.ask(b"/1" + text.encode() + b"\r", wait_s)
    assert answer.startswith(b"/0"), answer
    assert answer.endswith(b"\x03\r\n"), answer
    return answer[2:-3].decode()


async def done(talker: Talker) -> str:
    """Wait until the pump is ready; return the answer to Q."""
    for _ in range(3000):
        answer = await told(talker, "Q")
        if ord(answer) & 0x20:
            return answer
        await asyncio.sleep(0.2)
    raise AssertionError("it never comes to rest")


async def test_golden_the_first_session_of_the_manual() -> None:
    """3.2.3 and 3.3.1: a terminal, `/1ZR`, and the string that fills and empties a syringe."""
    device, talker, plant = await pump()
    assert await talker.ask(b"/1ZR\r", 0.1) == b"/0@\x03\r\n"
    assert await done(talker) == "`"
    assert device.initialisations == 2
    assert await told(talker, "IA3000OA0R") == "@"
    assert await done(talker) == "`"
    assert await told(talker, "?") == "`0"
    assert await told(talker, "?6") == "`o"
    assert plant.moved("d.pump", asyncio.get_running_loop().time()) == pytest.approx(1000.0)


async def test_golden_oem_blocks() -> None:
    _, talker, _ = await pump()
    assert await talker.ask(bytes.fromhex("02 31 31 51 03 50"), 0.1) == bytes.fromhex("02 30 60 03 51")
    assert await talker.ask(bytes.fromhex("FF 02 31 31 3F 03 3E"), 0.1) == bytes.fromhex("02 30 60 30 03 61")
    assert await talker.ask(bytes.fromhex("02 31 31 51 03 51"), 0.1) == b"", "a wrong check byte"
    assert await talker.ask(bytes.fromhex("02 32 31 51 03 53"), 0.1) == b"", "another address"
    assert await talker.ask(b"/1Q\r", 0.1) == b"", "after OEM it ignores DT until the next power-up"


async def test_a_repeated_block_is_acknowledged_and_not_carried_out_again() -> None:
    """3.2.1, scenarios 1 and 2."""
    _, talker, _ = await pump()
    assert await talker.ask(oem(b"IP300R", b"1"), 10.0) == oem_answer(b"@")
    assert await talker.ask(oem(b"IP300R", bytes((0x39,))), 10.0) == oem_answer(b"@"), "sequence 1, repeated"
    assert (await talker.ask(oem(b"?", b"2"), 0.1))[3:-2] == b"300"
    assert await talker.ask(oem(b"IP300R", bytes((0x3B,))), 10.0) == oem_answer(b"@"), "sequence 3, never received"
    assert (await talker.ask(oem(b"?", b"4"), 0.1))[3:-2] == b"600"


def oem_answer(data: bytes) -> bytes:
    block = b"\x020" + data + b"\x03"
    check = 0
    for byte in block:
        check ^= byte
    return block + bytes((check,))


async def test_all_pumps_obey_address_5f_and_none_answers() -> None:
    device, talker, _ = await pump()
    assert await talker.ask(b"/_IP300R\r", 10.0) == b""
    assert device.held == 300.0


@pytest.mark.parametrize(
    ("code", "seconds"),
    # Seconds per stroke of the manual's table for speeds without a ramp (3.5.3).
    [(13, 6.00), (14, 7.50), (15, 10.00), (17, 30.00), (27, 60.00), (32, 120.00), (36, 333.33), (40, 600.00)],
)
async def test_golden_strokes_last_as_long_as_the_table_says(code: int, seconds: float) -> None:
    device, talker, plant = await pump()
    assert await told(talker, f"S{code}A3000R") == "@"
    begun_s = plant.log[-1][0]
    for _ in range(int(seconds) + 5):
        if not device.busy:
            break
        await asyncio.sleep(1.0)
    assert plant.log[-1][0] - begun_s == pytest.approx(seconds, rel=1e-4)


async def test_golden_the_nested_loop_of_table_3_7() -> None:
    device, talker, _ = await pump()
    await told(talker, "IR", 1.0)
    await told(talker, "V6000A0gP50gP100D100G10G5R")
    assert await done(talker) == "`"
    assert device.held == 250.0


async def test_errors_as_in_the_manual() -> None:
    device, talker, _ = await pump()
    assert await told(talker, "A4000R") == "c", "error 3 at once"
    assert await told(talker, "Q") == "`", "it is reported once"
    assert await told(talker, "A3000y2R") == "b", "error 2, and nothing moves"
    assert device.held == 0.0
    await told(talker, "A3000A3500R")
    assert await done(talker) == "c"
    assert await told(talker, "?") == "`3000"
    await told(talker, "BR", 1.0)
    assert await told(talker, "A1000R") == "k", "error 11, the valve is in bypass"
    await told(talker, "OA0R", 1.0)
    assert await told(talker, "IR") == "O", "error 15 while it moves"
    assert await told(talker, "?6") == "@o"
    assert await done(talker) == "`"


async def test_an_xp_3000_tells_a_wrong_operand_when_it_is_asked() -> None:
    _, talker, _ = await pump(series="xp-3000")
    assert await told(talker, "A4000R") == "`"
    assert await told(talker, "Q") == "c"
    assert await told(talker, "Q") == "`"


async def test_terminate_ends_the_plunger_and_r_resumes_the_string() -> None:
    device, talker, plant = await pump()
    await told(talker, "IV600A3000OA0R")
    await asyncio.sleep(4.0)
    assert await told(talker, "T") == "`"
    assert 0 < device.held < 3000
    held = device.held
    await asyncio.sleep(20)
    assert device.held == held
    await told(talker, "R")
    assert await done(talker) == "`"
    assert device.held == 0.0
    assert plant.moved("d.pump", asyncio.get_running_loop().time()) == pytest.approx(held / 3.0)


async def test_terminate_does_not_stop_the_valve() -> None:
    device, talker, plant = await pump()
    await told(talker, "IP300R")
    await done(talker)
    assert await told(talker, "OA0R") == "@"
    assert await told(talker, "T") == "@"
    await asyncio.sleep(1.0)
    assert await told(talker, "?6") == "`o"
    assert device.held == 300.0
    assert plant.last("d.pump") == 0.0


async def test_without_power_the_position_is_lost_and_the_liquid_stays() -> None:
    device, talker, plant = await pump()
    await told(talker, "IP1500R")
    await done(talker)
    device.power_cycle()
    await asyncio.sleep(1.0)
    assert await told(talker, "?") == "`0"
    assert await told(talker, "Q") == "g"
    assert await told(talker, "Q") == "g", "it is reported again until it is initialised"
    assert await told(talker, "OA0R") == "g"
    assert device.held == 1500.0
    assert await told(talker, "ZR") == "@"
    assert await done(talker) == "`"
    assert plant.moved("d.pump", asyncio.get_running_loop().time()) == pytest.approx(500.0), (
        "all of it left by the outlet"
    )
    assert await told(talker, "?15") == "`2"


async def test_overloads_need_an_initialisation() -> None:
    device, talker, _ = await pump()
    device.blocked = True
    await told(talker, "IP300R", 2.0)
    assert await told(talker, "Q") == "i"
    assert await told(talker, "P300R") == "g"
    device.blocked = False
    await told(talker, "ZR")
    assert await done(talker) == "`"
    device.jammed = True
    await told(talker, "OIR", 1.0)
    assert await done(talker) == "j"


async def test_a_distribution_valve_turns_to_ports() -> None:
    device, talker, plant = await pump(input_port=3, output_port=5)
    await told(talker, "I3P300R")
    assert await done(talker) == "`"
    assert await told(talker, "?6") == "`3"
    assert await told(talker, "I10R") == "c"
    assert await done(talker) == "`"
    await told(talker, "O4D100O5D200R")
    assert await done(talker) == "`"
    assert plant.moved("d.pump", asyncio.get_running_loop().time()) == pytest.approx(200 / 3.0), (
        "port 4 leads elsewhere"
    )
    assert await told(talker, "U7R") == "`"
    assert (device.ports, device.memory_writes) == (6, 1)


async def test_fine_positions_speed_on_the_fly_and_delays() -> None:
    device, talker, _ = await pump()
    await told(talker, "N1V6000A8000R")
    assert await done(talker) == "`"
    assert await told(talker, "?") == "`8000"
    assert device.held == 1000.0
    await told(talker, "N0V100A0R")
    await asyncio.sleep(2.0)
    assert await told(talker, "V1000R") == "@"
    await asyncio.sleep(2.0)
    assert await done(talker) == "`"
    begun_s = asyncio.get_running_loop().time()
    await told(talker, "M5000R")
    await done(talker)
    assert asyncio.get_running_loop().time() - begun_s >= 5.0
