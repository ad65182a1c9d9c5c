"""The device described in YAML: what a description may say, and what then goes over the wire."""

from __future__ import annotations

import asyncio
import math
import re
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from drivers.commands import Guarantee, Level, LevelStatus, Run, Stop, Switch, SwitchStatus
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import BadReply, DeviceError, DeviceFault, LinkDown, NoReply, Refused, WrongDevice
from drivers.modbus_generic import ModbusGeneric
from drivers.modbus_generic_description import Description
from drivers.modbus_generic_format import CHECK_KEYS, DEVICE_KEYS, LEVEL_KEYS, POINT_KEYS, SWITCH_KEYS
from drivers.modbus_generic_reader import BadDescription, parse
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl
from sim.devices.modbus_generic import ModbusGeneric as SimulatedModbus
from tests.drivers.against_sim import against
from tests.drivers.facts import MODBUS_READS, DriverFacts
from tests.drivers.fakes import crc
from tests.drivers.peer import linked, settings
from tests.sim.bench import RecordingPlant

FACTS = {
    "modbus-generic": DriverFacts(
        line="9600 8N1",
        functions=(1, MODBUS_READS),
        stored=({"address": 7}, {"address": 1}),
        no_health="described by the user",
    ),
}

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples/devices").glob("*.yaml"))

MIXED = """
format: 1
name: bench box
max_gap: 1
late: 0.5
check: {function: 4, register: 200, type: u16, equals: 4711}
points:
  ph: {function: 3, register: 10, type: u16, scale: 0.01, unit: pH, limits: [0, 14], example: 7.2, invalid: [65535]}
  temperature: {function: 3, register: 12, type: i16, scale: 0.1, offset: -5, unit: degC, example: 36.6}
  count: {function: 3, register: 13, type: u32, word_order: low_first, unit: "1", example: 70000}
  flow: {function: 4, register: 0, type: f32, unit: mL/min, example: 12.5}
  lid: {function: 2, register: 3, example: 1}
  alarm: {function: 3, register: 15, type: u16, bit: 4, example: 1}
  ready: {function: 3, register: 15, type: u16, bit: 0, example: 1}
  setpoint: {function: 3, register: 40, type: f32, unit: degC, level: {limits: [30, 40], rest: 20, measured: temperature}}
  stored: {function: 3, register: 50, type: i16, scale: 0.1, unit: degC, level: {limits: [0, 50], rest: 0, eeprom: true}}
  lamp: {function: 3, register: 60, type: u16, switch: {on: 7, off: 2, function: 16}}
  valve: {function: 1, register: 5, switch: {function: 15}}
  pump: {function: 1, register: 6, switch: {}}
"""


def described(text: str) -> Description:
    return parse("box", "box.yaml", text)


def config(text: str = MIXED, address: str = "1") -> DeviceConfig:
    return DeviceConfig("box", address, settings(description=text))


# --- the format -------------------------------------------------------------------------------------------


def test_neighbours_are_read_in_one_request() -> None:
    blocks = {(b.function, b.address, b.count): b.points for b in described(MIXED).blocks}
    assert blocks == {
        (3, 10, 6): ("ph", "temperature", "count", "alarm", "ready"),
        (3, 40, 2): ("setpoint",),
        (3, 50, 1): ("stored",),
        (3, 60, 1): ("lamp",),
        (4, 0, 2): ("flow",),
        (2, 3, 1): ("lid",),
        (1, 5, 2): ("valve", "pump"),
    }


def test_a_named_group_is_one_request_and_max_block_bounds_the_rest() -> None:
    text = """
format: 1
name: wide
max_block: 30
points:
  a: {function: 3, register: 0, type: u16, group: fast}
  b: {function: 3, register: 25, type: u16, group: fast}
  c: {function: 3, register: 1, type: u16}
  d: {function: 3, register: 2, type: u16}
  e: {function: 3, register: 4, type: u16}
"""
    spans = {(b.address, b.count) for b in described(text).blocks}
    assert spans == {(0, 26), (1, 2), (4, 1)}
    narrow = described(text.replace("max_block: 30", "max_block: 26\nmax_gap: 9"))
    assert {(b.address, b.count) for b in narrow.blocks} == {(0, 26), (1, 4)}


SOUND = {
    "format": 1,
    "name": "x",
    "points": {"p": {"function": 3, "register": 0, "type": "u16", "unit": "degC"}},
}
LEVEL = {"limits": [1, 9], "rest": 0}


