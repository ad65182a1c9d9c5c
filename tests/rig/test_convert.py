"""`choroid convert`: format 1 becomes format 2, and comments, order and everything else stay."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from choroid.cli import main
from choroid.common.examples import bench_rig
from choroid.rig_file.converting import convert_rig
from choroid.simulation.simulate import simulate
from controller.rig.convert import convert
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError

FORMER = Path(__file__).parent / "format_1.yaml"
TEXT = FORMER.read_text(encoding="utf-8")
TISSUE = TEXT[TEXT.index("organoid:") : TEXT.index("\nmedia:")]


def written(folder: Path, text: str) -> Path:
    path = folder / "rig.yaml"
    path.write_bytes(text.encode("utf-8"))
    return path


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


def test_the_bench_rig_was_converted_by_the_command() -> None:
    assert convert(FORMER).text == bench_rig().read_text(encoding="utf-8")


def test_what_is_in_format_2_stays_as_it_is(tmp_path: Path) -> None:
    once = convert(FORMER)
    twice = convert(written(tmp_path, once.text))
    assert once.changes
    assert (twice.text, twice.changes) == (once.text, ())


BLOCKS = {
    "comments": (
        "organoid:    # sixteen of them\n"
        "  # grown by hand\n"
        "  count: 16   # counted twice\n"
        "\n"
        "  chamber: chamber   # the glass one\n"
        "  diameter: 2.5 mm\n"
        "  age: 60 d\n"
        "  review:\n"
        "    on: 2026-05-20\n"
        "    by: Ethics board\n"
        "    note: |\n"
        "      two\n"
        "\n"
        "      paragraphs\n"
        "# of the media\n"
    ),
    "chamber first": "organoid:\n  chamber: chamber\n  count: 16\n  diameter: 2.5 mm\n  age: 60 d\n",
    "in braces": "organoid: {count: 16, diameter: 2.5 mm, age: 60 d, chamber: chamber}   # all in one\n",
    "in braces, first": 'organoid: {"chamber": "chamber", count: 16,\n  diameter: 2.5 mm, age: 60 d}\n',
    "deeper": "organoid:\n      count: 16\n      diameter: 2.5 mm\n      age: 60 d\n      chamber: 'chamber'\n",
    "other keys in quotes": "'organoid':\n  'count': 16\n  diameter: 2.5 mm\n  age: 60 d\n  'chamber': chamber\n",
}


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_any_form_of_the_tissue_is_converted(tmp_path: Path, block: str, ending: str) -> None:
    text = TEXT.replace(TISSUE, block).replace("\n", ending)
    path = written(tmp_path, text)
    rig, former_hash = load_rig(path), effective_hash(load_rig(path))
    result = convert(path).text
    assert sorted(re.findall(r"#.*", result)) == sorted(re.findall(r"#.*", text)), "a comment was lost"
    assert ("\r" in result) == (ending == "\r\n")
    assert "\n" not in result.replace("\r\n", "") if ending == "\r\n" else True
    assert "organoid:" not in result
    again = load_rig(written(tmp_path, result))
    assert again == rig
    assert effective_hash(again) == former_hash


def test_a_block_at_the_end_of_the_file_without_a_newline(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace(TISSUE, "") + TISSUE.rstrip("\n"))
    rig = load_rig(path)
    assert load_rig(written(tmp_path, convert(path).text)) == rig


def test_former_keys_get_their_present_names(tmp_path: Path) -> None:
    former = "least_pressure"  # wording: former name
    path = written(tmp_path, changed("max_pressure: 80 kPa", f"max_pressure: 80 kPa, {former}: 4 kPa"))
    rig = load_rig(path)
    result = convert(path)
    assert "min_pressure: 4 kPa" in result.text
    assert former not in result.text
    assert any(former in change for change in result.changes)
    assert load_rig(written(tmp_path, result.text)) == rig


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("  chamber: chamber\n", "", "“chamber” is missing"),
        ("  chamber: chamber\n", "  chamber: 3\n", "would not mean the same"),
        ("choroid: 1", "choroid: 1\nchoroid: 1", "stands twice"),
        ("organoid:", "tissue: {}\norganoid:", "is a key of format 2"),
        ("choroid: 1", "choroid: [", "is not YAML"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(RigError, match=says):
        convert(written(tmp_path, changed(old, new)))


def test_a_file_with_another_mistake_is_converted_as_well(tmp_path: Path) -> None:
    """The mistake stays, and is reported at its new place."""
    path = written(tmp_path, changed("  count: 16", "  count: 0"))
    assert main(["convert", str(path), "--output", str(path)]) == 0
    with pytest.raises(RigError, match=r"tissue\.chamber\.count"):
        load_rig(path)


def test_the_command_prints_or_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, TEXT)
    path.chmod(0o640)
    assert main(["convert", str(path)]) == 0
    assert capsys.readouterr().out == bench_rig().read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8") == TEXT
    assert main(["convert", str(path), "--output", str(path)]) == 0
    assert "line 7: “organoid” is “tissue”" in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == bench_rig().read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o640
    assert main(["convert", str(path), "--output", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []
    assert [file.name for file in tmp_path.iterdir()] == ["rig.yaml"], "a draft was left"


def test_no_other_file_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("mine", encoding="utf-8")
    assert main(["convert", str(written(tmp_path, TEXT)), "--output", str(other)]) == 1
    assert f"{other} exists" in capsys.readouterr().err
    assert other.read_text(encoding="utf-8") == "mine"


def test_a_file_that_names_others_stays_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = Path(__file__).parents[2] / "protocols" / "grading.yaml"
    (tmp_path / "rules.yaml").write_bytes(rules.read_bytes())
    path = written(tmp_path, TEXT + "grading: rules.yaml\n")
    (tmp_path / "elsewhere").mkdir()
    assert main(["convert", str(path), "--output", str(tmp_path / "elsewhere" / "rig.yaml")]) == 1
    assert "into the same folder" in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir())
    convert_rig(path, tmp_path / "new.yaml")
    assert load_rig(tmp_path / "new.yaml") == load_rig(path)


def test_the_journal_of_a_converted_rig_is_the_same() -> None:
    """An hour with exchanges: the same seed gives the same journal, byte for byte."""
    former, converted = (simulate(path, protocol="exchange", days=1 / 24, seed=7) for path in (FORMER, bench_rig()))
    assert former["fresh_medium_ml"] > 0.0
    assert converted["journal_sha256"] == former["journal_sha256"]
