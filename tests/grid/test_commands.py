"""X6: the commands of the grid, as an operator uses them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from choroid.cli import main
from grid.hub.owner import owned


def said(capsys: pytest.CaptureFixture[str], *words: str, fails: bool = False) -> str:
    assert main(["grid", *words]) == int(fails)
    found = capsys.readouterr()
    return found.err if fails else found.out


@pytest.fixture
def data(tmp_path: Path) -> Path:
    store = owned(tmp_path / "hub", name="hub.example/log")
    for number in range(12):
        with store.transaction():
            store.note("test", {"n": number})
    store.close()
    return tmp_path / "hub"


def test_a_log_is_shown_exported_proved_and_verified(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ("--data", str(data))
    assert '"n": 11' in said(capsys, "log", "show", "--limit", "1", *here)
    key = json.loads(said(capsys, "log", "show-keys", "--json", *here))["log"]
    said(capsys, "log", "export", str(tmp_path / "out"), *here)
    kept = str(tmp_path / "kept")
    words = ("log", "verify", str(tmp_path / "out"), "--key", key, "--kept", kept)
    assert "sound: 12 rows" in said(capsys, *words)
    assert "sound: 12 rows" in said(capsys, *words)
    assert len(json.loads(said(capsys, "log", "prove", "3", "--json", *here))["proof"]) == 4
    assert "Next: name a row" in said(capsys, "log", "prove", "99", *here, fails=True)
    assert "0 of 1 required" in said(capsys, *words, "--required", "1", fails=True)
    path = tmp_path / "out" / "rows.jsonl"
    path.write_text(path.read_text().replace('"n":3', '"n":4'))
    assert "a row was changed" in said(capsys, *words, fails=True)


def test_X6_an_edited_row_of_the_hub_itself_is_detected(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(data / "hub.sqlite")) as database, database:
        database.execute("UPDATE log SET body = replace(body, '\"n\":5', '\"n\":6') WHERE number = 5")
    assert "row 6: it does not name the hash" in said(capsys, "log", "verify", "--data", str(data), fails=True)


def test_figures_and_errors(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, "hub", "status", "--json", "--data", str(data)))["log_rows"] == 12
    assert "identity" in said(capsys, "member", "list", "--data", str(data))
    assert "lease" in said(capsys, "lease", "list", "--data", str(data))
    assert "there is no member" in said(capsys, "member", "approve", "nemo", "--data", str(data), fails=True)
    assert "there is no lease" in said(capsys, "lease", "end", "x", "--data", str(data), fails=True)
    assert "no folder of a hub" in said(capsys, "hub", "status", "--data", str(tmp_path), fails=True)
    assert "has joined no grid" in said(capsys, "join", "--data", str(tmp_path / "m"), fails=True)
    assert "no address of a hub" in said(capsys, "join", "nonsense", "--data", str(tmp_path / "m"), fails=True)


def test_the_benchmark_measures_a_hub(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "hub", "measure", "--members", "3", "--json"))
    assert (found["members"], found["connected"]) == (3, 3)
    assert min(found[name] for name in ("join_hz", "hub_rss_mb", "lease_p99_ms", "renew_p99_ms")) > 0
    assert 0 <= found["hub_quiet_loop_cpu_pct"] <= found["hub_quiet_cpu_pct"] < 100