def variant(**changes: Any) -> str:
    """The sound description with `points__p__type="u8"` and the like changed; None takes a key out."""
    data: dict[str, Any] = yaml.safe_load(yaml.safe_dump(SOUND))
    for path, value in changes.items():
        *places, last = path.split("__")
        at = data
        for place in places:
            at = at.setdefault(place, {})
        if value is None:
            del at[last]
        else:
            at[last] = value
    return yaml.safe_dump(data)


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        (variant(format=2), "format", "format: 1"),
        (variant(format=True), "format", "format: 1"),
        (variant(name=None), "name", "what the device is called"),
        (variant(point={}), "point", "known here: format"),
        (variant(points={}), "points", "1 to 64"),
        (variant(points=[1]), "points", "each with function and register"),
        (variant(points__p=3), "points.p", "function, register, type"),
        (variant(timeout=0), "timeout", "0.05 to 5"),
        (variant(max_block=126), "max_block", "2 to 125"),
        (variant(points__p__type="u8"), "points.p.type", "choose u16, i16, u32, i32, f32"),
        (variant(points__p__type=None), "points.p.type", "choose u16"),
        (variant(points__p__function=5), "points.p.function", "1 coil, 2 input bit"),
        (variant(points__p__function=None), "points.p.function", "1 coil"),
        (variant(points__p__register=-1), "points.p.register", "up to 65535"),
        (variant(points__p__register="40001"), "points.p.register", "number from the manual"),
        (variant(points__p__register=65536), "points.p.register", "0 to 65535"),
        (variant(points__p__register=65535, points__p__type="f32"), "points.p.register", "0 to 65534"),
        (variant(counted_from=1), "points.p.register", "1 to 65536"),
        (variant(points__p__scale=0), "points.p.scale", "other than 0"),
        (variant(points__p__scale="0.1"), "points.p.scale", "other than 0"),
        (variant(points__p__offset=float("inf")), "points.p.offset", "a number"),
        (variant(points__p__limits=[5, 5]), "points.p.limits", "lower and the upper"),
        (variant(points__p__limits=[5]), "points.p.limits", "lower and the upper"),
        (variant(points__p__invalid=[]), "points.p.invalid", "list of raw numbers"),
        (variant(points__p__bit=16), "points.p.bit", "0 (lowest) to 15"),
        (variant(points__p__bit=1, points__p__type="i16"), "points.p.bit", "with type u16"),
        (variant(points__p__wordorder="big"), "points.p.wordorder", "word_order"),
        (variant(points__p__word_order="big"), "points.p.word_order", "high_first or low_first"),
        (variant(points__p__function=1), "points.p.type", "leave it out"),
        (variant(points__p__unit=5), "points.p.unit", "unit"),
        (variant(points={"1p": SOUND["points"]["p"]}), "points.1p", "begin with a letter"),  # type: ignore[index]
        (variant(points__p__level={"limits": [1, 9]}), "points.p.level.rest", "value of rest"),
        (variant(points__p__level={"rest": 0}), "points.p.level.limits", "nothing else is ever written"),
        (variant(points__p__level=LEVEL | {"rest": 5}), "points.p.level.rest", "tells rest from a set-point"),
        (variant(points__p__level=LEVEL | {"rest": -1}), "points.p.level", "correct limits"),
        (variant(points__p__level=LEVEL | {"limits": [1, 7e4]}), "points.p.level", "correct limits"),
        (variant(points__p__level=LEVEL | {"measured": "q"}), "points.p.level.measured", "name one of -"),
        (variant(points__p__level=LEVEL | {"function": 5}), "points.p.level.function", "6 (one register)"),
        (
            variant(points__p__level=LEVEL | {"function": 6}, points__p__type="f32"),
            "points.p.level.function",
            "use 16",
        ),
        (variant(points__p__level=LEVEL, points__p__function=4), "points.p.level", "function: 3"),
        (variant(points__p__level=LEVEL, points__p__bit=2), "points.p.level", "without bit"),
        (variant(points__p__level=LEVEL, points__p__switch={}), "points.p.switch", "keep one"),
        (variant(points__p__switch={}, points__p__function=4), "points.p.switch", "function: 1, or function: 3"),
        (variant(points__p__switch={}, points__p__type="i16"), "points.p.switch", "type: u16"),
        (variant(points__p__switch={"on": 3, "off": 3}), "points.p.switch.on", "two different"),
        (variant(points__p__switch={"function": 5}), "points.p.switch.function", "6 or 16"),
        (
            variant(points__p={"function": 1, "register": 1, "switch": {"on": 2}}),
            "points.p.switch.on",
            "0 and 1 for a coil",
        ),
        (
            variant(points__p={"function": 1, "register": 1, "switch": {"function": 6}}),
            "points.p.switch.function",
            "5 or 15",
        ),
        (variant(check={"function": 3, "register": 1, "type": "u16"}), "check.equals", "one of the two"),
        (variant(check={"function": 1, "register": 1, "equals": 1}), "check.function", "function 3 or 4"),
        (variant(check={"function": 3, "type": "u16", "equals": 1}), "check.register", "number from the manual"),
        (
            variant(points__p__group="g", points__q={"function": 3, "register": 99, "type": "u16", "group": "g"}),
            "points.q.group",
            "split the group",
        ),
        (
            variant(points__p__group="g", points__q={"function": 4, "register": 1, "type": "u16", "group": "g"}),
            "points.q.group",
            "a group of its own",
        ),
        (yaml.safe_dump(SOUND) + "name: y\n", "name", "keep one"),
        (yaml.safe_dump(SOUND) + "name: *y\n", "(file)", "check indentation"),
        ("format: 1\nname: &n x\nmaker: *n\npoints: {p: {function: 2, register: 1}}", "maker", "write the values out"),
        ("- a\n", "(file)", "start from examples/devices/thermostat.yaml"),
        ("a: [\n", "(file)", "check indentation"),
        ("{" * 4000, "(file)", ""),
        ("format: !!python/name:os.system x\n", "format", "plain number or word"),
        ("#" * 70_000, "(file)", "right file"),
    ],
)
def test_S5_a_slip_in_a_description_is_told_with_its_key_and_the_fix(text: str, key: str, fix: str) -> None:
    with pytest.raises(BadDescription) as caught:
        described(text)
    told = {problem.key: problem for problem in caught.value.problems}
    assert key in told, told
    assert fix in told[key].fix
    assert key in str(caught.value)
    assert "box.yaml" in str(caught.value)


