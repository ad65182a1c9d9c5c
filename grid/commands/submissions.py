"""`choroid grid model submit` and `run`, `submission` and `board`: the boards of a hub, as its members use them."""

from __future__ import annotations

import asyncio
import json
import secrets
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grid.boards.board import split_key
from grid.errors import GridError, GridRefused
from grid.grading.frames import Tensors
from grid.member.boards import BoardsClient
from grid.member.waiting import patiently
from grid.wire.boards import boards_pb2 as pb


def submit(
    data: Path, board: str, model: Path, name: str, *, wait: bool, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Submit a model to a board.

    Args:
        data: Data folder of the member.
        board: Name of the board.
        model: The ONNX file.
        name: The name on the board; empty takes the file's.
        wait: Whether to wait for the result, also while the hub is away.
        say: Takes lines of progress.

    Raises:
        GridRefused: The hub refuses; the message says why.
        GridError: The hub cannot be reached, and `wait` is false.
    """
    content, nonce = model.read_bytes(), secrets.token_bytes(32)

    async def sent() -> pb.SubmissionReply:
        async with BoardsClient(data) as boards:
            return await boards.submit(board, content, name or model.stem, nonce=nonce)

    async def work() -> pb.SubmissionReply:
        if not wait:
            return await sent()
        reply = await patiently(sent, say)
        say(f"submission {reply.submission}")
        return await _settled(data, reply.submission, say)

    return _submission(asyncio.run(work()))


def submission(data: Path, which: str, *, wait: bool, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the state of a submission of this member. Raises as :func:`submit`."""

    async def work() -> pb.SubmissionReply:
        if wait:
            return await _settled(data, which, say)
        async with BoardsClient(data) as boards:
            return await boards.submission(which)

    return _submission(asyncio.run(work()))


async def _settled(data: Path, which: str, say: Callable[[str], None]) -> pb.SubmissionReply:
    """Wait until a submission is settled. It is safe at the hub, so a hub that is away or starts again is waited for."""

    async def attempt() -> pb.SubmissionReply:
        async with BoardsClient(data) as boards:
            return await boards.settled(which, say)

    return await patiently(attempt, say)


def board(data: Path, name: str) -> dict[str, Any]:
    """Return a board with its ranking, or the names of all boards if `name` is empty. Raises as :func:`submit`."""

    async def work() -> dict[str, Any]:
        async with BoardsClient(data) as boards:
            return await boards.standings(name) if name else {"boards": await boards.names()}

    return asyncio.run(work())


def run(data: Path, key: str, source: Path, to: Path | None) -> dict[str, Any]:
    """Call the best model of a board.

    Args:
        data: Data folder of the member.
        key: `BOARD@best`.
        source: `.npz`, or `.json` with nested lists by name; what is no input of the board is left out.
        to: The `.npz` file for the outputs; None returns them only.

    Returns:
        `outputs`: nested lists by name.

    Raises:
        GridRefused: The file or the hub's answer says why.
        GridError: The hub cannot be reached.
    """
    try:
        name, _ = split_key(key)
    except ValueError as error:
        raise GridRefused(str(error)) from None
    inputs = read_inputs(source)

    async def work() -> Tensors:
        async with BoardsClient(data) as boards:
            described = (await boards.standings(name))["board"]["interface"]["inputs"]
            wanted = {each["name"] for each in described}
            return await boards.call(key, {each: array for each, array in inputs.items() if each in wanted})

    outputs = asyncio.run(work())
    if to is not None:
        arrays: dict[str, Any] = dict(outputs)
        with to.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    return {"board": key, "outputs": {name: array.tolist() for name, array in sorted(outputs.items())}}


def read_inputs(source: Path) -> Tensors:
    """Return the arrays of a `.npz` or `.json` file. Raises :class:`GridRefused` for anything else."""
    hint = "Next: give an .npz file of arrays, or a .json file with nested lists, by the names of the board's inputs"
    try:
        if source.suffix == ".json":
            found = json.loads(source.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise GridRefused(f"{source} is no JSON object. {hint}")
            return {str(name): _floats(each) for name, each in found.items()}
        with np.load(source, allow_pickle=False) as arrays:
            if not hasattr(arrays, "files"):
                raise GridRefused(f"{source} holds one array without a name. {hint}")
            return {name: _floats(arrays[name]) for name in arrays.files}
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise GridRefused(f"{source} cannot be read ({error}). {hint}") from None
    except OSError as error:
        raise GridError(f"{source} cannot be read ({error.strerror or error}). {hint}") from None


def submission_text(answer: Mapping[str, Any]) -> str:
    """Return the state of a submission as lines."""
    lines = [
        f"submission {answer['submission']}",
        f"{answer['board']}, rotation {answer['rotation']}: {answer['state']}",
    ]
    if answer["published"] is not None:
        lines.append(f"published score {answer['published']:.4g}")
    return "\n".join([*lines, *([answer["reason"]] if answer["reason"] else [])])


def board_text(answer: Mapping[str, Any]) -> str:
    """Return a board with its ranking as a table, or the names of all boards."""
    if "boards" in answer:
        return "\n".join(answer["boards"])
    described = answer["board"]
    metric = described["metric"]
    lines = [
        f"{described['board']}@{described['version']}: {described['title']}",
        f"{metric['name']} ({metric['unit']}), greater is better; rotation {answer['rotation']}",
        f"{'rank':<6}{'score':<10}{'name':<24}{'member':<18}state",
    ]
    for rank, row in enumerate(answer["rows"], start=1):
        graded = row["state"] == "graded"
        score = f"{row['published']:.4g}" if graded else ""
        lines.append(f"{rank if graded else '':<6}{score:<10}{row['name']:<24}{row['member'][:16]:<18}{row['state']}")
    lines += [f"{'':<6}{score:<10.4g}{name:<24}baseline" for name, score in answer["baselines"].items()]
    return "\n".join(lines)


def run_text(answer: Mapping[str, Any]) -> str:
    """Return the outputs as JSON."""
    return json.dumps(answer["outputs"])


def _submission(reply: pb.SubmissionReply) -> dict[str, Any]:
    return {
        "submission": reply.submission,
        "board": reply.board,
        "rotation": reply.rotation,
        "state": reply.state,
        "published": reply.published if reply.HasField("published") else None,
        "reason": reply.reason,
    }


def _floats(value: Any) -> NDArray[np.float32]:
    return np.asarray(value, np.float32)
