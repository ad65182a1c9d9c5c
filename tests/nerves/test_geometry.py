"""The geometry of an array on its way: from the rig file through the card process to detection, recording and readers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spikeinterface.core as si
from probeinterface import ProbeGroup

from choroid.common.array_geometry import agreed_geometry, declared_geometry
from choroid.running.card_process import CardProcess
from choroid.running.cards import open_card
from choroid.running.nerves_handle import card_config
from choroid.running.own_replay import open_recording
from choroid.running.simulated_card import ASSUMED
from controller.rig.description import Nerves
from nerves.cards.contract import CardRefused
from nerves.cards.geometry import ArrayGeometry
from nerves.detector import Detection
from nerves.recording.recorded import ArrayRecording
from sim.neurons.array import SimulatedArray
from tests.nerves.recording.record import recorded_bench

GRID = {"grid": {"columns": 2, "pitch": "120 um"}, "module": "chip", "reference": "ring"}
SCATTERED = ArrayGeometry(
    x_um=(0.0, 31.5, -70.25, 4000.0),
    y_um=(0.0, 88.0, 12.0, -500.0),
    shape=("circle", "square", "rect", "circle"),
    width_um=(30.0, 28.0, 40.0, 30.0),
    height_um=(30.0, 28.0, 20.0, 30.0),
    shank=("a", "a", "a", "b"),
    pad=("A1", "A2", "A3", "B1"),
    module="chip",
    reference="ring",
    source="rig file",
)


def nerves(**keys: Any) -> Nerves:
    said = {"link": "sim:array", "electrodes": 4, "sample_rate": "25 kHz", "diameter": "30 um"} | keys
    return Nerves.model_validate(said)


TWO_PROBES = replace(SCATTERED, pad=("A1", "A2", "A1", "0 A1"), shank=("probe 0", "probe 0", "probe 1", "probe 1"))


@pytest.mark.parametrize("geometry", [SCATTERED, TWO_PROBES, ArrayGeometry.grid(9, 3, 200.0, 30.0, source="x")])
def test_a_geometry_is_the_same_packed_and_in_the_form_of_probeinterface(geometry: ArrayGeometry) -> None:
    assert ArrayGeometry.unpacked(geometry.packed()) == geometry
    assert ArrayGeometry.of_probegroup(geometry.probegroup()) == geometry
    read = ProbeGroup.from_dict(geometry.probegroup())
    (probe,) = read.probes
    assert np.array_equal(probe.contact_positions, geometry.positions_um())
    if geometry is not TWO_PROBES:  # whose contacts share names, which probeinterface refuses
        assert probe.contact_ids.tolist() == list(geometry.pad)
    assert probe.device_channel_indices.tolist() == list(range(len(geometry.x_um)))


def test_the_geometry_of_the_largest_array_fits_a_command_line() -> None:
    """The kernel takes no word of 128 kB or more, and no message of 200 kB."""
    rng, count = np.random.default_rng(0), 4096
    x_um, y_um = (tuple(rng.uniform(-9999, 9999, count).round(2).tolist()) for _ in range(2))
    names = tuple(f"E{number}" for number in rng.permutation(count))
    geometry = replace(
        ArrayGeometry.grid(count, 64, 10.0, 5.0),
        x_um=x_um,
        y_um=y_um,
        pad=names,
        shank=tuple(name[:2] for name in names),
    )
    assert len(geometry.packed()) < 100_000


def test_the_pitch_of_a_geometry_is_the_smallest_distance_and_what_detection_goes_by() -> None:
    assert SCATTERED.pitch_um == pytest.approx(np.hypot(70.25, 12.0))
    assert Detection.of("50 Hz", "ground", geometry=SCATTERED).pitch_um == SCATTERED.pitch_um
    assert Detection.of("50 Hz", "ground", 60.0, 200.0, geometry=SCATTERED).pitch_um == 200.0
    alone = ArrayGeometry.grid(1, 1, 200.0, 30.0)
    assert Detection.of("50 Hz", "ground", geometry=alone) == Detection()


def test_a_declared_geometry_comes_out_of_the_card_process_and_the_tissue_is_under_its_electrodes() -> None:
    card = CardProcess(card_config(nerves(geometry=GRID), 1, Path()))
    try:
        found = card.info.geometry
    finally:
        card.close()
    assert found == declared_geometry(nerves(geometry=GRID))
    assert found is not None
    assert (found.x_um, found.module, found.source) == ((0.0, 120.0, 0.0, 120.0), "chip", "rig file")
    dense = SimulatedArray(4, 1, positions_um=found.positions_um())
    assert np.array_equal(dense.culture.electrode_um, found.positions_um())
    assert np.ptp(dense.culture.position_um[:, 0]) < np.ptp(SimulatedArray(4, 1).culture.position_um[:, 0])


def test_the_names_of_the_rig_file_stand_above_those_that_a_card_knows() -> None:
    declared = replace(SCATTERED, pad=("a", "b", "c", "d"))
    assert agreed_geometry(SCATTERED, {"geometry": declared.packed()}) == declared
    assert agreed_geometry(SCATTERED, {}) == SCATTERED


@pytest.mark.parametrize("card", ["simulated", "intan-rhx"])
def test_a_simulated_array_without_a_geometry_has_one_that_says_that_it_is_assumed(card: str) -> None:
    opened = open_card(card_config(nerves(card=card), 1, Path()))
    try:
        found = opened.geometry
        assert found is not None
        assert found.source == ASSUMED
        assert np.array_equal(found.positions_um(), SimulatedArray(4, 1).culture.electrode_um)
    finally:
        opened.card.close()
        opened.close()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> ArrayRecording:
    with recorded_bench(tmp_path_factory.mktemp("geometry") / "recordings", geometry=SCATTERED) as lab:
        lab.begin()
        lab.run(0.5)
        return lab.end()


def test_spikeinterface_reads_the_probe_of_a_recording(recording: ArrayRecording) -> None:
    assert recording.geometry == SCATTERED
    assert "geometry" not in recording.attributes["array"]
    probe = si.read_zarr(recording.path).get_probe()
    assert np.array_equal(probe.contact_positions, SCATTERED.positions_um())
    assert probe.contact_shapes.tolist() == list(SCATTERED.shape)
    assert probe.contact_shape_params.tolist() == [
        {"radius": 15.0}, {"width": 28.0}, {"width": 40.0, "height": 20.0}, {"radius": 15.0},
    ]  # fmt: skip
    assert probe.shank_ids.tolist() == list(SCATTERED.shank)
    assert probe.annotations["reference"] == "ring"


def test_a_replay_has_the_geometry_of_its_recording_and_one_that_contradicts_it_is_refused(
    recording: ArrayRecording,
) -> None:
    assert open_recording(recording.path).geometry == SCATTERED
    link = f"file:{recording.path}".replace("file:/", "file:///")
    opened = open_card(card_config(nerves(card="playback", link=link), 1, Path()))
    assert opened.geometry == SCATTERED
    opened.card.close()
    with pytest.raises(CardRefused, match=r"electrode 1 is at 31\.5, 88 µm against 120, 0 µm"):
        open_card(card_config(nerves(card="playback", link=link, geometry=GRID), 1, Path()))
