"""Fields of the steps of a recipe: their quantities, choices and names, and the names that they save."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.recipes.form import PART
from controller.recipes.values import Values
from controller.rig.problems import Place
from protocols.expression import PLAIN, Expression, constant, unit_text
from protocols.steps import Template, units_saved
from protocols.verbs import StepForm


@dataclass(frozen=True, slots=True)
class Written:
    """One step as the file has it: its form, its entries, its place in the file, and `file:line`."""

    form: StepForm
    entries: dict[str, Any]
    place: Place
    where: str


@dataclass(slots=True, kw_only=True)
class StepFields(Values):
    """Reads the fields of steps."""

    path: Path
    saved: set[str] = field(default_factory=set)
    """Names that the steps read so far save; of a branch, those of the branch."""

    def save_name(self, written: Written) -> str | None:
        """Return the name after `as`."""
        return self.name(written.entries.get("as"), (*written.place, "as"))

    def saves_as(self, written: Written, save: str | None, unit: str | None = None) -> None:
        """Make the names that a step saves known to the steps after it; `unit` replaces that of its record."""
        if save:
            place = (*written.place, "as") if "as" in written.entries else written.place
            self.saves(units_saved(written.form, save, unit), place)

    def given(self, written: Written, name: str) -> Expression | Template | str:
        """Return the value of one argument that a verb's method takes."""
        kind = written.form.arguments[name].kind
        if kind == "choice":
            return self.choice(written, name)
        if kind == "text":
            return self.template(written.entries[name], (*written.place, name))
        return self.quantity(written, name)

    def quantity(self, written: Written, name: str) -> Expression:
        """Return a quantity, or its default."""
        argument = written.form.arguments[name]
        if name not in written.entries:
            return constant(argument.default, argument.unit or PLAIN)
        return self.expression(written.entries[name], argument, (*written.place, name))

    def part(self, written: Written, name: str) -> str:
        """Return the name of a part of the rig; empty if it is left out."""
        given = written.entries.get(name)
        if given is not None and not (isinstance(given, str) and re.match(PART, given)):
            self.wrong(
                (*written.place, name), f"“{given}” is no name of a part of a rig", "Write it as in the rig file"
            )
        return "" if given is None else str(given)

    def choice(self, written: Written, name: str) -> str:
        """Return one of an argument's choices; noted when it is none."""
        given, choices = written.entries[name], written.form.arguments[name].choices
        if given not in choices:
            self.wrong((*written.place, name), f"“{given}” is no choice", f"Choose {', '.join(choices)}")
        return str(given)

    def saves(self, units: Mapping[str, str], place: Place) -> None:
        """Make names known to the steps after this one.

        A name keeps its kind: in a loop the text above is run again, with what was saved below it.
        """
        for name, unit in units.items():
            before = self.units.get(name, unit)
            if before != unit:
                what = f"“{name}” is {unit_text(before)} above and {unit_text(unit)} here"
                self.wrong(place, what, "Choose another name for one of them")
                return
        self.units |= units
        self.saved |= set(units)
