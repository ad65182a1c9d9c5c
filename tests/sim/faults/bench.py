"""A bench lab with an injector, and a client on one of its lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controller.rig.description import Rig
from controller.rig.loading import load_rig
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab

ROOT = Path(__file__).parents[3]
RIG = load_rig(ROOT / "examples" / "rigs" / "bench.yaml")
SELECTORS = load_rig(ROOT / "tests" / "rigs" / "two_selectors.yaml")


@asynccontextmanager
async def lab_with(*faults: Fault, seed: int = 1, rig: Rig = RIG) -> AsyncIterator[tuple[SimulatedLab, Injector]]:
    lab = SimulatedLab(rig, seed=seed)
    try:
        yield lab, Injector(lab, faults, seed=seed)
    finally:
        await lab.close()


@dataclass
class Listener:
    """Client of a line that keeps what it receives, with its time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since_s: float
    received: list[tuple[float, bytes]] = field(default_factory=list)

    async def ask(self, request: bytes, for_s: float = 2.0) -> bytes:
        """Write a request; return everything that arrives within `for_s`."""
        self.writer.write(request)
        return await self.listen(for_s)

    async def listen(self, for_s: float) -> bytes:
        data = b""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(for_s):
                while chunk := await self.reader.read(4096):
                    data += chunk
                    self.received.append((round(loop.time() - self.since_s, 9), chunk))
        except TimeoutError:
            pass
        return data

    @property
    def broken(self) -> bool:
        return self.reader.at_eof() or self.reader.exception() is not None


@dataclass(frozen=True)
class Url:
    target: str
    scheme: str = "sim"


async def listener_on(lab: SimulatedLab, target: str) -> Listener:
    """Return a client on a line, after the messages that its devices send at power-up."""
    reader, writer = await lab.opener(Url(target), None)
    listener = Listener(reader, writer, asyncio.get_running_loop().time())
    await listener.listen(0.5)
    return listener
