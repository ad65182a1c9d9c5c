"""Training jobs without torch: manifests, code packages, the environment, the order of samples, the judgement of updates."""

from __future__ import annotations

import hashlib
import json
import socket
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.core.whole_file import locked
from grid.commands import data as commands
from grid.commands import job as jobs
from grid.data.data_sets import DataSets
from grid.data.manifest import Provenance, Sharing
from grid.engines.judge import Figures, excluded, source_of, unpacked
from grid.engines.order import indices
from grid.engines.settings import PORT
from grid.engines.traffic import predicted_bytes
from grid.errors import GridError, GridRefused
from grid.identity.keys import IdentityKey
from grid.jobs import environment
from grid.jobs.code import allow, allowed, code_hash
from grid.jobs.folder import JobFolder, job_folder, require_data
from grid.jobs.local import left_s, local_addresses, run_local
from grid.jobs.manifest import JobManifest, read_job, read_signed
from grid.jobs.signing import signed
from tests.grid.addresses import loopback_bases

DATA = "ab" * 32
GOOD = f"""
name: rows
preset: tiny
data: {{train: [{DATA}]}}
ranks: {{max: 3}}
local_steps: 4
outer_steps: 5
batch: 8
inner: {{rate: 1e-3}}
budget: {{core_hours: 1, bytes: 1000000}}
"""


def job(folder: Path, text: str = GOOD) -> JobManifest:
    path = folder / "job.yaml"
    path.write_text(text)
    return read_job(path)


def test_G4_a_manifest_is_named_by_its_content_and_signed_by_its_owner(tmp_path: Path) -> None:
    found = job(tmp_path)
    assert (found.ranks.required, found.codec, found.engine, found.inner.rate) == (2, "fp16", "diloco", 0.001)
    assert found.id == hashlib.sha256(found.plain).hexdigest()
    assert job(tmp_path, GOOD.replace("batch: 8", "batch: 9")).id != found.id
    assert job(tmp_path, "# a remark\n" + GOOD).id == found.id
    owner = IdentityKey.generate()
    assert read_signed(signed(found, owner)) == (found, owner.public)


def test_G4_a_signed_manifest_binds_the_member_of_each_rank_and_keeps_its_name_and_form(tmp_path: Path) -> None:
    found, ranks = job(tmp_path), ["a1" * 32, "b2" * 32, "c3" * 32]
    assert b"assigned" not in found.plain, "as an earlier release wrote it"
    bound = found.with_ranks(ranks)
    assert bound.id == found.id, "others may go on with it"
    assert read_signed(signed(bound, IdentityKey.generate()))[0] == bound
    bound.require_ranks(ranks)
    for others in (ranks[::-1], ranks[:2], [*ranks[:2], "d4" * 32]):
        with pytest.raises(GridRefused, match=r"is signed for other members than its lease has\. Next: submit"):
            bound.require_ranks(others)
    with pytest.raises(GridRefused, match=r"does not say who has its ranks"):
        found.require_ranks(ranks)


def shared(folder: Path, name: str, sharing: Sharing, author: IdentityKey) -> str:
    source = folder / f"{name}-files"
    source.mkdir()
    (source / "rows.npy").write_bytes(name.encode())
    return DataSets(folder / "member").add(source, author, name=name, sharing=sharing, provenance=Provenance()).id


