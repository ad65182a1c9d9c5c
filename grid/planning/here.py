"""Measure this machine as a candidate: the probe runs in the training environment, with code that is allowed here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from grid.errors import GridError
from grid.jobs.code import allowed, engines
from grid.jobs.environment import interpreter
from grid.jobs.manifest import JobManifest
from grid.planning.candidates import TrainingCandidate, read_candidate

SIZES = 4
"""Sizes of micro-batch that are tried by default: the batch of the job and its halves."""


def micro_batches(batch: int) -> list[int]:
    """Return the sizes that are measured by default for a batch: it and its halves, smallest first."""
    return sorted({max(1, batch >> half) for half in range(SIZES)})


def measure_here(
    manifest: JobManifest, data: Path, name: str, sizes: Sequence[int], keep: Path | None
) -> TrainingCandidate:
    """Return this machine as a candidate for a job.

    Args:
        manifest: The job.
        data: Data folder of the member, with the code that is allowed here.
        name: Of the candidate.
        sizes: Samples of a micro-batch to measure.
        keep: Where to write the measurement; None: nowhere.

    Raises:
        GridError: The environment or the code is missing, or the probe has failed.
    """
    python, package = interpreter(), allowed(data, manifest.code)
    words = [str(python), "-P", "-m", "engines.probe", str(package), manifest.preset]
    words += ["--micro-batches", ",".join(map(str, sizes)), "--seed", str(manifest.seeds.model)]
    words += ["--threads", str(manifest.threads or 0)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(engines().parent), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(  # noqa: S603  # the prepared environment and an allowed package
            words, capture_output=True, text=True, check=False, env=environment
        )
    except OSError as error:
        raise GridError(f"the probe cannot be started ({error}). Next: `choroid grid prepare train --check`") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise GridError(
            f"the probe of preset {manifest.preset} failed: {last[:300]}. Next: check the preset and memory"
        )
    try:
        plain = {"name": name, **json.loads(done.stdout)}
    except (ValueError, TypeError):
        raise GridError(
            "the probe printed no figures. Likely cause: the code package prints itself. Next: remove that"
        ) from None
    if keep is not None:
        try:
            keep.write_text(json.dumps(plain) + "\n", encoding="utf-8")
        except OSError as error:
            raise GridError(f"{keep} cannot be written ({error.strerror}). Next: name another file") from None
    return read_candidate(plain, name)
