"""The judge of starts on a busy machine finds what it should, and lets pass what is true (J1)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.crash.starts_at_load import Starts


def judged(folder: Path, alarms: list[str], log: str, *, degraded: bool = False) -> list[str]:
    data = folder / "data"
    data.mkdir()
    (folder / "run.log").write_text(log)
    if degraded:
        (data / "degraded-1.jsonl").touch()
    starts = Starts.__new__(Starts)
    rows: list[tuple[str, dict[str, Any]]] = [("alarm.raised", {"alarm": each, "detail": "why"}) for each in alarms]
    starts.folder, starts.faults = folder, []
    starts.bench = SimpleNamespace(data=data, rows=lambda *_: rows)  # type: ignore[assignment]
    starts.judge()
    return starts.faults


def test_J1_false_diagnoses_are_found(tmp_path: Path) -> None:
    sound = "nothing starts this controller again when it is lost\nChoroid: rig bench is running; page at http://x\n"
    for name, alarms, log, degraded, fault in (
        ("sound", ["emergency_stop:rig", "not_commissioned:bench"], sound, False, ""),
        ("alarm", ["data_folder_lost:data"], sound, False, "alarm data_folder_lost:data: why"),
        ("words", [], sound + "the data folder hangs\n", False, "standard error: the data folder hangs"),
        ("degraded", [], sound, True, "degraded-1.jsonl"),
    ):
        (tmp_path / name).mkdir()
        found = judged(tmp_path / name, alarms, log, degraded=degraded)
        assert len(found) == bool(fault), name
        assert fault in "".join(found)
