"""Plan and simulate answer photos, assays and approvals; export and report carry what was answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from choroid.export.export import export_records
from choroid.export.writers import sha256_of
from choroid.simulation.plan import as_text, plan
from choroid.simulation.simulate import simulate
from controller.figures.story import person_actions
from controller.journal.reader import JournalReader

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
ASKING = """recipe: 1
name: asking
title: It asks for uploads, an assay and approvals
steps:
  - ask_operator: {message: Photo, answer: photo, default: well.jpg, as: picture}
  - ask_operator: {message: Table, answer: file, types: [csv], as: plate}
  - assay: {analyte: lactate, vessel: loop, as: lactate}
  - approve: {message: Go on, person: other_than_starter, as: first}
  - approve: {message: And on, default: rejected, on_reject: go_on, as: second}
  - note: {kind: seen, text: "lactate {lactate}", values: {first: first, second: second}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "asking.yaml"
    path.write_text(ASKING)
    return path


def test_a_plan_says_what_it_assumes(recipe: Path) -> None:
    found = plan(BENCH, protocol=str(recipe), params={}, hours=1.0, seed=1)
    assert found["feasible"], as_text(found)
    told = [(each["message"], each["answer"], each["because"]) for each in found["assumed"]]
    assert told[0] == ("Photo", "well.jpg", "the declared default")
    assert told[1] == ("Table", "assumed.csv", "no default is declared")
    assert told[2][0] == "Assay lactate in loop"
    assert told[2][2] == "what the simulated medium has"
    assert [each[1] for each in told[3:]] == ["approved", "rejected"]


def test_an_export_carries_the_uploads_and_says_what_is_missing(recipe: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    simulate(BENCH, protocol=str(recipe), days=0.03, seed=1, data=data)
    manifest = export_records(BENCH, data, tmp_path / "out", formats=("csv",))
    photo, table = manifest["uploads"]
    for each in (photo, table):
        assert sha256_of(tmp_path / "out" / each["name"]) == each["sha256"]
    assert (photo["original_name"], photo["media_type"]) == ("well.jpg", "image/jpeg")
    assert table["name"].endswith(".csv")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["uploads"] == manifest["uploads"]
    (data / "attachments" / photo["sha256"]).write_bytes(b"changed")
    (data / "attachments" / table["sha256"]).unlink()
    again = export_records(BENCH, data, tmp_path / "again", formats=("csv",))
    assert [each["problem"] for each in again["uploads"]] == [
        "the content of the file was changed",
        "the file is not in the data folder",
    ]
    assert not (tmp_path / "again" / "attachments").exists()
    reader = JournalReader(data / "journal.db")
    told = [action.what for action in person_actions(reader.entries(kinds=("step.answered",)))]
    assert told[0].startswith("answered step 1 of run-")
    assert photo["sha256"] in told[0]
    assert any("rejected by simulated person (admin)" in each for each in told)
    reader.close()