def test_all_slips_are_told_at_once_each_with_its_line() -> None:
    text = "format: 1\nname: x\npoints:\n  a:\n    function: 9\n    register: 1\n    type: u16\n  b:\n    function: 3\n"
    with pytest.raises(BadDescription) as caught:
        described(text)
    assert [(p.key, p.line) for p in caught.value.problems] == [("points.a.function", 5), ("points.b.register", 8)]


def test_the_page_of_the_format_names_every_key_and_no_other() -> None:
    page = (ROOT / "docs/generic-modbus.md").read_text(encoding="utf-8")
    tables: dict[str, set[str]] = {}
    for heading, body in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.M | re.S):
        tables[heading] = set(re.findall(r"^\| `([a-z_]+)`", body, re.M))
    assert tables["The device"] == set(DEVICE_KEYS)
    assert tables["A point"] == set(POINT_KEYS)
    assert tables["A level: a writable number"] == set(LEVEL_KEYS)
    assert tables["A switch"] == set(SWITCH_KEYS)
    assert tables["A check"] == set(CHECK_KEYS)


def test_the_descriptions_on_the_page_are_sound() -> None:
    page = (ROOT / "docs/generic-modbus.md").read_text(encoding="utf-8")
    found = re.findall(r"```yaml\n(.*?)```", page, re.S)
    inline = next(yaml.safe_load(text)["settings"]["description"] for text in found if "description: |" in text)
    whole = next(text for text in found if text.startswith("format: 1"))
    assert set(described(inline).points) == {"co2"}
    assert set(described(whole).points) == {"bath", "alarm", "setpoint", "pump"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.virtual_time
async def test_every_example_runs_against_the_device_that_it_describes(path: Path) -> None:
    given = settings(file=str(path))
    async with against(ModbusGeneric, SimulatedModbus, address="5", settings=given) as pair:
        for name, told in yaml.safe_load(path.read_text(encoding="utf-8"))["points"].items():
            if name in pair.driver.sensors:
                assert await pair.driver.sensors[name].read() == pytest.approx(told.get("example", 0.0), abs=0.05)
            else:
                await pair.driver.actuators[name].apply(Stop())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_sound(path: Path) -> None:
    assert described(path.read_text(encoding="utf-8")).points


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "needs one of"),
        ({"file": "x.yaml", "description": "points:"}, "x.yaml"),
        ({"file": "no/such/file.yaml"}, "cannot be read"),
        ({"file": "examples"}, "cannot be read"),
        ({"description": MIXED, "baud": 9600}, "unknown"),
    ],
)
@pytest.mark.virtual_time
async def test_D7_settings_that_cannot_be(given: dict[str, float | str | bool], what: str) -> None:
    with pytest.raises(BadSetting, match=what):
        ModbusGeneric(Link(LinkUrl.parse("sim:x"), Peer(lambda _: None).open), DeviceConfig("box", "1", given))


