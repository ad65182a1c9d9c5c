"""The shipped example files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def bench_rig() -> Path:
    """Return the path of the bench rig, in the checkout or in the wheel."""
    checkout = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
    if checkout.is_file():
        return checkout
    return Path(str(resources.files("choroid") / "examples" / "rigs" / "bench.yaml"))
