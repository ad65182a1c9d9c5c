"""Wiring list and bill of materials, of the shipped rigs and those of other laboratories."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from choroid.cli import main
from choroid.rig_file import bill_of_materials, wiring_list
from choroid.rig_file.bill_of_materials import bill_of
from choroid.rig_file.fleet import described_rig
from choroid.rig_file.wiring_list import wiring_of
from controller.rig.description import Rig
from tests.hazards.files import BENCH, SHIPPED
from tests.rigs.outcomes import RIGS

EVERY = [*SHIPPED, *RIGS]


def _items(rig: Rig, section: str) -> list[str]:
    return [row.item for row in wiring_of(rig) if row.section == section]


@pytest.mark.parametrize("path", EVERY, ids=[path.stem for path in EVERY])
def test_each_device_line_and_output_is_listed_once(path: Path) -> None:
    rig = described_rig(path)
    rows = wiring_of(rig)
    assert _items(rig, "device") == list(rig.devices)
    assert _items(rig, "tubing") == list(rig.lines)
    outputs = {row.item: row for row in rows if row.section == "output"}
    assert len(outputs) == len(_items(rig, "output"))
    for name, line in rig.lines.items():
        row = next(row for row in rows if row.section == "tubing" and row.item == name)
        assert (row.from_.split(",")[0], row.to.split(",")[0]) == (line.from_, line.to)
        assert line.port is None or f"port {line.port}" in f"{row.from_} {row.to}".replace("common port", "")
        assert f"bore {line.bore_mm:g} mm, {line.length_m:g} m" in row.detail
        if line.pump is not None:
            assert f"pump of line {name}" in outputs[line.pump].to
            assert line.pump in row.through
    for name, device in rig.devices.items():
        row = next(row for row in rows if row.section == "device" and row.item == name)
        assert row.from_ == device.link
        for number, channel in device.channels.items():
            assert outputs[f"{name}.{channel.point}"].through == f"channel {number}"
    placed = [row for row in rows if row.section == "probe" and row.from_ != "room"]
    assert {row.to for row in placed} == {
        name for name, device in rig.devices.items() if device.at and name in {row.to for row in placed}
    }
    assert all(rig.devices[row.to].at == row.from_ for row in placed)


@pytest.mark.parametrize("path", EVERY, ids=[path.stem for path in EVERY])
def test_the_bill_has_all_parts_in_their_numbers(path: Path) -> None:
    rig = described_rig(path)
    items = bill_of(rig)
    metres = sum(item.quantity for item in items if item.unit == "m")
    assert metres == pytest.approx(sum(line.length_m for line in rig.lines.values()))
    used = Counter(user for item in items if "(" in item.item for user in item.used_by.split(", "))
    assert all(used[name] == 1 for name in rig.devices)
    models = sum(item.quantity for item in items if item.category not in bill_of_materials.PASSIVE)
    assert models == len(rig.devices)
    vessels = [item for item in items if item.category == "vessel"]
    wells = [name for name in rig.vessels if re.fullmatch(r".+-[A-P][0-9]+", name)]
    plates = {name.rpartition("-")[0] for name in wells}
    assert sum(item.quantity for item in vessels) == len(rig.vessels) - len(wells) + len(plates)


def test_a_line_that_is_removed_disappears_from_both() -> None:
    """The lists come from the file: without the heart's line, its tubing, its pump and its connectors are gone."""
    rig = described_rig(BENCH)
    smaller = rig.model_copy(update={"lines": {name: line for name, line in rig.lines.items() if name != "heart"}})
    assert set(_items(rig, "tubing")) - set(_items(smaller, "tubing")) == {"heart"}
    pump = {row.item: row.to for row in wiring_of(smaller) if row.section == "output"}["reglo.heart"]
    assert pump == "spare"
    before, after = (sum(item.quantity for item in bill_of(each) if item.unit == "m") for each in (rig, smaller))
    assert before - after == pytest.approx(rig.lines["heart"].length_m)
    assert not any("heart" in item.used_by.split(", ") for item in bill_of(smaller))


def test_both_are_printed_as_text_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    for command, columns, key in (
        ("wiring", wiring_list.COLUMNS, "connections"),
        ("bom", bill_of_materials.COLUMNS, "items"),
    ):
        assert main([command, "show", str(BENCH), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["rig"] == "bench"
        assert main([command, "show", str(BENCH), "--csv"]) == 0
        rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
        assert rows[0] == list(columns)
        assert len(rows) == len(answer[key]) + 1
        assert main([command, "show", str(BENCH)]) == 0
        text = capsys.readouterr().out
        assert "bench" in text.splitlines()[0]
        assert all(row["item"] in text for row in answer[key])


def test_a_file_that_describes_no_rig_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rig.yaml"
    path.write_text(BENCH.read_text(encoding="utf-8").replace("to: chamber, pump", "to: chambre, pump"))
    assert main(["wiring", "show", str(path)]) == 1
    assert "chambre" in capsys.readouterr().err