# --- golden frames ----------------------------------------------------------------------------------------


def by_file(name: str, address: str) -> DeviceConfig:
    return DeviceConfig("box", address, settings(file=str(ROOT / "examples/devices" / name)))


def table(answers: dict[str, str]) -> Callable[[bytes], bytes | None]:
    known = {bytes.fromhex(request): bytes.fromhex(reply) for request, reply in answers.items()}
    return known.get


@pytest.mark.virtual_time
async def test_golden_vaisala_low_word_first_and_counted_from_one() -> None:
    temperature = crc(bytes.fromhex("F0 03 04") + struct.pack(">HH", 0x0000, 0x4214))
    peer = Peer(
        table(
            {
                "F0 03 00 00 00 02 D1 2A": "F0 03 04 D4 7A 43 E8 33 AB",
                crc(bytes.fromhex("F0 03 00 04 00 02")).hex(): temperature.hex(),
            }
        )
    )
    async with linked(ModbusGeneric, peer, by_file("co2-probe.yaml", "240")) as probe:
        await asyncio.sleep(1)
        assert await probe.sensors["co2"].read() == pytest.approx(465.65997, abs=1e-4)
        assert peer.sent == [bytes.fromhex("F0 03 00 00 00 02 D1 2A")]
        assert await probe.sensors["compensation_temperature"].read() == 37.0
        assert probe.sensors["co2"].unit == "ppm"


@pytest.mark.virtual_time
async def test_golden_keller_high_word_first() -> None:
    housing = crc(bytes.fromhex("01 03 04") + struct.pack(">f", 25.0))
    peer = Peer(
        table(
            {
                "01 03 00 02 00 02 65 CB": "01 03 04 3F 7C D6 A1 A8 27",
                crc(bytes.fromhex("01 03 00 08 00 02")).hex(): housing.hex(),
            }
        )
    )
    async with linked(ModbusGeneric, peer, by_file("pressure-transmitter.yaml", "1")) as gauge:
        assert await gauge.sensors["pressure"].read() == pytest.approx(98.765, abs=1e-4)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("microamperes", "lactate_mm"), [(4000, 0.0), (6560, 4.0), (20_000, 25.0), (3600, None), (21_000, None), (0, None)]
)
async def test_I2_a_current_loop_is_a_concentration_or_a_fault(microamperes: int, lactate_mm: float | None) -> None:
    """4 to 20 mA are 0 to 25 mM; below 3.8 mA a wire is broken, above 20.5 mA the analyser reports a fault (NE 43)."""
    answer = crc(bytes.fromhex("01 04 02") + struct.pack(">H", microamperes))
    peer = Peer(table({crc(bytes.fromhex("01 04 00 00 00 01")).hex(): answer.hex()}))
    async with linked(ModbusGeneric, peer, by_file("metabolite-4-20ma.yaml", "1")) as analyser:
        if lactate_mm is None:
            with pytest.raises(DeviceFault):
                await analyser.sensors["lactate"].read()
        else:
            assert await analyser.sensors["lactate"].read() == pytest.approx(lactate_mm)
            assert analyser.sensors["lactate"].unit == "mM"


@pytest.mark.virtual_time
async def test_golden_relay_board() -> None:
    states = {0: False, 1: False}

    def board(request: bytes) -> bytes | None:
        if request[1] == 5:
            states[request[3]] = request[4] == 0xFF
            return request
        if request != crc(bytes.fromhex("01 01 00 00 00 02")):
            return crc(bytes((1, 0x81, 2)))
        return crc(bytes((1, 1, 1, states[0] + 2 * states[1])))

    peer = Peer(board)
    async with linked(ModbusGeneric, peer, by_file("relay-board.yaml", "1")) as device:
        await device.actuators["heater"].apply(Switch(True))
        await device.actuators["stirrer"].apply(Switch(True, for_s=5.0))
        assert states == {0: True, 1: True}
        await device.actuators["heater"].apply(Stop())
        for frame in ("01 05 00 00 FF 00 8C 3A", "01 05 00 01 FF 00 DD FA", "01 05 00 00 00 00 CD CA"):
            assert bytes.fromhex(frame) in peer.sent
        for never in (float("nan"), float("inf"), 0.0, -1.0, 1e12):
            with pytest.raises(Refused, match="not a time"):
                await device.actuators["stirrer"].apply(Switch(True, for_s=never))
        assert device.actuators["stirrer"].guarantee_for(Switch(True, for_s=5.0)) is Guarantee.GUARD


