"""The shipped example files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def bench_rig() -> Path:
    """Return the path of the bench rig, in the checkout or in the wheel."""
    return example("rigs/bench.yaml")


def example(name: str) -> Path:
    """Return the path of an example, in the checkout or in the wheel."""
    checkout = Path(__file__).resolve().parents[2] / "examples" / name
    return checkout if checkout.is_file() else Path(str(resources.files("choroid") / "examples" / name))
