"""`--capture` and `choroid driver replay`: the same calls give the same bytes, and a changed driver is detected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from choroid.simulation.simulate import simulate
from choroid.tools.replaying import replay
from drivers.mettler_sics import MettlerSics
from drivers.registry import MODELS

RIG = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
SHORT_D = 0.004
DRAWN = {"min_batch": "18 mL"}
"""A good loop would be left alone, and no transfer pump would run."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six minutes of the bench rig's life."""
    path = tmp_path_factory.mktemp("capture") / "bench.jsonl"
    plain = dict(MODELS)
    simulate(RIG, protocol="recycle", params=DRAWN, days=SHORT_D, seed=1, progress=False, capture=path)
    assert plain == MODELS  # no driver is watched any more
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_same_calls_give_the_same_bytes(captured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver", "replay", str(captured), "--json"]) == 0
    links = json.loads(capsys.readouterr().out)["links"]
    assert len(links) == 11
    assert all(link["same"] and link["requests"] > 20 and link["calls"] > 20 for link in links)
    pumped = [row["command"] for row in rows(captured) if row.get("do") == "apply"]
    assert {command["command"] for command in pumped} >= {"Run", "Dispense"}


def test_a_capture_of_another_format_is_refused(captured: Path, tmp_path: Path) -> None:
    head, *rest = rows(captured)
    path = tmp_path / "other.jsonl"
    path.write_text("\n".join(map(json.dumps, [head | {"choroid_capture": 2}, *rest])))
    with pytest.raises(UserError, match="is a capture of format 2; this version reads format 1"):
        replay(path)


def test_capturing_changes_nothing(captured: Path, tmp_path: Path) -> None:
    watched = simulate(
        RIG, protocol="recycle", params=DRAWN, days=SHORT_D, seed=1, progress=False, capture=tmp_path / "again.jsonl"
    )
    alone = simulate(RIG, protocol="recycle", params=DRAWN, days=SHORT_D, seed=1, progress=False)
    assert watched["journal_sha256"] == alone["journal_sha256"]
    assert (tmp_path / "again.jsonl").read_bytes() == captured.read_bytes()


def test_a_changed_request_and_a_missing_one_are_found(captured: Path, tmp_path: Path) -> None:
    lines = captured.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if '">":"' in line and '"link":10' in line and n > 100)
    row = json.loads(lines[at])
    changed = tmp_path / "changed.jsonl"
    changed.write_text("\n".join([*lines[:at], json.dumps(row | {">": "5a0d0a"}), *lines[at + 1 :]]))
    answer = replay(changed)
    assert not answer["same"]
    assert [link["link"] for link in answer["links"] if not link["same"]] == ["sim:balance"]
    assert "was 5a 0d 0a (Z<CR><LF>) and is now 53 49 0d 0a (SI<CR><LF>)" in answer["links"][10]["difference"]


def test_another_driver_is_found_out(
    captured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def weigh(self: MettlerSics) -> Any:
        return await self._conversation.ask(b"S\r\n", self.weight)

    monkeypatch.setattr(MettlerSics, "weigh", weigh)
    assert main(["driver", "replay", str(captured)]) == 1
    told = capsys.readouterr().out
    assert "is now 53 0d 0a (S<CR><LF>)" in told
    assert told.count("all the same bytes") == 10


def test_a_file_cut_off_in_its_last_line_is_still_a_capture(captured: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(captured.read_bytes()[:-10])
    assert replay(cut)["same"]


def test_no_capture_and_no_second_one_over_it(captured: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(UserError, match="is not a capture"):
        replay(tmp_path / "x")
    with pytest.raises(UserError, match="exists already"):
        simulate(RIG, protocol="recycle", params={}, days=0.001, seed=1, progress=False, capture=captured)
