"""The process of one rank: started locked in, watched, and ended with its owner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.core.whole_file import locked
from grid.errors import GridError
from grid.jobs.folder import PROGRAMS, JobFolder
from grid.jobs.locked import UNLOCKABLE
from grid.work.listeners import MARK

Event = Mapping[str, Any]
LOG = "log.txt"
MAX_FILE_BYTES = 1 << 36
MAX_CPU_S = 1 << 31
LINE_BYTES = 1 << 20
LAST_BYTES = 1 << 16
"""Of a log, where the last words of a rank are looked for."""
END_S = 5.0
FLOWER = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_LOG_LEVEL": "WARNING",
}
"""Flower reports nothing to others, and fetches nothing."""


def rank_words(job: JobFolder, settings: Path, rank: int) -> dict[str, Any]:
    """Return what :mod:`grid.jobs.locked` is asked for.

    Args:
        job: The job.
        settings: File with the settings of the rank.
        rank: Its number.
    """
    python, program = (job.flower, "federated.rank") if job.flower else (job.interpreter, "engines.rank")
    prefixes = {each.parent.parent for each in (python, job.interpreter)}
    bases = {place for each in prefixes for place in (each, each.resolve(), *_bases(each))}
    core_s = int(3600.0 * job.manifest.budget.core_hours) + 60
    return {
        "readable": [str(job.path), *(str(each) for folders in job.splits.values() for each in folders)],
        "writable": [str(job.rank(rank))],
        "runnable": sorted(map(str, bases)),
        "file_bytes": MAX_FILE_BYTES,
        "cpu_s": min(core_s, MAX_CPU_S),
        "words": [str(python), "-B", "-P", "-m", program, str(settings)],
    }


def _bases(prefix: Path) -> set[Path]:
    """Return the installation that an environment was made from, as its own file says."""
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    homes = [Path(line.partition("=")[2].strip()) for line in lines if line.startswith("home")]
    bases = {place for home in homes for place in (home.parent, home.resolve().parent)} - {Path("/"), Path("/usr")}
    for base in bases:  # a Python of the system is in what may be read anyhow
        if Path.home().is_relative_to(base) or base.resolve() == Path("/"):
            raise GridError(
                f"the training environment was made from a Python in {base}, with which a rank could read all that is there."
                " Next: prepare it with a Python that has a folder of its own (--python)"
            )
    return bases


class RankProcess:
    """A rank of a job on this machine.

    Attributes:
        rank: Its number.
        ended: The event with which it ended; None while it trains.
    """

    def __init__(
        self,
        job: JobFolder,
        rank: int,
        addresses: Sequence[str],
        on_event: Callable[[Event], None],
        nodes: Sequence[str] = (),
    ) -> None:
        self.rank = rank
        self._nodes = nodes
        self.ended: Event | None = None
        self._job, self._addresses, self._on_event = job, addresses, on_event

    async def run(self, threads: int, left_s: float | None, lease: str = "") -> int:
        """Run the process until it ends; return its exit status. When cancelled, the process is killed.

        Args:
            threads: Of its computation.
            left_s: Time until the latest end of the job (s).
            lease: The work lease, which opens its ports to the other ranks.

        Raises:
            GridError: It cannot be started, or not be locked in.
        """
        settings = self._job.settings(self.rank, self._addresses, threads, left_s, self._nodes)
        folder = self._job.rank(self.rank)
        try:
            with locked(folder):
                return await self._run(folder, settings, threads, lease)
        except BlockingIOError:
            raise GridError(f"another process trains in {folder}. Next: wait for its end, or end it") from None

    async def _run(self, folder: Path, settings: Path, threads: int, lease: str) -> int:
        request = rank_words(self._job, settings, self.rank)
        request["environment"] = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(self._job.path / PROGRAMS),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "OMP_NUM_THREADS": str(threads),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            MARK: lease,
            **(FLOWER if self._job.flower else {}),
        }
        lifeline, own = os.pipe()
        try:
            with (folder / LOG).open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "grid.jobs.locked", str(lifeline), json.dumps(request)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    pass_fds=(lifeline,),
                    limit=LINE_BYTES,
                    start_new_session=True,
                )
        except OSError as error:
            os.close(own)
            raise GridError(f"rank {self.rank} cannot be started ({error}). Next: free space or memory") from None
        finally:
            os.close(lifeline)
        try:
            await self._listen(process)
            status = await process.wait()
        finally:
            os.close(own)  # the kernel kills it
            with contextlib.suppress(ProcessLookupError):  # and this what it has started
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.wait()
        if status == UNLOCKABLE:
            raise GridError(f"no code runs here: {self.last_words()}")
        return status

    def last_words(self) -> str:
        """Return the last line that the process has written about an error."""
        with contextlib.suppress(OSError):
            with (self._job.rank(self.rank) / LOG).open("rb") as log:
                log.seek(max(log.seek(0, os.SEEK_END) - LAST_BYTES, 0))
                lines = log.read().decode(errors="replace").split("\n")
            said = [line.strip() for line in lines[-40:] if line.strip()]
            if said:
                return said[-1][:400]
        return "it gave no reason"

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101  (it is a pipe)
        while True:
            try:
                line = await process.stdout.readline()
                if not line:
                    return
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue  # a print of the code package, perhaps longer than a line may be
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                if event["event"] == "end":
                    self.ended = {"reason": "it has ended", **event}
                with contextlib.suppress(Exception):  # a code package may print what it likes
                    self._on_event(event)
