"""X1: admission by measurement. Forged claims and answers are refused, and a throttled member is demoted."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.challenges import cores, disk, gemm, hardware, link, memory
from grid.member import daemon as member_daemon
from grid.member.daemon import answer
from grid.wire import grid_pb2 as pb
from tests.grid.world import a_hub, a_member, approved, until
from tests.nerves.test_gateway import ROOT

NONCE = bytes(range(32))
MIB = 1 << 20


def chosen() -> np.random.Generator:
    return np.random.default_rng(5)


def results(folder: Path, nonce: bytes = NONCE) -> dict[str, bytes]:
    return {
        "cores": cores.answer(nonce, 2, 3200),
        "gemm": gemm.answer(nonce, 48, 2),
        "memory": memory.answer(nonce, MIB),
        "disk": disk.answer(nonce, 2 * MIB, folder),
    }


def faults(found: dict[str, bytes], nonce: bytes = NONCE) -> dict[str, str]:
    return {
        "cores": cores.fault(nonce, 2, 3200, found["cores"], chosen()),
        "gemm": gemm.fault(nonce, 48, 2, found["gemm"], chosen()),
        "memory": memory.fault(nonce, MIB, found["memory"], chosen()),
        "disk": disk.fault(nonce, 2 * MIB, found["disk"], chosen()),
    }


def test_a_right_answer_passes_and_depends_on_the_nonce(tmp_path: Path) -> None:
    right = results(tmp_path)
    assert set(faults(right).values()) == {""}
    assert all(faults(right, secrets.token_bytes(32)).values())  # the answer to another nonce: a replay
    assert all(faults({name: bytes(len(data)) for name, data in right.items()}).values())
    assert all("length" in text for text in faults({name: data[:-1] for name, data in right.items()}).values())
    assert link.receipt(NONCE, b"data") != link.receipt(bytes(32), b"data")


@pytest.mark.parametrize("part", ["cores", "gemm", "memory", "disk"])
def test_an_answer_with_half_of_the_work_left_out_is_found_by_few_samples(part: str, tmp_path: Path) -> None:
    right = results(tmp_path)
    half = len(right[part]) // 2
    lazy = {**right, part: right[part][:half] + bytes(len(right[part]) - half)}
    checks: dict[str, Callable[[np.random.Generator], str]] = {
        "cores": lambda r: cores.fault(NONCE, 2, 3200, lazy["cores"], r),
        "gemm": lambda r: gemm.fault(NONCE, 48, 2, lazy["gemm"], r),
        "memory": lambda r: memory.fault(NONCE, MIB, lazy["memory"], r),
        "disk": lambda r: disk.fault(NONCE, 2 * MIB, lazy["disk"], r),
    }
    found = sum(bool(checks[part](np.random.default_rng(seed))) for seed in range(40))
    assert found >= 10  # at least a quarter in each measurement; a member is measured every hour


def test_memory_is_verified_across_its_end() -> None:
    for seed in range(40):
        assert memory.fault(NONCE, MIB, memory.answer(NONCE, MIB), np.random.default_rng(seed)) == ""


async def test_X1_forged_hardware_is_measured_for_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = hardware.hello

    def boast(folder: Path) -> pb.Hello:
        hello = real(folder)
        hello.claims.cores = 64
        hello.claims.gpus.append(pb.GpuClaim(name="H100", memory_bytes=80 * 10**9, pcie_lanes=16, power_w=700))
        hello.claims.memory_bytes = MIB
        return hello

    monkeypatch.setattr(hardware, "hello", boast)
    rules = {
        "roles": {"compute": [{"figure": "cores", "min": 32}]},
        "challenges": {"hash_iterations": 100_000},
        "retry_s": [0],
    }
    async with a_hub(tmp_path, rules=rules) as hub, a_member(tmp_path, hub, "liar") as member:
        roles = {role.role: role for role in member.standing.roles}
        assert member.standing.figures["cores"] < 32, "a busy machine measures a few too many"
        assert not roles["compute"].granted
        assert any("cores is" in why for why in roles["compute"].reasons)
        assert not roles["gpu"].granted
        assert any("no accelerator" in why for why in roles["gpu"].reasons)


async def test_X1_forged_answers_give_no_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forged(challenge: pb.Challenge, folder: Path) -> pb.ChallengeAnswer:
        found = await answer(challenge, folder)
        if challenge.kind == "gemm":
            found.result = secrets.token_bytes(len(found.result))
        return found

    monkeypatch.setattr(member_daemon, "answer", forged)
    async with a_hub(tmp_path) as hub, a_member(tmp_path, hub, "liar") as member:
        (compute,) = (role for role in member.standing.roles if role.role == "compute")
        assert not compute.granted
        assert any("forged or damaged" in why for why in compute.reasons)


async def test_X1_a_member_that_is_throttled_is_demoted(tmp_path: Path) -> None:
    rules: dict[str, Any] = {
        "recheck_s": 0.5,
        "retry_s": [0],
        "roles": {
            "compute": [{"figure": "gemm_flop_s", "min": 1}],
            "agent_host": [{"figure": "round_trip_s", "max": 60}],
        },
        "challenges": {"gemm_size": 512},
    }
    async with a_hub(tmp_path, rules=rules) as hub:
        member = await approved(tmp_path, hub, "alpha")
        words = [sys.executable, "-m", "choroid", "grid", "join", "--data", str(member.folder)]
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            await until(lambda: "compute" in hub.members.standing(member.key.id).roles)

            async def throttle() -> None:
                while True:  # a tenth of the time
                    process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(0.18)
                    process.send_signal(signal.SIGCONT)
                    await asyncio.sleep(0.02)

            throttling = asyncio.create_task(throttle())
            try:
                await until(lambda: "compute" not in hub.members.standing(member.key.id).roles)
            finally:
                throttling.cancel()
                await asyncio.gather(throttling, return_exceptions=True)
            found = hub.members.standing(member.key.id)
            assert any("has fallen to" in why for why in found.reasons["compute"])
            assert "agent_host" in found.roles
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            await asyncio.to_thread(process.wait)
