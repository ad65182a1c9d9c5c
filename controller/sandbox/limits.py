"""How much a model may use."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of one model. Sizes are in bytes; `max_memory` is added to what the runtime itself needs.

    Without `max_cpu_s` only the time of each call is limited, by its deadline, not that over the life of the worker.
    """

    max_model: int = 32 * MIB
    max_initializers: int = 32 * MIB
    max_nodes: int = 10_000
    max_depth: int = 8
    max_tensors: int = 64
    """Inputs, and outputs, of the model."""
    max_io: int = 16 * MIB
    """All inputs of one call together, and all outputs."""
    max_memory: int = 256 * MIB
    max_cpu_s: int | None = None
    max_start_s: float = 30.0
    """Start of the worker and load of the model, by real time in which it could run."""
