"""X2, X5, X8: stopped holders, killed and absent hubs, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.signed_log.notes import ED25519, NoteKey
from grid.errors import GridError
from grid.hub.leases import LeaseBook
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.lab.daemon import LabDaemon
from grid.lab.engine import EngineAccess
from grid.log.verification import verify_log
from grid.member import waiting
from grid.member.daemon import MemberDaemon, enrolled
from grid.member.membership import HubAddress, Membership
from grid.member.tissue import GridClient
from grid.policy.policy import load_policy
from grid.wire import grid_pb2 as pb
from tests.grid.labs import EngineDesk, a_lab
from tests.grid.world import a_hub, a_member, approved, free_ports, policy_file, running, until
from tests.nerves.test_gateway import ROOT, Engine, start, stop

ABSENT_S = float(os.environ.get("CHOROID_GRID_ABSENT_S", "2"))
"""How long the hub is away; 600 for the ten minutes of the acceptance test."""
TTL_S = 2.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    found = start(tmp_path_factory.mktemp("grid-faults"))
    yield found
    assert stop(found) == 0


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dial again after a second at most, since a busy machine starts a hub slowly; test_nat.py has the real pauses."""
    monkeypatch.setattr(waiting, "LONGEST_PAUSE_S", 1.0)


class Agent:
    """tests/grid/agent_process.py."""

    def __init__(self, folder: Path, electrode: int) -> None:
        words = [sys.executable, "-m", "tests.grid.agent_process", str(folder), str(electrode)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)

    async def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        found: dict[str, Any] = json.loads(line)
        return found

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


async def test_X2_a_holder_that_was_stopped_beyond_its_lease_cannot_stimulate_when_it_goes_on(
    tmp_path: Path, engine: Engine
) -> None:
    async with (
        a_hub(tmp_path, rules={"leases": {"ttl_s": TTL_S}}) as hub,
        a_member(tmp_path, hub, "alpha"),
        a_member(tmp_path, hub, "beta"),
        a_lab(tmp_path, hub, engine),
        GridClient(tmp_path / "beta") as beta,
    ):
        agent = Agent(tmp_path / "alpha", 3)
        try:
            first = await agent.read()
            assert first["pulse"] == "delivered"
            agent.process.send_signal(signal.SIGSTOP)
            async with (
                beta.lease("lab", "o1", [3], mode="stimulate", purpose="next") as lease,
                lease.engine() as nerves,
            ):
                held = await nerves.acquire_lease([3], ttl_ms=5000)
                assert lease.info.fence > first["grid_fence"]
                assert held.fence > first["engine_fence"]
                agent.process.send_signal(signal.SIGCONT)
                agent.say(engine.address)
                late = await agent.read()
                assert late["tunnel"] != "delivered"
                assert late["direct"] == "UNAUTHENTICATED"
                assert (await nerves.status()).leases == 1
        finally:
            agent.close()


class HubProcess:
    """`choroid grid hub run` on fixed ports."""

    def __init__(self, folder: Path, rules: Path, *, grading: bool = False) -> None:
        self.folder = folder
        self._grading = () if grading else ("--no-grading",)
        self._rules = rules
        self._ports = free_ports()
        self.start()

    def start(self) -> None:
        (self.folder / "address.txt").unlink(missing_ok=True)
        words = [
            sys.executable,
            "-m",
            "choroid",
            "grid",
            "hub",
            "run",
            "--data",
            str(self.folder),
            "--policy",
            str(self._rules),
        ]
        words += [*self._grading, "--port", self._ports[0], "--member-port", self._ports[1]]
        self.process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)
        while not (self.folder / "address.txt").exists():
            assert self.process.poll() is None
            signal.sigtimedwait([], 0.05)
        self.address = (self.folder / "address.txt").read_text().strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        store = owned(self.folder)
        try:
            yield store
        finally:
            store.close()

    async def enrol(self, folder: Path, name: str, kind: str) -> Membership:
        found = Membership(folder / name, HubAddress.parse(self.address), name, kind)
        await found.enrol()
        with self.store() as store:
            Members(store).decide(name, "approve", "test")
        await enrolled(found, lambda _: None)
        return found


