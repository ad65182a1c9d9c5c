"""Mistakes in rig files: each is reported with file, line and the likely fix, and no device is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.rig.loading import load_rig
from controller.rig.problems import Problem, RigError
from drivers.registry import MODELS

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
TEXT = BENCH.read_text(encoding="utf-8")


def problems(folder: Path, text: str) -> list[Problem]:
    path = folder / "rig.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RigError) as caught:
        load_rig(path, models=MODELS)
    for problem in caught.value.problems:
        assert problem.file == path
        assert str(problem) in str(caught.value)
    return caught.value.problems


def changed(*swaps: tuple[str, str]) -> str:
    text = TEXT
    for old, new in swaps:
        assert old in text, f"the bench rig no longer says {old}"
        text = text.replace(old, new, 1)
    return text


def line_of(part: str, text: str) -> int:
    return text[: text.index(part)].count("\n") + 1


# name, old text, new text, and what is reported: key, what, fix
MISTAKES = [
    ("misspelt key", "volume: 40 mL", "volum: 40 mL",
     "vessels.loop.volum", "unknown key", "“volume”"),
    ("unknown key", "bore: 1.02 mm, length: 0.6 m", "colour: red",
     "lines.heart.colour", "unknown", "Known here: bore,"),
    ("no unit", "basal: 1.6 mL/min", "basal: 1",
     "organs.heart.basal", "“1” has no unit", "“1 uL/min”"),
    ("other unit", "flow: 2 mL/min", "flow: 2 mL",
     "organs.heart.flow", "milliliter, not in uL/min", "“1 uL/min”"),
    ("coulombs", "setpoint: 37 degC", "setpoint: 37 C",
     "organs.skin.setpoint", "coulomb", "“37 degC”"),
    ("metres", "stale: 15 s", "stale: 5 m",
     "safety.temperature.stale", "meter", "“5 min”"),
    ("megalitres", "volume: 500 mL", "volume: 500 ML",
     "vessels.reservoir.volume", "mega", "“500 mL”"),
    ("decimal comma", "pore: 0.2 um", "pore: '0,2 um'",
     "filters.sterile.pore", "decimal comma", "“0.2 um”"),
    ("pump from nowhere", "from: loop, to: chamber", "from: lop, to: chamber",
     "lines.heart.from", "nowhere", "“loop”"),
    ("line to nowhere", "from: loop, to: spent", "from: loop, to: sepnt",
     "lines.draw.to", "does not exist", "“spent”"),
    ("line in a ring", "from: loop, to: spent", "from: loop, to: loop",
     "lines.draw.to", "itself", "different vessels"),
    ("unknown pump", "pump: reglo.draw", "pump: reglo.drew",
     "lines.draw.pump", "no device has", "“reglo.draw”"),
    ("sensor as a pump", "pump: reglo.draw", "pump: ph_loop.ph",
     "lines.draw.pump", "is a pH sensor", "reglo"),
    ("pump twice", "pump: reglo.draw", "pump: reglo.heart",
     "lines.draw.pump", "already drives line “heart”", "another"),
    ("valve behind the heart", "pump: reglo.heart,", "pump: reglo.heart, valve: relay.return_valve,",
     "lines.heart.valve", "the heart goes on against it", "must not depend"),
    ("unknown filter", "filter: sterile", "filter: sterlie",
     "lines.return.filter", "does not exist", "“sterile”"),
    ("unknown valve", "valve: relay.return_valve", "valve: relay.valv",
     "lines.return.valve", "valve", "relay."),
    ("unknown medium", "contains: fresh, volume: 500", "contains: frsh, volume: 500",
     "vessels.reservoir.contains", "is not", "“fresh”"),
    ("too full", "volume: 40 mL", "volume: 55 mL",
     "vessels.loop.volume", "above its ceiling (50 mL)", "Lower"),
    ("too empty", "volume: 40 mL", "volume: 14 mL",
     "vessels.loop.volume", "below its floor (15 mL)", "Raise"),
    ("negative", "floor: 10 mL", "floor: -10 mL",
     "vessels.reservoir.floor", "out of range", "at least 0 uL"),
    ("unknown model", "model: atlas-ezo-do", "model: atlas-ezo-d0",
     "devices.do_loop.model", "no driver", "“atlas-ezo-do”"),
    ("unknown link", 'link: "sim:balance"', 'link: "/dev/ttyUSB0"',
     "devices.balance.link", "no known kind", "serial:///dev/"),
    ("same address", 'address: "2"', 'address: "01"',
     "devices.p_filter.address", "same link and address as “p_heart”", "own"),
    ("no such address", "address: B", "address: BB",
     "devices.gas_co2.address", "no address of", "letter, A to Z"),
    ("unshareable link", 'link: "sim:do_loop"', 'link: "sim:ph_loop"',
     "devices.do_loop.link", "cannot share", "its own"),
    ("two languages", 'link: "sim:gas", address: A', 'link: "sim:rs485", address: A',
     "devices.gas_air.link", "speaks Alicat", "its own"),
    ("channel twice", '"1": {point: return_valve}', '"1": {point: heater}',
     "devices.relay.channels.1.point", "already channel 0", "own name"),
    ("no such channel", '"4": {point: discard', '"5": {point: discard',
     "devices.reglo.channels.5", "no channel 5", "1 to 4"),
    ("probe nowhere", "at: chamber, every", "at: chmber, every",
     "devices.t_chamber.at", "neither a vessel nor a line", "“chamber”"),
    ("simulated among real", 'link: "sim:balance"', "link: tcp://192.0.2.7:4001",
     "devices.balance.link", "15 of 16", "mixed: true"),
    ("basal out of range", "basal: 1.6 mL/min", "basal: 5 mL/min",
     "organs.heart.basal", "outside min to max", "300 uL/min and 4 mL/min"),
    ("unknown line of an organ", "draw: draw", "draw: drawn",
     "organs.kidney.draw", "does not exist", "“draw”"),
    ("temperature as pH", "ph: ph_loop.ph", "ph: t_chamber.temperature",
     "organs.lung.ph", "temperature sensor", "ph_loop.ph or ph_spent.ph"),
    ("interlock without a sensor", "{point: p_heart.pressure", "{point: p_hart.pressure",
     "safety.over_pressure_heart.point", "no device", "“p_heart.pressure”"),
    ("interlock trips a sensor", "trips: [relay.heater]", "trips: [t_chamber.temperature]",
     "safety.temperature.trips.0", "temperature sensor", "relay.heater"),
    ("filter would burst", "high: 80 kPa", "high: 81 kPa",
     "safety.over_pressure_filter.high", "more than filter", "at most 80 kPa"),
    ("set-point trips", "setpoint: 37 degC", "setpoint: 39 degC",
     "organs.skin.setpoint", "outside", "within"),
    ("kind", "kind: loop", "kind: loops",
     "vessels.loop.kind", "“loops” is not known", "“loop”"),
    ("list forgotten", "trips: [relay.heater]", "trips: relay.heater",
     "safety.temperature.trips", "is not a list", "[relay.heater]"),
    ("number for text", "address: A", "address: 1",
     "devices.gas_air.address", "not plain text", '"1"'),
    ("half an electrode", "electrodes: 32", "electrodes: 3.5",
     "nerves.electrodes", "not a whole number", "whole number"),
    ("unknown card", 'link: "sim:array"', 'card: intan\n  link: "sim:array"',
     "nerves.card", "“intan” is not known", "intan-rhx"),
    ("a link to another card", 'link: "sim:array"', "link: tcp://192.0.2.7:5000",
     "nerves.link", "does not lead to a card “simulated”", "choose the card: intan-rhx or open-ephys"),
    ("an option of another card", 'link: "sim:array"', 'options: {waveform_port: 5001}\n  link: "sim:array"',
     "nerves.options.waveform_port", "no option waveform_port", "Remove it"),
    ("RHX without channels", 'link: "sim:array"', "card: intan-rhx\n  link: tcp://192.0.2.7:5000",
     "nerves.card", "needs the option channels", 'channels: ["A-000:A-031"]'),
    ("too few channels", 'link: "sim:array"', 'options: {channels: ["A-000:A-015"]}\n  card: intan-rhx\n  link: "sim:array"',
     "nerves.options.channels", "16 channels are named for 32", "electrodes: 16"),
    ("a channel twice", 'link: "sim:array"', 'options: {channels: [A-000, A-000]}\n  card: intan-rhx\n  link: "sim:array"',
     "nerves.options.channels", "A-000 stands twice", "once"),
    ("raw samples without a scale", 'link: "sim:array"', 'link: file:noise.raw\n  card: playback',
     "nerves.link", "no scale of their own", "gain: 0.195 uV"),
    ("a wild native name", 'link: "sim:array"', 'options: {channels: [A0]}\n  card: intan-rhx\n  link: "sim:array"',
     "nerves.options.channels.0", "A0", ""),
    ("another rate than the simulation", "sample_rate: 25 kHz", "sample_rate: 30 kHz",
     "nerves.sample_rate", "25 kHz, not 30 kHz", "25 kHz"),
    ("a name with a path", "  balance: {model", "  ../etc: {model",
     "devices.../etc", "“../etc” cannot be used", "letters, digits"),
    ("other version", "choroid: 1", "choroid: 2",
     "choroid", "the file has format “2”, this Choroid reads format 1", "Use that release, or write “choroid: 1”"),
    ("a version in quotes", "choroid: 1", "choroid: '1'",
     "choroid", "is a text, not a number", "without quotes"),
    ("a version that is no number", "choroid: 1", "choroid: true",
     "choroid", "“true” is no number", "Write choroid: 1"),
    ("a broker with a scheme", "mqtt: null", "mqtt: {broker: 'mqtt://host'}",
     "telemetry.mqtt.broker", "cannot be used", "host:port"),
    ("no such port", "mqtt: null", "mqtt: {broker: 'host:99999'}",
     "telemetry.mqtt.broker", "99999 is no port", "1 to 65535"),
    ("password in the clear", "mqtt: null", "mqtt: {broker: 192.0.2.7, user: lab, password_file: secret}",
     "telemetry.mqtt.password_file", "in the clear", "tls: true"),
    ("a database without a scheme", "mqtt: null", "influx: {url: 'host:8086', org: lab, bucket: b}",
     "telemetry.influx.url", "cannot be used", "http:// or https://"),
    ("a token in the clear", "mqtt: null", "influx: {url: 'http://192.0.2.7:8086', org: lab, bucket: b, token_file: t}",
     "telemetry.influx.token_file", "in the clear", "https://"),
    ("wild topic", "mqtt: null", "mqtt: {broker: host, prefix: 'lab/#'}",
     "telemetry.mqtt.prefix", "cannot be used", "topic without spaces, # and +"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "old", "new", "key", "what", "fix"), MISTAKES, ids=[mistake[0] for mistake in MISTAKES]
)
def test_D7_a_mistake_is_told_with_file_line_and_fix(
    tmp_path: Path, name: str, old: str, new: str, key: str, what: str, fix: str
) -> None:
    text = changed((old, new))
    found = [problem for problem in problems(tmp_path, text) if problem.key == key]
    assert len(found) == 1
    assert found[0].line == line_of(old, TEXT)
    assert what in found[0].what
    assert fix in found[0].fix


def test_every_mistake_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Also those of names and amounts, although some values cannot be read at all."""
    found = problems(
        tmp_path,
        changed(
            ("count: 16", "count: many"),
            ("contains: fresh, volume: 40 mL", "contains: frsh, volume: 55 mL"),
            ("passive: true", "passive: maybe"),
            ('address: "2"', 'address: "1"'),
            ("electrodes: 32", "electrode: 32"),
            ("trips: [reglo.heart]", "trips: [reglo.hearth]"),
        ),
    )
    assert [problem.key for problem in found] == [
        "tissue.chamber.count",
        "vessels.loop.contains",
        "vessels.loop.volume",
        "lines.overflow.passive",
        "devices.p_filter.address",
        "nerves.electrode",
        "safety.over_pressure_heart.trips.0",
    ]
    assert [problem.line for problem in found] == sorted(problem.line for problem in found)


