"""The geometry of an electrode array in a rig file: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probeinterface import Probe, ProbeGroup, write_probeinterface

from controller.rig.description import Nerves
from controller.rig.geometry_rules import places
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
ARRAY = "  electrodes: 32\n"
GRID = "  geometry: {grid: {columns: 8, pitch: 200 um}}\n"


def described(tmp_path: Path, geometry: str, *, electrodes: int = 4) -> Nerves:
    """Return the nerves of the bench with a geometry."""
    path = tmp_path / "rig.yaml"
    path.write_text(BENCH.read_text(encoding="utf-8").replace(ARRAY, f"  electrodes: {electrodes}\n{geometry}"))
    nerves = load_rig(path).nerves
    assert nerves is not None
    return nerves


def inline(*electrodes: str) -> str:
    return "  geometry:\n    electrodes:\n" + "".join(f"      - {{{each}}}\n" for each in electrodes)


def square(**changes: Any) -> Probe:
    """Return four discs of 30 µm, 200 µm apart, on channels 3 to 0."""
    probe = Probe(ndim=2, si_units="um")
    probe.set_contacts(
        positions=np.array([[0, 0], [200, 0], [0, 200], [200, 200]], float) * changes.get("scale", 1.0),
        shapes="circle",
        shape_params={"radius": 15.0 * changes.get("scale", 1.0)},
        contact_ids=["A1", "A2", "B1", "B2"],
        shank_ids=changes.get("shanks"),
    )
    if (channels := changes.get("channels", [3, 2, 1, 0])) is not None:
        probe.set_device_channel_indices(channels)
    probe.annotate(manufacturer="maker", model_name="square-4")
    return probe


def probe_file(tmp_path: Path, *probes: Probe) -> str:
    group = ProbeGroup()
    for probe in probes:
        group.add_probe(probe)
    write_probeinterface(tmp_path / "probe.json", group)
    return "  geometry: {file: probe.json, reference: ring}\n"


def test_a_grid_is_read_row_by_row(tmp_path: Path) -> None:
    found = places(described(tmp_path, GRID, electrodes=32))
    assert [(each.x_um, each.y_um) for each in found[:9]][-2:] == [(1400.0, 0.0), (0.0, 200.0)]
    assert len(found) == 32


def test_electrodes_are_brought_into_the_order_of_their_channels(tmp_path: Path) -> None:
    nerves = described(
        tmp_path,
        inline(
            "x: 0 um, y: 0 um, channel: 1, pad: A1",
            "x: 0.2 mm, y: 0 um, channel: 0, pad: A2, shape: square, width: 40 um",
            "x: 0 um, y: 200 um, channel: 3, shank: left",
            "x: 200 um, y: 200 um, channel: 2",
        ),
    )
    found = places(nerves)
    assert [(each.x_um, each.y_um) for each in found] == [(200.0, 0.0), (0.0, 0.0), (200.0, 200.0), (0.0, 200.0)]
    assert [each.pad for each in found] == ["A2", "A1", "", ""]
    assert (found[0].shape, found[0].width_um, found[3].shank) == ("square", 40.0, "left")


def test_a_file_of_probeinterface_is_read_with_its_channel_map_and_is_part_of_the_hash(tmp_path: Path) -> None:
    nerves = described(tmp_path, probe_file(tmp_path, square(shanks=["0", "0", "1", "1"])))
    assert nerves.geometry is not None
    assert (nerves.geometry.module, nerves.geometry.reference) == ("maker square-4", "ring")
    assert [each.pad for each in places(nerves)] == ["B2", "B1", "A2", "A1"]
    assert [each.shank for each in places(nerves)] == ["1", "1", "0", "0"]
    first = effective_hash(load_rig(tmp_path / "rig.yaml"))
    described(tmp_path, probe_file(tmp_path, square(channels=[0, 1, 2, 3])))
    assert effective_hash(load_rig(tmp_path / "rig.yaml")) != first


def test_lengths_in_another_unit_of_probeinterface_are_converted(tmp_path: Path) -> None:
    probe = square(scale=0.001)
    probe.si_units = "mm"
    assert places(described(tmp_path, probe_file(tmp_path, probe)))[0].x_um == 200.0


@pytest.mark.parametrize(
    ("shape", "size", "found"),
    [
        ("rect", {"width": 40.0, "height": 20.0}, (40.0, 20.0)),
        ("rect", {"width": 40.0, "height": 10.0}, "electrode 0 has 400 um²"),
        ("square", {"width": 28.0}, (28.0, None)),  # a disc of this width is too small
        ("circle", {"radius": 14.0}, "electrode 0 has 615.8 um²"),
    ],
)
def test_the_area_of_an_electrode_of_a_file_is_that_of_its_shape(
    tmp_path: Path, shape: str, size: dict[str, float], found: Any
) -> None:
    probe = square()
    probe.set_contacts(probe.contact_positions, shapes=shape, shape_params=size)
    probe.set_device_channel_indices([0, 1, 2, 3])
    geometry = probe_file(tmp_path, probe)
    if isinstance(found, str):
        with pytest.raises(RigError, match=found):
            described(tmp_path, geometry)
    else:
        assert {(each.width_um, each.height_um) for each in places(described(tmp_path, geometry))} == {found}


@pytest.mark.parametrize(
    ("turned_deg", "found"), [(0, (40.0, 20.0)), (90, (20.0, 40.0)), (180, (40.0, 20.0)), (30, None)]
)
def test_a_contact_of_a_file_lies_as_its_plane_says(
    tmp_path: Path, turned_deg: float, found: tuple[float, float] | None
) -> None:
    probe = square()
    probe.set_contacts(probe.contact_positions, shapes="rect", shape_params={"width": 40.0, "height": 20.0})
    probe.set_device_channel_indices([0, 1, 2, 3])
    probe.rotate_contacts(turned_deg)
    geometry = probe_file(tmp_path, probe)
    if found is None:
        with pytest.raises(RigError, match="contact 0, a rect, askew"):
            described(tmp_path, geometry)
    else:
        assert {(each.width_um, each.height_um) for each in places(described(tmp_path, geometry))} == {found}


def test_a_disc_has_no_direction(tmp_path: Path) -> None:
    probe = square()
    probe.rotate_contacts(30.0)
    assert {each.width_um for each in places(described(tmp_path, probe_file(tmp_path, probe)))} == {30.0}


def test_electrodes_that_are_not_connected_are_left_out_and_several_probes_are_shanks(tmp_path: Path) -> None:
    other = square(channels=[-1, 4, -1, 5])
    other.move([5000.0, 0.0])
    found = places(described(tmp_path, probe_file(tmp_path, square(), other), electrodes=6))
    assert [(each.pad, each.shank) for each in found[4:]] == [("A2", "probe 1"), ("B2", "probe 1")]
    assert found[4].x_um == 5200.0


def test_a_rig_without_a_geometry_keeps_its_hash() -> None:
    assert effective_hash(load_rig(BENCH)) == effective_hash(load_rig(BENCH))
    assert "geometry" not in BENCH.read_text(encoding="utf-8")


AT = [f"x: {200 * (number % 2)} um, y: {200 * (number // 2)} um" for number in range(4)]


@pytest.mark.parametrize(
    ("geometry", "said"),
    [
        (inline(AT[0], AT[1], AT[2], AT[1]), "electrodes 1 and 3 lie at the same place, 200, 0 um"),
        (inline(*AT[:3]), "3 places are given for 4 electrodes"),
        (inline(*(f"{at}, channel: {n}" for n, at in enumerate(AT[:3]))), "no electrode is on channel 3"),
        (inline(*(f"{at}, channel: {n % 3}" for n, at in enumerate(AT))), "channel 0 has 2 electrodes"),
        (inline(*(f"{at}, channel: {n + 1}" for n, at in enumerate(AT))), "channel 4 does not exist"),
        (inline(f"{AT[0]}, channel: 0", *AT[1:]), "some electrodes have a channel"),
        (inline("x: 0 um, y: 0 um", "x: 0.2 um, y: 0 um", *AT[2:]), "overlap: 30 um wide, 0.2 um apart"),
        (inline("x: 0, y: 0 um", *AT[1:]), "has no unit"),
        (inline("x: 0 s, y: 0 um", *AT[1:]), "not in um"),
        (inline(*(at.replace("200 um", "200 mm") for at in AT)), "electrodes are 200000 um apart"),
        (inline(f"{AT[0]}, width: 20 um", f"{AT[1]}, width: 10 um", *AT[2:]), "Write diameter: 10 um"),
        (inline(*(f"{at.replace('200', '0.2')}, width: 0.03 um" for at in AT)), "electrodes are 0.2 um apart"),
        ("  geometry: {grid: {columns: 2, pitch: 200 mm}}\n", "no pitch of an array"),
        ("  geometry: {grid: {columns: 2, pitch: 20 um}}\n", "electrodes of 30 um overlap at a pitch of 20 um"),
        ("  pitch: 50 um\n  geometry: {grid: {columns: 2, pitch: 200 um}}\n", "50 um is not the distance"),
        ("  geometry: {module: chip}\n", "has to have either a grid or electrodes"),
        ("  geometry: {file: nowhere.json}\n", "cannot be read"),
        ("  geometry: {file: rig.yaml}\n", "is no file of probeinterface"),
    ],
)
def test_J1_a_bad_geometry_is_refused_with_one_sentence_and_the_next_action(
    tmp_path: Path, geometry: str, said: str
) -> None:
    with pytest.raises(RigError) as refused:
        described(tmp_path, geometry)
    (problem,) = refused.value.problems
    assert said in str(problem)
    assert "geometry" in problem.key or problem.key in ("nerves.diameter", "nerves.pitch")
    assert problem.line > 90


def test_a_file_without_a_channel_map_or_with_three_dimensions_is_refused(tmp_path: Path) -> None:
    for probe, said in ((square(channels=None), "no channel map"), (square().to_3d(), "three dimensions")):
        with pytest.raises(RigError, match=said):
            described(tmp_path, probe_file(tmp_path, probe))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("si_units", "mm", "contact 0 of 30.0 x 30.0 mm"),
        ("contact_positions", [[0, 0], [float("nan"), 0], [0, 200], [200, 200]], "contact 1 at nan, 0 um"),
        ("contact_shape_params", [{"radius": 0}] * 4, "contact 0 of 0.0 x 0.0 um"),
        ("device_channel_indices", [0.9, 1.9, 2.9, 3.9], "contact 0 is on channel 0.9"),
        ("device_channel_indices", [0, 1, 2], "zip() argument 4 is shorter"),
        ("device_channel_indices", [0, 2, 4, 6], "channel 4 does not exist"),
        ("device_channel_indices", [-1] * 4, "connects no electrode to a channel"),
    ],
)
def test_a_file_that_cannot_be_of_this_array_is_refused_once_and_not_once_for_each_contact(
    tmp_path: Path, key: str, value: Any, said: str
) -> None:
    geometry = probe_file(tmp_path, square())
    file = tmp_path / "probe.json"
    told = json.loads(file.read_text())
    told["probes"][0][key] = value
    file.write_text(json.dumps(told))
    with pytest.raises(RigError) as refused:
        described(tmp_path, geometry)
    (problem,) = refused.value.problems
    assert said in str(problem)


def test_long_names_of_contacts_are_cut(tmp_path: Path) -> None:
    probe = square()
    probe.set_contact_ids([f"{number} of a very long name of a contact of this probe" for number in range(4)])
    assert {len(each.pad) for each in places(described(tmp_path, probe_file(tmp_path, probe)))} == {40}
