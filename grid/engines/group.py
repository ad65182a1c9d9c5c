"""The process group of a round: torch's Gloo at the address of the rank, and the bytes that this process has sent."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .presence import RankRound

BACKEND = "rounds"
TIMEOUT_S = 30.0
"""Longest wait for one message of a collective."""
PART_BYTES = 1 << 21
"""Bytes of one message of a state, which a slow link has to send within that time."""
TCP_INFO_BYTES, BYTES_SENT = 208, 200
"""How much of the kernel's `struct tcp_info` is read, and where the bytes that were sent stand in it (Linux 4.19)."""


class Group:
    """The process group of this process; there is one at most."""

    def __init__(self, rank: int, addresses: list[str]) -> None:
        self._rank, self._address = rank, addresses[rank]
        self._sent: dict[int, int] = {}
        self.round: RankRound | None = None
        dist.Backend.register_backend(BACKEND, self._gloo, devices=["cpu"])

    @property
    def generation(self) -> str:
        """Return the name of the group that is open; empty: none is."""
        return "" if self.round is None else self.round.generation

    def open(self, found: RankRound) -> None:
        """Join the group of a round, which may be the open one. Raises RuntimeError when a member does not come."""
        if found.generation == self.generation:
            return
        self.close()
        timeout = timedelta(seconds=TIMEOUT_S)
        # torch names a group by how many it has begun, also those that did not come about: ranks that differ never meet
        distributed_c10d._world.group_count = 0
        store = dist.TCPStore(found.host, found.port, None, False, timeout=timeout, wait_for_workers=False)
        dist.init_process_group(
            BACKEND,
            store=dist.PrefixStore(found.generation, store),
            rank=found.members.index(self._rank),
            world_size=len(found.members),
            timeout=timeout,
        )
        self.round = found

    def close(self) -> None:
        """Leave the open group; the others notice."""
        self.sent()
        self.round = None
        if dist.is_initialized():
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of each member, in the order of the round; all give the same number of bytes."""
        own = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        found = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(found, own)
        return [bytes(each.numpy()) for each in found]

    def pass_on(self, data: bytes, source: int, wanted: list[int]) -> bytes:
        """Send bytes from one member to those that want them; return them there, and nothing elsewhere.

        Every member takes part: the others receive a mark for each part, so that none waits for the whole longer than it may.

        Args:
            data: What the source has.
            source: Its place in the round.
            wanted: Places in the round.
        """
        place = dist.get_rank()
        size, mark = torch.tensor([len(data)]), torch.zeros(1, dtype=torch.uint8)
        others = [each for each in range(dist.get_world_size()) if each != source]
        if place == source:
            body = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            for each in others:
                dist.send(size, each)
            for part in body.split(PART_BYTES):
                for each in others:
                    dist.send(part if each in wanted else mark, each)
            return b""
        dist.recv(size, source)
        length = int(size.item())
        if not 0 < length <= MAX_STATE_BYTES:
            raise RuntimeError(f"the state of rank {source} of the round has {length} bytes")
        body = torch.empty(length if place in wanted else 0, dtype=torch.uint8)
        for at in range(0, length, PART_BYTES):
            dist.recv(body[at : at + PART_BYTES] if place in wanted else mark, source)
        return bytes(body.numpy())

    def sent(self) -> int:
        """Return how many bytes this process has sent over TCP, by the kernel's account of each of its connections."""
        for name in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError):
                about = os.fstat(int(name))
                if not stat.S_ISSOCK(about.st_mode):
                    continue
                with socket.socket(fileno=os.dup(int(name))) as found:
                    if found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6):
                        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
                        self._sent[about.st_ino] = struct.unpack_from("=Q", info, BYTES_SENT)[0]
        return sum(self._sent.values())

    def _gloo(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroupGloo:
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=self._address)]
        options._timeout = timeout
        return dist.ProcessGroupGloo(store, rank, size, options)


MAX_STATE_BYTES = 1 << 36
