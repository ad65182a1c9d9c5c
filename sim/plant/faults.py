"""Faults of a plant: each field is neutral without a fault, and the plant reads it at each step.

A fault is injected by setting a field, and ended by resetting it; dictionaries are keyed by the rig's own names. Call
:meth:`sim.plant.plant.Plant.advance` first when the instant matters: a field holds from the plant's last step on.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Faults:
    """The faults of one plant."""

    flow_scale: dict[str, float] = field(default_factory=dict)
    """Line → factor on what flows: 1 is health, between 1 and 0 an occlusion, negative a tubing put in backwards.

    Of a branch it is the factor on its conductance: medium goes where it is less resisted. A passive outlet is closed at 0
    and runs at any other; backwards means nothing to either."""

    leak_ul_min: dict[str, float] = field(default_factory=dict)
    """Line → what it loses to the bench while medium moves in it, at most what it moves (µL/min)."""

    bubble_ul: dict[str, float] = field(default_factory=dict)
    """Line → air still to pass (µL): takes the place of liquid until it has passed. The plant counts it down."""

    clog: float = 1.0
    """Factor on the sterile filter's resistance; at least 1."""

    filter_torn: bool = False
    """The sterile filter has a hole: little resistance, and cells, particles and microbes pass."""

    contamination: dict[str, float] = field(default_factory=dict)
    """Vessel → microbes in it (CFU/mL): each rise of this number is added once; taking it back cleans nothing."""

    wrong_medium: dict[str, str] = field(default_factory=dict)
    """Vessel → medium of the rig's list that was filled in by mistake; its content is replaced once, at its volume."""

    sensor_offset: dict[str, float] = field(default_factory=dict)
    """Point → added to its reading, in its unit."""

    sensor_stuck: dict[str, float] = field(default_factory=dict)
    """Point → the one value that it shows."""

    sensor_drift_per_day: dict[str, float] = field(default_factory=dict)
    """Point → drift (its unit per day) from when the fault is set; taking the fault back takes the drift back."""

    sensor_noise: dict[str, float] = field(default_factory=dict)
    """Point → factor on its noise."""

    wear: dict[str, float] = field(default_factory=dict)
    """Line → tubing wear, 0 (as worn as its revolutions say) to 1 (no lumen springs back: nothing flows)."""
