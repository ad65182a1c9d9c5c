"""X6: boards of a running hub behind mutual TLS, from the command that submits to the command that runs the best."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from choroid.cli import main
from controller.signed_log.notes import ED25519, NoteKey
from grid.boards.loading import boards_of
from grid.boards.manifest import sign_manifest
from grid.errors import GridError, GridRefused
from grid.grading import hosting
from grid.grading.agreement import sign_verdict
from grid.grading.grading import ModelGrade
from grid.grading.hosting import HostedBoards
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.identity.keys import IdentityKey
from grid.log.verification import verify_log
from grid.member.boards import BoardsClient
from grid.wire.boards import boards_pb2, boards_pb2_grpc
from tests.grid.small_board import BINS, CLASSES, ELECTRODES, NAME, TRIALS, decoder, small_board
from tests.grid.test_faults import HubProcess
from tests.grid.world import a_hub, approved, policy_file, running, until

GRID = [sys.executable, "-m", "choroid", "grid"]
KIND = "json_extract(CAST(body AS TEXT), '$.kind')"


def results(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "hub.sqlite")) as database:
        return int(database.execute(f"SELECT COUNT(*) FROM log WHERE {KIND} = 'board.result'").fetchone()[0])


def said(capsys: pytest.CaptureFixture[str], *words: str, fails: bool = False) -> str:
    assert main(["grid", *words]) == int(fails)
    found = capsys.readouterr()
    return found.err if fails else found.out


@pytest.mark.long
def test_X6_a_model_is_submitted_graded_ranked_and_run_by_name_over_a_hub_that_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_board(tmp_path / "hub")
    model = tmp_path / "ridge.onnx"
    model.write_bytes(decoder())
    hub = HubProcess(tmp_path / "hub", policy_file(tmp_path), grading=True)
    try:
        for name in ("author", "user"):
            asyncio.run(hub.enrol(tmp_path, name, "member"))
        author, user = ("--data", str(tmp_path / "author")), ("--data", str(tmp_path / "user"))
        assert NAME in said(capsys, "board", "list", *user).splitlines()
        assert "no graded model yet" in said(
            capsys, "model", "run", f"{NAME}@best", "--input", str(inputs(tmp_path)), *user, fails=True
        )
        first = json.loads(said(capsys, "model", "submit", NAME, str(model), "--json", *author))
        assert first["state"] == "queued"
        words = ["submission", "show", first["submission"], "--wait", "--data", str(tmp_path / "author")]
        waiting = subprocess.Popen([*GRID, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with closing(sqlite3.connect(tmp_path / "hub" / "hub.sqlite")) as database:
            assert waiting.stderr is not None
            assert waiting.stderr.readline() == "queued\n"
            asyncio.run(until(lambda: database.execute("SELECT COUNT(*) FROM claim").fetchone()[0] == 2))
        hub.kill()
        assert results(tmp_path / "hub") == 0
        assert waiting.stderr.readline().startswith("waiting: ")
        hub.start()
        found, _ = waiting.communicate()
        assert waiting.returncode == 0
        assert "graded" in found
        assert results(tmp_path / "hub") == 1
        table = said(capsys, "board", "show", NAME, *user)
        assert "1     " in table
        assert "ridge" in table
        assert "is on" in said(capsys, "model", "submit", NAME, str(model), *author, fails=True)
        assert "no such submission of yours" in said(
            capsys, "submission", "show", first["submission"], *user, fails=True
        )
        out = tmp_path / "out.npz"
        said(capsys, "model", "run", f"{NAME}@best", "--input", str(inputs(tmp_path)), "--out", str(out), *user)
        with np.load(out) as outputs:
            assert outputs["logits"].shape == (TRIALS, CLASSES)
            assert np.ptp(outputs["logits"]) > 0
        said(capsys, "log", "verify", "--data", str(tmp_path / "hub"))
    finally:
        hub.kill()


def test_X5_a_submission_that_waits_is_made_when_the_hub_comes_and_prints_its_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_board(tmp_path / "hub")
    model = tmp_path / "ridge.onnx"
    model.write_bytes(decoder())
    hub = HubProcess(tmp_path / "hub", policy_file(tmp_path), grading=True)
    try:
        asyncio.run(hub.enrol(tmp_path, "author", "member"))
        hub.kill()
        author = ("--data", str(tmp_path / "author"))
        assert "did not answer" in said(capsys, "model", "submit", NAME, str(model), *author, fails=True)
        words = ["model", "submit", NAME, str(model), "--wait", *author]
        waiting = subprocess.Popen([*GRID, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("waiting: ")
        hub.start()
        found, progress = waiting.communicate()
        assert waiting.returncode == 0
        (line,) = (line for line in progress.splitlines() if line.startswith("submission "))
        assert line in found.splitlines()
        assert "graded" in found
        with closing(owned(tmp_path / "hub")) as store:
            assert store.query("SELECT COUNT(*) FROM submission")[0][0] == 1
    finally:
        hub.kill()


def inputs(folder: Path) -> Path:
    path = folder / "inputs.json"
    path.write_text(
        json.dumps({"spikes": np.eye(TRIALS, BINS * ELECTRODES).reshape(TRIALS, BINS, ELECTRODES).tolist()})
    )
    return path


def test_X6_each_wrong_use_is_refused_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, here = tmp_path / "m.onnx", ("--data", str(tmp_path / "m"))
    model.write_bytes(b"?")
    assert "has joined no grid" in said(capsys, "model", "submit", NAME, str(model), *here, fails=True)
    assert "has joined no grid" in said(capsys, "board", "list", *here, fails=True)
    assert "No such file" in said(capsys, "model", "submit", NAME, str(tmp_path / "none.onnx"), *here, fails=True)
    data = inputs(tmp_path)
    assert "write BOARD@VERSION or BOARD@best" in said(
        capsys, "model", "run", NAME, "--input", str(data), *here, fails=True
    )
    for name, content in (("a.npz", b"no zip"), ("b.json", b"[1]"), ("c.json", b'{"x": "text"}')):
        (tmp_path / name).write_bytes(content)
        words = ("model", "run", f"{NAME}@best", "--input", str(tmp_path / name), *here)
        assert "by the names of the board's inputs" in said(capsys, *words, fails=True)


async def test_X6_only_approved_members_reach_the_boards_and_a_revoked_one_does_not(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        await approved(tmp_path, hub, "alpha")
        async with BoardsClient(tmp_path / "alpha") as boards:
            assert sorted(await boards.names()) == sorted({each.board for each in boards_of(tmp_path).values()})
            with pytest.raises(GridRefused, match="no board “other”"):
                await boards.submit("other", b"?", "x")
            hub.members.decide("alpha", "revoke", "operator", "stolen")
            for call in (boards.names(), boards.standings(NAME), boards.call(f"{NAME}@best", {})):
                with pytest.raises(GridRefused, match="revoked"):
                    await call
        credentials = grpc.ssl_channel_credentials(hub.authority.certificate_pem)
        options = (("grpc.ssl_target_name_override", "choroid-grid-hub"),)
        async with grpc.aio.secure_channel(f"127.0.0.1:{hub.member_port}", credentials, options=options) as channel:
            stub: boards_pb2_grpc.BoardsAsyncStub = boards_pb2_grpc.BoardsStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await stub.Standings(boards_pb2.StandingsRequest(), timeout=60)
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE  # TLS refuses a client without a certificate


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = owned(tmp_path, name="hub.example/log")
    yield made
    made.close()


def test_X6_a_result_and_its_row_in_the_log_exist_together_or_not_at_all(tmp_path: Path, store: Store) -> None:
    fails = ""

    def append(kind: str, about: Mapping[str, Any]) -> None:
        store.note(kind, about)
        if kind == fails:
            raise GridError("the disk is full")

    small_board(tmp_path)
    hosted = HostedBoards(tmp_path, store, append=append, clock=store.utc)
    key = IdentityKey.generate()
    boards, rows = hosted.service.store, store.log.size
    fails = "board.submission"
    manifest = sign_manifest(key.private, b"model", board=f"{NAME}@1", name="mine", nonce=bytes(32)).to_json()
    with pytest.raises(GridError, match="disk"):
        hosted.service.submit(key.id, manifest, b"model")
    assert (boards.waiting(), store.log.size) == (0, rows)
    fails = "board.result"
    found = hosted.service.submit(key.id, manifest, b"model")["submission"]
    graders = [IdentityKey.in_folder(tmp_path / f"grader-{number}") for number in (1, 2)]
    for grader in graders:
        boards.claim(grader.public.hex(), store.utc(), store.utc() + 60, 2)
    verdicts = [
        sign_verdict(each.private, submission=found, rotation=1, platform="here", grade=ModelGrade((0.9, 0.8)))
        for each in graders
    ]
    hosted.service.take_verdict(verdicts[0])
    with pytest.raises(GridError, match="disk"):
        hosted.service.take_verdict(verdicts[1])
    assert (boards.result(found, 1)["state"], len(boards.verdicts(found, 1)), store.log.size) == ("queued", 1, rows + 1)
    fails = ""
    hosted.service.take_verdict(verdicts[1])
    assert (boards.result(found, 1)["published"], store.log.size) == (0.86, rows + 2)
    note = store.log.checkpoint()
    verdict = verify_log(
        [body for _, body in store.log.rows(0, 100)], note, NoteKey(store.name, ED25519, store.public_key)
    )
    assert not verdict.faults


async def test_X5_rotations_go_on_after_a_failure_of_the_machine(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "ROTATION_EVERY_S", 0.01)
    small_board(tmp_path)
    hosted = HostedBoards(tmp_path, store, append=store.note, clock=store.utc)
    failures = [OSError("no more processes"), sqlite3.OperationalError("disk I/O error"), GridError("the disk is full")]
    attempts = 0

    async def measured() -> None:
        nonlocal attempts
        attempts += 1
        if failures:
            raise failures.pop()

    monkeypatch.setattr(hosted._graders[0], "measure_baselines", measured)
    async with running(hosted.run()):
        await until(lambda: attempts > 3)
