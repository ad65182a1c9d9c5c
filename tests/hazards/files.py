"""Rig files for the hazard tests: the shipped ones, spoilt by edits of their text or of their data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.hazards.loading import load_checked_rig
from controller.rig.document import read_document
from controller.rig.problems import Problem, RigError
from drivers.registry import MODELS

RIGS = Path(__file__).parents[2] / "examples" / "rigs"
SHIPPED = tuple(sorted(RIGS.glob("*.yaml")))
BENCH = RIGS / "bench.yaml"
Spoil = Callable[[dict[str, Any]], None]


def problems_of_text(folder: Path, *swaps: tuple[str, str], rig: Path = BENCH) -> list[Problem]:
    """What is wrong with a shipped rig in which texts are exchanged."""
    text = rig.read_text(encoding="utf-8")
    for old, new in swaps:
        assert text.count(old) >= 1, f"{rig.name} no longer says {old}"
        text = text.replace(old, new, 1)
    path = folder / "rig.yaml"
    path.write_text(text, encoding="utf-8")
    return problems(path)


def problems_of_data(folder: Path, spoil: Spoil, rig: Path = BENCH) -> list[Problem]:
    """What is wrong with a shipped rig whose data `spoil` has changed."""
    data = json.loads(json.dumps(read_document(rig).data))
    spoil(data)
    path = folder / "rig.yaml"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return problems(path)


def problems(path: Path) -> list[Problem]:
    """What is wrong with a rig file."""
    try:
        load_checked_rig(path, models=MODELS)
    except RigError as error:
        return error.problems
    return []
