"""How fast a tunnel through a relay is in comparison with a bare TCP proxy: `python -m tests.grid.relay_speed [DELAY_MS]`.

Each part is a process of its own: source, member, relay, member, sink. The blocks alternate: through the tunnel, through
the relay without encryption at the ends, and through a proxy that only copies. With a delay (root only) source and first
member are in a network namespace behind a link with that round trip.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from grid.identity.keys import IdentityKey
from grid.relay.lines import RelayLine
from grid.relay.server import RelayServer
from grid.relay.splice import BUFFER_BYTES, spliced, tuned
from grid.wire import grid_pb2 as pb
from grid.work.network import JobNetwork
from tests.nerves.test_gateway import ROOT

FAR, NEAR = "10.99.0.1", "10.99.0.2"
RELAY_PORT, PROXY_PORT, SINK_PORT = 7702, 7703, 7704
BLOCK_S, ROUNDS = 2.0, 5
CHUNK, END = bytes(1 << 18), b"."
BASES = ("127.80", "127.81")


def key_of(folder: Path, name: str) -> IdentityKey:
    return IdentityKey.in_folder(folder / name)


def info(folder: Path) -> pb.WorkInfo:
    keys = [key_of(folder, name) for name in "ab"]
    return pb.WorkInfo(lease="lease", fence=1, ranks=[pb.WorkRank(member=key.id, key=key.public) for key in keys])


async def relay(folder: Path, host: str) -> None:
    server = RelayServer(key_of(folder, "relay").public, print)
    server.granted(pb.RelayGrant(grant="lease", parties=[rank.member for rank in info(folder).ranks], left_s=1e6))
    server.granted(pb.RelayGrant(grant="bare", parties=[key_of(folder, name).id for name in "cd"], left_s=1e6))
    async with await asyncio.start_server(server.serve, host, RELAY_PORT, limit=BUFFER_BYTES):
        await asyncio.Event().wait()


async def proxy(_: Path, host: str) -> None:
    """Copies what it receives to the sink, as the relay does after its handshake."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        _, other = await asyncio.open_connection("127.0.0.1", SINK_PORT)
        for each in (writer, other):
            tuned(each.transport)
        copying = asyncio.create_task(spliced(writer.transport, other.transport))
        await asyncio.sleep(0)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await copying

    async with await asyncio.start_server(serve, host, PROXY_PORT):
        await asyncio.Event().wait()


def point(folder: Path, host: str) -> pb.RelayPoint:
    key = key_of(folder, "relay")
    return pb.RelayPoint(member=key.id, key=key.public, host=host, port=RELAY_PORT)


async def member(folder: Path, host: str, name: str) -> None:
    network = JobNetwork(key_of(folder, name), info(folder), BASES["ab".index(name)])
    network.use([point(folder, host)])
    running = asyncio.create_task(network.run())
    await network.ready.wait()
    print("ready", flush=True)
    await running


async def sink(folder: Path, host: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not (data := await reader.read(1 << 20)).endswith(END):
            if not data:
                break
        writer.write(b".")
        await writer.drain()
        writer.close()

    async def answer(line: RelayLine, tunnel: str) -> None:
        async with line.entered(pb.RelayEntry(tunnel=tunnel)) as (reader, writer):
            await serve(reader, writer)

    tasks = set()

    def called(line: RelayLine, call: pb.TunnelCall) -> None:
        tasks.add(asyncio.create_task(answer(line, call.tunnel)))

    async with (
        await asyncio.start_server(serve, f"{BASES[1]}.2.2", SINK_PORT, limit=1 << 20),
        await asyncio.start_server(serve, "127.0.0.1", SINK_PORT, limit=1 << 20),
    ):
        await RelayLine(key_of(folder, "d"), point(folder, host), called).run()


async def source(folder: Path, host: str) -> None:
    """Send for a while each way in turn, wait until the sink has it all, and print Mbit/s of each block."""
    found: dict[str, list[float]] = {"tunnel": [], "relay": [], "proxy": []}
    line = RelayLine(key_of(folder, "c"), point(folder, host), lambda *_: None)
    entry = pb.RelayEntry(grant="bare", peer=key_of(folder, "d").id)
    for _ in range(ROUNDS):
        found["tunnel"].append(await sent(*await connected(f"{BASES[0]}.2.2", SINK_PORT)))
        async with line.entered(entry) as opened:
            found["relay"].append(await sent(*opened))
        found["proxy"].append(await sent(*await connected(host, PROXY_PORT)))
    print(json.dumps(found), flush=True)


async def sent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    """Return Mbit/s of one block."""
    begin, size = time.monotonic(), 0
    while time.monotonic() < begin + BLOCK_S:
        writer.write(CHUNK)
        size += len(CHUNK)
        await writer.drain()
    writer.write(END)
    assert await reader.readexactly(1) == b"."
    writer.close()
    return 8e-6 * size / (time.monotonic() - begin)


async def connected(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        with suppress(OSError):
            return await asyncio.open_connection(host, port)
        await asyncio.sleep(0.2)


PARTS = {"relay": relay, "proxy": proxy, "sink": sink, "source": source}


async def part(name: str, folder: Path, host: str) -> None:
    if name in PARTS:
        await PARTS[name](folder, host)
    else:
        await member(folder, host, name.removeprefix("member-"))


@contextmanager
def link(delay_ms: float) -> Iterator[tuple[str, ...]]:
    """Yield the words that run a command at the far end."""
    if not delay_ms:
        yield ()
        return
    far, near = f"cgf{os.getpid()}", f"cgn{os.getpid()}"
    with ExitStack() as stack:
        for name in (far, near):
            subprocess.run(["ip", "netns", "add", name], check=True)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        words = (sys.executable, "-m", "tests.grid.slow_link", far, FAR, near, NEAR, str(delay_ms / 2))
        slow = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        stack.callback(slow.wait)
        stack.callback(slow.kill)
        assert slow.stdout is not None
        assert slow.stdout.readline() == "ready\n"
        yield far, near


def main(delay_ms: float) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("a", "b", "c", "d", "relay"):
            key_of(folder, name)
        spaces = stack.enter_context(link(delay_ms))
        host = NEAR if spaces else "127.0.0.1"

        def start(name: str, *, far: bool = False) -> subprocess.Popen[str]:
            inside = ("ip", "netns", "exec", spaces[0 if far else 1]) if spaces else ()
            words = (*inside, sys.executable, "-m", "tests.grid.relay_speed", "part", name, str(folder), host)
            found = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            stack.callback(found.wait)
            stack.callback(found.kill)
            return found

        started: dict[str, subprocess.Popen[str]] = {}
        for name, far in (("relay", False), ("proxy", False), ("sink", False), ("member-a", True), ("member-b", False)):
            started[name] = start(name, far=far)
        for name in ("member-a", "member-b"):
            said = started[name].stdout
            assert said is not None
            assert said.readline() == "ready\n"
        found = json.loads(start("source", far=True).communicate()[0])
        middle = {way: statistics.median(values) for way, values in found.items()}
        ratios = {
            way: statistics.median(one / other for one, other in zip(found[way], found["proxy"], strict=True))
            for way in ("tunnel", "relay")
        }
        print(json.dumps({"delay_ms": delay_ms, "mbit_s": middle, "of_proxy": ratios, "all": found}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["part"]:
        asyncio.run(part(sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
