"""`python -m tests.protocols.make_verbs`: write what is derived from the verb table into files.

The table of steps in docs/protocols.md, the page's texts in dashboards/static/js/verbs.js, and the JSON schema of recipes.
"""

from __future__ import annotations

import json
from pathlib import Path

from controller.recipes.form import FORMS, VERB_OF
from protocols.host import ProtocolError
from protocols.table import VERBS
from protocols.verbs import AnyReadingVerb, Argument, Policy, StepForm, Verb
from tests.protocols import make_schema

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "protocols.md"
PAGE = ROOT / "dashboards" / "static" / "js" / "verbs.js"
BEGIN = "<!-- verbs: written by `python -m tests.protocols.make_verbs` from the verb table -->\n"
END = "<!-- end of verbs -->\n"
AFTER_A_CRASH = {
    Policy.RESUME: "gives the rest",
    Policy.REDO: "is done again",
    Policy.DEADLINE: "keeps its deadline",
    Policy.BRANCHES: "each branch goes on",
}


def page_text() -> str:
    """The text of dashboards/static/js/verbs.js."""
    texts = {verb.name: verb.says for verb in VERBS.values() if verb.says}
    rows = [
        f"  {name if name.isidentifier() else json.dumps(name)}: {json.dumps(text)}," for name, text in texts.items()
    ]
    head = (
        "// Texts of the verbs of a protocol. Written by `python -m tests.protocols.make_verbs` from the verb table in\n"
        "// protocols/organs.py; do not edit.\n"
    )
    return "\n".join([f"{head}export const VERBS = {{", *rows, "};", ""])


def docs_text(text: str) -> str:
    """The text of docs/protocols.md, with the table as it should be."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ProtocolError(f"{DOCS} has lost the marks of its verb table")
    rows = [_row(form) for form in FORMS.values()]
    table = ["| step | arguments | what | `as` saves | after a crash |", "|---|---|---|---|---|", *rows, ""]
    return "".join([before, begin, "\n", "\n".join(table), "\n", end, after])


def _row(form: StepForm) -> str:
    arguments = "; ".join(_argument(form, name, of) for name, of in form.arguments.items() if name != "as")
    if form.any_names:
        arguments = f"names and {form.any_names}"
    saves = ", ".join(_saved(form, end) for end in _shortened(form)) if "as" in form.arguments else ""
    cells = (f"`{form.step}`", arguments, form.help, saves, _after_a_crash(VERB_OF.get(form.step)))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _saved(form: StepForm, end: str) -> str:
    unit = form.saves[end].unit if end in form.saves else ""
    return f"`{end}`" if end else f"value ({unit})" if unit else "value"


def _shortened(form: StepForm) -> list[str]:
    """The suffixes of what a step saves; those of an estimate by one example of each kind."""
    ends = list(form.saves)
    return ends if len(ends) < 8 else [ends[0], ends[1], ends[2], "…"]


def _argument(form: StepForm, name: str, of: Argument) -> str:
    limits = [] if of.kind != "quantity" else [of.unit or ("any unit" if of.unit is None else "number")]
    low, high = of.min_value, of.maximum
    limits += (
        [f"{low:g} to {high:g}"] if low is not None and high is not None else [f"≥ {low:g}"] if low is not None else []
    )
    if of.kind == "choice":
        limits = [", ".join(of.choices) if len(of.choices) < 5 else "a unit"]
    elif of.kind not in ("quantity", "name", "point"):
        limits = [of.kind]
    shown = f" ({', '.join(limits)})" if limits else ""
    return f"{'**' if of.required else ''}`{name}`{'**' if of.required else ''}{shown}"


def _after_a_crash(verb: Verb | None) -> str:
    return "" if verb is None else "is read again" if isinstance(verb, AnyReadingVerb) else AFTER_A_CRASH[verb.policy]


def files() -> dict[Path, str]:
    """File → the text that it should have."""
    return {
        DOCS: docs_text(DOCS.read_text(encoding="utf-8")),
        PAGE: page_text(),
        make_schema.SCHEMA: make_schema.text(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
