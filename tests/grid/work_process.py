"""Hold a work lease until standard input ends: `python -m tests.grid.work_process FOLDER MEMBER...`; prints its states."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from grid.errors import GridError
from grid.member.tissue import GridClient


async def main(folder: Path, members: list[str]) -> None:
    async with GridClient(folder) as client:
        try:
            async with client.work("all-reduce", members, wait_s=120) as lease:
                print(lease.info.lease, flush=True)
                await asyncio.to_thread(sys.stdin.read)
        except GridError as error:
            print(f"refused: {error}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
