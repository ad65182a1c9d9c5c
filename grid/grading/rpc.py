"""The gRPC service of the boards, on the hub's port for approved members."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc
import grpc.aio
import numpy as np

from grid.errors import GridError, GridRefused
from grid.grading.frames import Tensors
from grid.grading.service import BoardService
from grid.wire.boards import boards_pb2 as pb
from grid.wire.boards import boards_pb2_grpc as pb_grpc

CallerOf = Callable[[Any], Awaitable[str]]
"""Returns the identity of the caller of a context; ends the call of one that is not approved."""
MAX_TENSORS = 32
MAX_VALUES = 4_000_000


def to_wire(tensors: Tensors) -> list[pb.BoardTensor]:
    """Return tensors as messages."""
    return [
        pb.BoardTensor(name=name, shape=array.shape, values=array.ravel().tolist())
        for name, array in sorted(tensors.items())
    ]


def from_wire(messages: Iterable[pb.BoardTensor]) -> Tensors:
    """Return tensors in messages; raise :class:`GridRefused` where they contradict themselves."""
    listed = list(messages)
    if len(listed) > MAX_TENSORS or sum(len(each.values) for each in listed) > MAX_VALUES:
        raise GridRefused(
            f"at most {MAX_TENSORS} tensors with {MAX_VALUES} values together are taken. Next: send fewer"
        )
    found = {}
    for each in listed:
        if int(np.prod(list(each.shape), dtype=np.float64)) != len(each.values) or each.name in found:
            raise GridRefused(f"tensor “{each.name:.40}” has {len(each.values)} values for its shape, or occurs twice")
        found[each.name] = np.array(each.values, np.float32).reshape(list(each.shape))
    return found


class BoardsRpc(pb_grpc.BoardsServicer):
    """Answers the calls of `Boards`."""

    def __init__(self, boards: BoardService, caller: CallerOf) -> None:
        self._boards = boards
        self._caller = caller

    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmissionReply:
        """Submit a model."""
        caller = await self._caller(context)
        async with _answered(context):
            try:
                manifest = json.loads(request.manifest)
            except ValueError:
                raise GridRefused("the manifest is not JSON. Next: make it with `choroid grid model submit`") from None
            return _submission(self._boards.submit(caller, manifest, request.model))

    async def Submission(self, request: pb.SubmissionRequest, context: Any) -> pb.SubmissionReply:
        """Return the state of a submission."""
        caller = await self._caller(context)
        async with _answered(context):
            return _submission(self._boards.state(caller, request.submission))

    async def Standings(self, request: pb.StandingsRequest, context: Any) -> pb.StandingsReply:
        """Return a board, or the names of all."""
        await self._caller(context)
        async with _answered(context):
            if not request.board:
                return pb.StandingsReply(names=sorted({board.board for board in self._boards.boards.values()}))
            return pb.StandingsReply(standings=json.dumps(self._boards.standings(request.board)))

    async def Call(self, request: pb.CallRequest, context: Any) -> pb.CallReply:
        """Call the best model."""
        caller = await self._caller(context)
        async with _answered(context):
            outputs = await self._boards.call(caller, request.board, from_wire(request.inputs))
            return pb.CallReply(outputs=to_wire(outputs))


def _submission(state: dict[str, Any]) -> pb.SubmissionReply:
    return pb.SubmissionReply(**{name: value for name, value in state.items() if value is not None})


@contextlib.asynccontextmanager
async def _answered(context: Any) -> AsyncIterator[None]:
    """Answer errors of the grid with their text."""
    try:
        yield
    except GridRefused as refused:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))
    except (GridError, OSError) as error:
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
