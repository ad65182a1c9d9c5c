"""`make types`: generate choroid/client/answers.py, the client's form of the API's answers, from dashboards/models.

The client is a distribution of its own, without pydantic: each model becomes a plain dataclass with the same fields.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from dashboards.models import actuators, books, rig, runs, safety

TARGET = Path(__file__).resolve().parents[2] / "choroid" / "client" / "answers.py"
NAMES: dict[type[BaseModel], str] = {
    rig.HealthView: "HealthInfo",
    rig.ReadingView: "ReadingInfo",
    rig.VolumeView: "VolumeInfo",
    rig.TripView: "TripInfo",
    actuators.ActuatorState: "ActuatorInfo",
    rig.StateView: "StateInfo",
    rig.TissueView: "TissueInfo",
    rig.Goal: "GoalInfo",
    rig.HeartView: "HeartInfo",
    rig.CapabilityView: "CapabilityInfo",
    rig.RigView: "RigInfo",
    runs.ParamView: "ParameterInfo",
    runs.ProtocolView: "RecipeInfo",
    runs.StepModel: "StepInfo",
    runs.QuestionModel: "QuestionInfo",
    runs.RunModel: "RunInfo",
    safety.AlarmModel: "AlarmInfo",
    safety.AlarmsModel: "AlarmsInfo",
    books.VesselContent: "VesselInfo",
    books.LedgerModel: "LedgerInfo",
    books.EntryModel: "EntryInfo",
}
"""The answers that the client reads, and what they are called there."""
HEADER = '''"""Answers of the controller's HTTP API as plain data; every quantity has its unit in its name or a field `unit`.

Generated from dashboards/models by `make types`; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal
'''
_MODEL = re.compile(r"\b(" + "|".join(model.__name__ for model in NAMES) + r")\b")
_CLIENT = {model.__name__: name for model, name in NAMES.items()}


def generate() -> str:
    """Return the text of the module."""
    return "\n\n".join([HEADER, *("\n".join(_dataclass(model, name)) for model, name in NAMES.items())])


def _dataclass(model: type[BaseModel], name: str) -> Iterator[str]:
    """Yield the lines of one class: docstrings as they are, and the fields without what only the server needs."""
    source = inspect.getsource(model)
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    yield f"@dataclass(frozen=True, slots=True)\nclass {name}:"
    for part in tree.body:
        match part:
            case ast.Expr():
                text = re.sub(r"\bnull\b", "None", ast.get_source_segment(source, part) or "")
                yield f"    {text}" + ("\n" if part is tree.body[0] else "")
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                kind = _MODEL.sub(lambda found: _CLIENT[found[1]], _code(annotation))
                yield f"    {name}: {kind}{_default(default)}"
    yield ""


def _code(part: ast.expr) -> str:
    return ast.unparse(part).replace("'", '"')


def _default(value: ast.expr | None) -> str:
    """Return the default of a field; a list needs a factory, and a call (`Field(…)`) concerns the server."""
    match value:
        case ast.List():
            return " = field(default_factory=list)"
        case ast.Constant():
            return f" = {_code(value)}"
    return ""


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
    print(f"wrote {TARGET.name}")
    sys.exit(0)
