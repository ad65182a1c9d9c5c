"""`make types`: generate the types of the APIs' answers: dashboards/types/api.d.ts from dashboards/models, and
grid/page/types/api.d.ts from grid/page/models.py.

The pages' scripts are checked against these types, so that a renamed field fails `make lint` and not a user.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dashboards import routes
from dashboards.models import base, books, faults, images, nerves, probes, rig, runs, safety, users
from grid.page.models import HubModel

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "dashboards" / "types" / "api.d.ts"
GRID_TARGET = ROOT / "grid" / "page" / "types" / "api.d.ts"
READ = (
    safety.AlarmsModel,
    books.AssaysModel,
    books.AuditModel,
    books.DecisionsModel,
    base.Errored,
    faults.FaultsView,
    rig.HealthView,
    rig.HistoryView,
    rig.RecordsView,
    images.ImagesModel,
    images.TimeLapseModel,
    probes.ProbesModel,
    books.LedgerModel,
    nerves.ElectrodesModel,
    users.OwnAccount,
    nerves.FiringModel,
    nerves.LeasesModel,
    nerves.ResponsesModel,
    nerves.StimulationsModel,
    nerves.WaveformsModel,
    runs.LibraryModel,
    runs.ProtocolsView,
    rig.RigView,
    runs.RunModel,
    rig.StateView,
)
"""The answers that the page reads; what they contain follows. Further ones are in `PAGE_READS` of their file of routes."""
SIMPLE = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def _of_routes() -> Iterator[type[BaseModel]]:
    for module in iter_modules(routes.__path__, "dashboards.routes."):
        yield from getattr(import_module(module.name), "PAGE_READS", ())


GENERATED: dict[Path, tuple[str, tuple[type[BaseModel], ...]]] = {
    TARGET: ("dashboards/models", (*READ, *_of_routes())),
    GRID_TARGET: ("grid/page/models.py", (HubModel,)),
}
"""The files, what each is generated from, and the models."""


def generate(target: Path = TARGET) -> str:
    """Return the text of a file of types."""
    source, models = GENERATED[target]
    answers: list[tuple[type[BaseModel], Any]] = [(model, "serialization") for model in models]
    _, found = models_json_schema(answers)
    blocks = [f"// Generated from {source} by `make types`; do not edit.\n"]
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
    """Write the files."""
    for target in GENERATED:
        target.parent.mkdir(exist_ok=True)
        target.write_text(generate(target), encoding="utf-8")
        print(f"wrote {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
