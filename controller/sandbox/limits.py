"""How much a locked process may use."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Limits of one locked process."""

    max_memory: int = 256 * MIB
    """Size (bytes), added to what the process has when it is locked in."""
    max_cpu_s: int | None = None
    """Over the life of the process; None: only its owner limits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits(ProcessLimits):
    """Limits of one model. Sizes are in bytes.

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
    max_start_s: float = 30.0
    """Start of the worker and load of the model, by real time in which it could run."""
