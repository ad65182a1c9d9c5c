"""A training job through a hub: the owner submits, members decide, ranks train through tunnels."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from grid.commands import job as commands
from grid.data.data_sets import DataSets
from grid.data.manifest import Provenance, Sharing
from grid.errors import GridError, GridRefused
from grid.hub.hub import Hub
from grid.identity.keys import IdentityKey
from grid.jobs.code import allow
from grid.jobs.folder import job_folder, pinned
from grid.jobs.manifest import JobManifest, read_job
from grid.jobs.member import TrainingMember
from grid.jobs.signing import signed
from grid.member.tissue import GridClient
from grid.wire import grid_pb2 as pb
from tests.grid.addresses import loopback_bases
from tests.grid.ranks import PACKAGES, rows
from tests.grid.training_environment import torch_python
from tests.grid.works import a_relay
from tests.grid.world import a_hub, approved, running, until

NAMES = ("alpha", "beta", "gamma")


@contextlib.asynccontextmanager
async def trainers(folder: Path, hub: Hub, replica: Path) -> AsyncIterator[dict[str, TrainingMember]]:
    """Three members that train, on loopback addresses of their own, each with the public data set of a replica."""
    found = {}
    async with contextlib.AsyncExitStack() as opened:
        for name, base in zip(NAMES, opened.enter_context(loopback_bases(len(NAMES))), strict=True):
            member = TrainingMember(await approved(folder, hub, name), base=base)
            await opened.enter_async_context(running(member.run()))
            found[name] = member
        await until(lambda: all(each.standing.roles for each in found.values()))
        yield found


def data_set(folder: Path, name: str, count: int, seed: int, sharing: Sharing = Sharing.PUBLIC) -> str:
    """Add samples as a data set of a member; return its id."""
    source = folder.parent / f"{folder.name}-{name}"
    rows(source, count, seed)
    key = IdentityKey.in_folder(folder)
    return DataSets(folder).add(source, key, name=name, sharing=sharing, provenance=Provenance()).id


def manifest(folder: Path, train: str, test: str, code: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(f"""
name: rows
code: {code}
preset: tiny
data: {{train: [{train}], test: [{test}]}}
ranks: {{max: 3}}
local_steps: 5
outer_steps: 6
batch: 32
threads: 1
inner: {{rate: 0.001}}
budget: {{core_hours: 1, bytes: 100000000}}
""")
    return path


def shared(folder: Path, others: list[Path], which: str) -> None:
    """Give the members a data set of the first one through a replica."""
    replica = folder.parent / f"replica-{which[:8]}"
    from grid.commands import data

    data.replicate(folder, which, replica, quota_bytes=1e9, progress=lambda done, of: None)
    for each in others:
        data.take(each, replica, "")


@pytest.fixture
def python() -> Path:
    """Return the Python of the training environment."""
    return torch_python()


async def test_G4_a_member_refuses_a_job_over_data_that_is_not_allowed_or_whose_ranks_its_owner_has_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOROID_TORCH", sys.executable)  # nothing is started
    async with a_hub(tmp_path) as hub, trainers(tmp_path, hub, tmp_path) as members:
        alpha, beta = tmp_path / "alpha", tmp_path / "beta"
        quiet, train = data_set(beta, "quiet", 100, 1, Sharing.MEMBERS), data_set(beta, "train", 100, 2)
        key = IdentityKey.in_folder(alpha)
        for each in NAMES:
            allow(tmp_path / each, PACKAGES / "rows")
        code = allow(alpha, PACKAGES / "rows")

        def job(which: str) -> JobManifest:
            text = manifest(tmp_path, which, which, code).read_text().replace("max: 3", "max: 1")
            (tmp_path / "job.yaml").write_text(text)
            return read_job(tmp_path / "job.yaml")

        with pytest.raises(GridError, match=r"beta refused: the data set .*quiet.* is not allowed here for jobs of"):
            await commands._held(alpha, job(quiet), ["beta"], print)
        with pytest.raises(GridError, match="gone is no approved member"):
            await commands._held(alpha, job(train), ["gone"], print)
        async with GridClient(alpha) as client:
            for bound in (job(train), job(train).with_ranks([members["gamma"].link.membership.key.id])):
                with pytest.raises(GridRefused, match="Next: submit it with"):
                    async with client.work("rows", ["beta"], manifest=signed(bound, key)):
                        pytest.fail("it runs")
                lease = pb.WorkInfo(
                    member=key.id, manifest=signed(bound, key), ranks=[pb.WorkRank(member=identity_of(beta))]
                )
                with pytest.raises(GridRefused, match="Next: submit it with"):
                    members["beta"]._require(lease)  # a hub that does not look is not trusted
        good = job(train).with_ranks([identity_of(beta)])
        lease = pb.WorkInfo(member=key.id, manifest=signed(good, key), ranks=[pb.WorkRank(member=identity_of(beta))])
        assert members["beta"]._require(lease) == good


def identity_of(folder: Path) -> str:
    return IdentityKey.in_folder(folder).id


@pytest.mark.long
@pytest.mark.within_s(300)
async def test_G4_a_submitted_job_trains_at_three_members_through_tunnels(
    tmp_path: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOROID_TORCH", str(python))
    said: list[str] = []
    async with a_hub(tmp_path) as hub, a_relay(tmp_path, hub, "relay"), trainers(tmp_path, hub, tmp_path) as members:
        alpha, *others = (tmp_path / name for name in NAMES)
        train, test = data_set(alpha, "train", 2000, 1), data_set(alpha, "test", 300, 2)
        for which in (train, test):
            shared(alpha, others, which)
        code = allow(alpha, PACKAGES / "rows")
        file = manifest(tmp_path, train, test, code)
        job = pinned(alpha, read_job(file))
        with pytest.raises(GridError, match="may not run here"):
            await commands._held(alpha, job, NAMES, said.append)
        for each in others:
            allow(each, PACKAGES / "rows")
        found = await commands._held(alpha, job, NAMES, said.append)
        await until(lambda: all(member.lease is None for member in members.values()))
        assert [each["state"] for each in found["reports"]] == ["ended"] * 3, said
        assert [each["outer"] for each in found["reports"]] == [6, 6, 6]
        assert not [*tmp_path.glob("*/jobs/*/data"), *tmp_path.glob("*/jobs/*/programs")], "copies go at the end"
        models = {path.name for name in NAMES for path in job_folder(tmp_path / name, job).glob("rank-*/model-*")}
        assert len(models) == 1
        noted = [json.loads(row["body"]) for row in hub.store.query("SELECT CAST(body AS BLOB) AS body FROM log")]
        print([each.get("kind") for each in noted])
        grants = [each for each in noted if each["kind"] == "work.grant"]
        assert grants[-1]["about"]["manifest"] == job.id
        assert len([each for each in noted if each["kind"] == "work.checkpoint"]) in (1, 2)
    await asyncio.sleep(0)
