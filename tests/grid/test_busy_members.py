"""X1: a member on a busy machine is refused and demoted only for a true reason (scripted measurements, virtual time)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grid.hub import admission
from grid.hub.admission import MemberAdmission
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.sessions import MemberSession
from grid.hub.store import Store
from grid.identity.keys import IdentityKey
from grid.policy.policy import load_policy
from grid.policy.standing import MemberStanding
from grid.wire import grid_pb2 as pb

pytestmark = pytest.mark.virtual_time
IDLE = {
    "core_hash_hz": 2.5e6,
    "all_cores_hash_hz": 4.9e6,
    "gemm_flop_s": 6e10,
    "memory_bytes": 5.4e8,
    "memory_bytes_s": 4e9,
    "round_trip_s": 0.001,
    "disk_write_bytes_s": 1e8,
    "disk_read_bytes_s": 1e9,
}
BUSY = {**IDLE, "core_hash_hz": 4e5, "all_cores_hash_hz": 7.5e5, "gemm_flop_s": 4e9, "memory_bytes_s": 4.4e8}
"""Measured on two cores with ten other processes, with the policy that comes with Choroid."""


class ScriptedRun:
    """A series of challenges whose outcome is written beforehand."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.figures: dict[str, float] = {}
        self.problems: dict[str, str] = {}
        self.failed = False
        self.load = 0.0

    async def everything(self) -> None:
        rounds = self._script.rounds
        vars(self).update(rounds.pop(0) if len(rounds) > 1 else rounds[0])


class Script:
    """What measurements give, one after the other; the last one is repeated."""

    def __init__(self, *rounds: dict[str, Any]) -> None:
        self.rounds = list(rounds)
        self.at: list[float] = []

    def __call__(self, session: MemberSession, policy: Any) -> Any:
        self.at.append(asyncio.get_running_loop().time())
        return ScriptedRun(self)

    def pauses(self) -> list[float]:
        return [round(later - sooner, 3) for sooner, later in zip(self.at, self.at[1:], strict=False)]


def round_of(figures: dict[str, float], load: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"figures": dict(figures), "load": load, "problems": {}, "failed": False, **more}


OPEN: list[Store] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the stores of a test in its own thread: a finalizer runs in any thread, where SQLite refuses it."""
    yield
    while OPEN:
        OPEN.pop().close()


class Bench:
    """A hub's admission with one member."""

    def __init__(self, folder: Path, script: Script, monkeypatch: pytest.MonkeyPatch, cores: int = 2) -> None:
        monkeypatch.setattr(admission, "_Run", script)
        self.store = owned(folder / "hub", utc=asyncio.get_running_loop().time)
        OPEN.append(self.store)
        self.store.database.execute("PRAGMA synchronous = OFF")
        self.members = Members(self.store)
        key = IdentityKey.generate()
        self.members.request(pb.EnrolRequest(name="alpha", kind="member", public_key=key.public))
        self.members.decide("alpha", "approve", "operator")
        self.session = MemberSession(key.id, "alpha", "member")
        self.session.hello = pb.Hello(choroid="0.2.0", python="3.11.7", claims=pb.Claims(cores=cores))
        self.admission = MemberAdmission(self.store, self.members, load_policy())

    async def judged(self) -> MemberStanding:
        found = await self.admission.judged(self.session)
        self.members.set_standing(self.session.identity, "alpha", found)
        return found


async def test_X1_a_busy_moment_refuses_no_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(round_of(BUSY, 5.0), round_of(IDLE))
    found = await Bench(tmp_path, script, monkeypatch).judged()
    assert {"compute", "agent_host"} <= set(found.roles)
    assert found.figures["cores"] == 2
    assert found.busy == ""
    assert script.pauses() == [5]


async def test_X1_a_machine_that_stays_busy_is_refused_with_the_reason_and_measured_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(
        round_of(BUSY, 5.0), round_of(BUSY, 4.0), round_of({**BUSY, "gemm_flop_s": 4.5e9}, 5.5), round_of(IDLE)
    )
    bench = Bench(tmp_path, script, monkeypatch)
    watching = asyncio.create_task(bench.admission.watch(bench.session))
    await asyncio.sleep(60)
    found = bench.members.standing(bench.session.identity)
    assert "compute" not in found.roles
    why = "; ".join(found.reasons["compute"])
    assert "gemm_flop_s is 4.5e+09" in why
    assert "the machine was busy: 5.5 processes for each core" in why
    assert "cores is" not in why
    assert "busy" not in "; ".join(found.reasons["gpu"])  # there is no GPU: that is no matter of load
    await asyncio.sleep(300)
    assert "compute" in bench.members.standing(bench.session.identity).roles
    assert script.pauses() == [5, 20, 300]
    await asyncio.sleep(3500)
    assert len(script.at) == 4
    await asyncio.sleep(200)
    assert len(script.at) == 5  # every hour, as the policy says
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_X1_a_member_is_demoted_after_the_third_measurement_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {**IDLE, "gemm_flop_s": 3e10}
    script = Script(round_of(IDLE), round_of(slow), round_of(slow), round_of(IDLE), round_of(slow))
    bench = Bench(tmp_path, script, monkeypatch)
    assert "compute" in (await bench.judged()).roles
    assert "compute" in (await bench.judged()).roles
    throttled = await bench.judged()
    assert "fallen to 50%" in throttled.reasons["compute"][0]
    assert len(script.at) == 1 + 3 + 3


@pytest.mark.parametrize(
    ("measured", "cores", "reason"),
    [
        (round_of({}, failed=True, problems={"gemm": "the answer is forged or damaged: row 3"}), 2, "forged"),
        (round_of({**IDLE, "all_cores_hash_hz": 2.5e6}), 1, "cores is 1, at least 2"),
    ],
)
async def test_X1_what_is_no_matter_of_load_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: dict[str, Any], cores: int, reason: str
) -> None:
    script = Script(measured, round_of(IDLE))
    found = await Bench(tmp_path, script, monkeypatch, cores).judged()
    assert reason in "; ".join(found.reasons["compute"])
    assert len(script.at) == 1