@pytest.mark.virtual_time
async def test_golden_set_point_of_one_register() -> None:
    text = """
format: 1
name: controller
points:
  pv: {function: 3, register: 1, type: i16, scale: 0.1, unit: degC}
  sp: {function: 3, register: 2, type: i16, scale: 0.1, unit: degC, level: {limits: [30, 40], rest: 20, measured: pv}}
"""
    words = {1: 370, 2: 200}

    def controller(request: bytes) -> bytes:
        first, value = struct.unpack(">HH", request[2:6])
        if request[1] == 6:
            words[first] = value
            return request
        if first + value > 3:
            return crc(bytes((1, 0x83, 2)))
        data = b"".join(words[first + at].to_bytes(2, "big") for at in range(value))
        return crc(bytes((1, 3, len(data))) + data)

    peer = Peer(controller)
    async with linked(ModbusGeneric, peer, config(text)) as device:
        sp = device.actuators["sp"]
        assert await sp.status() == LevelStatus(setpoint=0.0, measured=37.0)
        await sp.apply(Level(37.0))
        assert bytes.fromhex("01 06 00 02 01 72 A9 BF") in peer.sent
        assert await sp.status() == LevelStatus(setpoint=37.0, measured=37.0)
        peer.answers = lambda request: (
            bytes.fromhex("01 03 04 01 72 01 72") + crc(bytes.fromhex("01 03 04 01 72 01 72"))[-2:]
        )
        assert await device.sensors["pv"].read() == 37.0


# --- against the simulated device -------------------------------------------------------------------------


@asynccontextmanager
async def simulated(
    text: str = MIXED, plant: RecordingPlant | None = None
) -> AsyncIterator[tuple[ModbusGeneric, SimulatedModbus, RecordingPlant]]:
    given = settings(description=text)
    async with against(ModbusGeneric, SimulatedModbus, address="1", settings=given, plant=plant) as pair:
        yield pair.driver, pair.box, pair.plant


@pytest.mark.virtual_time
async def test_every_type_is_read_from_the_simulated_device() -> None:
    async with simulated(plant=RecordingPlant(d__ph=6.98)) as (device, _, _plant):
        read = {name: await sensor.read() for name, sensor in device.sensors.items()}
        assert read == {
            "ph": pytest.approx(6.98),
            "temperature": pytest.approx(36.6),
            "count": 70000.0,
            "flow": 12.5,
            "lid": 1.0,
            "alarm": 1.0,
            "ready": 1.0,
        }
        assert device.identity is not None
        assert device.identity.model == "bench box"


@pytest.mark.virtual_time
async def test_five_points_of_a_block_cost_one_request() -> None:
    async with simulated() as (device, _, _plant):
        await asyncio.sleep(1)
        before = device.link.transactions
        await asyncio.gather(
            *(device.sensors[name].read() for name in ("ph", "temperature", "count", "alarm", "ready"))
        )
        assert device.link.transactions == before + 1
        await asyncio.sleep(0.3)
        await device.sensors["ph"].read()
        assert device.link.transactions == before + 2


@pytest.mark.virtual_time
async def test_a_whole_cycle_of_a_level_and_what_it_measures() -> None:
    async with simulated() as (device, box, _):
        sp = device.actuators["setpoint"]
        assert sp.guarantee_for(Level(37.0)) is Guarantee.GUARD
        await sp.apply(Level(38.5))
        await sp.apply(Level(38.5))
        assert box.writes["setpoint"] == 1  # applied twice equals once (A4), and spares the memory
        status = await sp.status()
        assert isinstance(status, LevelStatus)
        assert status.setpoint == 38.5
        assert status.measured == pytest.approx(36.6, abs=0.2)
        await asyncio.sleep(600)
        status = await sp.status()
        assert isinstance(status, LevelStatus)
        assert status.measured == pytest.approx(38.5, abs=0.1)
        for wrong in (29.9, 40.1, -1.0, math.nan, math.inf):
            with pytest.raises(Refused, match="outside 30 to 40"):
                await sp.apply(Level(wrong))
        with pytest.raises(Refused, match="does not know"):
            await sp.apply(Run(1.0))
        await sp.apply(Level(0.0))
        status = await sp.status()
        assert isinstance(status, LevelStatus)
        assert status.setpoint == 0.0
        assert status.measured == pytest.approx(38.5, abs=0.1)
        await sp.apply(Level(37.0))
        await device.close()
        status = await sp.status()
        assert isinstance(status, LevelStatus)
        assert status.setpoint == 0.0
        assert box.writes["setpoint"] == 4


