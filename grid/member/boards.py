"""A member's side of boards: submit a model, read a ranking, call the best model."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import grpc.aio

from grid.boards.manifest import sign_manifest
from grid.errors import GridRefused
from grid.grading.frames import Tensors
from grid.grading.rpc import from_wire, to_wire
from grid.member.membership import CALL_S, MAX_MESSAGE_BYTES, Membership, explained
from grid.wire.boards import boards_pb2 as pb
from grid.wire.boards import boards_pb2_grpc as pb_grpc

SETTLED = ("graded", "void", "refused", "held")
POLL_S = 1.0
MODEL_S = 120.0
"""Longest time of a call that runs a model: a busy hub starts its sandbox first."""
OVERHEAD_BYTES = 65_536


class BoardsClient:
    """Calls of a hub's boards. It needs the data folder of a member.

    Every method raises :class:`GridRefused` with the hub's reason, or :class:`GridError` when the hub cannot be reached.
    """

    def __init__(self, folder: Path | str) -> None:
        self.membership = Membership.load(Path(folder))
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.membership.require_certificate()
        self._channel = self.membership.channel()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close(None)

    @property
    def _stub(self) -> pb_grpc.BoardsAsyncStub:
        if self._channel is None:
            raise GridRefused("this client is not connected. Next: use it with `async with`")
        stub: pb_grpc.BoardsAsyncStub = pb_grpc.BoardsStub(self._channel)
        return stub

    async def names(self) -> list[str]:
        """Return the names of the hub's boards."""
        with explained("the hub"):
            return list((await self._stub.Standings(pb.StandingsRequest(), timeout=CALL_S)).names)

    async def standings(self, board: str) -> dict[str, Any]:
        """Return a board: its description, baselines and ranking, as `BoardService.standings` makes them."""
        with explained("the hub"):
            reply = await self._stub.Standings(pb.StandingsRequest(board=board), timeout=CALL_S)
        found: dict[str, Any] = json.loads(reply.standings)
        return found

    async def submit(self, board: str, model: bytes, name: str, *, nonce: bytes = b"") -> pb.SubmissionReply:
        """Sign and submit a model.

        Args:
            board: Name of the board; the model enters its newest version.
            model: The ONNX file.
            name: The name under which it appears on the board.
            nonce: 32 bytes. With the same ones a repeated call is the same submission; empty takes random ones.
        """
        if len(model) > MAX_MESSAGE_BYTES - OVERHEAD_BYTES:
            raise GridRefused(
                f"the model has {len(model)} bytes; a hub takes at most {MAX_MESSAGE_BYTES - OVERHEAD_BYTES}."
                " Next: make it smaller"
            )
        described = (await self.standings(board))["board"]
        key = f"{described['board']}@{described['version']}"
        nonce = nonce or secrets.token_bytes(32)
        signed = sign_manifest(self.membership.key.private, model, board=key, name=name, nonce=nonce)
        request = pb.SubmitRequest(manifest=json.dumps(signed.to_json()), model=model)
        with explained("the hub"):
            return await self._stub.Submit(request, timeout=MODEL_S)

    async def submission(self, submission: str) -> pb.SubmissionReply:
        """Return the state of a submission of this member."""
        with explained("the hub"):
            return await self._stub.Submission(pb.SubmissionRequest(submission=submission), timeout=CALL_S)

    async def settled(
        self, submission: str, on_state: Callable[[str], None] = lambda _: None, *, poll_s: float = POLL_S
    ) -> pb.SubmissionReply:
        """Wait until a submission is settled; `on_state` is called with each new state."""
        shown = ""
        while True:
            reply = await self.submission(submission)
            if reply.state != shown:
                shown = reply.state
                on_state(shown)
            if shown in SETTLED:
                return reply
            await asyncio.sleep(poll_s)

    async def call(self, board: str, inputs: Tensors) -> Tensors:
        """Return the outputs of the best model of a board (`BOARD@best`); it runs on the hub's side.

        Args:
            board: `BOARD@best`.
            inputs: Arrays of float32 by name, as the board describes them.
        """
        request = pb.CallRequest(board=board, inputs=to_wire(inputs))
        with explained("the hub"):
            reply = await self._stub.Call(request, timeout=MODEL_S)
        return from_wire(reply.outputs)
