"""`choroid create`: from a few answers to a rig file that loads, and that is sound or says what is still missing."""

from __future__ import annotations

import io
import json
from itertools import combinations, product
from pathlib import Path

import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from choroid.new_rig.new import as_text, new_rig
from choroid.new_rig.questions import BALANCES, GASES, HEATERS, MAX_DOSED, NONE, PUMPS, QUESTIONS, gather
from choroid.rig_file.check import check_rig
from controller.rig.loading import load_rig
from tests.rig.test_schema import refusals

SHIPPED = Path(__file__).resolve().parents[2] / "examples" / "rigs"
TABLE: dict[str, tuple[str, ...]] = {
    "culture": ("chambers", "dishes", "plate"),
    "count": ("1", "2", "6", "96"),
    "organoids": ("1", "16"),
    "perfusion": ("loop", "single-pass", "doses", NONE),
    "pump": PUMPS,
    "drive": ("manifold", "cassettes", "each"),
    "exchange": ("hand", "pumps"),
    "gas": ("incubator", *GASES),
    "heat": ("incubator", *HEATERS),
    "probes": (NONE, "atlas-ezo-rtd, atlas-ezo-ph, keller-x-line", "hamilton-ph-arc, hamilton-visiferm-do", "vaisala-gmp25x"),
    "balance": (NONE, *BALANCES),
    "agitation": ("shaker", NONE),
    "electrodes": ("0", "32"),
    "links": ("simulated", "real"),
}  # fmt: skip
"""Answers of which every pair stands in some row of :func:`rows`."""


def rows() -> list[dict[str, str]]:
    """Return rows of :data:`TABLE` in which each pair of answers to two questions stands at least once (greedy)."""
    pairs = {
        ((one, a), (other, b))
        for one, other in combinations(TABLE, 2)
        for a, b in product(TABLE[one], TABLE[other])
    }  # fmt: skip
    found = []
    while pairs:
        row = dict(min(pairs))
        for key, options in TABLE.items():
            if key not in row:
                row[key] = max(options, key=lambda option: sum(pair in pairs for pair in _with(row, key, option)))
        pairs -= set(combinations([(key, row[key]) for key in TABLE], 2))
        found.append(row)
    return found