@pytest.mark.virtual_time
async def test_switches_by_every_function() -> None:
    async with simulated() as (device, _, plant):
        for name in ("lamp", "valve", "pump"):
            switch = device.actuators[name]
            await switch.apply(Switch(True))
            assert plant.last(f"d.{name}") == 1.0
            assert await switch.status() == SwitchStatus(True)
            await switch.apply(Switch(False))
            assert plant.last(f"d.{name}") == 0.0
            assert await switch.status() == SwitchStatus(False)
            with pytest.raises(Refused, match="does not know"):
                await switch.apply(Level(1.0))


@pytest.mark.virtual_time
async def test_a_register_in_eeprom_is_not_written_in_a_loop_but_always_brought_to_rest() -> None:
    async with simulated() as (device, box, _):
        stored = device.actuators["stored"]
        await stored.apply(Level(20.0))
        for value in (20.1, 20.2, 20.3):
            await asyncio.sleep(10)
            with pytest.raises(Refused, match="EEPROM"):
                await stored.apply(Level(value))
        assert box.writes["stored"] == 1
        await stored.apply(Stop())
        await stored.apply(Stop())
        assert box.writes["stored"] == 2
        await asyncio.sleep(40)
        await stored.apply(Level(21.0))
        assert await stored.status() == LevelStatus(21.0, 21.0)


@pytest.mark.virtual_time
async def test_A6_another_model_is_told_by_its_check_and_nothing_is_written() -> None:
    given, theirs = settings(description=MIXED), settings(description=MIXED.replace("equals: 4711", "equals: 4712"))
    async with against(
        ModbusGeneric, SimulatedModbus, address="1", settings=given, box_settings=theirs, verified=False
    ) as pair:
        assert isinstance(pair.failures["d"], WrongDevice)
        assert "4712, not 4711" in str(pair.failures["d"])
        with pytest.raises(LinkDown, match="not verified"):
            await pair.driver.actuators["pump"].apply(Switch(True))
        assert pair.plant.log == []


@pytest.mark.virtual_time
async def test_a_register_that_the_device_lacks_is_told_with_its_points() -> None:
    lacking = MIXED.replace("  flow: {function: 4, register: 0,", "  flow: {function: 4, register: 7,")
    given, theirs = settings(description=MIXED), settings(description=lacking)
    async with against(
        ModbusGeneric, SimulatedModbus, address="1", settings=given, box_settings=theirs, verified=False
    ) as pair:
        assert isinstance(pair.failures["d"], Refused)
        assert "flow (wire address 0)" in str(pair.failures["d"].__notes__)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("point", "value", "error"),
    [("ph", 655.35, "no value"), ("ph", 14.5, "beyond 0 to 14"), ("flow", math.nan, "no value")],
)
async def test_C2_values_that_mean_none_are_faults(point: str, value: float, error: str) -> None:
    plant = RecordingPlant()
    async with simulated(plant=plant) as (device, _, _plant):
        plant.values[f"d.{point}"] = value
        await asyncio.sleep(1)
        with pytest.raises(DeviceFault, match=error):
            await device.sensors[point].read()


# --- what is no answer ------------------------------------------------------------------------------------

TWO = """
format: 1
name: two
points:
  a: {function: 3, register: 0, type: u16}
  b: {function: 3, register: 9, type: u16}
  sp: {function: 3, register: 20, type: u16, level: {limits: [10, 90], rest: 0}}
  sw: {function: 1, register: 0, switch: {}}
"""


