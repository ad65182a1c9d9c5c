"""An agent as a process of its own: `python -m tests.grid.agent_process FOLDER ELECTRODE`.

It holds a lease for stimulation and prints one JSON object a line. Each line that it reads makes it stimulate again: through
the tunnel, and once more directly at the engine if the line is an address.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from choroid.client.errors import NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import PulsePhase
from choroid.client.wire import nerves_pb2 as nerves_pb
from grid.errors import GridError
from grid.member.tissue import GridClient, TissueLease, TunnelPort

PULSE = [PulsePhase(100, -0.2), PulsePhase(100, 0.2)]


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def pulse(nerves: AsyncNervesClient, held: nerves_pb.LeaseReply, electrode: int) -> str:
    try:
        reply = await nerves.stimulate(held.lease, [electrode], PULSE, purpose="agent process", timeout_s=20)
    except NervesError as error:
        return str(error.code or error)
    return "delivered" if reply.accepted else reply.limiting


async def obey(lease: TissueLease, nerves: AsyncNervesClient, token: str, electrode: int) -> None:
    held = await nerves.acquire_lease([electrode], ttl_ms=2000)
    say(grid_fence=lease.info.fence, engine_fence=held.fence, pulse=await pulse(nerves, held, electrode))
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        answer = {"tunnel": await pulse(nerves, held, electrode)}
        if ":" in line:
            direct = AsyncNervesClient(line, token)
            answer["direct"] = await pulse(direct, held, electrode)
            await direct.close()
        say(**answer, state=int(lease.info.state), lease=lease.info.lease, reason=lease.info.reason)


async def main(folder: Path, electrode: int) -> None:
    async with (
        GridClient(folder) as client,
        client.lease("lab", "o1", [electrode], mode="stimulate", purpose="agent", wait_s=60) as lease,
    ):
        token = await TunnelPort(client, lease.info).token()
        try:
            async with lease.engine() as nerves:
                await obey(lease, nerves, token, electrode)
        except (GridError, NervesError) as error:
            say(error=str(error))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