def _with(row: dict[str, str], key: str, option: str) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Return the pairs of an option with the answers of a row, in the order of the table."""
    order = list(TABLE)
    return [
        ((other, answer), (key, option)) if order.index(other) < order.index(key) else ((key, option), (other, answer))
        for other, answer in row.items()
    ]


def fitting(row: dict[str, str]) -> dict[str, str]:
    """Return the answers of a row to the questions that are asked with them."""
    row = row | ({"count": "24"} if row["culture"] == "plate" and row["count"] in ("1", "2") else {})
    if row["perfusion"] == "doses" and int(row["count"]) > MAX_DOSED:
        row["count"] = "6"
    if row["perfusion"] == NONE:
        row["probes"] = row["probes"].replace(", keller-x-line", "")
    answers: dict[str, str] = {}
    for question in QUESTIONS:
        asked = question.asked(answers)
        answers[question.key] = row[question.key] if asked and question.key in row else question.default(answers)
        if not asked:
            row.pop(question.key, None)
    return row


ROWS = rows()


def test_the_table_has_every_pair_in_few_rows() -> None:
    assert len(ROWS) < 120
    for one, other in combinations(TABLE, 2):
        seen = {(row[one], row[other]) for row in ROWS}
        assert seen == set(product(TABLE[one], TABLE[other]))


@pytest.mark.parametrize("row", ROWS, ids=[str(number) for number in range(len(ROWS))])
def test_any_answers_give_a_rig_that_loads(tmp_path: Path, row: dict[str, str]) -> None:
    path = tmp_path / "rig.yaml"
    answer = new_rig(path, fitting(dict(row)), None)
    load_rig(path)
    assert refusals(path.read_text(encoding="utf-8")) == []
    gaps = [hazard["hazard"] for hazard in answer["hazards"] if hazard["verdict"] == "gap"]
    assert bool(gaps) != answer["ok"]
    assert all(problem["fix"] for problem in answer["problems"])
    said = as_text(answer)
    assert all(problem["what"] in said for problem in answer["problems"])


BASES: tuple[dict[str, str], ...] = (
    {},
    {"count": "4"},
    {"culture": "chambers", "perfusion": "single-pass"},
    {"culture": "dishes", "count": "3", "feeder": "Cell culture"},
    {"culture": "plate", "count": "96", "feeder": "R. Franklin"},
    {"culture": "plate", "count": "6", "perfusion": "loop"},
    {"exchange": "pumps"},
    {"culture": "dishes", "count": "3", "perfusion": "doses"},
)
"""Answers that give a sound rig, whatever the others are."""


def sound_answers() -> list[dict[str, str]]:
    """Return each base alone, and with every other answer to one question of the table that applies.

    No manifold: in closed chambers a blocked branch starves its tissue, and nothing shows it.
    """
    found = []
    for base in BASES:
        usual = gather(base, None)
        asked = {question.key for question in QUESTIONS if question.asked(usual)}
        more = ("organoids", "culture", "count", "perfusion", "probes", "links")
        found.append(base)
        found += [
            base | {key: option}
            for key, options in TABLE.items()
            for option in options
            if key in asked - set(more) - base.keys() and option not in (usual[key], "manifold")
        ]
    return found


SOUND = sound_answers()


@pytest.mark.parametrize("given", SOUND, ids=["-".join(given.values()) or "defaults" for given in SOUND])
def test_sound_answers_give_a_sound_rig(tmp_path: Path, given: dict[str, str]) -> None:
    answer = new_rig(tmp_path / "rig.yaml", given, None)
    assert answer["ok"], answer["problems"]


LIKE_SHIPPED: dict[str, dict[str, str]] = {
    "monitored_plates": {
        "culture": "plate", "count": "96", "feeder": "Cell culture", "agitation": "shaker", "balance": "mettler-sics",
        "probes": "atlas-ezo-rtd, vaisala-gmp25x",
    },
    "straw_vial": {
        "culture": "dishes", "count": "1", "volume": "20 mL", "organoids": "5", "diameter": "1 mm", "perfusion": "doses",
        "pump": "atlas-ezo-pmp", "heat": "eurotherm-3200", "agitation": "stirrer", "agitation_drive": "relay",
        "balance": "sartorius-sbi",
    },
    "skimmed_plates": {
        "culture": "dishes", "count": "2", "volume": "10 mL", "organoids": "20", "diameter": "1 mm", "perfusion": "doses",
        "media": "2", "balance": "mettler-sics", "probes": "atlas-ezo-rtd, keller-x-line",
    },
    "selector_wells": {
        "culture": "plate", "count": "12", "perfusion": "doses", "balance": "mettler-sics", "probes": "atlas-ezo-rtd",
        "agitation": "rocker", "agitation_drive": "modbus",
    },
    "perfusion_tank": {
        "count": "1", "volume": "20 mL", "organoids": "100", "exchange": "pumps", "dialysis": "yes", "waste": "20 L",
        "gas": "alicat-mfc", "heat": "julabo", "pump": "masterflex-ls",
        "probes": "atlas-ezo-rtd, hamilton-ph-arc, hamilton-visiferm-do, keller-x-line",
    },
}  # fmt: skip
"""Answers that give rigs like the shipped ones."""


@pytest.mark.parametrize("name", LIKE_SHIPPED)
def test_answers_give_a_rig_like_a_shipped_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "rig.yaml"
    answer = new_rig(path, LIKE_SHIPPED[name], None)
    assert answer["ok"], answer["problems"]
    mine, shipped = load_rig(path), load_rig(SHIPPED / f"{name}.yaml")
    assert {line.draws_above_ul > 0 for line in mine.lines.values()} == {
        line.draws_above_ul > 0 for line in shipped.lines.values()
    }
    assert bool(mine.selectors) == bool(shipped.selectors)
    assert bool(mine.dialysers) == bool(shipped.dialysers)
    assert set(mine.organs.hearts) == set(shipped.organs.hearts)
    assert [each.kind for each in mine.agitators.values()] or not shipped.agitators
    organs = [key for key, organ in shipped.organs if organ]
    assert all(getattr(mine.organs, key) for key in organs)
    here, there = check_rig(path), check_rig(SHIPPED / f"{name}.yaml")
    able = {row["function"] for row in there["capabilities"] if row["available"]}
    assert able <= {row["function"] for row in here["capabilities"] if row["available"]}


def test_too_many_chambers_for_two_selectors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two selectors dose at most 14 chambers, and there are 24"):
        new_rig(tmp_path / "rig.yaml", {"culture": "plate", "count": "24", "perfusion": "doses"}, None)
    assert not list(tmp_path.iterdir())


def test_a_hazard_that_remains_is_named_with_what_to_add(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rig.yaml"
    assert main(["create", "--defaults", "--set", "perfusion=none", "--output", str(path)]) == 1
    said = capsys.readouterr().out
    assert "these hazards remain" in said
    assert "accept the hazard missed_feeding" in said
    path.unlink()
    assert (
        main(["create", "--defaults", "--set", "perfusion=none", "--set", "feeder=R. Franklin", "--output", str(path)])
        == 0
    )
    assert "by: R. Franklin" in path.read_text(encoding="utf-8")


def test_answers_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, answers = tmp_path / "rig.yaml", tmp_path / "answers.yaml"
    answers.write_text("name: from-a-file\ncount: 4\nprobes: [atlas-ezo-rtd, keller-x-line]\n", encoding="utf-8")
    assert main(["create", "--answers", str(answers), "--set", "name=mine", "--output", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rig"], told["answers"]["count"], told["answers"]["perfusion"]) == ("mine", "4", "loop")
    assert len(load_rig(path).tissue) == 4
    assert main(["create", "--answers", str(answers), "--output", str(path)]) == 1
    assert "exists" in capsys.readouterr().err


def test_questions_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defaults with the return key; a wrong answer is asked again; questions that do not apply are left out."""
    typed = ["terminal", "plate", "25", "24", "", "2", "1 mm", "", "", "", "none", "R. Franklin", *[""] * 7]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(typed) + "\n"))
    path = tmp_path / "rig.yaml"
    assert main(["create", "--output", str(path)]) == 0
    asked = capsys.readouterr().err
    assert "“25” is not known" in asked
    assert "Model of its pump" not in asked
    rig = load_rig(path)
    assert (rig.name, len(rig.tissue), rig.tissue["plate-D6"].count) == ("terminal", 24, 2)