class FakeTwo:
    """Registers 0, 9 and 20, and coil 0."""

    def __init__(self) -> None:
        self.words = {0: 100, 9: 900, 20: 0}
        self.coil = False
        self.clamp = 0xFFFF

    @property
    def on(self) -> bool:
        return self.coil or self.words[20] > 0

    def __call__(self, request: bytes) -> bytes | None:
        assert crc(request[:-2]) == request
        first, value = struct.unpack(">HH", request[2:6])
        match request[1]:
            case 1 | 3 if value != 1:
                return crc(bytes((1, request[1] | 0x80, 2)))
            case 1:
                return crc(bytes((1, 1, 1, self.coil)))
            case 3:
                return crc(bytes((1, 3, 2 * value)) + self.words[first].to_bytes(2, "big"))
            case 5:
                self.coil = value == 0xFF00
            case 6:
                self.words[first] = min(value, self.clamp)
        return request


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (crc(bytes((1, 3, 2, 0, 7)))[:-1] + b"\0", BadReply),
        (crc(bytes((1, 3, 2, 0, 7)))[:-3], BadReply),
        (crc(bytes((2, 3, 2, 0, 7))), BadReply),
        (crc(bytes((1, 4, 2, 0, 7))), BadReply),
        (crc(bytes((1, 3, 4, 0, 7, 0, 7))), BadReply),
        (crc(bytes((1, 0x83, 2))), Refused),
        (b"\xff" * 200, BadReply),
    ],
)
async def test_C2_frames_that_are_no_answer(reply: bytes, error: type[DeviceError]) -> None:
    fake = FakeTwo()
    peer = Peer(fake)
    async with linked(ModbusGeneric, peer, config(TWO)) as device:
        await asyncio.sleep(1)
        peer.answers = lambda request: reply
        with pytest.raises(error):
            await device.sensors["a"].read()
        peer.answers = fake
        assert await device.sensors["a"].read() == 100.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("late_s", [0.31, 0.5, 0.9, 2.0, 4.0])
async def test_C2_a_late_answer_of_one_register_is_not_anothers(late_s: float) -> None:
    fake = FakeTwo()
    peer = Peer(fake)
    async with linked(ModbusGeneric, peer, config(TWO)) as device:
        await asyncio.sleep(1)
        peer.answers = lambda request: [(late_s, fake(request) or b"")]
        with pytest.raises(NoReply):
            await device.sensors["a"].read()
        free_at = asyncio.get_running_loop().time() - 0.3 + late_s
        peer.answers = lambda request: [
            (max(0.01, free_at - asyncio.get_running_loop().time() + 0.01), fake(request) or b"")
        ]
        for _ in range(6):
            try:
                assert await device.sensors["b"].read() == 900.0
            except DeviceError:
                await asyncio.sleep(0.2)
        await asyncio.sleep(5)
        assert await device.sensors["b"].read() == 900.0


@pytest.mark.virtual_time
async def test_C2_a_device_that_answers_no_longer_question_is_given_time() -> None:
    fake = FakeTwo()

    def silent(request: bytes) -> bytes | None:
        return None if request[1] in (1, 3) and request[4:6] != b"\0\x01" else fake(request)

    peer = Peer(silent)
    async with linked(ModbusGeneric, peer, config(TWO)) as device:
        await asyncio.sleep(2)
        assert device.conversation.barrier is None
        peer.answers = lambda request: [(0.9, silent(request) or b"")]
        with pytest.raises(NoReply):
            await device.sensors["a"].read()
        peer.answers = silent
        assert await device.sensors["b"].read() == 900.0


@pytest.mark.virtual_time
async def test_C2_where_lengths_differ_a_short_read_gets_back_in_step_at_once() -> None:
    given = settings(description=MIXED)
    async with against(ModbusGeneric, SimulatedModbus, address="1", settings=given) as pair:
        await asyncio.sleep(1)
        pair.lose_next()
        with pytest.raises(NoReply):
            await pair.driver.sensors["ph"].read()
        link, began_s = pair.driver.link, asyncio.get_running_loop().time()
        before = link.transactions
        assert await pair.driver.sensors["ph"].read() == pytest.approx(7.2)
        assert link.transactions == before + 2  # the barrier, then the reading
        assert asyncio.get_running_loop().time() - began_s < 0.2


COMMANDS = [("sp", Level(50.0)), ("sw", Switch(True))]


@pytest.mark.virtual_time
@pytest.mark.parametrize(("point", "command"), COMMANDS)
async def test_A2_cancelled_at_every_await_the_output_is_at_rest(point: str, command: Level | Switch) -> None:
    whole_s = 0.25
    for step in range(40):
        fake = FakeTwo()
        async with linked(ModbusGeneric, Peer(fake), config(TWO)) as device:
            await asyncio.sleep(1)
            applying = asyncio.ensure_future(device.actuators[point].apply(command))
            await asyncio.sleep(whole_s * step / 40)
            done = applying.done()
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)
            assert fake.on == done


