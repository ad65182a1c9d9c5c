"""The light plant against the plant, with the same inputs; and a data folder as a fit reads it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.fitting.model import LightTwin
from choroid.fitting.observations import Observation, enough
from choroid.fitting.priors import PLANT, parameters
from choroid.fitting.records import FitRecords, recorded
from choroid.fitting.series import DAY_S
from choroid.fitting.steps import laid_out
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from sim.plant import chemistry
from sim.plant.circulating import LOOP, SPENT, InputColumn, SeenColumn
from sim.plant.columns import Content
from sim.plant.fleet import Fleet
from sim.plant.parameters import PlantParameters
from sim.plant.tissue_models import TissueKind
from verification.bench.fitting import cultured, drawn

BENCH = load_rig(bench_rig(), models=MODELS)
O2, CO2 = 0.19, 0.065


@pytest.mark.parametrize("kind", [TissueKind(), TissueKind(glucose_uptake=0.012, demand=1.6, ammonia_per_glucose=0.1)])
def test_it_agrees_with_the_plant(kind: TissueKind) -> None:
    days = 1.5
    fleet = Fleet(BENCH, [1], parameters=PlantParameters(kind))
    fleet.lines["gain"][:] = 1.0
    fleet.lines["command_ul_min"][0, fleet.line_names.index("heart")] = 2000.0
    fleet.spaces["ambient_c"], fleet.spaces["temperature_c"] = 37.0, 37.0
    fleet.spaces["o2_fraction"], fleet.spaces["co2_fraction"] = O2, CO2
    fleet.advance(2.0, round(days * DAY_S / 2.0))
    loop, chamber = (fleet.vessel_names.index(name) for name in ("loop", "chamber"))
    row = fleet.vessels[0, loop] + fleet.vessels[0, chamber]

    end = Observation(days * DAY_S, "lactate", "assays of lactate", "assay", LOOP, SeenColumn.LACTATE, 0.0, 0.1)
    steps, moves, place = laid_out(days * DAY_S, [], [end])
    steps[:, InputColumn.TEMPERATURE_C], steps[:, InputColumn.FLOW] = 37.0, 1.0
    steps[:, InputColumn.O2_FRACTION], steps[:, InputColumn.CO2_FRACTION] = O2, CO2
    made = FitRecords(
        BENCH, 0.0, days, list(BENCH.media), (42_000.0, 3000.0), None, 7.4, steps, moves, [end], place, []
    )
    chosen = parameters(made)
    z = np.zeros((1, len(chosen)))
    wanted = {
        "glucose_uptake": kind.glucose_uptake, "demand": kind.demand, "ammonia_per_glucose": kind.ammonia_per_glucose,
        "flow": 0.95,  # tubing of two days, and the pressure of the tube
    }  # fmt: skip
    for number, each in enumerate(chosen):
        z[0, number] = np.log(wanted.get(each.name, each.median) / each.median) / each.spread
    out, _ = LightTwin(made, chosen).course(z)
    light, spent = out[0, -1, LOOP], out[0, -1, SPENT]

    used = 21.0 - row[Content.GLUCOSE] / row[Content.LIQUID]
    assert 21.0 - light[SeenColumn.GLUCOSE] == pytest.approx(used, rel=0.03)
    assert light[SeenColumn.LACTATE] == pytest.approx(row[Content.LACTATE] / row[Content.LIQUID], rel=0.03)
    assert light[SeenColumn.AMMONIA] == pytest.approx(row[Content.AMMONIA] / row[Content.LIQUID], rel=0.03)
    assert light[SeenColumn.VOLUME] == pytest.approx(row[Content.LIQUID], rel=1e-3)
    assert light[SeenColumn.PH] == pytest.approx(float(fleet.ph[0, loop]), abs=0.01)
    oxygen = 100.0 * fleet.vessels[0, chamber, Content.OXYGEN] / fleet.vessels[0, chamber, Content.LIQUID]
    assert spent[SeenColumn.OXYGEN] == pytest.approx(oxygen / chemistry.AIR_SATURATION_MM, abs=2.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of two days of a synthetic rig."""
    made = tmp_path_factory.mktemp("fitted")
    return cultured(bench_rig(), 5, 2.0, 0.5, made)


def test_a_data_folder_is_read(folder: Path) -> None:
    found = recorded(BENCH, folder / "journal.db")
    signals = [each.signal for each in found.observations]
    assert signals.count("lactate") == signals.count("osmolality") == 4
    assert signals.count("pH on line") == 8
    assert not found.warnings
    assert 35_000.0 < found.volumes_ul[LOOP] < 45_000.0
    back = [move for move in found.moves if (move[1], move[2]) == (SPENT, LOOP)]
    drawn_off = [move for move in found.moves if (move[1], move[2]) == (LOOP, SPENT)]
    assert len(drawn_off) == 5
    assert sum(move[3] for move in back) == pytest.approx(sum(move[3] for move in drawn_off), rel=0.1)
    chosen = parameters(found)
    truth = drawn(5)[1]
    z = np.zeros((1, len(chosen)))
    z[0, : len(PLANT)] = [np.log(truth[each.name] / each.median) / each.spread for each in PLANT]
    exact = LightTwin(found, chosen).observed(z)[0]
    for each, value in zip(found.observations, exact, strict=True):
        if each.kind == "assay":
            assert value == pytest.approx(each.value, abs=4.0 * each.sd + 0.02 * each.value), each


def test_the_journal_of_another_rig_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    _write(other, "controller.started", '{"rig":"tank","rig_hash":"0","version":"0.1.0"}')
    with pytest.raises(UserError, match="the journal is of the rig tank"):
        recorded(BENCH, other)


