"""The structure that docs/architecture.md promises, and the judge of it."""

from __future__ import annotations

from pathlib import Path

from choroid.common.child import PACKAGES
from tests.structure import complex_blocks, long_constructors, modules, re_exports, shared_names, undescribed


def test_no_two_public_classes_share_a_name() -> None:
    assert shared_names(modules()) == {}


def test_every_name_is_imported_from_its_home() -> None:
    assert re_exports(modules()) == []


def test_no_constructor_has_more_parameters_than_a_reader_can_hold() -> None:
    assert long_constructors(modules()) == []


def test_public_functions_describe_their_parameters_and_results() -> None:
    assert undescribed(modules()) == []


def test_the_judge_sees_a_parameter_that_is_not_described_and_a_result(tmp_path: Path) -> None:
    def described(function: str) -> list[str]:
        file = tmp_path / "choroid" / "client" / "a.py"
        file.write_text(f"class A:\n    {function}\n")
        modules.cache_clear()
        return [each.removeprefix("choroid.client.a.A.") for each in undescribed(modules(tmp_path, ("choroid",)))]

    (tmp_path / "choroid" / "client").mkdir(parents=True)
    whole = '''def f(self, a, *, b) -> int:
        """Do it.

        Args:
            a: Length (mm),
                of the whole.
            b: Width (mm).

        Returns:
            The area (mm²).
        """'''
    lacking = ["f: Args of a, b"]
    assert described(whole) == []
    assert described(whole.replace("b: Width", "c: Width")) == lacking
    assert described(whole.replace("b: Width (mm).", "")) == lacking
    assert described(whole.replace("b: Width (mm).", "b: Width (mm).\n            c: Height (mm).")) == lacking
    assert described(whole.replace("Args:", "It takes:")) == lacking
    assert described(whole.replace("b: Width (mm).", "b:")) == lacking
    assert described(whole.replace("Returns:", "It is:")) == ["f: Returns"]
    assert described(whole.replace("Returns:", "It is:").replace("int:", "None:")) == []
    assert described(whole.replace("def f", "def _f").replace("b: Width", "c: Width")) == []


def test_the_judge_sees_what_choroid_exports_and_nothing_else_of_its_home(tmp_path: Path) -> None:
    (tmp_path / "choroid" / "simulation").mkdir(parents=True)
    functions = 'def simulate(a):\n    """Do it."""\n\n\ndef as_text(a):\n    """Return it."""\n'
    (tmp_path / "choroid" / "simulation" / "simulate.py").write_text(functions)
    assert undescribed(modules(tmp_path, ("choroid",))) == ["choroid.simulation.simulate.simulate: Args of a"]


def test_the_judge_sees_a_shared_name_a_re_export_and_a_complex_function(tmp_path: Path) -> None:
    for package in (*PACKAGES, "tests"):
        (tmp_path / package).mkdir()
    (tmp_path / "drivers" / "a.py").write_text("class Twin: ...\nclass Pump: ...\n")
    (tmp_path / "sim" / "a.py").write_text("class Twin: ...\n")
    (tmp_path / "controller" / "a.py").write_text("from drivers.a import Pump as Other\nclass Pump: ...\n")
    (tmp_path / "choroid" / "a.py").write_text("from controller.a import Other\n")
    (tmp_path / "sim" / "b.py").write_text("def f(): from sim.b import f\n")
    (tmp_path / "sim" / "c.py").write_text("class Long:\n    def __init__(self, a, b, c, d, *, e, f, g, h, i): ...\n")
    branches = "".join(f"    if x == {n}:\n        return {n}\n" for n in range(11))
    (tmp_path / "protocols" / "a.py").write_text(f"def f(x):\n{branches}    return x\n")
    known = modules(tmp_path)
    assert shared_names(known) == {"Pump": ["controller.a", "drivers.a"]}
    assert re_exports(known) == ["choroid.a:1 takes Other from controller.a", "sim.b:1 imports itself"]
    assert long_constructors(known) == ["sim.c.Long: 9"]
    assert long_constructors(known, 9) == []
    assert complex_blocks(known, 10) == ["protocols.a.f: 12"]
    assert complex_blocks(known, 30) == []