def test_G4_a_job_of_another_member_reads_what_is_public_its_own_or_allowed_here_and_nothing_else(
    tmp_path: Path,
) -> None:
    data, other = tmp_path / "member", "ee" * 32
    own, author = IdentityKey.in_folder(data), IdentityKey.generate()
    ids = {kind: shared(tmp_path, str(kind), kind, author) for kind in Sharing}
    wanted = {kind: job(tmp_path, GOOD.replace(DATA, which)) for kind, which in ids.items()}

    said: list[str] = []

    def admitted(submitter: str) -> set[Sharing]:
        found = set()
        for kind, each in wanted.items():
            try:
                require_data(data, each, submitter)
            except GridRefused as error:
                said.append(str(error))
            else:
                found.add(kind)
        return found

    assert admitted(own.id) == set(Sharing), "its own jobs"
    assert admitted(author.id) == set(Sharing), "those of the author"
    assert admitted(other) == {Sharing.PUBLIC}
    assert f"not allowed here for jobs of {other[:16]}. Next: its operator allows it" in said[0]
    commands.allow(data, "members", [other])
    assert admitted(other) == {Sharing.PUBLIC, Sharing.MEMBERS}
    assert admitted("dd" * 32) == {Sharing.PUBLIC}
    assert admitted(author.id) == {Sharing.NO, Sharing.PUBLIC}, "what was said takes the place of the default"
    commands.allow(data, "no", ["members"])
    assert admitted(other) == set(Sharing)
    assert "jobs of no others" in commands.text_of(commands.allow(data, "public", ["none"]))
    assert (admitted(other), admitted(own.id)) == ({Sharing.NO, Sharing.MEMBERS}, set(Sharing))
    with pytest.raises(GridError, match="says not whose jobs"):
        commands.allow(data, "public", ["none", other])
    (data / "data" / ids[Sharing.NO] / "jobs.json").write_text("{")
    assert Sharing.NO not in admitted(other), "what cannot be read allows none"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("name: rows", "name: rows\nspeed: 9"), "speed: unknown key"),
        (("core_hours: 1", "core_hours: 0"), "budget.core_hours: Input should be greater than 0"),
        (("bytes: 1000000", "bytes: 0"), "budget.bytes: Input should be greater than or equal to 1"),
        (("train: [", "test: ["), "no split “train”"),
        ((f"[{DATA}]", "[]"), "data.train"),
        (("max: 3", "max: 3, min: 4"), "min is above max"),
        (("preset: tiny", "preset: tiny\nengine: fsdp2"), "runs no fsdp2; use diloco or ddp"),
        (("preset: tiny", "preset: tiny\nengine: ddp\ncodec: int8"), "ddp has the codecs fp32 and fp16"),
        (("batch: 8", "batch: 08"), "leading zero"),
        (("inner: {rate: 1e-3}", ""), "inner: Field required"),
        ((GOOD, "- 1"), "holds no manifest"),
        ((GOOD, "a: ["), "not YAML"),
    ],
)
def test_G4_a_wrong_manifest_is_one_sentence_with_the_next_action(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    with pytest.raises(GridError) as caught:
        job(tmp_path, GOOD.replace(*change))
    assert says in str(caught.value)
    assert "Next: " in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda body: body | {"manifest": body["manifest"].replace('"batch":8', '"batch":9')}, "not its owner's"),
        (lambda body: body | {"owner": IdentityKey.generate().public.hex()}, "not its owner's"),
        (lambda body: {"manifest": body["manifest"]}, "malformed"),
        (lambda body: body | {"signature": "zz"}, "malformed"),
        (lambda body: [body], "malformed"),
        (lambda body: body | {"more": "x" * 20_000}, "at most 16,384"),
    ],
)
def test_G4_a_changed_signed_manifest_is_refused(tmp_path: Path, spoil: Any, says: str) -> None:
    body = json.loads(signed(job(tmp_path), IdentityKey.generate()))
    with pytest.raises(GridError, match=says):
        read_signed(json.dumps(spoil(body)).encode())


def test_G4_what_a_job_needs_is_checked_before_anything_starts(tmp_path: Path) -> None:
    found = job(tmp_path)
    with pytest.raises(GridError, match=rf"the data set {DATA[:16]} \(split train\) is not in"):
        require_data(tmp_path, found)
    over = job(tmp_path, GOOD.replace("bytes: 1000000", "bytes: 1000000, until: 2020-01-01T00:00:00Z"))
    with pytest.raises(GridError, match="was to end by 2020"):
        left_s(over)
    assert left_s(found) is None
    assert not job_folder(tmp_path, found).exists()


