"""The process of one rank: `python -m engines.rank SETTINGS.json`, with the folder that holds `engines` on PYTHONPATH."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from .ddp import Ddp
from .diloco import DiLoCo
from .reports import Reports
from .settings import read_settings
from .task import load_task
from .training import Training

ENGINES: dict[str, type[DiLoCo] | type[Ddp]] = {"diloco": DiLoCo, "ddp": Ddp}


def main(path: Path) -> None:
    """Train as the settings say."""
    settings = read_settings(path)
    torch.set_num_threads(settings.threads)
    settings.folder.mkdir(parents=True, exist_ok=True)
    training: Training = ENGINES[settings.manifest["engine"]](settings, load_task(settings.package))
    try:
        training.run()
    except OSError as error:
        reason = f"{error}. Next: free space, start the rank again; it goes on at its last checkpoint"
        Reports(settings.folder, settings.rank).say("failed", reason=reason)
        sys.exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