def test_a_line_left_out_leaves_a_vessel_that_is_never_filled(tmp_path: Path) -> None:
    text = "".join(line for line in TEXT.splitlines(keepends=True) if not line.startswith("  discard:  {from"))
    found = {problem.key: problem for problem in problems(tmp_path, text)}
    waste = found["vessels.waste"]
    assert waste.line == line_of("  waste:     {volume", text)
    assert "never filled" in waste.what
    assert "to: waste" in waste.fix
    assert "pump from nowhere" in found["devices.reglo.channels.4"].what
    assert "does not exist" in found["organs.kidney.discard"].what


def test_a_vessel_that_is_never_emptied(tmp_path: Path) -> None:
    found = problems(
        tmp_path, changed(("  loop:      {", "  extra: {volume: 0 mL, capacity: 5 mL, kind: process}\n  loop:      {"))
    )
    assert [problem.what for problem in found if problem.key == "vessels.extra"] == [
        "vessel “extra” is never filled",
        "vessel “extra” is never emptied",
    ]


def test_the_way_back_cannot_leave_out_the_filter(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, changed(("filter: sterile, ", "")))
    assert (problem.key, problem.fix) == ("lines.return", "Add “filter: sterile”")


def test_C5_mixed_links_need_the_word(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    real = ('link: "sim:balance"', "link: tcp://192.0.2.7:4001")
    path.write_text(changed(real, ("name: bench", "name: bench\nmixed: true")), encoding="utf-8")
    rig = load_rig(path, models=MODELS)
    assert rig.mixed
    assert not rig.simulated


def test_one_line_spelt_in_two_ways_is_one_line(tmp_path: Path) -> None:
    text = changed(
        ("name: bench", "name: bench\nmixed: true"),
        ('link: "sim:ph_loop"', 'link: "serial:///dev/ttyUSB0?baud=9600"'),
        ('link: "sim:ph_spent"', 'link: "serial:///dev/ttyUSB0"'),
    )
    found = problems(tmp_path, text)
    assert ("devices.ph_spent.link", "names the line of “ph_loop” with other settings") in [
        (problem.key, problem.what) for problem in found
    ]


def test_a_third_partys_model_is_taken_at_its_word(tmp_path: Path) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text(changed(("model: mettler-sics", "model: sartorius-cubis")), encoding="utf-8")
    assert load_rig(path, models=[*MODELS, "sartorius-cubis"]).devices["balance"].model == "sartorius-cubis"
