"""The parameters of a plant: they change what they name, and a file of them is read as it was written."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path

import pytest

from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.fitting.priors import PLANT
from choroid.simulation.twin import plant_of, write_twin
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from sim.plant.columns import Content, TallyCause
from sim.plant.fleet import Fleet
from sim.plant.parameters import MAX_OF_PLANT, MAX_OF_TISSUE, PUBLISHED, PlantParameters
from sim.plant.tissue_models import TissueKind, drawn

BENCH = load_rig(bench_rig(), models=MODELS)


def lived(parameters: PlantParameters) -> Fleet:
    """An hour of the bench rig, perfused."""
    fleet = Fleet(BENCH, [1], parameters=parameters)
    fleet.lines["command_ul_min"][0, fleet.line_names.index("heart")] = 2000.0
    fleet.advance(2.0, 1800)
    return fleet


def test_each_parameter_changes_what_it_names() -> None:
    usual = lived(PUBLISHED)
    kind = TissueKind(glucose_uptake=0.0108, ammonia_per_glucose=0.1, growth_per_day=0.4)
    other = lived(PlantParameters(kind, water_loss=2.0, buffer_mm_per_ph=6.0))

    def ratio(cause: int, column: int) -> float:
        return float(other.tally[0, cause, column] / usual.tally[0, cause, column])

    assert ratio(TallyCause.METABOLISM, Content.GLUCOSE) == pytest.approx(2.0, rel=0.01)
    assert ratio(TallyCause.METABOLISM, Content.AMMONIA) == pytest.approx(4.0, rel=0.01)
    assert ratio(TallyCause.EVAPORATION, Content.LIQUID) == pytest.approx(2.0, rel=1e-6)
    loop = usual.vessel_names.index("loop")
    for fleet, capacity in ((usual, 3.0), (other, 6.0)):
        row = fleet.vessels[0, loop]
        assert row[Content.BUFFER] / row[Content.LIQUID] == pytest.approx(capacity, rel=1e-3)
    begun = Fleet(BENCH, [1]).tissues["volume_mm3"][0, 0]
    assert other.tissues["volume_mm3"][0, 0] - begun == pytest.approx(
        10.0 * (usual.tissues["volume_mm3"][0, 0] - begun), rel=0.01
    )


def test_a_twin_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    plant = PlantParameters(TissueKind(glucose_uptake=0.004, demand=0.7), water_loss=1.3, buffer_mm_per_ph=7.5)
    write_twin(tmp_path / "twin.yaml", plant, {"rig": "bench"})
    assert plant_of(str(tmp_path / "twin.yaml")) == plant
    assert plant_of("ageing").tissue.ageing_per_h > 0.0
    assert plant_of("drawn-7").tissue == drawn(7) != drawn(8)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("plant: {tissue: {glucose: 1}}", "glucose is no parameter"),
        ("plant: {water_loss: -1}", "a number from 0 to 100"),
        ("plant: {tissue: 3}", "no mapping"),
        ("vessels: {}", "no mapping “plant”"),
        ("plant: {water_loss: .nan}", "a number from 0 to 100"),
        ("plant: {water_loss: .inf}", "a number from 0 to 100"),
        (f"plant: {{water_loss: {10**400}}}", "a number from 0 to 100"),
        ("plant: {tissue: {glucose_uptake: 5.4}}", "tissue.glucose_uptake is 5.4; it must be a number from 0 to 1"),
        ("plant: {tissue: {glucose_uptake: 0.0054 mol}}", "a number from 0 to 1"),
        ("{", "cannot be used as a twin"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "twin.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=why):
        plant_of(str(path))


def test_each_parameter_has_a_maximum_beyond_what_a_fit_can_answer() -> None:
    assert set(MAX_OF_TISSUE) == {each.name for each in fields(TissueKind)}
    assert {*MAX_OF_PLANT, "tissue"} == {each.name for each in fields(PlantParameters)}
    for each in PLANT:
        assert each.median * math.exp(6.0 * each.spread) < (MAX_OF_TISSUE | MAX_OF_PLANT)[each.name]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match="no model of tissue and no file"):
        plant_of("imaginary")
