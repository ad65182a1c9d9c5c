"""The parts of a controller that need connected devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.analysers.analysers import Analysers
from controller.gate.gate import Gate
from controller.links.body import ConnectedRig
from controller.regulation.regulators import Regulator
from controller.runs.runner import Runner
from controller.upkeep.probe_health import ProbeHealthWatch
from controller.vitals.scoring import Scoring


class NotConnected(RuntimeError):
    """The controller has not connected its devices yet."""

    def __init__(self) -> None:
        super().__init__("the controller has not connected its devices yet. Next: wait for Controller.start to return")


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts that need connected devices. `regulators`, by name, begin with those of the hearts."""

    devices: ConnectedRig
    gate: Gate
    runs: Runner
    analysers: Analysers
    scoring: Scoring
    regulators: Mapping[str, Regulator]
    health: ProbeHealthWatch
