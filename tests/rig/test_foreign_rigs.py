"""Rigs of other laboratories, and adversarial ones (tests/rigs): each loads, and fits the published schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.rig.convert import convert
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from tests.rig.test_schema import refusals

RIGS = sorted((Path(__file__).parents[1] / "rigs").glob("*.yaml"))


def test_there_are_twenty_and_more() -> None:
    assert len(RIGS) >= 20


@pytest.mark.parametrize("path", RIGS, ids=[path.stem for path in RIGS])
def test_a_foreign_rig_is_described(path: Path) -> None:
    rig = load_rig(path, models=MODELS)
    assert rig.name == path.stem.replace("_", "-")
    assert refusals(path.read_text(encoding="utf-8")) == []
    assert convert(path).changes == ()