@contextlib.asynccontextmanager
async def everything(folder: Path, hub: HubProcess, engine: Engine) -> AsyncIterator[tuple[LabDaemon, GridClient]]:
    member = MemberDaemon(await hub.enrol(folder, "alpha", "member"))
    lab = LabDaemon(await hub.enrol(folder, "lab", "lab"), EngineAccess(engine.data, EngineDesk(engine), "grid-"), "o1")
    async with running(member.run()), running(lab.run()), GridClient(folder / "alpha") as client:
        await until(lambda: bool(member.standing.roles) and lab._offer.stimulation and lab.link.connected.is_set())
        yield lab, client


@pytest.mark.within_s(300)  # 43 s at load 13, with two cores
async def test_X5_a_killed_hub_goes_on_where_it_was(tmp_path: Path, engine: Engine) -> None:
    rules = policy_file(tmp_path, leases={"ttl_s": 90})  # a busy machine takes its time to start a hub
    hub = await asyncio.to_thread(HubProcess, tmp_path / "hub", rules)
    try:
        async with (
            everything(tmp_path, hub, engine) as (lab, client),
            client.lease("lab", "o1", [1], mode="stimulate", purpose="long") as lease,
        ):
            assert lease.info.state == pb.LeaseInfo.ACTIVE
            waiting = await client.stub.RequestLease(
                pb.LeaseRequest(key="w", lab="lab", organoid="o1", electrodes=[1], mode="stimulate", purpose="w")
            )
            hub.kill()
            await asyncio.to_thread(hub.start)
            await until(lab.link.connected.is_set)
            before = lease.info.expires_utc_s
            await until(lambda: lease.info.expires_utc_s > before)
            assert lease.info.state == pb.LeaseInfo.ACTIVE
            assert lab.leases.names() == [lease.info.lease]
            again = await client.stub.RequestLease(
                pb.LeaseRequest(key="w", lab="lab", organoid="o1", electrodes=[1], mode="stimulate", purpose="w")
            )
            assert (again.lease, again.state) == (waiting.lease, pb.LeaseInfo.QUEUED)
        with hub.store() as store:
            rows = [body for _, body in store.log.rows(0, 1000)]
            key = NoteKey(store.name, ED25519, store.public_key)
            assert verify_log(rows, store.log.checkpoint(), key).faults == ()
    finally:
        hub.kill()


@pytest.mark.within_s(300 + ABSENT_S)  # 70 s at load 13, with two cores
async def test_X8_without_the_hub_leases_expire_no_one_stimulates_and_the_engine_goes_on(
    tmp_path: Path, engine: Engine
) -> None:
    rules = policy_file(tmp_path, leases={"ttl_s": TTL_S})
    hub = await asyncio.to_thread(HubProcess, tmp_path / "hub", rules)
    try:
        async with everything(tmp_path, hub, engine) as (lab, client):
            agent = Agent(tmp_path / "alpha", 1)
            try:
                assert (await agent.read())["pulse"] == "delivered"
                (lease,) = lab.leases.names()
                hub.kill()
                await until(lambda: not lab.leases.names(), 20)
                assert not await engine_agents(lab)
                delivered = (await lab._engine._engine.status()).pulses_delivered
                await absence(lab, delivered)
                agent.say(engine.address)  # it still has its lease, its token and the way to the engine
                late = await agent.read()
                assert (late["tunnel"] != "delivered", late["direct"]) == (True, "UNAUTHENTICATED")
                assert (await lab._engine._engine.status()).pulses_delivered == delivered
            finally:
                agent.close()
            await asyncio.to_thread(hub.start)
            await client.reconnect()
            await until(lab.link.connected.is_set)
            async with client.lease("lab", "o1", [1], mode="stimulate", purpose="b", wait_s=60) as second:
                assert second.info.fence == 2
            with hub.store() as store:
                old = LeaseBook(store, Members(store), load_policy(rules).leases).find(lease)
                assert old["state"] == "ended"
    finally:
        hub.kill()


