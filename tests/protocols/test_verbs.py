"""The verb table: what is derived from it is current and whole, and no other file names a verb."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import pytest

from choroid.common.child import PACKAGES
from controller.recipes.form import FORMS, VERB_OF
from controller.rig.loading import load_rig
from controller.runs.action import actions
from controller.runs.facts import RigFacts
from controller.transfers.routes import route_of, routes_of
from protocols.host import ProtocolError
from protocols.language import TOGETHER, Lab
from protocols.organs import Kidney
from protocols.results import Amount, Barrier, Measurement
from protocols.table import ACTIONS, READINGS, TRANSFERS, VERBS
from protocols.verbs import ActionVerb, BoundTransfer, ChamberVerb, Policy, TransferVerb, Verb
from tests.protocols import make_verbs

ROOT = Path(__file__).resolve().parents[2]
RIGS = sorted((ROOT / "examples" / "rigs").glob("*.yaml"))
TABLE = {
    ROOT / "protocols" / name
    for name in (
        "organs.py",
        "language.py",
        "chamber_verbs.py",
        "steps.py",
        "chamber_steps.py",
        "blocks.py",
    )
} | {make_verbs.PAGE}
"""Files that may name a verb: the table, and what is written from it."""
TELLING = {name for name in (*VERBS, *FORMS) if "." in name or "_" in name}
"""Names that are no words of English, so that their text in a file can only mean the verb."""


@pytest.mark.parametrize("path", make_verbs.files(), ids=lambda path: path.name)
def test_what_is_written_from_the_table_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == make_verbs.files()[path], (
        "the verb table has changed. Next: python -m tests.protocols.make_verbs"
    )


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a source file, with its line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        for number, line in enumerate(source.splitlines(), 1):
            for found in re.finditer(r"""(["'`])((?:(?!\1).)*)\1""", line):
                yield number, found[2]
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_file_outside_the_table_names_a_verb() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for folder in PACKAGES
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".js") and path not in TABLE
        for line, text in _texts(path)
        if text in TELLING
    ]
    assert not found, (
        f"{', '.join(found)}: a verb's name in another file than the table. Next: take it from the record"
        " (Kidney.draw.name), or derive what depends on it from the record"
    )


def test_the_search_for_names_finds_one(tmp_path: Path) -> None:
    python, page = tmp_path / "a.py", tmp_path / "a.js"
    python.write_text('ROUTES = {"kidney.draw": 1}\n')
    page.write_text("const x = { 'gut.feed': 'Feeds' };\n")
    assert "kidney.draw" in [text for _, text in _texts(python)]
    assert "gut.feed" in [text for _, text in _texts(page)]


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_a_record_is_whole(verb: Verb) -> None:
    assert verb.says or verb.name in READINGS
    assert verb.form is None or verb.form.help
    assert (verb.policy is Policy.RESUME) == isinstance(verb, TransferVerb | ChamberVerb)
    for name, argument in ({} if verb.form is None else verb.form.arguments).items():
        assert argument.help, name
        assert (argument.kind == "choice") == bool(argument.choices), name


@pytest.mark.parametrize("verb", ACTIONS.values(), ids=lambda verb: verb.name)
def test_a_method_takes_what_its_record_fills(verb: ActionVerb[..., Any]) -> None:
    parameters = inspect.signature(verb.method).parameters
    filled = {argument.parameter for argument in ({} if verb.form is None else verb.form.arguments).values()} - {""}
    assert filled <= set(parameters)


def test_every_step_of_a_recipe_is_declared_once() -> None:
    assert len(VERB_OF) == len([verb for verb in VERBS.values() if verb.form is not None])
    assert set(VERB_OF) < set(FORMS)


@pytest.mark.parametrize("path", RIGS, ids=lambda path: path.stem)
def test_the_places_of_every_verb_are_keys_of_the_rig(path: Path) -> None:
    rig = load_rig(path)
    routes = routes_of(rig)
    missing = {name for name in TRANSFERS if name not in routes}
    assert all(TRANSFERS[name].needs for name in missing)
    for name in missing:
        with pytest.raises(ProtocolError, match=re.escape(f"it has no {TRANSFERS[name].needs}")):
            route_of(routes, name)
    facts = RigFacts(rig, dict)
    organs = {"heart" if key == "hearts" else key for key, organ in rig.organs if organ}
    for name, verb in READINGS.items():
        if name.partition(".")[0] not in organs and not rig.organs.hearts:
            continue  # nothing to read of an organ that a rig without hearts does not have
        if verb.pump_of:
            assert facts.pump(verb.pump_of), name
        elif verb.probe:
            assert facts.probe(verb.probe, verb.vessel) or verb.absent, name
        else:
            assert facts.sensor(verb.sensor) or verb.absent, name


def test_every_verb_has_an_action() -> None:
    """A reading is a step of `measure`, and branches are the run's own."""
    assert set(actions()) == set(VERBS) - set(READINGS) - {TOGETHER.name}


def test_a_verb_of_an_organ_is_its_record_on_the_class_and_callable_on_a_lab() -> None:
    class Nothing:
        def __getattr__(self, name: str) -> Any:
            return None

    nothing: Any = Nothing()
    assert Kidney.draw is TRANSFERS["kidney.draw"]
    bound = Kidney(nothing, nothing).draw
    assert isinstance(bound, BoundTransfer)
    assert bound.verb is Kidney.draw
    moving = bound(1.0)
    assert inspect.iscoroutine(moving)
    moving.close()


async def _types_that_mypy_sees(lab: Lab) -> None:
    """Not run: mypy fails here when a verb loses its types (an ignored error that is none is an error as well)."""
    assert_type(await lab.kidney.draw(1_000.0), Amount)
    assert_type(lab.kidney.draw.min_ul, float)
    assert_type(await lab.lung.oxygen(60.0), Measurement)
    assert_type(await lab.heart.flow(), Measurement)
    assert_type(Kidney.draw, TransferVerb)
    assert_type(await lab.immune.barrier(), Barrier)
    assert_type(await lab.sleep_until(60.0), float)
    await lab.sleep("1 min")  # type: ignore[arg-type]
    await lab.kidney.draw("1 mL")  # type: ignore[arg-type]
    await lab.kidney.draw()  # type: ignore[call-arg]
    await lab.heart.flow(60.0)  # type: ignore[call-arg, arg-type]
    await lab.kidney.drain(1_000.0)  # type: ignore[attr-defined]
    lab.gut.feed(1_000.0)  # type: ignore[unused-coroutine]
