"""`python -m tests.protocols.make_pages`: write the pages of docs/recipes from the shipped protocols.

What stands in a page is what stands in the recipe: its comment, parameters, what it asks of a person, its text. Only
`WHEN` is written here.
"""

from __future__ import annotations

from pathlib import Path

from controller.recipes.catalogue import SHIPPED, shipped
from controller.rig.quantities import quantity_text
from protocols.parameters import Param
from protocols.registry import Recipe
from protocols.steps import Ask

PAGES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
WHEN = {
    "back-flush": "When filter-integrity reports a clogged filter, or when its pressure has risen from run to run.",
    "change-wells": "The usual medium change of wells and chips whose chambers have a pumped line, such as a plate behind selectors.",
    "circulate": "After set-up, before organoids are inserted; after any work at the rig.",
    "debubble": "After priming, after a bottle ran empty, and when the pressure of the heart fluctuates.",
    "dialyse": "When only lactate and ammonia limit the grade, and the growth factors should be kept.",
    "dilute-to-grade": "When one batch has a poor grade and fresh medium is expensive.",
    "emergency-care": "When no person can attend the rig for a while, or another part has failed.",
    "end-of-culture": "At the end, with the person present who removes the organoids.",
    "exchange": "The usual daily medium change; the control arm for recycling.",
    "feed": "Between two exchanges, for evaporated water and consumed nutrients.",
    "filter-integrity": "Before a culture, after every filter change, and when sterility is in doubt.",
    "filter-probe": "Called by back-flush; by itself, to follow the filter's pressure over weeks.",
    "hand-over": "When a culture moves to another rig: hand-over on the old rig, take-up on the new one.",
    "partial-exchange": "One medium change, of a share of the loop.",
    "prime": "When the tubing is new or was dry, before organoids are inserted.",
    "pump-calibration": "After a change of tubing, and monthly. A pump whose gain is `due` needs the calibration of its manufacturer.",
    "recycle": "The normal operation: medium with a sufficient grade is returned.",
    "rinse": "Between two media, and after a batch of grade D.",
    "stand-by": "When nothing is to be moved: a rig that is fed by hand, a trial of a rig file, a pause of the culture's schedule.",
    "take-up": "When a culture has arrived from another rig; `choroid handover` there prints the values of `loop` and `ph`.",
    "sensor-calibration": "Weekly, and when two probes disagree. The gate refuses it for the probe of the loop, which controls the gas.",
    "sample": "For an external assay. The sample leaves by the discard line; nothing else is opened.",
}

RIGS = {"dialyse": "examples/rigs/bench_dialysis.yaml"}
"""Shipped rig with what not every rig has."""


def page(recipe: Recipe) -> str:
    """Return the text of one page."""
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
    asks = [_asked(step) for step in recipe.program.all_steps() if isinstance(step, Ask)] if recipe.program else []
    if asks:
        lines += ["It holds and asks a person, always or after a fault:", "", *(f"* {ask}" for ask in asks), ""]
    if path.exists():
        lines += ["```yaml", path.read_text(encoding="utf-8").rstrip(), "```", ""]
    else:
        module = recipe.name.replace("-", "_")
        lines += [f"This protocol is written in Python: `protocols/{module}.py`.", ""]
    return "\n".join(lines)


def _asked(step: Ask) -> str:
    return "".join(part if isinstance(part, str) else f"`{part.text}`" for part in step.message.parts)


def _shown(param: Param, value: float) -> str:
    if param.unit == "s" and value >= 60:
        divisor, unit = next((d, u) for d, u in ((86_400, "d"), (3600, "h"), (60, "min")) if value >= d)
        return f"{value / divisor:g} {unit}"
    return quantity_text(value, param.unit).strip()


def index() -> str:
    """The list of all of them."""
    rows = [f"* [{name}]({name}.md): {recipe.title}" for name, recipe in shipped().items()]
    head = (
        "# Shipped protocols\n\nEach was run to its end on the simulated bench rig with a closed mass balance, and was killed and"
        " restarted at\njournal boundaries (tests/execution/test_shipped_recipes.py). [Protocols](../protocols.md) describes"
        " how to write your own.\n"
    )
    return "\n".join([head, *rows, ""])


def pages() -> dict[Path, str]:
    """File → text."""
    return {PAGES / "README.md": index()} | {PAGES / f"{name}.md": page(recipe) for name, recipe in shipped().items()}


if __name__ == "__main__":
    for where, text in pages().items():
        where.write_text(text, encoding="utf-8")
