"""The rule file of grades and prices: what is read, what is refused and how, and that every grade says which it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.rig.grading import SHIPPED, read_grading, shipped_grading
from controller.rig.loading import effective_hash, load_rig
from controller.rig.problems import RigError
from controller.runs.grading import prices_of, rules_of
from protocols.grading import Sample, grade
from protocols.interval import Interval
from tests.protocols import make_schema

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
TEXT = SHIPPED.read_text(encoding="utf-8")


def test_the_shipped_rules_are_those_of_biology_3_2() -> None:
    rules = rules_of(load_rig(BENCH))
    edges = {rule.name: rule.edges for rule in rules.rules}
    assert edges["lactate_mm"] == (5.0, 10.0, 20.0)
    assert edges["ammonia_mm"] == (0.3, 0.8, 2.0)
    assert edges["glucose_share"] == (0.6, 0.3, 0.1)
    assert edges["glucose_mm"] == (2.5, 1.5, 0.5)
    assert edges["ph"] == ((7.25, 7.45), (7.10, 7.55), (6.9, 7.7))
    assert edges["osmolality_change_pct"] == ((-3.0, 3.0), (-7.0, 7.0), (-12.0, 12.0))
    assert edges["oxygen_pct"] == (60.0, 40.0, 20.0)
    assert edges["passes"] == (3.0, 6.0, 10.0)
    assert edges["ldh_ratio"] == (1.5, 2.5, 5.0)
    assert edges["insulin_share"] == (0.7, 0.4, 0.2)
    assert {rule.name for rule in rules.rules if not rule.required} == {"ldh_ratio", "insulin_share"}
    assert all(rule.source for rule in rules.rules)
    assert prices_of(load_rig(BENCH)).horizon_d == 0.5


def own(folder: Path, text: str) -> Path:
    """A rig file that names `text` as its rules."""
    (folder / "my-rules.yaml").write_text(text, encoding="utf-8")
    rig = folder / "rig.yaml"
    rig.write_text(BENCH.read_text(encoding="utf-8") + "\ngrading: my-rules.yaml\n", encoding="utf-8")
    return rig


def test_a_lab_names_its_own_and_every_grade_says_so(tmp_path: Path) -> None:
    stricter = TEXT.replace("version: choroid-2", "version: our-lab-1").replace("A: 5 mM", "A: 4000 uM")
    path = own(tmp_path, stricter)
    rig = load_rig(path)
    rules = rules_of(rig)
    sample = Sample(lactate_mm=Interval.exact(4.5))
    mine, shipped = grade(sample, rules), grade(sample, rules_of(load_rig(BENCH)))
    assert (mine.of("lactate_mm"), shipped.of("lactate_mm")) == ("B", "A")
    assert mine.to_json()["version"] == "our-lab-1"
    assert mine.to_json()["rules_sha256"] == rules.sha256 != shipped_grading().sha256
    assert effective_hash(rig) != effective_hash(load_rig(BENCH))
    # The hash is of the meaning: comments and units do not change it.
    again = own(tmp_path, "# our rules\n" + stricter.replace("4000 uM", "4 mM"))
    assert rules_of(load_rig(again)).sha256 == rules.sha256


def test_a_lab_may_limit_the_age_of_medium(tmp_path: Path) -> None:
    aged = "variables:\n  age: {worse: higher, A: 7 day, B: 2 week, C: 720 h, source: our own}\n"
    rig = load_rig(own(tmp_path, TEXT.replace("variables:\n", aged, 1)))
    assert grade(Sample(age_d=Interval.exact(20.0)), rules_of(rig)).of("age_d") == "C"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    A: 5 mM\n", "", "a gap: there is no edge A"),
        ("A: 5 mM", "A: 5", "has no unit"),
        ("A: 5 mM", "A: 5 mL", "not in mM"),
        ("A: 5 mM", "A: 11 mM", "the edges are out of order: B is not beyond A"),
        ("A: 60 %\n    B: 30 %", "A: 30 %\n    B: 60 %", "the edges are out of order"),
        ("B: [7.10 pH, 7.55 pH]", "B: [7.30 pH, 7.55 pH]", "the edges are out of order"),
        ("A: [7.25 pH, 7.45 pH]", "A: [7.45 pH, 7.25 pH]", "the lower end is not below the upper"),
        ("A: [7.25 pH, 7.45 pH]", "A: 7.25 pH", "is not a pair"),
        ("  lactate:\n", "  lactat:\n", "no variable is called “lactat”. Did you mean “lactate”?"),
        ("  lactate:\n", "  lactat:\n", "a gap: “lactate” has no limits"),
        ("worse: higher           ", "worse: up   ", "“up” is no direction"),
        ("    source: biology.md §3.2 [P], §3.1 S44\n", "", "nothing tells where the limits come from"),
        ("version: choroid-2\n", "", "the rules have no version"),
        ("fresh_medium: 1.2 EUR/mL", "fresh_medium: 1.2 EUR", "not in EUR/mL"),
        ("  waste: 0.005 EUR/mL\n", "", "a gap: “waste”"),
        ("filter_life: 2 L ", "filter_life: 0 L ", "is out of range"),
        ("  harm_b:", "  harmb:", "unknown key “harmb”. Did you mean “harm_b”?"),
    ],
)
def test_each_mistake_is_told_with_its_line_and_what_to_do(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in TEXT
    path = own(tmp_path, TEXT.replace(old, new, 1))
    with pytest.raises(RigError) as caught:
        load_rig(path)
    told = [problem for problem in caught.value.problems if said in f"{problem.what}. {problem.fix}"]
    assert told, str(caught.value)
    assert told[0].file.name == "my-rules.yaml"
    assert told[0].fix
    if told[0].key != "version":
        assert told[0].line > 1


def test_a_rule_file_that_is_not_there_is_told_by_the_rig(tmp_path: Path) -> None:
    path = own(tmp_path, TEXT)
    (tmp_path / "my-rules.yaml").unlink()
    with pytest.raises(RigError, match="cannot be read"):
        load_rig(path)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(TEXT.replace("A: 5 mM", "A: 5").replace("B: 6 count", "B: 2 count"), encoding="utf-8")
    with pytest.raises(RigError) as caught:
        read_grading(path)
    assert len(caught.value.problems) == 2


def test_the_schema_in_the_docs_is_that_of_the_code() -> None:
    assert make_schema.GRADING.read_text(encoding="utf-8") == make_schema.grading_text()


DIALYSIS = BENCH.parent / "bench_dialysis.yaml"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("dialyser: fibres", "dialyser: fibers", "dialyser “fibers” does not exist. Did you mean “fibres”?"),
        ("{vessel: spent, koa", "{vessel: loop, koa", "hangs in “loop”, not in “spent”"),
        ("{from: basal, to: waste", "{from: basal, to: spent", "spent dialysate would run into “spent”"),
        ("{from: basal, to: waste", "{from: spent, to: waste", "dialysate would come from “spent”"),
        (", dialyser: fibres", "", "passes through no dialyser"),
        ("    dialyse: dialyse", "    dialyse: dialysis", "line “dialysis” does not exist"),
        ("cut_off: 10 kDa", "cut_off: 100 kDa", "is out of range"),
    ],
)
def test_a_dialyser_that_is_plumbed_wrong_is_told(old: str, new: str, said: str, tmp_path: Path) -> None:
    text = DIALYSIS.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "rig.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RigError) as caught:
        load_rig(path)
    assert any(said in f"{problem.what}. {problem.fix}" for problem in caught.value.problems), str(caught.value)
