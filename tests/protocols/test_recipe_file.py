"""Recipe files: what they may contain, how errors are reported, and that they run like Python protocols."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.recipes.catalogue import SHIPPED, find, of_file, shipped
from controller.recipes.file import RecipeError, read_recipe
from controller.recipes.form import FORMS
from controller.recipes.on_rig import check_on
from controller.rig.loading import load_rig
from protocols.parameters import complete
from protocols.registry import UnknownProtocol
from protocols.table import READINGS, TRANSFERS
from tests.execution.plate import PLATE
from tests.protocols import make_pages, make_schema

ROOT = Path(__file__).resolve().parents[2]
RIG = load_rig(ROOT / "examples" / "rigs" / "bench.yaml")
DIALYSIS = load_rig(ROOT / "examples" / "rigs" / "bench_dialysis.yaml")
OWN = sorted((ROOT / "examples" / "protocols").glob("*.yaml"))
FILES = [*OWN, *sorted(SHIPPED.glob("*.yaml"))]
HEAD = "recipe: 1\nname: mine\ntitle: A test\n"


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def checked(path: Path) -> None:
    recipe = read_recipe(path, find=find)
    check_on(recipe, RIG, complete(recipe.params, {}))


def problems_of(path: Path) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        checked(path)
    return caught.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_recipes_are_sound(path: Path) -> None:
    recipe = of_file(path)
    rigs = {"dialyse": DIALYSIS, "change-wells": PLATE}
    own = ROOT / "examples" / "rigs" / path.name
    rig = load_rig(own) if own.is_file() else rigs.get(path.stem, RIG)
    check_on(recipe, rig, complete(recipe.params, {}))
    assert recipe.name == path.stem.replace("_", "-")
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert (path.parent / first.partition("=")[2]).resolve() == make_schema.SCHEMA


def test_the_schema_is_up_to_date() -> None:
    assert make_schema.SCHEMA.read_text(encoding="utf-8") == make_schema.text(), (
        "the form of recipes has changed. Next: python -m tests.protocols.make_schema"
    )
    steps = json.loads(make_schema.text())["$defs"]["steps"]["items"]["anyOf"]
    assert {next(iter(step["properties"])) for step in steps if "properties" in step} == {*FORMS}
    assert {*TRANSFERS, *READINGS} <= set(FORMS)


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        ("steps:\n  - kidney.drow: 2 mL\n", 5, "no step is called “kidney.drow”. Did you mean “kidney.draw”?"),
        ("steps:\n  - wait: 1 min\n  - gut.feed: 80 mL\n", 6, "80 mL is more than “spent” may hold (40 mL)"),
        ("steps:\n  - wait: -5 min\n", 5, "a negative time"),
        ("steps:\n  - gut.feed: -2 mL\n", 5, "a negative volume"),
        ("steps:\n  - gut.feed: 5 min\n", 5, "is in minute, not in uL"),
        ("steps:\n  - gut.feed: 5\n", 5, "has no unit"),
        ("steps:\n  - wait: 2 mL\n", 5, "not in s"),
        ("steps:\n  - gut.feed: 20 uL\n", 5, "is less than its pump gives"),
        ("steps:\n  - gut.feed: 0 mL\n", 5, "is less than its pump gives"),
        ("steps:\n  - wait: 1 min\n  - kidney.dialyse: 18 mL\n", 6, "kidney.dialyse: the rig has no dialyser"),
        ("steps:\n  - kidney.dialyse: spent.volume\n", 5, "the rig has no dialyser. Take a rig that has one"),
        ("steps:\n  - kidney.dialyse: -2 mL\n", 5, "a negative volume"),
        ("steps:\n  - measure: ph_spnt.ph\n", 5, "the rig has no device “ph_spnt”. Did you mean “ph_spent”?"),
        ("steps:\n  - gut.feed: resevoir.volume\n", 5, "nothing here is called “resevoir.volume”"),
        ("steps:\n  - gut.feed: {volume: spend.volume}\n", 5, "Did you mean “spent.volume”?"),
        ("steps:\n  - call: mine.yaml\n", 5, "the recipe calls itself (mine.yaml → mine.yaml)"),
        ("steps:\n  - call: nothing\n", 5, "no protocol is called “nothing”"),
        ("steps:\n  - call: gone.yaml\n", 5, "cannot be read"),
        ("steps:\n  - call: {recipe: exchange, with: {volumes: 2 mL}}\n", 5, "Did you mean “volume”?"),
        ("steps:\n  - call: {recipe: exchange, with: {volume: 2 min}}\n", 5, "not in uL"),
        ("steps:\n  - call: {recipe: exchange, with: {volume: 900 mL}}\n", 5, "out of range"),
        ("steps:\n  - if: {condition: loop.volume, then: [estimate]}\n", 5, "a condition (yes or no) belongs here"),
        ("steps:\n  - if: {condition: acidity < 7, then: [estimate]}\n", 5, "nothing here is called “acidity”"),
        ("steps:\n  - repeat: {steps: [estimate]}\n", 5, "repeat lacks an end"),
        ("steps:\n  - repeat: {times: 0, steps: [estimate]}\n", 5, "without end and without pause"),
        (
            "steps:\n  - set: {x: 1}\n  - repeat: {while: x < 2, steps: [set: {y: 2}]}\n",
            6,
            "no step of it waits, reads",
        ),
        ("steps:\n  - repeat: {while: true, steps: [note: a]}\n", 5, "no step of it waits, reads"),
        (
            "steps:\n  - repeat: {while: loop.volume > 1 mL, steps: [if: {condition: false, then: [note: a]}]}\n",
            5,
            "no step of it waits, reads",
        ),
        ('steps:\n  - repeat: {daily_at: "25:00", zone: UTC, steps: [estimate]}\n', 5, "no time of day"),
        ('steps:\n  - repeat: {daily_at: "09:00", zone: Mars/Base, steps: [estimate]}\n', 5, "is no time zone"),
        ('steps:\n  - repeat: {daily_at: "09:00", steps: [estimate]}\n', 5, "the time zone is missing"),
        *(
            (f"steps:\n  - wait_for_clock: {{{entries}}}\n", 5, says)
            for entries, says in (
                ("zone: UTC", 'wait_for_clock lacks “at”. Add at: "09:00", or quiet'),
                ('at: "09:00"', "lacks “zone”"),
                ("at: 9 am, zone: UTC", "“9 am” is no time of day. Write it in quotes"),
                ('at: "09:00", zone: Mars/Base', "“Mars/Base” is no time zone"),
                ('at: "09:00", zone: UTC, days: []', "is not a list of weekdays"),
                ('at: "09:00", zone: UTC, days: [mon, mon]', "is not a list of weekdays"),
                ('at: "09:00", zone: UTC, except: [christmas]', "is not a list of 1 to 50 dates"),
                ('at: "09:00", zone: UTC, quiet: "20:00-07:00"', "“quiet” in addition to “at”"),
                ('quiet: "20:00-20:00", zone: UTC', "“20:00-20:00” is no span of hours"),
            )
        ),
        ("steps:\n  - wait: 367 d\n", 5, "is longer than a year. Write a value ≤ 3.16224e+07"),
        ("steps:\n  - wait_until: {read: lung.oxygen, until: value > 1 %, timeout: 9000 h}\n", 5, "longer than a year"),
        ("steps:\n  - repeat: {times: 2, every: 400 d, steps: [estimate]}\n", 5, "longer than a year"),
        ("steps:\n  - repeat: {times: 10000000000, steps: [estimate]}\n", 5, "≤ 1e+09"),
        ("steps:\n  - repeat: {times: 2, days: [mon], steps: [estimate]}\n", 5, "“days” without “daily_at”"),
        *(
            (f"steps:\n  - ask_operator: {{message: m, {entries}}}\n", 5, says)
            for entries, says in (
                ("as: x", "“as” without “answer”. Add answer: one of number, choice, text"),
                ("unit: mM", "the kind of the answer is missing"),
                ("answer: video", "“video” is no kind of an answer"),
                ("answer: number, unit: mM", "the number has no range and no default. Add min and max, or a default"),
                ("answer: number, unit: parsec, default: 3", "“parsec” is no unit of an answer"),
                ("answer: number, unit: mM, min: 0 mM, max: 5 mL", "not in mM"),
                ("answer: number, unit: mM, min: 0, max: 5 mM", "has no unit"),
                ("answer: number, unit: mM, min: 5 mM, max: 5 mM", "“max” is not above “min”"),
                ("answer: number, min: .nan, max: 5", "is not a finite number"),
                ("answer: number, unit: mM, min: 0 mM, max: 5 mM, default: 6 mM", "6 mM is out of range"),
                ("answer: number, choices: [a, b], default: 3", "the answer “number” has no “choices”"),
                ("answer: choice", "a choice needs two answers or more"),
                ("answer: choice, choices: [yes, no]", "“True” is no text. Write each answer in quotes"),
                ("answer: choice, choices: [a, a]", "an answer stands twice"),
                ('answer: choice, choices: ["a,b", c]', "“a,b” cannot be an answer"),
                ("answer: choice, choices: [a, b], default: c", "“c” is no answer here"),
                ("answer: text, min: 3", "the answer “text” has no “min”"),
            )
        ),
        (
            "steps:\n  - ask_operator: {message: m, answer: choice, choices: [a, b], as: x}\n"
            "  - if: {condition: x == 'c', then: [estimate]}\n",
            6,
            "“c” is no answer of “x”. Choose a, b",
        ),
        ("steps:\n  - wait\n", 5, "wait lacks “time”"),
        ("steps:\n  - estimate: {ass: x}\n", 5, "Did you mean “as”?"),
        ("steps: []\n", 4, "there are no steps"),
        ("policies: {missing: guess}\nsteps: [estimate]\n", 4, "“guess” is no choice"),
        ("steps: [estimate]\nparamters: {}\n", 5, "Did you mean “parameters”?"),
        ("parameters:\n  v: {default: 2 mL, min: 1 min, max: 3 mL, help: x}\nsteps: [estimate]\n", 5, "not in uL"),
        (
            "parameters:\n  v: {default: 9 mL, min: 1 mL, max: 3 mL, help: x}\nsteps: [estimate]\n",
            5,
            "between min",
        ),
        (
            "parameters:\n  t: {default: 5 min, min: 0 min, max: 9 min, help: x}\nsteps:\n  - wait: t - 3 min\n",
            7,
            "a negative time at one end of its parameters' range",
        ),
        ("steps:\n  - note: {kind: grade}\n", 5, "Choroid's own"),
        (
            "steps:\n  - set: {x: 1 mL}\n  - repeat:\n      times: 2\n      steps: [gut.feed: x, set: {x: 900 s}]\n",
            8,
            "“x” is a quantity in uL above and a quantity in s here",
        ),
        ("steps:\n  - lung.oxygen: x\n  - kidney.draw: {volume: 2 mL, as: x}\n", 6, "a quantity in % above"),
        ("steps:\n  - measure: {point: balance.strange, as: x}\n", 5, "the unit of “balance.strange” is not known"),
        ("steps:\n  - wait: !!python/object 1\n", 5, "cannot be read"),
        ("steps:\n  - wait: 1 min\n  - wait: &a 2 min\n  - wait: *a\n", 7, "refers to something else"),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_fix(body: str, line: int, says: str, tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + body)
    error = problems_of(path)
    assert says in str(error)
    assert str(path) in str(error)
    assert line in [problem.line for problem in error.problems]
    assert all(problem.fix for problem in error.problems)
    assert "nothing was opened or moved" in str(error)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "steps:\n  - gut.fed: 2 mL\n  - wait: -1 s\n  - repeat: {times: 2, steps: [wiat]}\n")
    assert [problem.line for problem in problems_of(path).problems] == [5, 6, 7]


def test_a_cycle_over_two_files_is_told(tmp_path: Path) -> None:
    first = write(tmp_path, HEAD + "steps:\n  - call: other.yaml\n")
    write(tmp_path, HEAD.replace("mine", "other") + "steps:\n  - wait: 1 s\n  - call: mine.yaml\n", "other.yaml")
    error = problems_of(first)
    assert "mine.yaml → other.yaml → mine.yaml" in str(error)
    assert error.problems[0].file.name == "other.yaml"
    assert error.problems[0].line == 6


def test_the_hash_covers_what_is_called(tmp_path: Path) -> None:
    first = write(tmp_path, HEAD + "steps:\n  - call: other.yaml\n")
    other = write(tmp_path, HEAD.replace("mine", "other") + "steps:\n  - wait: 1 s\n", "other.yaml")
    before = read_recipe(first)
    assert before.altered() is None
    other.write_text(other.read_text().replace("1 s", "2 s"))
    assert before.altered() == other
    after = read_recipe(first)
    assert before.source_sha256 != after.source_sha256
    other.unlink()
    assert after.altered() == other


def test_a_file_may_not_take_a_shipped_name(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD.replace("mine", "recycle") + "steps: [estimate]\n")
    with pytest.raises(UnknownProtocol, match="name of a shipped protocol"):
        of_file(path)


def test_all_shipped_protocols_are_found() -> None:
    assert set(shipped()) >= {"recycle", "exchange"}
    with pytest.raises(UnknownProtocol, match="choose among"):
        find("nothing")


@pytest.mark.parametrize(
    ("volume", "says"),
    [
        ("20 uL", "20 uL is less than its pump gives"),
        ("4500 mL", "4500 mL is more than “basal” can give (4080 mL)"),
        ("5 min", "is in minute, not in uL"),
    ],
)
def test_a_dialysis_that_the_rig_cannot_do_is_told_by_line(volume: str, says: str, tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + f"steps:\n  - wait: 1 min\n  - kidney.dialyse: {volume}\n")
    with pytest.raises(RecipeError) as caught:
        check_on(read_recipe(path, find=find), DIALYSIS, {})
    assert says in str(caught.value)
    assert [problem.line for problem in caught.value.problems] == [6]


def test_every_shipped_protocol_has_its_page() -> None:
    for path, text in make_pages.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: next: python -m tests.protocols.make_pages"


def test_the_recipe_in_the_docs_is_sound(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    recipe = read_recipe(write(tmp_path, text.partition("```yaml\n")[2].partition("```")[0]), find=find)
    check_on(recipe, RIG, complete(recipe.params, {}))
    assert recipe.name == "evening"
