"""A card of the page that fails leaves the other cards and the rest of the page alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import page_cards


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    (tmp_path / "cards").mkdir()
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    return tmp_path


@pytest.mark.needs("node")
def test_the_failure_of_a_card_stops_no_other(scripts: Path) -> None:
    (scripts / "cards" / "broken.js").write_text(
        'export function start() { throw new Error("no such part"); }', encoding="utf-8"
    )
    (scripts / "cards" / "whole.js").write_text("export function start(rig) { console.log(rig); }", encoding="utf-8")
    (scripts / "cards.js").write_text(page_cards.text(scripts), encoding="utf-8")
    (scripts / "main.js").write_text(
        'import { startCards } from "./cards.js"; globalThis.reportError = console.error; startCards("bench");'
        ' console.log("started");',
        encoding="utf-8",
    )
    done = subprocess.run(["node", str(scripts / "main.js")], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["bench", "started"]
    assert "broken.js" in done.stderr


@pytest.mark.parametrize("name", ["old-functions.js", "2.js"])
def test_a_script_whose_name_is_no_identifier_is_refused(scripts: Path, name: str) -> None:
    (scripts / "cards" / name).write_text("export function start() {}", encoding="utf-8")
    with pytest.raises(SystemExit, match=name):
        page_cards.text(scripts)