@pytest.mark.virtual_time
@pytest.mark.parametrize(("point", "command"), COMMANDS)
async def test_A2_a_lost_confirmation_ends_at_rest(point: str, command: Level | Switch) -> None:
    fake = FakeTwo()
    peer = Peer(fake)
    async with linked(ModbusGeneric, peer, config(TWO)) as device:
        await asyncio.sleep(1)

        def loses_what_turns_on(request: bytes) -> bytes | None:
            was_on, answer = fake.on, fake(request)
            return None if fake.on and not was_on else answer

        peer.answers = loses_what_turns_on
        with pytest.raises(NoReply):
            await device.actuators[point].apply(command)
        assert not fake.on


@pytest.mark.virtual_time
async def test_A7_a_device_that_keeps_another_set_point_is_a_fault_and_is_brought_to_rest() -> None:
    fake = FakeTwo()
    fake.clamp = 30
    async with linked(ModbusGeneric, Peer(fake), config(TWO)) as device:
        with pytest.raises(DeviceFault, match="50 was written and 30 stands"):
            await device.actuators["sp"].apply(Level(50.0))
        assert not fake.on


@pytest.mark.virtual_time
async def test_a_changed_set_point_that_fails_leaves_the_old_one() -> None:
    fake = FakeTwo()
    peer = Peer(fake)
    async with linked(ModbusGeneric, peer, config(TWO)) as device:
        await device.actuators["sp"].apply(Level(50.0))
        peer.answers = lambda request: None if request[1] == 6 else fake(request)
        with pytest.raises(NoReply):
            await device.actuators["sp"].apply(Level(60.0))
        assert fake.words[20] == 50


# --- orders of words and bytes --------------------------------------------------------------------------------------

ORDERS = {
    "ABCD": ("high_first", "high_first", "3fc00000", "0102"),
    "CDAB": ("low_first", "high_first", "00003fc0", "0102"),
    "BADC": ("high_first", "low_first", "c03f0000", "0201"),
    "DCBA": ("low_first", "low_first", "0000c03f", "0201"),
}


def in_order(letters: str) -> str:
    word, byte, *_ = ORDERS[letters]
    return f"""
format: 1
name: orders
word_order: {word}
byte_order: {byte}
check: {{function: 3, register: 0, type: u16, equals: 258}}
points:
  wide: {{function: 3, register: 10, type: f32, unit: degC, level: {{limits: [1, 9], rest: 0, measured: seen}}}}
  seen: {{function: 3, register: 12, type: u16, unit: degC, example: 258}}
  lamp: {{function: 3, register: 20, type: u16, switch: {{on: 258, off: 3}}}}
  flag: {{function: 3, register: 21, type: u16, bit: 9, example: 1}}
"""


@pytest.mark.parametrize("letters", ORDERS)
def test_golden_the_four_orders_of_1_5(letters: str) -> None:
    *_, wide, narrow = ORDERS[letters]
    spec = described(in_order(letters))
    assert spec.points["wide"].words(1.5).hex() == wide
    assert spec.points["wide"].raw(bytes.fromhex(wide)) == 1.5
    assert spec.check is not None
    assert spec.check.point.raw(bytes.fromhex(narrow)) == 258.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("letters", ORDERS)
async def test_each_order_is_read_checked_and_written(letters: str) -> None:
    told = {"description": in_order(letters)}
    async with against(ModbusGeneric, SimulatedModbus, address="1", settings=told) as rig:
        assert await rig.driver.sensors["flag"].read() == 1.0
        wide, lamp = rig.driver.actuators["wide"], rig.driver.actuators["lamp"]
        await wide.apply(Level(1.5))
        status = await wide.status()
        assert isinstance(status, LevelStatus)
        assert status.setpoint == 1.5
        await lamp.apply(Switch(True))
        assert await lamp.status() == SwitchStatus(True)
        assert rig.box.told("wide") == 1.5
        assert rig.box.told("lamp") == 1.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("letters", ["BADC", "DCBA"])
async def test_a_wrong_order_of_bytes_is_another_device(letters: str) -> None:
    theirs = {"description": in_order(letters)}
    told = {"description": theirs["description"].replace("byte_order: low_first", "byte_order: high_first")}
    async with against(
        ModbusGeneric, SimulatedModbus, address="1", settings=told, box_settings=theirs, verified=False
    ) as rig:
        assert isinstance(rig.failures["d"], WrongDevice)
