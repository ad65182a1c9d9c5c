"""A job whose ranks all run on this machine."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

from grid.clock import utc_s
from grid.engines.settings import PORT
from grid.errors import GridError
from grid.jobs.folder import JobFolder
from grid.jobs.manifest import JobManifest
from grid.jobs.node_keys import LOOPBACK, node_keys, write_aggregator
from grid.jobs.process import Event, RankProcess
from grid.work.network import BASE

LOCAL = 255
"""Third number of the addresses; work leases have 1 to 254."""
MAX_RESTARTS = 3
AGAIN_S = 1.0
LAST_S = 30.0
"""Longest time of the other ranks after one has ended."""


def local_addresses(ranks: int, base: str = BASE) -> list[str]:
    """Return an address of this machine for each rank."""
    return [f"{base}.{LOCAL}.{1 + rank}" for rank in range(ranks)]


def left_s(manifest: JobManifest) -> float | None:
    """Return the time until the latest end of a job (s); None without one. Raises :class:`GridError` when it is over."""
    until = manifest.budget.until
    if until is None:
        return None
    left = until.timestamp() - utc_s()
    if left <= 0:
        raise GridError(f"the job was to end by {until.isoformat()}. Next: set budget.until to a later time")
    return left


async def run_local(job: JobFolder, on_event: Callable[[Event], None], *, base: str = BASE) -> dict[str, Any]:
    """Run all ranks of a job as processes until it has ended; return what the first rank that ended has said.

    Args:
        job: The job.
        on_event: Takes what the ranks report.
        base: First half of the addresses.

    Raises:
        GridError: A rank fails again and again, or cannot be locked in.
    """
    count = job.manifest.ranks.max
    threads = job.manifest.threads or max((os.cpu_count() or 1) // count, 1)
    addresses = local_addresses(count, base)
    _require_free(addresses)
    nodes = _nodes(job, addresses) if job.flower else []
    ranks = [RankProcess(job, rank, addresses, on_event, nodes) for rank in range(count)]
    running = {asyncio.create_task(_kept(each, threads, job.manifest), name=f"rank {each.rank}") for each in ranks}
    try:
        done, left = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        if left and not any(task.exception() for task in done):
            more, left = await asyncio.wait(left, timeout=LAST_S)
            done |= more
        for task in done:
            await task
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    ended = next(each.ended for each in ranks if each.ended is not None)
    return dict(ended)


def _nodes(job: JobFolder, addresses: list[str]) -> list[str]:
    """Return the keys of all nodes of a federated job by rank; all are made here."""
    keys = [node_keys(job.rank(rank), (address, LOOPBACK)) for rank, address in enumerate(addresses)]
    for rank in range(len(addresses)):
        write_aggregator(job.rank(rank), keys[0][1])
    return [node for node, _ in keys]


def _require_free(addresses: list[str]) -> None:
    """Check that no other job runs on this machine. Raises :class:`GridError`."""
    for address in addresses:
        try:
            socket.create_server((address, PORT)).close()
        except OSError as error:
            raise GridError(
                f"{address}:{PORT} cannot be used ({error.strerror}). Likely cause: another job runs on this machine."
                " Next: wait for its end, or end it"
            ) from None


async def _kept(rank: RankProcess, threads: int, manifest: JobManifest) -> None:
    """Run a rank, and start it again when it dies; it goes on at its last checkpoint."""
    for _ in range(MAX_RESTARTS + 1):
        status = await rank.run(threads, left_s(manifest))
        if status == 0 and rank.ended is not None:
            return
        await asyncio.sleep(AGAIN_S)
    raise GridError(
        f"rank {rank.rank} has ended {MAX_RESTARTS + 1} times before the end of the job ({rank.last_words()}). Next: read"
        " log.txt in its folder"
    )
