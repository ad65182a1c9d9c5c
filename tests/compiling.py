"""Compile what a fresh checkout lacks, in processes next to the collection: each test process would do so for itself."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RIGS = {"plant": "examples/rigs/bench.yaml", "branched plant": "tests/rigs/two_plates.yaml"}


def begin() -> list[subprocess.Popen[bytes]]:
    """Start a process for each part."""
    return [subprocess.Popen([sys.executable, "-m", "tests.compiling", part], cwd=ROOT) for part in (*RIGS, "engine")]


def compile_part(part: str) -> None:
    """Compile the plant for rigs with or without branches, or the electrode engine."""
    if part == "engine":
        from choroid.running.simulated_card import simulated_card
        from nerves.detector import Detection
        from nerves.engine import compile_engine

        info = simulated_card(electrodes=32, seed=1).info
        compile_engine(info)
        compile_engine(info, Detection(subtract_artefacts=True))
        return
    from controller.rig.loading import load_rig
    from sim.plant.plant import Plant

    passing = itertools.count()
    Plant(load_rig(ROOT / RIGS[part]), seed=1, now=lambda: float(next(passing))).truth()


if __name__ == "__main__":
    compile_part(sys.argv[1])
