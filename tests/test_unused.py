"""The judge of unused code sees a function that nothing calls, and leaves alone one that is called."""

from __future__ import annotations

from pathlib import Path

from tests.unused import unused


def test_a_function_that_nothing_calls_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "drivers"
    folder.mkdir()
    (folder / "pump.py").write_text("def stop() -> None: ...\n\n\ndef forgotten() -> None: ...\n\n\nstop()\n")
    assert unused([folder]) == ["drivers/pump.py:forgotten"]
