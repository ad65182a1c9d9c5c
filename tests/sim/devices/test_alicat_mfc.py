"""The simulated Alicat controller: golden frames, set-points, holds, streaming, ids on a shared line."""

from __future__ import annotations

import pytest

from sim.devices.alicat_mfc import AlicatMfc
from sim.devices.wire import Bus
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line, spec


async def controller(full_scale: float = 20.0, **settings: str) -> tuple[AlicatMfc, Talker, RecordingPlant]:
    plant = RecordingPlant(d__flow=0.0)
    device = device_on_a_line(AlicatMfc, plant, address="A", settings={"full_scale_ml_min": full_scale, **settings})
    assert isinstance(device, AlicatMfc)
    return device, await client_of(device), plant


GOLDEN = [
    (b"AR122\r", b"A   122 = 37\r"),
    (b"A\r", b"A +014.70 +025.00 +00.000 +00.000 +00.000    Air\r"),
    (b"AS5.00\r", b"A +014.70 +025.00 +04.999 +05.000 +05.000    Air\r"),
    (b"a\r", b"A +014.70 +025.00 +04.999 +05.000 +05.000    Air\r"),
    (b"AS 2.5\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500    Air\r"),
    (b"AVE\r", b"A   10v05.0-R24 Nov 30 2022,16:04:20\r"),
    (b"AW122=34\r", b"A   122 = 34\r"),
    (b"A$$W46=4\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500    CO2\r"),
    (b"AG 11\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500     O2\r"),
    (b"AG0\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500    Air\r"),
    (b"AL\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500    Air LCK\r"),
    (b"AU\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500    Air\r"),
    (b"AHP\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500    Air HLD\r"),
    (b"AHC\r", b"A +014.70 +025.00 +00.000 +00.000 +02.500    Air HLD\r"),
    (b"AC\r", b"A +014.70 +025.00 +02.499 +02.500 +02.500    Air\r"),
    (b"AS21\r", b"?\r"),
    (b"AS-1\r", b"?\r"),
    (b"ASnan\r", b"?\r"),
    (b"AQ\r", b"?\r"),
    (b"AW122=99\r", b"?\r"),
    (b"AG99\r", b"?\r"),
    (b"AW122=37\r", b"A   122 = 37\r"),
    (b"ALS\r", b"A +02.500 +02.500 12 SCCM\r"),
    (b"ALS 1.25\r", b"A +01.250 +01.250 12 SCCM\r"),
    (b"als 2.5\r", b"A +02.500 +02.500 12 SCCM\r"),
    (b"ALS 21\r", b"?\r"),
    (b"ALS x\r", b"?\r"),
    (b"ALS 1 2\r", b"?\r"),
    (b"ALV\r", b"A 37\r"),
    (b"ALV 36\r", b"A 36\r"),
    (b"ALV 37\r", b"A 37\r"),
    (b"ALV 99\r", b"?\r"),
    (b"AGS\r", b"A 0 Air Air\r"),
    (b"AGS 8\r", b"A 8 N2 Nitrogen\r"),
    (b"AGS 0 1\r", b"A 0 Air Air\r"),
    (b"AGS 99\r", b"?\r"),
    (b"ADCU 5\r", b"A 12 SCCM\r"),
    (b"ADCU 4\r", b"A 12 CCM\r"),
    (b"ADCU 2\r", b"A 10 PSIA\r"),
    (b"ADCU 3\r", b"A 2 `C\r"),
    (b"ADCU\r", b"?\r"),
    (b"ADCU 5 99\r", b"?\r"),
    (b"AFPF 5\r", b"A +20.000 12 SCCM\r"),
    (b"AFPF 37\r", b"A +20.000 12 SCCM\r"),
    (b"AFPF 4\r", b"A +20.000 12 CCM\r"),
    (b"AFPF 2\r", b"A +160.00 10 PSIA\r"),
    (b"AFPF 3\r", b"A +060.00 2 `C\r"),
    (b"AFPF 99\r", b"?\r"),
    (b"AFPF\r", b"?\r"),
    (b"B\r", b""),
    (b"\r", b""),
    (b"A@=C\r", b"C +014.70 +025.00 +02.499 +02.500 +02.500    Air\r"),
    (b"C\r", b"C +014.70 +025.00 +02.499 +02.500 +02.500    Air\r"),
]


