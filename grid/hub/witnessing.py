"""The service of a hub as a witness of other hubs' logs. It needs no certificate: the signatures of the logs decide."""

from __future__ import annotations

import sqlite3

import grpc
import grpc.aio

from grid.errors import GridError, GridRefused
from grid.hub.store import storage_error
from grid.log.witness import Conflict, Contradiction, Witness
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

AddContext = grpc.aio.ServicerContext[pb.AddCheckpointRequest, pb.AddCheckpointReply]
AskContext = grpc.aio.ServicerContext[pb.WitnessedRequest, pb.WitnessedReply]


class WitnessingService(pb_grpc.WitnessingServicer):
    """Answers the calls of `Witnessing`."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    async def AddCheckpoint(self, request: pb.AddCheckpointRequest, context: AddContext) -> pb.AddCheckpointReply:
        """Confirm a checkpoint, or say why not."""
        try:
            return pb.AddCheckpointReply(line=self._witness.add_checkpoint(request.body, request.signature))
        except Conflict as conflict:
            return pb.AddCheckpointReply(size=conflict.size, refusal=str(conflict))
        except Contradiction as found:
            return pb.AddCheckpointReply(refusal=str(found), confirmed=found.confirmed)
        except sqlite3.Error as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(storage_error(error)))
        except GridError as error:
            return pb.AddCheckpointReply(refusal=str(error))

    async def Witnessed(self, request: pb.WitnessedRequest, context: AskContext) -> pb.WitnessedReply:
        """Return what was confirmed last of a log."""
        try:
            found = self._witness.find(request.origin)
        except GridRefused as refused:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(refused))
        return pb.WitnessedReply(checkpoint=found.note, contradiction=found.other, reason=found.words)