def test_data_of_two_tissues_are_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    _write(other, "tissue.removed", _removed(8))
    with pytest.raises(UserError, match="data of two tissues"):
        recorded(BENCH, other)


def test_the_advice_for_data_of_two_tissues_can_be_followed(folder: Path, tmp_path: Path) -> None:
    """The later period begins with the first estimate in it: one from before would miss what was moved since."""
    other = shutil.copytree(folder, tmp_path / "other")
    _write(other, "tissue.removed", _removed(6), utc="2026-01-01T06:30:42.000Z")
    with pytest.raises(UserError, match="data of two tissues") as caught:
        recorded(BENCH, other)
    advised = str(caught.value).partition("--from ")[2].partition(" ")[0]
    later = recorded(BENCH, other, begin=advised)
    assert advised == "2026-01-01T06:31Z"
    assert datetime(2026, 1, 1, 6, 31, tzinfo=UTC).timestamp() < later.begin
    assert later.begin <= datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
    assert later.rig.tissue["chamber"].count == 10, "the tissue that was left"
    assert later.start is not None
    assert 0.2 < later.start["lactate_mm"][0] < 8.0
    assert any("after the begin of the period" in text for text in later.warnings)
    whole = recorded(BENCH, folder)
    assert whole.rig.tissue["chamber"].count == 16
    assert len(later.observations) < len(whole.observations)
    _write(other, "handover.taken", "{}", utc="2026-01-01T18:00:00.000Z")
    with pytest.raises(UserError, match=r"handover.taken.*data of two tissues"):
        recorded(BENCH, other, begin=advised)


def test_the_volume_of_a_sample_leaves_the_loop(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    body = {"vessel": "loop", "ul": 500.0, "sd_ul": 15.0, "taken_utc": "2026-01-01T12:00:00+00:00"}
    _write(other, "ledger.sampled", json.dumps({**body, "missing": {"loop": 1.0}, "contained": []}))
    taken = [move for move in recorded(BENCH, other).moves if (move[1], move[3]) == (LOOP, 500.0)]
    assert [move[2] for move in taken] == [-1.0]
    assert len(recorded(BENCH, other).moves) == len(recorded(BENCH, folder).moves) + 1


def test_too_little_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match=r"the period has 0\.83 days of records; a fit needs 1 or more"):
        recorded(BENCH, folder, end="2026-01-01T20:00Z")
    with pytest.raises(
        UserError, match=r"days of records from the first estimate of the medium in it on \(2026-01-02 "
    ):
        recorded(BENCH, folder, begin="20h", end="end")
    with pytest.raises(UserError, match="at 1 moments only"):  # a minute less than a day is a day
        recorded(BENCH, folder, end="2026-01-01T23:59:00Z")
    with pytest.raises(UserError, match="never measured"):
        enough([])
    with pytest.raises(UserError, match="at 1 moments only"):
        enough([Observation(1.0, "lactate", "assays of lactate", "assay", LOOP, SeenColumn.LACTATE, 1.0, 0.1)] * 5)


def test_a_gap_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    with closing(sqlite3.connect(other / "history.db")) as history, history:
        history.execute(
            "DELETE FROM rollup WHERE bucket * level > 1767225600 + 30000 AND bucket * level < 1767225600 + 150000"
        )
    history.close()
    with pytest.raises(UserError, match="has a gap of 3"):
        recorded(BENCH, other)


def test_a_rig_without_a_loop_is_refused(folder: Path) -> None:
    wells = load_rig(bench_rig().with_name("selector_wells.yaml"), models=MODELS)
    with pytest.raises(UserError, match="no loop"):
        recorded(wells, folder)


def test_a_period_after_all_tissue_was_removed_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    _write(other, "tissue.removed", _removed(16), utc="2026-01-01T06:30:42.000Z")
    with pytest.raises(UserError, match=r"no tissue was in the circulating medium \(loop, chamber\)"):
        recorded(BENCH, other, begin="2026-01-01T07:00Z")


def test_rows_of_a_vessel_that_the_rig_file_no_longer_has_are_left_out(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    body = {"vessel": "flask", "ul": 500.0, "sd_ul": 15.0, "lot": "", "replaces": False}
    _write(other, "ledger.loaded", json.dumps(body), utc="2026-01-01T12:00:00.000Z")
    assert len(recorded(BENCH, other).moves) == len(recorded(BENCH, folder).moves)


def test_a_loop_that_is_empty_at_the_begin_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    with closing(sqlite3.connect(other / "journal.db")) as journal, journal:
        journal.execute("DROP TRIGGER entries_are_not_edited")
        journal.execute(
            "UPDATE entries SET body = json_set(body, '$.loop', 0.0, '$.chamber', 0.0) WHERE kind = 'ledger.opened'"
        )
    journal.close()
    with pytest.raises(UserError, match="loop and chamber were empty"):
        recorded(BENCH, other)


def _removed(count: int) -> str:
    """Return the body of a row that says so many of the organoids were taken out."""
    spec = BENCH.tissue["chamber"]
    described = {"chamber": spec.model_dump(mode="json")}
    return json.dumps({"chamber": "chamber", "count": count, "left": spec.count - count, "described": described})


def _write(folder: Path, kind: str, body: str, *, utc: str = "2026-01-02T00:00:00.000Z") -> None:
    """Add a row to a journal, half way."""
    with closing(sqlite3.connect(folder / "journal.db")) as journal, journal:
        journal.execute(
            "INSERT INTO entries (at_s, utc, kind, run, body, hash) VALUES (86400, ?, ?, NULL, ?, '')",
            (utc, kind, body),
        )
    journal.close()
