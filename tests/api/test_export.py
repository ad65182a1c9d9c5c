"""`choroid export`: every row of the period, with units and hashes, whatever the controller does meanwhile (D5)."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import sys
import tracemalloc
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from choroid.cli import main
from choroid.client.errors import MissingPackage
from choroid.common.failure import UserError
from choroid.export import export
from choroid.export.export import export_records
from choroid.export.tables import tables, utc_text
from choroid.export.writers import CHUNK_ROWS, sha256_of
from choroid.simulation.simulate import simulate
from controller.figures.records import Records
from controller.journal.terms import chain
from controller.memory.history import History
from controller.rig.loading import load_rig
from drivers.commands import Quality
from tests.memory.test_history import BEGIN, EPOCH, reading
from verification.bench.standing_clock import StandingClock

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
TABLES = ("history", "journal", "ledger_transfers", "ledger_vessels", "timeline")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of two hours in which medium was recycled."""
    folder = tmp_path_factory.mktemp("records")
    simulate(BENCH, protocol="exchange", days=0.05, seed=1, data=folder)
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_an_export_is_whole_and_says_what_it_is(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "export"
    assert main(["export", str(BENCH), str(out), "--data", str(data), "--json"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest == json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert {path.name for path in out.iterdir()} == {"manifest.json"} | {file["name"] for file in manifest["files"]}
    for file in manifest["files"]:
        path = out / file["name"]
        assert (file["sha256"], file["bytes"]) == (sha256_of(path), path.stat().st_size)
        assert file["rows"] > 0
        if file["format"] == "csv":
            found = rows_of(path)
            assert len(found) == file["rows"]
            assert list(found[0]) == [column["name"] for column in file["columns"]]
    assert manifest["journal"]["problem"] is None
    assert manifest["series"]["ph_loop.ph"] == "pH"
    for path, count in (("history.db", "SELECT (SELECT count(*) FROM raw) + (SELECT count(*) FROM doubted)"),
                        ("journal.db", "SELECT count(*) FROM entries")):  # fmt: skip
        with closing(sqlite3.connect(data / path)) as db, db:
            (number,) = db.execute(count).fetchone()
        (file,) = (each for each in manifest["files"] if each["name"] == path.replace(".db", ".csv"))
        assert file["rows"] == number
        db.close()


def test_csv_and_parquet_hold_the_same(data: Path, tmp_path: Path) -> None:
    manifest = export_records(BENCH, data, tmp_path / "export")
    for name in TABLES:
        text = rows_of(tmp_path / "export" / f"{name}.csv")
        table = pq.read_table(tmp_path / "export" / f"{name}.parquet")
        columns = next(each["columns"] for each in manifest["files"] if each["table"] == name)
        assert table.num_rows == len(text)
        for column in columns:
            field = table.schema.field(column["name"])
            assert field.metadata[b"unit"].decode() == column["unit"]
            for in_csv, in_parquet in zip(text, table.column(column["name"]).to_pylist(), strict=True):
                assert same(in_csv[column["name"]], in_parquet, column["type"])


def same(text: str, value: Any, kind: str) -> bool:
    if text == "":
        return value in (None, "")
    if kind == "time":
        return bool(datetime.fromisoformat(text) == value)
    return bool(float(text) == value if kind in ("number", "integer") else text == value)


def test_the_journals_chain_can_be_checked_from_the_csv_alone(data: Path, tmp_path: Path) -> None:
    manifest = export_records(BENCH, data, tmp_path / "export", formats=["csv"])
    rows = rows_of(tmp_path / "export" / "journal.csv")
    for before, row in pairwise(rows):
        told = int(row["seq"]), float(row["at_s"]), row["utc"], row["kind"], row["run"] or None, row["body"]
        assert chain(before["sha256"], *told) == row["sha256"]
    assert rows[-1]["sha256"] == manifest["journal"]["head_sha256"]


def test_the_ledger_of_the_period_adds_up(data: Path, tmp_path: Path) -> None:
    export_records(BENCH, data, tmp_path / "export", formats=["csv"])
    transfers = rows_of(tmp_path / "export" / "ledger_transfers.csv")
    vessels = rows_of(tmp_path / "export" / "ledger_vessels.csv")
    begin, end = ({row["vessel"]: float(row["volume_ul"]) for row in vessels if row["utc"] == utc} for utc in
                  (vessels[0]["utc"], vessels[-1]["utc"]))  # fmt: skip
    assert begin.keys() == end.keys()
    taken = sum(float(row["moved_ul"]) for row in transfers if row["line"] == "feed")
    assert taken > 1000.0
    assert begin["reservoir"] - end["reservoir"] == pytest.approx(taken, rel=0.05)


def test_a_period_is_cut_to_the_millisecond(data: Path, tmp_path: Path) -> None:
    whole = export_records(BENCH, data, tmp_path / "whole", formats=["csv"])
    cut = utc_text(datetime.fromisoformat(whole["from_utc"]).timestamp() + 3600.0)
    first = export_records(BENCH, data, tmp_path / "first", end=cut, formats=["csv"])
    second = export_records(BENCH, data, tmp_path / "second", begin=cut, formats=["csv"])
    for n, table in enumerate(TABLES[:3]):
        assert first["files"][n]["rows"] + second["files"][n]["rows"] == whole["files"][n]["rows"], table
        assert first["files"][n]["rows"] > 0
    assert second["files"][0]["rows"] > 0
    assert second["files"][1]["rows"] > 0
    last = export_records(BENCH, data, tmp_path / "last", begin="30min", formats=["csv"])
    assert last["to_utc"] == whole["to_utc"]


def test_the_same_records_give_the_same_export(data: Path, tmp_path: Path) -> None:
    first, again = (export_records(BENCH, data, tmp_path / name) for name in ("first", "again"))
    assert first == again


def test_doubted_readings_and_an_old_unit_are_kept(data: Path, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes((data / "journal.db").read_bytes())
    clock = StandingClock(EPOCH, 1000.0)
    history = History(tmp_path / "history.db", clock)
    history.insert("a.x", "mmHg", [(BEGIN + 1.0, 7.0)])
    history.insert("a.x", "kPa", [(BEGIN + 2.0, 1.0), (BEGIN + 4.0, 3.0)])
    clock.at_s = 3.0
    history.add(3.0, "", {"a.x": reading(99.0, 3.0, Quality.SUSPECT)})
    history.close()
    export_records(BENCH, tmp_path, tmp_path / "export", formats=["csv"])
    found = [(row["value"], row["unit"], row["quality"]) for row in rows_of(tmp_path / "export" / "history.csv")]
    assert found == [
        ("7.0", "mmHg", "good"),
        ("1.0", "kPa", "good"),
        ("99.0", "kPa", "suspect"),
        ("3.0", "kPa", "good"),
    ]


def test_a_controller_that_writes_is_neither_held_up_nor_in_the_export(data: Path, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes((data / "journal.db").read_bytes())
    history = History(tmp_path / "history.db", StandingClock(EPOCH, 1000.0))
    history.insert("balance.mass", "g", ((BEGIN + n / 10, 1.0) for n in range(25_000)))
    records = Records(tmp_path)
    rows = iter(tables(load_rig(BENCH), records, BEGIN, BEGIN + 1e6)[0].rows)
    first = [next(rows) for _ in range(CHUNK_ROWS)]
    history.insert("balance.mass", "g", [(BEGIN + 2499.95, -1.0)])  # no lock: this returns at once
    assert history.problem is None
    rest = list(rows)
    assert len(first) + len(rest) == 25_000
    assert all(row[2] == 1.0 for row in rest)
    records.close()
    history.close()


def test_D5_memory_does_not_grow_with_the_export(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "CHUNK_ROWS", 2000)
    peaks = []
    for rows in (8_000, 24_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        (folder / "journal.db").write_bytes((data / "journal.db").read_bytes())
        history = History(folder / "history.db", StandingClock(EPOCH, 1000.0))
        history.insert("balance.mass", "g", ((BEGIN + n, n / 8) for n in range(rows)))
        history.close()
        tracemalloc.start()
        manifest = export_records(BENCH, folder, folder / "export", formats=["csv"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert manifest["files"][0]["rows"] == rows
    assert peaks[1] < 1.2 * peaks[0]


def test_what_cannot_be_done_is_said_and_leaves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "export"
    with pytest.raises(UserError, match="no journal at"):
        export_records(BENCH, tmp_path, out)
    with pytest.raises(UserError, match="nothing is recorded between"):
        export_records(BENCH, data, out, begin="2020-01-01T00:00Z", end="2020-01-02T00:00Z")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("irreplaceable")
    with pytest.raises(UserError, match="exists and is not empty"):
        export_records(BENCH, data, tmp_path / "mine")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(MissingPackage, match="pip install pyarrow"):
            export_records(BENCH, data, out)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_of_the_users_is_never_touched(data: Path, tmp_path: Path) -> None:
    for name in ("export.part", ".export", "export.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("irreplaceable")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    export_records(BENCH, data, tmp_path / "new" / "export", formats=["csv"])
    shutil.rmtree(tmp_path / "new")
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