@pytest.mark.virtual_time
async def test_golden_frames() -> None:
    _, talker, _ = await controller()
    for request, reply in GOLDEN:
        assert await talker.ask(request) == reply, request


@pytest.mark.virtual_time
@pytest.mark.parametrize("command", ["LS", "LV", "GS", "DCU 5", "FPF 5"])
async def test_a_controller_understands_what_the_firmware_it_announces_understands(command: str) -> None:
    """It announced 10v05, and rejected LS, LV, GS, DCU and FPF."""
    request = f"A{command}\r".encode()
    _, talker, _ = await controller()
    assert b"10v05" in await talker.ask(b"AVE\r")
    answer = await talker.ask(request)
    assert answer.startswith(b"A ")
    assert len(answer) < 30
    _, talker, _ = await controller(firmware="5v12")
    assert b"5v12" in await talker.ask(b"AVE\r")
    old = await talker.ask(request)
    # An old one takes LS and LV for L: it locks its display and answers with a data frame.
    assert old == (b"A +014.70 +025.00 +00.000 +00.000 00.000     Air LCK\r" if command[0] == "L" else b"?\r")


@pytest.mark.virtual_time
async def test_full_scale_can_be_asked_from_6v00_on_and_units_from_10v05_on() -> None:
    _, talker, _ = await controller(200.0, firmware="8v30")
    assert await talker.ask(b"AFPF 5\r") == b"A +200.00 12 SCCM\r"
    assert await talker.ask(b"ADCU 5\r") == b"?\r"
    assert await talker.ask(b"A\r") == b"A +014.70 +025.00 +000.00 +000.00 +000.00    Air\r"


@pytest.mark.virtual_time
async def test_another_engineering_unit_changes_numbers_and_no_flow() -> None:
    _, talker, plant = await controller(500.0)
    await talker.ask(b"ALS 78.96\r")
    assert await talker.ask(b"ADCU 5 7\r") == b"A 7 SLPM\r"
    assert plant.last("d.flow") == pytest.approx(78.96)
    assert await talker.ask(b"A\r") == b"A +014.70 +025.00 +0.0789 +0.0790 +0.0790    Air\r"
    assert await talker.ask(b"AFPF 5\r") == b"A +0.5000 7 SLPM\r"
    assert await talker.ask(b"ALS 0.1\r") == b"A +0.1000 +0.1000 7 SLPM\r"
    assert plant.last("d.flow") == pytest.approx(100.0)
    _, talker, plant = await controller(20_000.0, units="slpm")
    assert await talker.ask(b"ALS 1.5\r") == b"A +01.500 +01.500 7 SLPM\r"
    assert plant.last("d.flow") == pytest.approx(1500.0)