def test_an_input_that_ends_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("mine\n"))
    assert main(["create", "--output", str(tmp_path / "rig.yaml")]) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cont": "4"}, "there is no question “cont”. Did you mean “count”?"),
        ({"count": "97"}, "count: “97” does not fit. Next: write a whole number from 1 to 96"),
        ({"count": "²"}, "count: “²” does not fit"),
        ({"culture": "plate", "count": "25"}, "count: “25” is not known"),
        ({"volume": "2"}, "has no unit"),
        ({"volume": "2 mM"}, "not in uL"),
        ({"volume": "0 mL"}, "more than 1 and at most"),
        ({"name": "My rig"}, "small letters"),
        ({"pump": "ismatec"}, "is not known. Did you mean “ismatec-reglo"),
        ({"perfusion": "none", "pump": "longer-0xe9"}, "pump: this is not asked with the other answers"),
        ({"perfusion": "none", "probes": "keller-x-line"}, "nothing is pumped"),
        ({"probes": "ph"}, "probes: “ph” is not known"),
        ({"perfusion": "none", "feeder": "x: {y}"}, "letters, digits and spaces"),
    ],
)
def test_a_wrong_answer_is_told_with_its_question(given: dict[str, str], says: str) -> None:
    with pytest.raises(UserError) as caught:
        gather(given, None)
    assert says in str(caught.value)


def test_an_unreadable_file_of_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tmp_path / "answers.yaml"
    for text in ("count: [", "- count"):
        answers.write_text(text, encoding="utf-8")
        assert main(["create", "--answers", str(answers), "--output", str(tmp_path / "rig.yaml")]) == 1
        assert "write lines such as “count: 4”" in capsys.readouterr().err
