"""Well plates: `plates:` is read as the chambers that it stands for, and mistakes are reported where the file has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from choroid.common.examples import bench_rig
from controller.rig.description import Rig
from controller.rig.document import read_document
from controller.rig.forms import name_the_heart
from controller.rig.loading import load_rig
from controller.rig.plates import expand
from controller.rig.problems import RigError

MEDIA = yaml.safe_load(bench_rig().read_text(encoding="utf-8"))["media"]
PLATE = "{wells: 24, volume: 1 mL, capacity: 2 mL, contains: fresh, zone: incubator}"
TISSUE = "{count: 1, diameter: 2 mm, age: 30 d}"


def rig_file(folder: Path, plate: str = PLATE, tissue: str = f"{{plate: {TISSUE}}}", name: str = "plate") -> Path:
    """Write a rig that consists of one plate in an incubator."""
    path = folder / "rig.yaml"
    path.write_text(
        f"""choroid: 1
name: plate
zones:
  incubator: {{temperature: 37 degC, co2: 5 %}}
media: {MEDIA}
plates:
  {name}: {plate}
tissue: {tissue}
devices:
  t_room: {{model: atlas-ezo-rtd, link: "sim:t_room", at: plate-A1}}
""",
        encoding="utf-8",
    )
    return path


def rig_of(path: Path) -> Rig:
    """Return the description that the file gives, before rules over the whole rig."""
    document = read_document(path)
    assert not [*expand(document), *name_the_heart(document)]
    return Rig.model_validate(document.data)


def test_each_well_is_a_chamber_with_the_keys_of_its_plate(tmp_path: Path) -> None:
    rig = rig_of(rig_file(tmp_path))
    assert list(rig.vessels) == [f"plate-{row}{column}" for row in "ABCD" for column in range(1, 7)]
    (well,) = set(map(repr, rig.vessels.values()))
    assert "kind='chamber'" in well
    assert "volume_ul=1000.0" in well
    assert "zone='incubator'" in well
    assert list(rig.tissue) == list(rig.vessels)


@pytest.mark.parametrize(
    ("wells", "count", "last"),
    [
        ("6", 6, "B3"),
        ("12", 12, "C4"),
        ("48", 48, "F8"),
        ("96", 96, "H12"),
        ("384", 384, "P24"),
        ("2x8", 16, "B8"),
        ("1 × 3", 3, "A3"),
        ("B2", 1, "B2"),
        ("[B2, B3]", 2, "B3"),
        ("[B2:G11]", 60, "G11"),
        ("[G11:B2, A1]", 61, "A1"),
        ("96, except: [A1:A12, H1:H12, A1:H1, A12:H12]", 60, "G11"),
        ("6, except: B3", 5, "B2"),
    ],
)
def test_the_layouts_of_wells(tmp_path: Path, wells: str, count: int, last: str) -> None:
    rig = rig_of(rig_file(tmp_path, PLATE.replace("24", wells, 1)))
    assert len(rig.vessels) == count
    assert list(rig.vessels)[-1] == f"plate-{last}"


def test_a_well_has_the_tissue_of_its_plate_unless_it_has_its_own(tmp_path: Path) -> None:
    tissue = f"{{plate-B2: {{count: 3, batch: K7}}, plate: {TISSUE}, plate-A1: null}}"
    rig = rig_of(rig_file(tmp_path, tissue=tissue))
    assert len(rig.tissue) == 23
    assert "plate-A1" not in rig.tissue
    assert (rig.tissue["plate-B2"].count, rig.tissue["plate-B2"].batch) == (3, "K7")
    assert rig.tissue["plate-B2"].age_d == 30.0
    assert rig.tissue["plate-B1"].count == 1
    assert list(rig.tissue) == [name for name in rig.vessels if name != "plate-A1"]


def test_single_wells_may_have_tissue_of_their_own_only(tmp_path: Path) -> None:
    rig = rig_of(rig_file(tmp_path, tissue=f"{{plate-B2: {TISSUE}}}"))
    assert list(rig.tissue) == ["plate-B2"]
    assert len(rig.vessels) == 24


@pytest.mark.parametrize(
    ("old", "new", "key", "what", "fix"),
    [
        ("wells: 24", "wells: 25", "plates.plate.wells", "“25” is no layout of wells", "96 or 384"),
        ("wells: 24", "wells: 17x2", "plates.plate.wells", "no layout", "4x6"),
        ("wells: 24", "wells: true", "plates.plate.wells", "no layout", "4x6"),
        ("wells: 24", "wells: [A1, Q3]", "plates.plate.wells", "no layout", "B2:C4"),
        ("wells: 24", "wells: [A0]", "plates.plate.wells", "no layout", "B2:C4"),
        ("wells: 24", "wells: [A25]", "plates.plate.wells", "no layout", "B2:C4"),
        ("wells: 24", "wells: []", "plates.plate.wells", "no layout", "B2:C4"),
        ("wells: 24, ", "", "plates.plate.wells", "“wells” is missing", "Write 6"),
        ("wells: 24", "wels: 24", "plates.plate.wels", "unknown key “wels”", "“wells”"),
        ("wells: 24", "wells: 24, except: [E1]", "plates.plate.except", "no wells of the plate", "A1"),
        ("wells: 24", "wells: 24, except: [A1:D6]", "plates.plate.except", "leaves out all", "fewer"),
        ("wells: 24", "wells: 24, kind: loop", "plates.plate.kind", "of kind “chamber”", "Remove"),
        ("volume: 1 mL", "volum: 1 mL", "plates.plate.volum", "unknown key", "“volume”"),
        ("volume: 1 mL", "volume: 1", "plates.plate.volume", "has no unit", "“1 uL”"),
        ("volume: 1 mL", "volume: 3 mL", "plates.plate.volume", "above its ceiling (2 mL)", "Lower"),
        (", capacity: 2 mL", "", "plates.plate.capacity", "“capacity” is missing", "Add"),
        ("contains: fresh", "contains: frsh", "plates.plate.contains", "“frsh” is not described", "“fresh”"),
        ("zone: incubator", "zone: incubatr", "plates.plate.zone", "not described", "“incubator”"),
        ("plates:\n  plate: ", "plates:\n  pl%te: ", "plates.pl%te", "cannot be used", "letters"),
        (PLATE, "", "plates.plate", "is empty", "wells"),
        (PLATE, "24", "plates.plate", "stands where keys belong", "wells"),
        (f"\n  plate: {PLATE}", " 24", "plates", "stands where keys belong", "wells"),
        ("tissue:", f"vessels: {{plate: {PLATE[:1]}kind: source, volume: 0 mL, capacity: 1 mL}}}}\ntissue:",
         "plates.plate", "a vessel is called “plate”", "its own"),
        ("tissue:", "vessels: {plate-B2: {kind: source, volume: 0 mL, capacity: 1 mL}}\ntissue:",
         "vessels.plate-B2", "is a well of the plate “plate”", "another name"),
        ("count: 1,", "count: 0,", "tissue.plate.count", "out of range", "at least 1"),
        ("count: 1, ", "", "tissue.plate.count", "is missing", "Add"),
        ("{plate: {count", "{plat: {count", "tissue.plat", "does not exist", "plate-"),
        ("{plate: {", "{plate-D7: {count: 1, diameter: 2 mm, age: 1 d}, plate: {",
         "tissue.plate-D7", "does not exist", "plate-D"),
        ("{plate: {", "{plate-B2: {count: 0}, plate: {", "tissue.plate-B2.count", "out of range", "at least 1"),
        ("plates:", "plats:", "plats", "unknown key “plats”", "“plates”"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_once_where_the_file_has_it(
    tmp_path: Path, old: str, new: str, key: str, what: str, fix: str
) -> None:
    path = rig_file(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(f"{text.replace(old, new, 1)}description: 3\n", encoding="utf-8")  # another mistake hides nothing
    with pytest.raises(RigError) as caught:
        load_rig(path)
    found = [problem for problem in caught.value.problems if problem.key == key and what in problem.what]
    assert len(found) == 1, str(caught.value)
    assert fix in found[0].fix
    last = key.rpartition(".")[2]
    line = path.read_text(encoding="utf-8").splitlines()[found[0].line - 1]
    assert last in line or line.strip().startswith(("plate:", "tissue:"))


def test_what_the_wells_of_a_plate_share_is_reported_once(tmp_path: Path) -> None:
    """A plate of 96 wells in a zone that does not exist is one problem, not 96."""
    path = rig_file(tmp_path, PLATE.replace("24", "96").replace("zone: incubator", "zone: incubatr, floor: 1"))
    with pytest.raises(RigError) as caught:
        load_rig(path)
    assert len([problem for problem in caught.value.problems if "zone" in problem.key]) == 1


def test_a_tissue_mistake_in_an_inherited_key_stands_at_the_plate(tmp_path: Path) -> None:
    tissue = "{plate-B2: {count: 3},\n  plate: {count: 1, diameter: 2 L, age: 30 d}}"
    path = rig_file(tmp_path, PLATE.replace("24", "[B2]"), tissue)
    with pytest.raises(RigError) as caught:
        load_rig(path)
    (found,) = [problem for problem in caught.value.problems if "diameter" in problem.key]
    assert found.key == "tissue.plate.diameter"
    assert "plate: {count" in path.read_text(encoding="utf-8").splitlines()[found.line - 1]
