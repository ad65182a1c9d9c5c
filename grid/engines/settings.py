"""What the process of a rank is given: the manifest of the job, and where things are on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PORT = 29_400
"""On which a rank listens for the others, at its own address."""


@dataclass(frozen=True, slots=True)
class RankSettings:
    """The settings of a rank.

    Attributes:
        job: Hash that names the job.
        manifest: The manifest as plain data (docs/training.md lists the keys).
        min_ranks: How many ranks must be there.
        rank: This one.
        addresses: Of all ranks; the last ones may be absent.
        package: Folder of the code package.
        data: Folders of the data sets by split.
        folder: Where checkpoints, events and the model are written.
        threads: Of the computation.
        left_s: Time until the latest end of the job (s); None: there is none.
        federated: Of a federated job: folder of its keys, public keys of the nodes by rank, Python of the trainer.
    """

    job: str
    manifest: Mapping[str, Any]
    min_ranks: int
    rank: int
    addresses: Sequence[str]
    package: Path
    data: Mapping[str, Sequence[Path]]
    folder: Path
    threads: int
    left_s: float | None = None
    federated: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """Return the highest number of ranks."""
        return int(self.manifest["ranks"]["max"])


def read_settings(path: Path) -> RankSettings:
    """Read the file that the runner has written."""
    plain = json.loads(path.read_bytes())
    plain["package"], plain["folder"] = Path(plain["package"]), Path(plain["folder"])
    plain["data"] = {split: [Path(each) for each in folders] for split, folders in plain["data"].items()}
    return RankSettings(**plain)
