"""`choroid run` where nothing can be written: what the rig does not depend on keeps it from nothing (D2)."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from choroid.running import endpoint, sinks
from choroid.running.data_folder import ENDPOINT
from choroid.running.guarding import write_plan
from controller.guard.guarding import guard_plan
from controller.guard.plan import GuardPlan
from controller.rig.loading import load_rig

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
RIG = load_rig(EXAMPLE)


def test_D2_the_guards_plan_that_is_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was once written again at each start: emptied first, and then there was no room for it."""

    def no_room(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_plan(RIG, tmp_path)
    monkeypatch.setattr(Path, "write_text", no_room)
    write_plan(RIG, tmp_path)
    assert GuardPlan.from_json((tmp_path / "guard.json").read_text()) == guard_plan(RIG)


def test_D2_an_endpoint_that_cannot_be_left_is_told_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.leave_endpoint(tmp_path, "http://127.0.0.1:1", "secret")
    assert (tmp_path / ENDPOINT).stat().st_mode & 0o777 == 0o600
    endpoint.leave_endpoint(tmp_path / "gone", "http://127.0.0.1:1", "secret")
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert "secret" not in said


async def test_D2_a_sink_without_its_outbox_says_so_and_stops_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = EXAMPLE.read_text().replace("  mqtt: null", '  mqtt: {broker: "127.0.0.1:1883", prefix: choroid}', 1)
    (tmp_path / "rig.yaml").write_text(text)

    def full(path: Path, *, autocheckpoint: bool) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sinks, "Outbox", full)
    (sink,) = sinks.sinks_of(load_rig(tmp_path / "rig.yaml"), tmp_path, "0c9b5a7f21de")
    assert sink.name == "mqtt"
    with pytest.raises(OSError, match="disk I/O error"):
        await sink.live(lambda: None)
