"""The plant that a simulation runs on: a kind of tissue by name, or the file that `choroid fit --out` wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from choroid.common.failure import UserError
from drivers.strict_yaml import load_yaml
from sim.plant.parameters import KINDS, PlantParameters
from sim.plant.tissue_models import drawn

DRAWN = "drawn-"
"""Begin of the name of a tissue that a seed draws."""


def plant_of(name: str) -> PlantParameters:
    """Return the parameters of a kind of tissue, of one that a seed draws (`drawn-7`), or those of a twin file.

    Raises:
        UserError: There is no such kind or file, or the file is none of parameters.
    """
    if name in KINDS:
        return KINDS[name]
    if (seed := name.removeprefix(DRAWN)) != name and seed.isdecimal():
        return PlantParameters(drawn(int(seed)))
    path = Path(name)
    if not path.is_file():
        raise UserError(
            f"there is no model of tissue and no file “{name}”. Next: choose among {', '.join(KINDS)},"
            f" {DRAWN}N (a tissue that the seed N draws from the range of the literature), or name the file that"
            " `choroid fit --out` wrote"
        )
    try:
        data = load_yaml(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or not isinstance(data.get("plant"), dict):
            raise ValueError("it has no mapping “plant”")
        return PlantParameters.from_json(data["plant"])
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(
            f"{path} cannot be used as a twin: {error}. Likely cause: it is another file, or was edited. Next: write it with"
            " `choroid fit --out`"
        ) from None


def content_of(name: str) -> str:
    """Return what tells the plant of `name` from others: the name of a kind of tissue, or a hash of what a file states.

    Raises UserError as :func:`plant_of`.
    """
    if name in KINDS:
        return name
    return hashlib.sha256(json.dumps(plant_of(name).to_json(), sort_keys=True).encode()).hexdigest()


def write_twin(path: Path, plant: PlantParameters, about: dict[str, Any]) -> None:
    """Write a file that :func:`plant_of` reads, with what it was made from. Raise OSError."""
    text = yaml.safe_dump({**about, "plant": plant.to_json()}, sort_keys=False, allow_unicode=True)
    partial = path.with_name(f".{path.name}.part")  # half a file would be read as one that leaves parameters out
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
