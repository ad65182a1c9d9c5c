"""V1 to V12 as tests: each says what it says, failures included, and says it of this plant."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from choroid.bench.validate import draw, validate
from choroid.cli import main
from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from controller.rig.loading import load_rig
from sim.plant import dialysis, organoid, validation
from sim.plant.verdicts import Validation

EXPECTED = {
    "V1": ("pass", "consistency"),
    "V2": ("fail", "consistency"),
    "V3": ("pass", "prediction"),
    "V4": ("pass", "fit"),
    "V5": ("pass", "prediction"),
    "V6": ("fail", "prediction"),
    "V7": ("fail", "fit"),
    "V8": ("pass", "fit"),
    "V9": ("pass", "consistency"),
    "V10": ("pass", "prediction"),
    "V11": ("pass", "fit"),
    "V12": ("fail", "prediction"),
    "V13": ("pass", "consistency"),
    "V14": ("pass", "consistency"),
    "V15": ("pass", "consistency"),
    "V16": ("pass", "consistency"),
    "V17": ("pass", "consistency"),
    "V18": ("pass", "consistency"),
}
"""As they stand. A verdict that changes is news either way: docs/validation.md has to say it too."""


@pytest.fixture(scope="module")
def found() -> dict[str, Validation]:
    return {each.id: each for each in validation.everything(load_rig(bench_rig()))}


def test_none_is_hidden(found: dict[str, Validation]) -> None:
    assert list(found) == [f"V{number}" for number in range(1, 19)]
    for each in found.values():
        assert all((each.published, each.simulated, each.tolerance, each.source, each.parts))
        if each.verdict == "fail":
            assert each.note, f"{each.id} fails without a reason"


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(found: dict[str, Validation], name: str) -> None:
    each = found[name]
    assert (each.verdict, each.kind) == EXPECTED[name], each


def value(each: Validation, part: int) -> float:
    return each.parts[part].simulated


def test_v1_to_the_third_digit(found: dict[str, Validation]) -> None:
    assert value(found["V1"], 0) == pytest.approx(7.323, abs=0.001)
    assert value(found["V1"], 1) == pytest.approx(7.400, abs=0.001)


def test_v2_without_other_buffer_is_as_derived(found: dict[str, Validation]) -> None:
    """biology.md §1.3: 6.66 from 29 mM, 6.06 from 26 mM."""
    assert value(found["V2"], 1) == pytest.approx(6.66, abs=0.01)
    assert value(found["V2"], 3) == pytest.approx(6.06, abs=0.01)


def test_v3_as_derived(found: dict[str, Validation]) -> None:
    """biology V3: local exponent 0.87 at 7 % (there at 500 µm), 0.76 at 33 %, 0.71 at 60 %."""
    assert value(found["V3"], 2) == pytest.approx(0.76, abs=0.02)
    assert value(found["V3"], 3) == pytest.approx(0.71, abs=0.02)


def test_v4_is_where_v_max_was_tuned_and_moves_with_it() -> None:
    assert organoid.V_MAX == 0.024
    assert 300e-6 < validation.critical_radius_m() < 400e-6
    assert validation.critical_radius_m(0.012) > 400e-6, "the immature default would fail"


def test_v6_as_derived(found: dict[str, Validation]) -> None:
    gains = [dialysis.clearance(800, qb, 800) / dialysis.clearance(800, qb, 500) - 1 for qb in (200, 400)]
    assert gains == pytest.approx([0.020, 0.090], abs=1e-3), "with KoA the same at any flow"
    assert value(found["V6"], 0) == pytest.approx(3.4, abs=0.1)
    assert value(found["V6"], 1) == pytest.approx(13.9, abs=0.1), "with KoA rising as published"


def test_v7_holds_where_it_was_fitted(found: dict[str, Validation]) -> None:
    assert [part.ok for part in found["V7"].parts] == [True] * 5 + [False] * 3


def test_v10_uses_a_quarter_of_the_fresh_medium_and_v12_does_not_die(found: dict[str, Validation]) -> None:
    assert value(found["V10"], 1) > 5.0, "reuse shows in lactate"
    assert value(found["V12"], 0) == 13.0


def test_json_is_one_object_with_all_of_them(
    found: dict[str, Validation], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("choroid.bench.validate.everything", lambda rig: list(found.values()))
    assert main(["validate", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {test["id"]: (test["verdict"], test["kind"]) for test in answer["tests"]} == EXPECTED
    wanted = {"id", "title", "published", "simulated", "tolerance", "verdict", "kind", "source", "note", "parts"}
    assert set(answer["tests"][0]) == wanted
    assert (answer["passed"], answer["failed"]) == (14, 4)
    assert main(["validate"]) == 0
    text = capsys.readouterr().out
    assert "V6   fail    prediction" in text
    assert "14 pass, 4 fail." in text


def test_figures_without_matplotlib_are_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r"choroid\[plots\]"):
        validate(tmp_path)
    assert not list(tmp_path.iterdir())


def test_figures(tmp_path: Path) -> None:
    written = draw([validation.v1(), validation.v5(), validation.v6()], tmp_path / "figures")
    assert [Path(name).name for name in written] == ["V5.png", "V6.png"]
    assert all(Path(name).read_bytes().startswith(b"\x89PNG") for name in written)
