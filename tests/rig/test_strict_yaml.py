"""What a person writes in a YAML file is read as meant, or refused with what to write (Q2)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from choroid.common.child import PACKAGES
from choroid.common.examples import bench_rig
from controller.rig.document import read_document
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from drivers.modbus_generic_reader import BadDescription, parse
from drivers.strict_yaml import MisreadError, YamlTextError, load_yaml, scalar_value
from grid.boards.loading import BoardError, _plain
from tests.structure import ROOT, modules

REFUSED = [
    ("0010", 10, "octal; write 10"),
    ("016", 16, "octal; write 16"),
    ("032", 32, "octal; write 32"),
    ("0200", 200, "octal; write 200"),
    ("010", 10, "octal; write 10"),
    ("089", 89, "octal; write 89"),
    ("00", 0, "octal; write 0"),
    ("-012", -12, "octal; write -12"),
    ("1:30", 90, "90 seconds? write 90"),
    ("1:30:00", 5400, "5400 seconds? write 5400"),
    ("-1:30", -90, "-90 seconds? write -90"),
    ("1:30.5", 90.5, "90.5 seconds? write 90.5"),
    ("yes", True, "write true"),
    ("No", False, "write false"),
    ("on", True, "write true"),
    ("OFF", False, "write false"),
]
READ = [
    ("1e-3", 0.001),
    ("1e5", 100_000.0),
    ("1E5", 100_000.0),
    ("-2.5e3", -2500.0),
    (".5e1", 5.0),
    ("0", 0),
    ("0.5", 0.5),
    ("10", 10),
    ("0x8000", 0x8000),
    ("true", True),
    ("null", None),
    ('"010"', "010"),
    ("'on'", "on"),
    ('"1:30"', "1:30"),
    ("1 mL/min", "1 mL/min"),
    ("loop", "loop"),
    ("07:00", "07:00"),
]


def node_of(text: str, loader: Any = yaml.SafeLoader) -> yaml.Node:
    node = yaml.compose(text, Loader=loader)
    assert isinstance(node, yaml.ScalarNode)
    return node


@pytest.mark.parametrize("loader", [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])])
@pytest.mark.parametrize(("text", "meant", "fix"), REFUSED)
def test_Q2_what_yaml_reads_otherwise_is_refused_with_the_value_meant(
    text: str, meant: float, fix: str, loader: Any
) -> None:
    with pytest.raises(MisreadError) as caught:
        scalar_value(node_of(text, loader))
    assert caught.value.meant == meant
    assert type(caught.value.meant) is type(meant)
    assert fix in caught.value.fix
    assert f'"{text}" in quotes' in caught.value.fix


@pytest.mark.parametrize("loader", [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])])
@pytest.mark.parametrize(("text", "value"), READ)
def test_Q2_the_rest_is_read_as_meant(text: str, value: object, loader: Any) -> None:
    found = scalar_value(node_of(text, loader))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("old", "new", "line_of", "fix"),
    [
        ("full_scale_ml_min: 200", "full_scale_ml_min: 0200", "gas_air", "Octal; write 200"),
        ("tare_g: 0", "tare_g: 010", "balance", "Octal; write 10"),
        ("count: 16", "count: 016", "count", "Octal; write 16"),
        ("electrodes: 32", "electrodes: 032", "electrodes", "Octal; write 32"),
        ("count: 16", "count: 1:30", "count", "90 seconds? write 90"),
        ('address: "1"', "address: 010", "address", "Octal; write 10"),
        ("passive: true", "passive: yes", "overflow", "Write true"),
    ],
)
def test_Q2_a_rig_file_is_refused_by_line(tmp_path: Path, old: str, new: str, line_of: str, fix: str) -> None:
    text = bench_rig().read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "rig.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RigError) as caught:
        load_rig(path)
    problem = next(each for each in caught.value.problems if fix in each.fix)
    assert line_of in path.read_text(encoding="utf-8").splitlines()[problem.line - 1]
    assert not any('"8"' in each.fix for each in caught.value.problems)


DEVICE = "format: 1\nname: own\npoints:\n  v: {function: 3, register: REGISTER, type: f32, unit: kPa, scale: SCALE}\n"


def test_Q2_a_device_description_is_read_by_the_same_reader() -> None:
    text = DEVICE.replace("REGISTER", "10").replace("SCALE", "1e-3").replace("}\n", ", limits: [0, 1e5]}\n")
    point = parse("own", "own.yaml", text).points["v"]
    assert (point.address, point.scale, point.limits) == (10, 0.001, (0.0, 100_000.0))
    with pytest.raises(BadDescription) as caught:
        parse("own", "own.yaml", DEVICE.replace("REGISTER", "0010").replace("SCALE", "1"))
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (4, "points.v.register")
    assert "octal; write 10" in problem.fix


def test_Q2_keys_are_words_whatever_yaml_makes_of_them(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("on: 1\nno: 2\n010: 3\n", encoding="utf-8")
    assert read_document(path).data == {"on": 1, "no": 2, "010": 3}
    assert load_yaml(path.read_text(encoding="utf-8")) == {"on": 1, "no": 2, "010": 3}


@pytest.mark.parametrize(
    "text", ["a: 0010", "a: [1:30]", "a: on", "a: 1\na: 2", "a: &b 1\nc: *b", "a: [", "a: 2026-13-45"]
)
def test_Q2_a_whole_text_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(YamlTextError, match=r"line [12]"):
        load_yaml(text)


def test_Q2_a_board_of_the_grid_is_read_by_the_same_reader() -> None:
    with pytest.raises(BoardError) as caught:
        _plain(node_of("0010"), ("limit",), {}, "board.yaml")
    assert "octal; write 10" in str(caught.value)


READERS = {
    "safe_load",
    "safe_load_all",
    "load",
    "load_all",
    "full_load",
    "unsafe_load",
    "construct_object",
    "SafeConstructor",
}


def other_readers(root: Path = ROOT) -> list[str]:
    """Return the places of the product that turn YAML into values without the strict reader."""
    return [
        f"{module.name}:{line}"
        for module in modules(root, PACKAGES).values()
        if module.name != "drivers.strict_yaml"
        for line in _yaml_calls(module.tree)
    ]


def _yaml_calls(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in READERS:
            base = node.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if (isinstance(base, ast.Name) and base.id == "yaml") or node.attr == "construct_object":
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "yaml":
            yield from (node.lineno for alias in node.names if alias.name in READERS)


def test_Q2_no_other_reader_of_yaml_is_in_the_product() -> None:
    assert other_readers() == []


def test_J1_another_reader_is_found(tmp_path: Path) -> None:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "sim" / "a.py").write_text("import yaml\nx = yaml.safe_load('a: 010')\n")
    (tmp_path / "grid" / "b.py").write_text("from yaml import safe_load\n")
    assert other_readers(tmp_path) == ["sim.a:2", "grid.b:1"]
