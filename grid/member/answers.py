"""Answer the hub's challenges on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from grid.challenges import cores, disk, gemm, hardware, link, memory
from grid.wire import grid_pb2 as pb

MAX_CHAINS = 1024


async def answer(challenge: pb.Challenge, folder: Path) -> pb.ChallengeAnswer:
    """Return the answer to a challenge; a problem is an answer too.

    Args:
        challenge: What the hub asks.
        folder: Where the disk is measured.
    """
    try:
        result = await asyncio.to_thread(_result, challenge, folder)
    except (OSError, MemoryError, ValueError, KeyError, RuntimeError) as error:
        return pb.ChallengeAnswer(challenge=challenge.id, problem=f"{type(error).__name__}: {error}"[:200])
    return pb.ChallengeAnswer(challenge=challenge.id, result=result, load=hardware.load())


def _result(challenge: pb.Challenge, folder: Path) -> bytes:
    nonce, sizes = challenge.nonce, dict(challenge.sizes)
    match challenge.kind:
        case "cores":
            return cores.answer(nonce, min(sizes["chains"], MAX_CHAINS), sizes["iterations"])
        case "gemm":
            return gemm.answer(nonce, sizes["size"], sizes["count"])
        case "accelerator":
            device = hardware.accelerator()
            if not device:
                raise ValueError("there is no accelerator that torch can use")
            return gemm.answer(nonce, sizes["size"], sizes["count"], device)
        case "memory":
            return memory.answer(nonce, sizes["bytes"])
        case "disk":
            return disk.answer(nonce, sizes["bytes"], folder)
        case "uplink":
            return link.payload(nonce, sizes["bytes"])
        case "downlink" | "round_trip":
            return link.receipt(nonce, challenge.data)
        case _:
            raise ValueError(f"the challenge {challenge.kind[:40]} is not known here")
