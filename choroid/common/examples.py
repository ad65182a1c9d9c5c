"""The shipped examples."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def bench_rig() -> Path:
    """Return the bench rig's file: in the checkout, or carried by the wheel."""
    checkout = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
    if checkout.is_file():
        return checkout
    return Path(str(resources.files("choroid") / "examples" / "rigs" / "bench.yaml"))
