"""The simulated EZO circuits against the data sheets: response codes, reports, calibration, sleep, power."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.atlas_ezo import EzoDo, EzoEc, EzoOrp, EzoPh, EzoRtd, saturation_mg_l
from sim.devices.ezo_uart import EzoUart
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line


async def circuit(kind: type[EzoUart], **values: float) -> tuple[EzoUart, Talker, RecordingPlant]:
    plant = RecordingPlant(**values)
    device = device_on_a_line(kind, plant)
    talker = await client_of(device)
    assert isinstance(device, EzoUart)
    assert b"*OK\r" in await talker.ask(b"C,0\r")
    return device, talker, plant


GOLDEN = [
    (b"R\r", b"7.820\r*OK\r"),
    (b"r\r", b"7.820\r*OK\r"),
    (b"Status\r", b"?STATUS,P,5.038\r*OK\r"),
    (b"i\r", b"?I,pH,2.16\r*OK\r"),
    (b"I\r\n", b"?I,pH,2.16\r*OK\r"),
    (b"Slope,?\r", b"?SLOPE,100.0,100.0,0.00\r*OK\r"),
    (b"Cal,?\r", b"?CAL,0\r*OK\r"),
    (b"T,?\r", b"?T,25.00\r*OK\r"),
    (b"T,37.5\r", b"*OK\r"),
    (b"T,?\r", b"?T,37.50\r*OK\r"),
    (b"RT,19.5\r", b"7.820\r*OK\r"),
    (b"C,?\r", b"?C,0\r*OK\r"),
    (b"L,?\r", b"?L,1\r*OK\r"),
    (b"Name,loop\r", b"*OK\r"),
    (b"Name,?\r", b"?NAME,loop\r*OK\r"),
    (b"Plock,?\r", b"?PLOCK,0\r*OK\r"),
    (b"Baud,?\r", b"?BAUD,9600\r*OK\r"),
    (b"*OK,?\r", b"?*OK,1\r*OK\r"),
    (b"*OK,0\r", b""),
    (b"R\r", b"7.820\r"),
    (b"*OK,?\r", b"?*OK,0\r"),
    (b"nonsense\r", b"*ER\r"),
    (b"*OK,1\r", b"*OK\r"),
    (b"T,nan\r", b"*ER\r"),
    (b"T,1e1\r", b"*ER\r"),
    (b"C,100\r", b"*ER\r"),
    (b"Cal\r", b"*ER\r"),
]


@pytest.mark.virtual_time
async def test_golden_frames() -> None:
    _, talker, _ = await circuit(EzoPh, d__ph=7.82)
    for request, reply in GOLDEN:
        assert await talker.ask(request) == reply, request


@pytest.mark.virtual_time
async def test_boot_greets_and_reports_every_second_until_told_not_to() -> None:
    plant = RecordingPlant(d__ph=7.0)
    device = device_on_a_line(EzoPh, plant)
    talker = await client_of(device, quiet=False)
    await asyncio.sleep(3.5)
    assert talker.received == b"*RS\r*RE\r" + b"7.000\r" * 3
    assert await talker.ask(b"C,2\r", 4.5) == b"*OK\r7.000\r7.000\r"
    assert await talker.ask(b"C,0\r", 60) == b"*OK\r"
    device.power_cycle()
    assert await talker.ask(b"", 1.5) == b"*RS\r*RE\r7.000\r"


@pytest.mark.virtual_time
async def test_a_reading_takes_nine_tenths_of_a_second_and_answers_keep_their_order() -> None:
    _, talker, _ = await circuit(EzoPh, d__ph=7.0)
    began = asyncio.get_running_loop().time()
    talker.times.clear()
    assert await talker.ask(b"R\ri\r") == b"7.000\r*OK\r?I,pH,2.16\r*OK\r"
    assert talker.times[0] - began == pytest.approx(0.9, abs=0.02)


@pytest.mark.virtual_time
async def test_sleep_ends_reports_and_any_byte_wakes() -> None:
    device, talker, _ = await circuit(EzoPh, d__ph=7.0)
    await talker.ask(b"C,1\r")
    received = await talker.ask(b"Sleep\r", 10)
    assert received.endswith(b"*OK\r*SL\r")
    assert await talker.ask(b"\0") == b"*WA\r"
    assert await talker.ask(b"R\r") == b"7.000\r*OK\r"
    await talker.ask(b"Sleep\r")
    assert await talker.ask(b"R\r") == b"*WA\r"  # what wakes it is lost
    assert device.period_s == 0.0


@pytest.mark.virtual_time
async def test_ph_calibration_by_three_points() -> None:
    _, talker, plant = await circuit(EzoPh, d__ph=7.1)
    assert await talker.ask(b"Cal,mid,7.00\rR\r") == b"*OK\r7.000\r*OK\r"
    plant.values["d.ph"] = 4.3
    assert await talker.ask(b"Cal,low,4.00\rR\r") == b"*OK\r4.000\r*OK\r"
    plant.values["d.ph"] = 10.0
    assert await talker.ask(b"Cal,high,10.00\rR\rCal,?\r") == b"*OK\r10.000\r*OK\r?CAL,3\r*OK\r"
    assert (await talker.ask(b"Slope,?\r")).startswith(b"?SLOPE,93.3,96.7,")
    plant.values["d.ph"] = 5.7
    assert await talker.ask(b"R\r") == b"5.500\r*OK\r"
    assert await talker.ask(b"Cal,high,10\r") == b"*ER\r"  # not in a high buffer
    assert await talker.ask(b"Cal,clear\rR\rCal,?\r") == b"*OK\r5.700\r*OK\r?CAL,0\r*OK\r"


@pytest.mark.virtual_time
async def test_oxygen_in_mg_by_factory_in_percent_when_switched_on() -> None:
    _, talker, plant = await circuit(EzoDo, d__oxygen=90.0)
    assert await talker.ask(b"O,?\r") == b"?O,mg\r*OK\r"
    assert await talker.ask(b"R\r") == b"7.44\r*OK\r"  # 90 % of 8.26 mg/L at 25 °C
    assert await talker.ask(b"O,%,1\rR\r") == b"*OK\r7.44,90.0\r*OK\r"
    assert await talker.ask(b"O,mg,0\rR\rO,?\r") == b"*OK\r90.0\r*OK\r?O,%\r*OK\r"
    assert (
        await talker.ask(b"S,50000\rP,90.25\rT,20\rS,?\rP,?\r") == b"*OK\r" * 3 + b"?S,50000,uS\r*OK\r?P,90.25\r*OK\r"
    )
    plant.values["d.oxygen"] = 95.0
    assert await talker.ask(b"Cal\rR\rCal,?\r") == b"*OK\r100.0\r*OK\r?CAL,1\r*OK\r"
    assert await talker.ask(b"O,%,0\rR\r") == b"*OK\rno output\r*OK\r"


@pytest.mark.virtual_time
async def test_temperature_scales_and_calibration() -> None:
    _, talker, _ = await circuit(EzoRtd, d__temperature=37.1)
    assert await talker.ask(b"R\rS,?\r") == b"37.100\r*OK\r?S,C\r*OK\r"
    assert await talker.ask(b"S,k\rR\r") == b"*OK\r310.250\r*OK\r"
    assert await talker.ask(b"S,f\rR\r") == b"*OK\r98.780\r*OK\r"
    assert await talker.ask(b"S,c\rCal,37.0\rR\r") == b"*OK\r*OK\r37.000\r*OK\r"


@pytest.mark.virtual_time
async def test_conductivity_with_all_its_outputs_and_alone() -> None:
    device, talker, plant = await circuit(EzoEc, d__conductivity=1413.0)
    assert await talker.ask(b"i\rO,?\r") == b"?I,EC,2.15\r*OK\r?,O,EC,TDS,S,SG\r*OK\r"
    assert await talker.ask(b"R\r") == b"1413,763,0.78,1.001\r*OK\r"
    assert await talker.ask(b"O,TDS,0\rO,S,0\rO,SG,0\rR\rO,?\r") == b"*OK\r" * 3 + b"1413\r*OK\r?,O,EC\r*OK\r"
    assert await talker.ask(b"T,37\rT,?\rR\r") == b"*OK\r?T,37.00\r*OK\r1140\r*OK\r"
    assert await talker.ask(b"K,0.1\rK,?\rK,99\r") == b"*OK\r?K,0.10\r*OK\r*ER\r"
    device.power_cycle()
    await talker.ask(b"C,0\r")
    assert await talker.ask(b"K,?\rT,?\rR\r") == b"?K,0.10\r*OK\r?T,25.00\r*OK\r141.3\r*OK\r"
    await talker.ask(b"K,1\r")
    for us, text in ((0.07, b"0.07"), (12_346.0, b"12350"), (412_340.0, b"412300"), (-1.0, b"0.00")):
        plant.values["d.conductivity"] = us
        assert await talker.ask(b"R\r") == text + b"\r*OK\r"


@pytest.mark.virtual_time
async def test_conductivity_calibration_dry_and_by_a_solution() -> None:
    _, talker, plant = await circuit(EzoEc, d__conductivity=3.0)
    await talker.ask(b"O,TDS,0\rO,S,0\rO,SG,0\r")
    assert await talker.ask(b"Cal,dry\rR\r") == b"*OK\r0.00\r*OK\r"
    plant.values["d.conductivity"] = 1303.0
    assert await talker.ask(b"Cal,1413\rR\rCal,?\r") == b"*OK\r1413\r*OK\r?CAL,2\r*OK\r"
    assert await talker.ask(b"Cal,high,80000\rCal,low,0\rR\r") == b"*ER\r*ER\r1413\r*OK\r"
    assert await talker.ask(b"Cal,clear\rR\rCal,?\r") == b"*OK\r1303\r*OK\r?CAL,0\r*OK\r"


@pytest.mark.virtual_time
async def test_redox_potential_its_range_and_its_calibration() -> None:
    _, talker, plant = await circuit(EzoOrp, d__orp=209.6)
    assert await talker.ask(b"i\rR\r") == b"?I,ORP,1.97\r*OK\r209.6\r*OK\r"
    assert await talker.ask(b"Cal,225\rR\rCal,?\r") == b"*OK\r225.0\r*OK\r?CAL,1\r*OK\r"
    plant.values["d.orp"] = -2000.0
    assert await talker.ask(b"R\rCal,2000\r") == b"-1019.9\r*OK\r*ER\r"
    assert await talker.ask(b"Cal,clear\rCal,?\r") == b"*OK\r?CAL,0\r*OK\r"


@pytest.mark.virtual_time
async def test_what_is_stored_survives_power_and_factory_forgets_it() -> None:
    device, talker, _ = await circuit(EzoPh, d__ph=7.1)
    await talker.ask(b"Cal,mid,7.00\rT,37\r*OK,0\r")
    device.power_cycle()
    await talker.ask(b"C,0\r")
    assert await talker.ask(b"R\rT,?\r") == b"7.000\r?T,25.00\r"
    assert (await talker.ask(b"Factory\r", 0.5)) == b"*RS\r*RE\r"
    await talker.ask(b"C,0\r")
    assert await talker.ask(b"R\rStatus\r") == b"7.100\r*OK\r?STATUS,S,5.038\r*OK\r"


@pytest.mark.virtual_time
async def test_baud_changes_the_line_speed() -> None:
    device, talker, _ = await circuit(EzoPh, d__ph=7.1)
    await talker.ask(b"Baud,300\r")
    began = asyncio.get_running_loop().time()
    talker.times.clear()
    await talker.ask(b"i\r")
    assert talker.times[0] - began == pytest.approx((2 + 15) * 10 / 300 + device.think_s)


@pytest.mark.parametrize(
    ("temperature_c", "salinity_ppt", "mg_l"), [(0, 0, 14.62), (20, 0, 9.09), (25, 0, 8.26), (25, 35, 6.75)]
)
def test_oxygen_solubility_is_the_standard_tables(temperature_c: float, salinity_ppt: float, mg_l: float) -> None:
    assert saturation_mg_l(temperature_c, salinity_ppt, 101.325) == pytest.approx(mg_l, abs=0.03)