async def absence(lab: LabDaemon, delivered: int) -> None:
    """Look at laboratory and engine while the hub is away: the array is read, no lease lives, no pulse is delivered."""
    loop = asyncio.get_running_loop()
    end, frame, looks = loop.time() + ABSENT_S, 0, 0
    while loop.time() < end:
        now = await lab._engine._engine.status()
        assert now.next_frame > frame
        assert (now.leases, now.pulses_delivered) == (0, delivered)
        assert lab._offer.stimulation  # its own engine would stimulate; no one may
        assert not lab.link.connected.is_set()
        frame, looks = now.next_frame, looks + 1
        await asyncio.sleep(min(1.0, ABSENT_S / 4))
    print(f"{ABSENT_S:g} s without the hub: {looks} looks, {frame} frames, {delivered} pulse, delivered before")


async def engine_agents(lab: LabDaemon) -> list[str]:
    """The agents of leases that the engine still knows."""
    names = await lab._engine._desk.names()
    return [name for name, valid in names.items() if valid and name.startswith("grid-") and "watch" not in name]


async def test_X5_a_second_hub_on_one_folder_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        address = hub.address
        with pytest.raises(GridError, match="another hub runs with"):
            async with a_hub(tmp_path):
                pass
        await approved(tmp_path, hub, "alpha")
    async with a_hub(tmp_path) as again:
        assert again.address.partition("#")[2] == address.partition("#")[2]
        assert again.members.named("alpha")["state"] == "approved"


async def test_X5_a_copied_folder_with_stray_files_is_the_same_hub(tmp_path: Path) -> None:
    """On another machine: what is not the hub's own is left alone, members and log are there, the log goes on."""
    async with a_hub(tmp_path) as hub:
        await approved(tmp_path, hub, "alpha")
        fingerprint, rows = hub.address.partition("#")[2], hub.store.log.size
    copied = tmp_path / "other" / "hub"
    shutil.copytree(tmp_path / "hub", copied)
    (copied / "notes.txt").write_text("stray")
    (copied / "models" / "stray.onnx").write_bytes(b"stray")
    (copied / "strange").mkdir()
    (copied / "hub.sqlite.bak").touch()
    async with a_hub(tmp_path / "other") as hub:
        assert hub.address.partition("#")[2] == fingerprint
        assert hub.store.log.size == rows
        member = Membership.load(tmp_path / "alpha")
        member.hub = HubAddress.parse(hub.address)
        assert (await member.enrol()).state == pb.EnrolReply.APPROVED
        assert (copied / "notes.txt").exists()
        assert (copied / "models" / "stray.onnx").exists()


@pytest.mark.parametrize("sends", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half-a-handshake"])
async def test_S1_300_idle_sockets_at_both_ports_do_not_stop_the_hub(tmp_path: Path, sends: bytes) -> None:
    async with a_hub(tmp_path) as hub, a_member(tmp_path, hub, "alpha") as member:
        ports = (hub.member_port, member.link.membership.hub.port)
        with contextlib.ExitStack() as idle:
            for number in range(300):
                each = idle.enter_context(socket.create_connection(("127.0.0.1", ports[number % 2])))
                each.sendall(sends)
            await approved(tmp_path, hub, "beta")
            async with GridClient(tmp_path / "beta") as client:
                assert {each.name for each in await client.members()} == {"alpha", "beta"}
            assert member.link.connected.is_set()


async def test_a_hub_on_a_taken_port_says_so(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        port = int(hub.address.partition("#")[0].rpartition(":")[2])
        with pytest.raises(GridError, match="choose another port"):
            async with a_hub(tmp_path / "second", enrolment_port=port):
                pass
