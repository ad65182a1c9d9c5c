"""`python -m tests.protocols.make_pages`: write the pages of docs/recipes from the shipped protocols.

What stands in a page is what stands in the recipe: its comment, parameters, what it asks of a person, its text. Only
`WHEN` is written here.
"""

from __future__ import annotations

from pathlib import Path

from controller.recipes.catalogue import SHIPPED, shipped
from controller.rig.quantities import quantity_text
from protocols.language import ASK
from protocols.parameters import Param
from protocols.registry import Recipe
from protocols.steps import Do, Template

PAGES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
WHEN = {
    "back-flush": "When filter-integrity says that the filter is clogged, or its pressure has crept up from run to run.",
    "circulate": "After setting up, before organoids go in; after any work at the rig.",
    "debubble": "After priming, after a bottle ran dry, when the heart's pressure is restless.",
    "dialyse": "When lactate and ammonia are what is wrong with the medium, and its growth factors are worth keeping.",
    "dilute-to-grade": "When one batch is not good enough and fresh medium is dear.",
    "emergency-care": "When nobody can look after the rig for a while, or something else is broken.",
    "end-of-culture": "At the end, with the person who takes the organoids out standing by.",
    "exchange": "The usual daily medium change; the arm to compare recycling with.",
    "feed": "For what evaporated and what the tissue ate, between two exchanges.",
    "filter-integrity": "Before a culture, after every filter change, and whenever sterility is in doubt.",
    "filter-probe": "Called by back-flush; by itself, to follow the filter's pressure over weeks.",
    "hand-over": "When the culture moves: this on the rig that it leaves, take-up on the one to which it comes.",
    "partial-exchange": "One medium change, of a share of the loop.",
    "prime": "Once, when the tubing is new or was dry, before organoids go in.",
    "pump-calibration": "After changing tubing, and monthly. A pump whose gain is `due` wants its maker's calibration.",
    "recycle": "The house's own way: give back what is good enough.",
    "rinse": "Between two media, and after a batch of grade D.",
    "take-up": "When a culture has come from another rig; `choroid handover` there says what to give as `loop` and `ph`.",
    "sensor-calibration": "Weekly, and when two probes disagree. The loop's own steers the gas: the gate refuses that.",
    "sample": "For an assay outside: the sample leaves by the discard line, nothing else is opened.",
}

RIGS = {"dialyse": "examples/rigs/bench_dialysis.yaml"}
"""Shipped rig with what not every rig has."""


def page(recipe: Recipe) -> str:
    """The text of one page."""
    path = SHIPPED / f"{recipe.name}.yaml"
    lines = [f"# {recipe.name}", "", f"{recipe.title}.", "", f"**When.** {WHEN[recipe.name]}", ""]
    if path.exists():
        comment = [line[2:] for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.startswith("# ")]
        lines += [*comment, ""]
    lines += ["| parameter | default | range | what |", "|---|---|---|---|"]
    for param in recipe.params:
        span = f"{_shown(param, param.low)} to {_shown(param, param.high)}"
        lines.append(f"| `{param.name}` | {_shown(param, param.default)} | {span} | {param.help} |")
    lines += [
        "",
        "```console",
        f"$ choroid plan {RIGS.get(recipe.name, 'RIG')} {recipe.name}",
        f"$ choroid protocol start {recipe.name}",
        "```",
        "",
    ]
    asks = (
        [_asked(step) for step in recipe.program.all_steps() if isinstance(step, Do) and step.verb is ASK]
        if recipe.program
        else []
    )
    if asks:
        lines += ["It holds for a person, always or when something is amiss:", "", *(f"* {ask}" for ask in asks), ""]
    if path.exists():
        lines += ["```yaml", path.read_text(encoding="utf-8").rstrip(), "```", ""]
    else:
        module = recipe.name.replace("-", "_")
        lines += [f"It is written in Python: `protocols/{module}.py`.", ""]
    return "\n".join(lines)


def _asked(step: Do) -> str:
    message = step.given["message"]
    parts = message.parts if isinstance(message, Template) else ()
    return "".join(part if isinstance(part, str) else f"`{part.text}`" for part in parts)


def _shown(param: Param, value: float) -> str:
    if param.unit == "s" and value >= 60:
        divisor, unit = next((d, u) for d, u in ((86_400, "d"), (3600, "h"), (60, "min")) if value >= d)
        return f"{value / divisor:g} {unit}"
    return quantity_text(value, param.unit).strip()


def index() -> str:
    """The list of all of them."""
    rows = [f"* [{name}]({name}.md): {recipe.title}" for name, recipe in shipped().items()]
    head = (
        "# Shipped protocols\n\nEach has been run on the simulated bench rig to its end with its books closed, and killed"
        " and restarted at\njournal boundaries (tests/execution/test_shipped_recipes.py). How to write your own:"
        " [protocols](../protocols.md).\n"
    )
    return "\n".join([head, *rows, ""])


def pages() -> dict[Path, str]:
    """File → text."""
    return {PAGES / "README.md": index()} | {PAGES / f"{name}.md": page(recipe) for name, recipe in shipped().items()}


if __name__ == "__main__":
    for where, text in pages().items():
        where.write_text(text, encoding="utf-8")
