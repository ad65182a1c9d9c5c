"""`choroid grid job`: a job whose ranks run on this machine, locked in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from grid.commands import job as commands
from grid.data.data_sets import DataSets
from grid.data.manifest import Provenance, Sharing
from grid.errors import GridError
from grid.identity.keys import IdentityKey
from grid.jobs.local import run_local
from tests.grid.addresses import loopback_bases
from tests.grid.ranks import PACKAGES, rows
from tests.grid.training_environment import torch_python


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data folder of a member with samples, the training environment, and addresses of its own."""
    monkeypatch.setenv("CHOROID_TORCH", str(torch_python()))
    with loopback_bases(1) as (base,):
        monkeypatch.setattr(commands, "run_local", partial(run_local, base=base))
        yield tmp_path / "member"


def manifest(member: Path, package: str, ranks: int, more: str = "") -> Path:
    key = IdentityKey.in_folder(member)
    sets = [
        DataSets(member).add(
            rows(member.parent / name, count, seed), key, name=name, sharing=Sharing.NO, provenance=Provenance()
        )
        for name, count, seed in (("train", 1000, 1), ("test", 100, 2))
    ]
    code = commands.allow(member, PACKAGES / package)["code"]
    path = member / "job.yaml"
    path.write_text(f"""
name: {package}
code: {code}
preset: tiny
data: {{train: [{sets[0].id}], test: [{sets[1].id}]}}
ranks: {{max: {ranks}}}
local_steps: 5
outer_steps: 4
batch: 8
inner: {{rate: 0.001}}
budget: {{core_hours: 1, bytes: 100000000}}
{more}""")
    return path


@pytest.mark.long
def test_G4_a_job_runs_on_one_machine_and_goes_on_where_it_was(member: Path) -> None:
    file = manifest(member, "rows", 2)
    said: list[str] = []
    checked = commands.check(member, file)
    found = commands.run(member, file, said.append)
    assert found["job"] == checked["job"]
    assert Path(found["model"]).exists()
    assert found["end"]["outer"] == 4
    assert [line for line in said if line.startswith("outer step 4: loss")]
    assert "2 ranks" in commands.text_of(found)
    (listed,) = commands.every(member)["jobs"]
    assert (listed["outer"], listed["ended"]) == (4, "all outer steps are done")
    shown = commands.show(member, "rows", limit=1)
    assert set(shown["events"]) == {"rank-0", "rank-1"}
    assert "outer step 4 of 4" in commands.text_of(shown)
    again = commands.run(member, file, said.append)
    assert again["end"]["model"] == found["end"]["model"]
    with pytest.raises(GridError, match="no job is called"):
        commands.show(member, "other", limit=1)


@pytest.mark.long
def test_G4_the_process_of_a_rank_reads_and_writes_nothing_but_its_job(member: Path) -> None:
    found = commands.run(member, manifest(member, "prying", 1), print)
    assert found["end"]["outer"] == 4
    assert (Path(found["folder"]) / "rank-0" / "own.txt").exists()
    assert not (member / "new").exists()


@pytest.mark.long
def test_G4_a_job_that_cannot_run_is_one_sentence_and_starts_nothing(member: Path) -> None:
    file = manifest(member, "rows", 1)
    text = file.read_text()
    file.write_text(text.replace("code: ", "code: " + "1a" * 32 + " # "))
    with pytest.raises(GridError, match="may not run here"):
        commands.run(member, file, print)
    samples = member.parent / "train" / "rows.npy"
    file.write_text(text)
    samples.write_bytes(samples.read_bytes()[:-1])
    with pytest.raises(GridError, match=r"rows\.npy is not as it was"):
        commands.run(member, file, print)
    assert not list(member.glob("jobs/*/rank-*"))