COLUMNS = """\
A D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________
A D01 700 Unit ID                    string          1
A D02 002 Abs Press                  s decimal     7/2 010 02 PSIA
A D03 003 Flow Temp                  s decimal     7/2 002 02 `C
A D04 004 Volu Flow                  s decimal     7/2 012 02 CCM
A D05 005 Mass Flow                  s decimal     7/2 012 02 SCCM
A D06 037 Mass Flow Setpt            s decimal     7/2 012 02 SCCM
A D07 703 Gas                        string          6
A D08 701 *Error                     string          3 ADC
A D09 702 *Status                    string          3 OPL
"""
RANGES = """\
A  D00 NAME_______ TYPE_____ MinVal_  MaxVal_  UNITS__
A  D01 Unit ID     char            A        Z       na
A  D02 Pressure    signed    +000.00  +160.00     PSIA
A  D03 Temperature signed    -010.00  +050.00        C
A  D04 Volumetric  signed    +000.00  +500.00      CCM
A  D05 Mass        signed    +000.00  +500.00     SCCM
A  D06 SetPoint    signed    +000.00  +500.00     SCCM
"""


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("firmware", "table", "lines"), [("10v05", COLUMNS, 22), ("8v30", COLUMNS, 20), ("5v12", RANGES, 15)]
)
async def test_the_frame_table_has_the_layout_of_the_firmware(firmware: str, table: str, lines: int) -> None:
    """Golden: a 10v20 and a 5v12 with a full scale of 500 SCCM, as captured in public."""
    _, talker, _ = await controller(500.0, firmware=firmware)
    answer = (await talker.ask(b"A??D*\r", 3)).decode().replace("\r", "\n")
    assert answer.startswith(table)
    assert answer.count("\n") == lines
    assert answer.splitlines()[-1].split()[-2:] in (["3", "LCK"], ["MOV", "na"])


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("full_scale", "frame"),
    [
        (200.0, b"A +014.70 +025.00 +000.00 +000.00 +000.00    Air\r"),
        (5.0, b"A +014.70 +025.00 +0.0000 +0.0000 +0.0000    Air\r"),
        (20_000.0, b"A +014.70 +025.00 +00000 +00000 +00000    Air\r"),
    ],
)
async def test_decimals_follow_the_full_scale(full_scale: float, frame: bytes) -> None:
    _, talker, _ = await controller(full_scale)
    assert await talker.ask(b"A\r") == frame


@pytest.mark.virtual_time
async def test_hold_closes_the_valve_and_keeps_it_where_it_is() -> None:
    _, talker, plant = await controller()
    await talker.ask(b"AS10\rAHP\rAS5\r")
    assert plant.last("d.flow") == 10.0
    await talker.ask(b"AC\r")
    assert plant.last("d.flow") == 5.0
    await talker.ask(b"AHC\r")
    assert plant.last("d.flow") == 0.0


@pytest.mark.virtual_time
async def test_tables_name_the_fields_and_the_maker() -> None:
    _, talker, _ = await controller()
    assert b"A D06 037 Mass Flow Setpt " in await talker.ask(b"A??D*\r", 3)
    assert b"A  M09 Software Revision 10v05.0-R24\r" in await talker.ask(b"A??M*\r", 3)
    assert b"A G00      Air\rA G01       Ar\r" in await talker.ask(b"A??G*\r", 3)


@pytest.mark.virtual_time
async def test_streaming_runs_until_it_is_given_its_id_back() -> None:
    _, talker, _ = await controller()
    received = await talker.ask(b"A@=@\r", 1.02)
    assert received.count(b"\r") in (19, 20)
    assert received.startswith(b"+014.70 ")
    assert b"A " not in await talker.ask(b"A\r", 0.3)
    assert (await talker.ask(b"@@=A\r", 5)).endswith(b"\rA +014.70 +025.00 +00.000 +00.000 +00.000    Air\r")
    assert (await talker.ask(b"A\r", 5)).count(b"\r") == 1


@pytest.mark.virtual_time
async def test_tare_takes_out_the_offset_at_no_flow() -> None:
    _, talker, plant = await controller()
    plant.values["d.flow"] = 0.12
    assert b" +00.120 " in await talker.ask(b"A\r")
    assert b" +00.000 " in await talker.ask(b"AV\r")


@pytest.mark.virtual_time
async def test_units_share_a_line_and_power_cut_closes_the_valve() -> None:
    plant = RecordingPlant(a__flow=0.0, b__flow=0.0)
    line = Bus("sim:gas", baud=19200)
    units = [AlicatMfc(name, spec(address=name.upper()), plant) for name in ("a", "b")]
    for unit in units:
        line.attach(unit)
        unit.power_on()
    talker = Talker(line)
    assert (await talker.ask(b"BS7\r")).startswith(b"B ")
    assert (plant.last("a.flow"), plant.last("b.flow")) == (0.0, 7.0)
    units[1].power_off()
    assert plant.last("b.flow") == 0.0
    assert await talker.ask(b"B\r") == b""
    assert (await talker.ask(b"A\r")).startswith(b"A ")
