"""`make types`: generate dashboards/types/api.d.ts, the types of the API's answers, from dashboards/models.

The page's scripts are checked against these types, so that a renamed field fails `make lint` and not a user.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dashboards.models import base, books, faults, nerves, rig, runs, safety

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "dashboards" / "types" / "api.d.ts"
READ = (
    safety.AlarmsModel,
    books.AuditModel,
    books.DecisionsModel,
    base.Errored,
    faults.FaultsView,
    rig.HealthView,
    rig.HistoryView,
    books.LedgerModel,
    nerves.ElectrodesModel,
    nerves.LeasesModel,
    nerves.StimulationsModel,
    nerves.WaveformsModel,
    runs.LibraryModel,
    runs.ProtocolsView,
    rig.RigView,
    runs.RunModel,
    rig.StateView,
)
"""The answers that the page reads; what they contain follows."""
SIMPLE = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def generate() -> str:
    """Return the text of api.d.ts."""
    answers: list[tuple[type[BaseModel], Any]] = [(model, "serialization") for model in READ]
    _, found = models_json_schema(answers)
    blocks = ["// Generated from dashboards/models by `make types`; do not edit.\n"]
    for name, schema in found["$defs"].items():
        blocks.append(_interface(name, schema))
    return "\n".join(blocks)


def _interface(name: str, schema: Mapping[str, Any]) -> str:
    fields = "".join(f"  {field}: {_type(of)};\n" for field, of in schema["properties"].items())
    return f"export interface {name} {{\n{fields}}}\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema as a TypeScript type.

    Raises:
        ValueError: the schema has a form that no model has used so far.
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f'"{each}"' for each in schema["enum"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"[{', '.join(_type(each) for each in schema['prefixItems'])}]"
        case "array":
            item = _type(schema["items"])
            return f"({item})[]" if "|" in item else f"{item}[]"
        case "object":
            values = schema.get("additionalProperties", True)
            return f"Record<string, {'unknown' if values is True else _type(values)}>"
        case str(simple) if simple in SIMPLE:
            return SIMPLE[simple]
    raise ValueError(f"no TypeScript type for the schema {dict(schema)}; add its form to tests/page_types.py")


def main() -> int:
    """Write the file."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(generate(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
