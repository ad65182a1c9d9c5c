"""Facts of a simulated device for the test bench of its driver, from the manual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class BenchFacts:
    """Describes what a bench (:class:`drivers.conformance.bench.Bench`) must know of a model; the default fits most.

    Args:
        settings: What the rig file of the model must or should contain.
        channel_settings: The same of each channel.
        address: Address on the bench, where every device of the model would answer the default one.
        similar: Names of groups of models with similar protocols, or with the same place in a lab. Each driver must detect
            the other models of its groups on its line.
        doubts: Whether the model can mark a reading as unreliable.
        moves: Whether it can report that its value is in motion.
        checksum: Whether its every reply has a checksum.
        pushes: Whether it sends by itself and is not asked.
        untold: What its protocol cannot report of a pump that already runs.
        no_worse: Defects of a driver that do no harm with this model, with the reason.
        settles_s: Maximum time after a command during which its output may still be moving (s).
    """

    settings: Mapping[str, float | str | bool] = field(default_factory=dict)
    channel_settings: Mapping[str, float | str | bool] = field(default_factory=dict)
    address: str = ""
    similar: tuple[str, ...] = ()
    doubts: bool = False
    moves: bool = False
    checksum: bool = False
    pushes: bool = False
    untold: frozenset[Literal["flow", "direction"]] = frozenset()
    no_worse: Mapping[str, str] = field(default_factory=dict)
    settles_s: float = 0.0
