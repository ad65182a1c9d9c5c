"""The simulated Alicat controller: golden frames, set-points, holds, streaming, ids on a shared line."""

from __future__ import annotations

import pytest

from sim.devices.alicat_mfc import AlicatMfc
from sim.devices.wire import Line
from tests.sim.bench import RecordingPlant, Talker, client_of, device_on_a_line, spec


async def controller(full_scale: float = 20.0) -> tuple[AlicatMfc, Talker, RecordingPlant]:
    plant = RecordingPlant(d__flow=0.0)
    device = device_on_a_line(AlicatMfc, plant, address="A", settings={"full_scale_ml_min": full_scale})
    assert isinstance(device, AlicatMfc)
    return device, await client_of(device), plant


GOLDEN = [
    (b"AR122\r", b"A   122 = 37\r"),
    (b"A\r", b"A +014.70 +025.00 +00.000 +00.000 00.000    Air\r"),
    (b"AS5.00\r", b"A +014.70 +025.00 +04.999 +05.000 05.000    Air\r"),
    (b"a\r", b"A +014.70 +025.00 +04.999 +05.000 05.000    Air\r"),
    (b"AS 2.5\r", b"A +014.70 +025.00 +02.499 +02.500 02.500    Air\r"),
    (b"AVE\r", b"A   10v05.0-R24 Nov 30 2022,16:04:20\r"),
    (b"AW122=34\r", b"A   122 = 34\r"),
    (b"A$$W46=4\r", b"A +014.70 +025.00 +02.499 +02.500 02.500    CO2\r"),
    (b"AG 11\r", b"A +014.70 +025.00 +02.499 +02.500 02.500     O2\r"),
    (b"AG0\r", b"A +014.70 +025.00 +02.499 +02.500 02.500    Air\r"),
    (b"AL\r", b"A +014.70 +025.00 +02.499 +02.500 02.500    Air LCK\r"),
    (b"AU\r", b"A +014.70 +025.00 +02.499 +02.500 02.500    Air\r"),
    (b"AHP\r", b"A +014.70 +025.00 +02.499 +02.500 02.500    Air HLD\r"),
    (b"AHC\r", b"A +014.70 +025.00 +00.000 +00.000 02.500    Air HLD\r"),
    (b"AC\r", b"A +014.70 +025.00 +02.499 +02.500 02.500    Air\r"),
    (b"AS21\r", b"?\r"),
    (b"AS-1\r", b"?\r"),
    (b"ASnan\r", b"?\r"),
    (b"AQ\r", b"?\r"),
    (b"AW122=99\r", b"?\r"),
    (b"AG99\r", b"?\r"),
    (b"B\r", b""),
    (b"\r", b""),
    (b"A@=C\r", b"C +014.70 +025.00 +02.499 +02.500 02.500    Air\r"),
    (b"C\r", b"C +014.70 +025.00 +02.499 +02.500 02.500    Air\r"),
]


@pytest.mark.virtual_time
async def test_golden_frames() -> None:
    _, talker, _ = await controller()
    for request, reply in GOLDEN:
        assert await talker.ask(request) == reply, request


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("full_scale", "frame"),
    [
        (200.0, b"A +014.70 +025.00 +000.00 +000.00 000.00    Air\r"),
        (5.0, b"A +014.70 +025.00 +0.0000 +0.0000 0.0000    Air\r"),
        (20_000.0, b"A +014.70 +025.00 +00000 +00000 00000    Air\r"),
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
    assert b"A   D06 Setpoint" in await talker.ask(b"A??D*\r")
    assert b"A   M00 Alicat Scientific\r" in await talker.ask(b"A??M*\r")
    assert b"A   G11     O2\r" in await talker.ask(b"A??G*\r")


@pytest.mark.virtual_time
async def test_streaming_runs_until_it_is_given_its_id_back() -> None:
    _, talker, _ = await controller()
    heard = await talker.ask(b"A@=@\r", 1.02)
    assert heard.count(b"\r") in (19, 20)
    assert heard.startswith(b"+014.70 ")
    assert b"A " not in await talker.ask(b"A\r", 0.3)
    assert (await talker.ask(b"@@=A\r", 5)).endswith(b"\rA +014.70 +025.00 +00.000 +00.000 00.000    Air\r")
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
    line = Line("sim:gas", baud=19200)
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
