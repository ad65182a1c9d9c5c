"""`python -m tests.protocols.make_schema`: write docs/recipes/recipe.schema.json from the code."""

from __future__ import annotations

import json
from pathlib import Path

from controller.execution.recipe_form import schema

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "recipes" / "recipe.schema.json"


def text() -> str:
    """The file's text."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(text(), encoding="utf-8")
