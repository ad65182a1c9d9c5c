"""A laboratory with an engine as a process of its own: `python -m tests.grid.lab_process FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from grid.lab.daemon import LabDaemon
from grid.lab.engine import EngineAccess
from grid.member.daemon import enrolled
from grid.member.membership import Membership
from tests.grid.labs import EngineDesk
from tests.nerves.test_gateway import start, stop


async def main(folder: Path) -> None:
    (folder / "engine").mkdir(exist_ok=True)
    engine = await asyncio.to_thread(start, folder / "engine")
    try:
        membership = Membership.load(folder)
        await enrolled(membership, lambda _: None)
        access = EngineAccess(engine.data, EngineDesk(engine), "grid-")
        await LabDaemon(membership, access, "o1", lambda text: print(text, flush=True)).run()
    finally:
        stop(engine)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
