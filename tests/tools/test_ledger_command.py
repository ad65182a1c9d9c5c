"""`choroid ledger show`: contents of the vessels and the way of a lot, read from a journal whose controller has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from choroid.cli import main
from controller.ledger.batches import Batch
from sim.virtual_time import run_virtual
from tests.execution.test_ledger import opened
from tests.execution.world import BENCH, World


@pytest.fixture
def data(tmp_path: Path) -> Path:
    async def live() -> None:
        ledger, journal = opened(tmp_path / "journal.db", World())
        bottle = Batch("NB-7", "fresh", "2026-01-01T00:00:00.000Z", "reservoir", expires_utc="2026-06-01")
        ledger.load(bottle, 500_000.0, 1_000.0, replaces=True, user="anna", reason="a new bottle")
        ledger.moved("feed", 6_000.0, 30.0, "balance")
        journal.close()

    run_virtual(live())
    return tmp_path


def test_F1_the_ledger_and_one_batch_as_text_and_as_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (data / "journal.db").read_bytes()
    assert main(["ledger", "show", str(BENCH), "--data", str(data)]) == 0
    text = capsys.readouterr().out
    assert "reservoir       494.00 ± 1.00 mL   NB-7 100.0%" in text
    assert "lot NB-7 (fresh), into reservoir 2026-01-01T00:00, expires 2026-06-01" in text
    assert main(["ledger", "show", str(BENCH), "--data", str(data), "--batch", "NB-7", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (batch,) = told["batches"]
    assert batch["now_ml"] == {"reservoir": pytest.approx(494.0), "spent": pytest.approx(6.0)}
    assert batch["passed_ml"] == {"feed": 6.0}
    assert (data / "journal.db").read_bytes() == before, "it is only read"
    assert main(["ledger", "show", str(BENCH), "--data", str(data), "--batch", "NB-7"]) == 0
    assert "along feed          6.000 mL" in capsys.readouterr().out


def test_a_batch_or_a_journal_that_is_not_there_is_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "show", str(BENCH), "--data", str(data), "--batch", "NB-8"]) == 1
    assert "no batch has the number “NB-8”" in capsys.readouterr().err
    assert main(["ledger", "show", str(BENCH), "--data", str(data / "nowhere")]) == 1
    assert "no journal" in capsys.readouterr().err


def test_entering_needs_a_running_controller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["vessel", "load", "reservoir", "--lot", "A", "--volume", "1 mL"],
        ["vessel", "measure", "loop", "39 mL", "--within", "1 mL"],
        ["tubing", "list"],
        ["tubing", "replace", "reglo.draw", "--material", "silicone"],
    ):
        assert main([*words, "--data", str(tmp_path)]) == 1
        assert "no running controller is known" in capsys.readouterr().err
