"""States for regulators: a few readings and outputs, everything else absent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controller.core.state import ActuatorView, Reading, State
from controller.rig.loading import load_rig
from drivers.commands import Command, Guarantee, Quality, Status, Stop

RIG = load_rig(Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml")


def reading(value: float, at_s: float, quality: Quality = Quality.GOOD) -> Reading:
    return Reading(value, "", quality, at_s)


def output(status: Status | None, commanded: Command | None = None) -> ActuatorView:
    return ActuatorView(status, 0.0, commanded, Stop(), Guarantee.GUARD)


def state(at_s: float, readings: Mapping[str, Reading], actuators: Mapping[str, ActuatorView] | None = None) -> State:
    return State(at_s, "", readings, actuators or {}, {}, (), {})
