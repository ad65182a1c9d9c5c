"""The service that needs no certificate: what the hub is, requests to enrol, certificates for approved identities."""

from __future__ import annotations

import grpc
import grpc.aio

from controller.signed_log.notes import ED25519, NoteKey
from grid.errors import GridError, GridRefused
from grid.hub.members import Members, address_of
from grid.hub.store import Store
from grid.identity.authority import Authority, expires_utc_s
from grid.identity.requests import Nonces, check_request
from grid.policy.policy import GridPolicy
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

EnrolContext = grpc.aio.ServicerContext[pb.EnrolRequest, pb.EnrolReply]
DescribeContext = grpc.aio.ServicerContext[pb.DescribeRequest, pb.DescribeReply]
WAITING = "an operator of the hub has to approve it: choroid grid member approve"


class EnrolmentService(pb_grpc.EnrolmentServicer):
    """Answers the calls of `Enrolment`."""

    def __init__(self, store: Store, members: Members, authority: Authority, policy: GridPolicy) -> None:
        self._store = store
        self._members = members
        self._authority = authority
        self._policy = policy
        self._nonces = Nonces(store.secret, store.use_nonce)
        self.member_port = 0

    async def Describe(self, request: pb.DescribeRequest, context: DescribeContext) -> pb.DescribeReply:
        """What the hub is, and a nonce for one request."""
        now = self._store.utc()
        return pb.DescribeReply(
            hub=self._store.name,
            authority_pem=self._authority.certificate_pem.decode(),
            member_port=self.member_port,
            nonce=self._nonces.new(now),
            utc_s=now,
            policy_version=self._policy.version,
            log_key=str(NoteKey(self._store.name, ED25519, self._store.public_key)),
        )

    async def Enrol(self, request: pb.EnrolRequest, context: EnrolContext) -> pb.EnrolReply:
        """Record a request, or give an approved identity its next certificate."""
        try:
            now = self._store.utc()
            check_request(request, now)
            self._nonces.spend(request.nonce, now)
            found = self._members.request(request, address_of(context.peer()))
            reply = pb.EnrolReply(
                state=pb.EnrolReply.State.Value(found["state"].upper()),
                reason=WAITING + f" {found['name']}" if found["state"] == "pending" else found["reason"],
            )
            if found["state"] == "approved":
                signed = self._authority.certificate_for(request.signing_request_pem.encode(), found["id"])
                reply.certificate_pem = signed.decode()
                reply.expires_utc_s = expires_utc_s(signed)
            return reply
        except GridRefused as refused:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))
        except GridError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
