"""The trainer of a federated rank: `python -m engines.apart SETTINGS.json PIPE` trains on its own data, one line an order.

It gives out an update that is no longer than the manifest allows; its samples stay in this process.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from .checkpoints import write_whole
from .replica import ModelReplica
from .settings import RankSettings, read_settings
from .task import load_task

FIRST, GIVEN, ANSWER = "first.safetensors", "given.safetensors", "answer.safetensors"
"""As in `federated.files`."""


class ApartTrainer:
    """The model of a rank that trains on data of its own, of which the other ranks have none."""

    def __init__(self, settings: RankSettings) -> None:
        self._plain = settings.manifest
        self._folder = settings.folder
        alone = dataclasses.replace(settings, rank=0, manifest={**self._plain, "ranks": {"max": 1}})
        task = load_task(settings.package)
        self._replica = ModelReplica(
            alone, task, task.data(settings.data["train"], "train"), replicates_optimiser=False
        )
        held_out = settings.data.get("test")
        self._held_out = task.data(held_out, "test") if held_out else None
        write_whole(self._folder / FIRST, save({"shared": self._replica.shared.detach().clone()}))

    def train(self, outer: int) -> dict[str, Any]:
        """Train from the common weights; leave the update in a file, shortened to the bound.

        Args:
            outer: Rounds that are behind the common weights.
        """
        self._take(outer)
        scores = self._scores() if outer % int(self._plain["checkpoint_every"]) == 0 else {}
        locals_ = int(self._plain["local_steps"])
        loss = sum(self._replica.step(local, self._replica.loss) for local in range(locals_)) / locals_
        update = self._replica.update()
        norm, clip = float(update.double().norm()), float(self._plain["federated"]["clip"])
        found = {"loss": loss, "norm": norm, "clipped": norm > clip, "scores": scores, "refused": ""}
        if not math.isfinite(norm) or not math.isfinite(loss):
            self._replica.return_to_shared()
            self._replica.reset_optimiser()
            return {**found, "loss": 0.0, "norm": 0.0, "refused": "its update is not finite"}
        sent = update * min(1.0, clip / max(norm, 1e-30))
        form = torch.float16 if self._plain["codec"] == "fp16" else torch.float32
        write_whole(self._folder / ANSWER, save({"update": sent.to(form)}))
        return found

    def keep(self, outer: int) -> dict[str, Any]:
        """Write the common weights as the model of the job."""
        self._take(outer)
        data = self._replica.weights()
        name = hashlib.sha256(data).hexdigest()
        write_whole(self._folder / f"model-{name}.safetensors", data)
        return {"model": name, "scores": self._scores()}

    def _take(self, outer: int) -> None:
        given = load_file(self._folder / GIVEN)
        common = {"outer": torch.tensor([outer]), "shared": given["shared"], "momentum": torch.zeros(0)}
        self._replica.restore(common, {})

    def _scores(self) -> dict[str, float]:
        return {} if self._held_out is None else self._replica.scores(self._held_out)


def main(path: Path, answers: int) -> None:
    """Answer each line of standard input."""
    settings = read_settings(path)
    torch.set_num_threads(settings.threads)
    apart = ApartTrainer(settings)
    does = {"train": apart.train, "keep": apart.keep}
    with os.fdopen(answers, "w") as out:
        for line in sys.stdin:
            order = json.loads(line)
            found = does[order["what"]](int(order["outer"]))
            print(json.dumps({**found, "cpu_s": sum(os.times()[:2])}), file=out, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
