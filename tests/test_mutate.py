"""The judge of the tests is judged: an undetected mutant lowers the score, and a low score fails (J1)."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests import mutate
from tests.mutate import GROUPS, ROOT, Score, config, score


def test_J1_a_mutant_that_no_test_detects_or_reaches_counts_against_the_tests() -> None:
    found = score("kernel", {"a": 1, "b": 0, "c": 33, "d": 5, "e": 36, "f": None, "g": 3})
    assert (found.mutants, found.detected, found.untried) == (6, 3, 1)
    assert found.survivors == ("b", "c", "d")
    assert (found.share, found.timed_out) == (50.0, 1)
    assert score("kernel", {}).share == 0.0, "nothing tried is nothing shown"


@pytest.mark.parametrize(("share", "status"), [(94.9, 1), (95.0, 0)])
def test_J1_a_score_below_the_floor_fails(
    share: float, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Score("kernel", 1000, round(10 * share), ("controller.safety.kernel.x_decide__mutmut_3",))
    monkeypatch.setattr(mutate, "run", lambda name, jobs, every: found)
    assert mutate.main(["kernel", "--json", str(tmp_path / "scores.json")]) == status
    said = capsys.readouterr().out
    assert "x_decide__mutmut_3" in said
    assert ("BELOW" in said) == bool(status)
    assert str(share) in (tmp_path / "scores.json").read_text()


@pytest.mark.parametrize("name", GROUPS)
def test_every_group_names_files_and_tests_that_exist(name: str) -> None:
    group = GROUPS[name]
    settings = tomllib.loads(config(group))["tool"]["mutmut"]
    for pattern in group.files:
        assert list(ROOT.glob(pattern)), pattern
    chosen = [name for name in settings["only_mutate"] if (ROOT / name).is_file()]
    assert chosen == settings["only_mutate"], "every file by its name"
    assert {str(Path(name).parent) for name in chosen} == {str(Path(name).parent) for name in group.files}
    for place in (*group.tests, *(each.partition("::")[0] for each in group.leave_out)):
        assert (ROOT / place).exists(), place
