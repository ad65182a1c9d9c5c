"""`python -m tests.protocols.make_schema`: write the schemas of recipes, grading rules and rigs into docs, from the code."""

from __future__ import annotations

import json
from pathlib import Path

from controller.recipes.form import schema
from controller.rig import grading
from controller.rig.schema import rig_schema

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA = DOCS / "recipes" / "recipe.schema.json"
GRADING = DOCS / "grading.schema.json"
RIG = DOCS / "rig.schema.json"


def text() -> str:
    """The file's text."""
    return _json(schema())


def grading_text() -> str:
    """The text of the schema of rule files."""
    return _json(grading.schema())


def rig_text() -> str:
    """The text of the schema of rig files."""
    return _json(rig_schema())


def _json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(text(), encoding="utf-8")
    GRADING.write_text(grading_text(), encoding="utf-8")
    RIG.write_text(rig_text(), encoding="utf-8")