def test_G4_only_a_code_package_whose_hash_was_allowed_may_run(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    with pytest.raises(GridError, match="is no code package"):
        code_hash(package)
    (package / "package.py").write_text("TASK = None\n")
    name = code_hash(package)
    with pytest.raises(GridError, match=r"may not run here\. Next: its operator reads it"):
        allowed(tmp_path, name)
    assert allow(tmp_path, package) == name
    kept = allowed(tmp_path, name)
    assert (kept / "package.py").read_text() == "TASK = None\n"
    (package / "other.py").write_text("import os\n")
    assert code_hash(package) != name
    (kept / "package.py").write_text("import os\n")
    with pytest.raises(GridError, match="has changed since it was allowed"):
        allowed(tmp_path, name)


def test_G4_a_job_is_removed_but_for_its_result_and_what_it_needs_to_go_on(tmp_path: Path) -> None:
    data, found = tmp_path / "member", job(tmp_path)
    folder = job_folder(data, found)
    rank = folder / "rank-0"

    def fill(*events: str) -> set[str]:
        for name in (
            "data/ab/rows.npy",
            "programs/engines/rank.py",
            "rank-0/objects/cd",
            "rank-0/model-ef.safetensors",
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"x" * 1000)
        (folder / "manifest.json").write_bytes(found.plain)
        lines = [{"event": each, "rank": 0, "outer": 1, "loss": 0.5, "reason": "over"} for each in events]
        (rank / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (rank / "checkpoint-000000001.json").write_text("{}")
        return left()

    def left() -> set[str]:
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    whole = fill("step")
    with locked(rank), pytest.raises(GridError, match=r"runs\. Next: end it"):
        jobs.remove(data, "rows", everything=True)
    assert left() == whole
    answer = jobs.remove(data, "rows", everything=False)
    assert left() == whole - {"data/ab/rows.npy", "programs/engines/rank.py"}, "it may go on"
    assert answer["freed_bytes"] == 2000
    fill("step", "end")
    answer = jobs.remove(data, found.id[:16], everything=False)
    assert left() == {"manifest.json", "rank-0/model-ef.safetensors", "rank-0/events.jsonl"}
    assert "kept: " in jobs.text_of(answer)
    assert jobs.every(data)["jobs"][0]["ended"] == "over"
    jobs.remove(data, "rows", everything=True)
    assert not folder.exists()
    with pytest.raises(GridError, match="no job is called"):
        jobs.remove(data, "rows", everything=True)


@pytest.fixture
def pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that makes an environment of small programs, which keep an account of their calls."""
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    monkeypatch.delenv("CHOROID_TEST_FAIL", raising=False)
    inner = tmp_path / "inner"
    answer = {"torch": "2.13.0+cpu", "installed": ["2.13.0+cpu"], "gloo": True, "python": "3.11.7", "gpu": False}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    inner.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f'case "$*" in *torch.txt*) [ -z "$CHOROID_TEST_FAIL" ] || {{ echo no network >&2; exit 1; }};;'
        f" *importlib*) cat {tmp_path}/answer.json;; esac\n"
    )
    outer = tmp_path / "outer"
    outer.write_text(
        f'#!/bin/sh\nmkdir -p "$4/bin"; touch "$4/pyvenv.cfg"; cp {inner} "$4/bin/python"; chmod +x "$4/bin/python"\n'
    )
    for each in (inner, outer):
        each.chmod(each.stat().st_mode | stat.S_IXUSR)
    return outer


def test_G4_the_environment_is_made_once_by_pinned_hashes_and_a_killed_preparation_is_repeated(
    tmp_path: Path, pythons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "train"
    with pytest.raises(GridError, match=r"is missing\. Next: run `choroid grid prepare train`"):
        environment.interpreter(folder)
    monkeypatch.setenv("CHOROID_TEST_FAIL", "1")
    with pytest.raises(GridError, match="no network"):
        environment.prepare(folder, str(pythons))
    (folder / "lib").mkdir()
    with pytest.raises(GridError, match="was not finished"):
        environment.interpreter(folder)
    monkeypatch.delenv("CHOROID_TEST_FAIL")
    environment.prepare(folder, str(pythons))
    assert not (folder / "lib").exists()
    python = environment.interpreter(folder)
    assert environment.check(python)["torch"] == "2.13.0+cpu"
    calls = (tmp_path / "calls").read_text().splitlines()
    installs = [call for call in calls if "pip install" in call]
    assert len(installs) == 3
    assert all("--require-hashes" in call for call in installs)
    environment.prepare(folder, "/none")
    assert environment.interpreter(folder) == python


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"installed": ["2.13.0", "2.12.0"]}, "two versions of torch"),
        ({"torch": "2.12.0"}, "all members of a job have 2.13.0"),
        ({"gloo": False}, "without Gloo"),
    ],
)
def test_G4_an_environment_with_another_torch_is_not_used(
    tmp_path: Path, pythons: Path, changes: dict[str, Any], says: str
) -> None:
    answer = json.loads((tmp_path / "answer.json").read_text())
    (tmp_path / "answer.json").write_text(json.dumps(answer | changes))
    with pytest.raises(GridError, match=says):
        environment.prepare(tmp_path / "train", str(pythons))
    with pytest.raises(GridError, match="was not finished"):
        environment.interpreter(tmp_path / "train")


def test_G4_a_folder_with_other_files_is_never_made_an_environment(tmp_path: Path, pythons: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("years of work")
    with pytest.raises(GridError, match="holds files of others"):
        environment.prepare(tmp_path / "own", str(pythons))
    assert (tmp_path / "own" / "thesis.txt").read_text() == "years of work"


def test_G4_ranks_take_every_sample_once_in_an_epoch_in_an_order_that_only_depends_on_numbers() -> None:
    steps: dict[str, Any] = {"seed": 3, "locals_": 5, "ranks": 3, "batch": 4}
    epoch = [
        index
        for outer in range(2)
        for local in range(5)
        for rank in range(3)
        for index in indices(120, outer=outer, local=local, rank=rank, **steps)
    ]
    assert sorted(epoch) == list(range(120))
    assert epoch != list(range(120))
    again = indices(120, outer=1, local=2, rank=1, **steps)
    at = (1 * 5 * 3 + 2 * 3 + 1) * 4
    assert again == epoch[at : at + 4]
    assert indices(120, outer=2, local=0, rank=0, **steps) != epoch[:4], "another epoch has another order"
    assert indices(7, outer=0, local=0, rank=0, **steps | {"batch": 20}) != []
    with pytest.raises(ValueError, match="has no samples"):
        indices(0, outer=0, local=0, rank=0, **steps)


FIGURES = Figures(4, b"a" * 32, 1000, 7, True, 1.0, 0.1, 0.5, 10, 2.0, False)


def test_G8_updates_that_do_not_fit_are_left_out_with_the_reason() -> None:
    good = replace(FIGURES, norm=2.0)
    assert unpacked(good.packed()) == good
    assert excluded([FIGURES, good, replace(FIGURES, norm=19.0)]) == {}
    assert set(excluded([FIGURES, good, replace(FIGURES, norm=21.0)])) == {2}
    assert set(excluded([FIGURES, replace(FIGURES, norm=float("nan"))])) == {1}
    assert set(excluded([FIGURES, replace(FIGURES, peak=float("inf"))])) == {1}
    assert set(excluded([FIGURES, replace(FIGURES, peak=1e9), good])) == {1}, "fp16 of all would be zero"
    assert set(excluded([FIGURES, replace(FIGURES, norm=-1.0), good])) == {1}
    assert set(excluded([replace(FIGURES, norm=1e6), FIGURES])) == {0}, "of two, the longer one"
    assert set(excluded([FIGURES, replace(FIGURES, shapes=8), good])) == {1}
    newcomer = replace(FIGURES, contributes=False, norm=float("nan"))
    assert excluded([FIGURES, newcomer]) == {}


def test_G8_all_take_the_latest_state_and_of_several_the_common_one() -> None:
    behind, other = replace(FIGURES, outer=3), replace(FIGURES, digest=b"b" * 32)
    assert source_of([behind, FIGURES, FIGURES], 10) == (1, [0])
    assert source_of([other, FIGURES, FIGURES], 10) == (1, [0])
    assert source_of([FIGURES, FIGURES], 10) == (0, [])
    beyond = replace(FIGURES, outer=10**12)
    assert source_of([beyond, FIGURES, FIGURES], 10) == (1, [0]), "no job has so many steps"
    misfit = replace(FIGURES, outer=9, numbers=5)
    assert source_of([FIGURES, misfit, behind], 10) == (0, [2])


@pytest.mark.parametrize(
    ("codec", "megabytes"), [("fp32", 80.0), ("fp16", 40.0), ("int8", 20.078125)], ids=["fp32", "fp16", "int8"]
)
def test_G4_bytes_of_an_exchange_are_those_of_a_ring(codec: str, megabytes: float) -> None:
    assert predicted_bytes(15_000_000, 3, codec) == pytest.approx(megabytes * 1e6)
    assert predicted_bytes(15_000_000, 1, codec) == 0.0


async def test_G4_a_second_job_on_this_machine_is_refused_before_anything_starts(tmp_path: Path) -> None:
    found = JobFolder(tmp_path, job(tmp_path), {}, Path("/none"))
    with (
        loopback_bases(1) as (base,),
        socket.create_server((local_addresses(3, base)[1], PORT)),
        pytest.raises(GridError, match="another job runs on this machine"),
    ):
        await run_local(found, print, base=base)
    assert not found.rank(0).exists()
