"""Check every call of the gRPC service before it is read: its token (S1), scope (S2) and the certificate of its client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import grpc.aio

from nerves.tokens import Grant, Keyring, TokenScope

if TYPE_CHECKING:
    Interceptor = grpc.aio.ServerInterceptor[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
else:
    Interceptor = grpc.aio.ServerInterceptor

Context = grpc.aio.ServicerContext[Any, Any]

SERVICE = "choroid.nerves.v1.Nerves"
SCOPES: dict[str, frozenset[TokenScope]] = {
    f"/{SERVICE}/{name}": frozenset(scopes)
    for name, scopes in {
        "Info": {TokenScope.READ},
        "Status": {TokenScope.READ},
        "Summary": {TokenScope.READ},
        "StreamSummary": {TokenScope.READ},
        "Metrics": {TokenScope.READ},
        "CrossCorrelation": {TokenScope.READ},
        "Responses": {TokenScope.READ},
        "Leases": {TokenScope.READ},
        "StreamFrames": {TokenScope.READ},
        "StreamSpikes": {TokenScope.READ},
        "StreamEvents": {TokenScope.READ},
        "HoldLease": {TokenScope.STIMULATE},
        "AcquireLease": {TokenScope.STIMULATE},
        "RenewLease": {TokenScope.STIMULATE},
        "ReleaseLease": {TokenScope.STIMULATE},
        "Stimulate": {TokenScope.STIMULATE},
        "RunReflex": {TokenScope.STIMULATE},
        "Ledger": {TokenScope.STIMULATE, TokenScope.AUDIT},
    }.items()
}
"""Any one of the named scopes allows the call; a call that is not named here is refused."""


class AccessInterceptor(Interceptor):
    """Refuse each call without a valid token, of a known or an unknown method (S1), and each beyond its scopes (S2).

    Over TLS the certificate of the client must name the same agent as the token. A stream ends when its token is revoked.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Give the real handler, or one that refuses."""
        grant = self._keyring.find(handler_call_details.invocation_metadata)
        if grant is None:
            return _refusal(
                grpc.StatusCode.UNAUTHENTICATED,
                "no valid token; send metadata “authorization: Bearer <token>”",
            )
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        needed = SCOPES.get(handler_call_details.method, frozenset())
        if not needed & grant.scopes:
            wanted = " or ".join(sorted(needed)) or "nothing that exists"
            return _refusal(grpc.StatusCode.PERMISSION_DENIED, f"{grant.requester}'s token lacks the scope: {wanted}")
        return self._guarded(handler, grant)

    def _guarded(self, handler: Any, grant: Grant) -> Handler:
        """Return a handler that also checks the certificate, and before each message of a stream the token."""
        if not handler.response_streaming:

            async def answer(request: Any, context: Context) -> Any:
                await _check_certificate(context, grant)
                return await handler.unary_unary(request, context)

            return grpc.unary_unary_rpc_method_handler(
                answer, handler.request_deserializer, handler.response_serializer
            )

        behaviour = handler.stream_stream if handler.request_streaming else handler.unary_stream

        async def stream(request: Any, context: Context) -> AsyncGenerator[Any]:
            await _check_certificate(context, grant)
            async with aclosing(behaviour(request, context)) as messages:
                async for message in messages:
                    if not self._keyring.valid(grant):
                        await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"{grant.requester}'s token was revoked")
                    yield message

        kind = (
            grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
        )
        return kind(stream, handler.request_deserializer, handler.response_serializer)


async def _check_certificate(context: Context, grant: Grant) -> None:
    """End a call whose certificate is another agent's."""
    proven = context.auth_context()
    if proven.get("transport_security_type") != [b"ssl"]:
        return
    names = [name.decode("utf-8", "replace") for name in proven.get("x509_common_name", ())]
    if names != [grant.requester]:
        await context.abort(
            grpc.StatusCode.PERMISSION_DENIED,
            f"the certificate names {', '.join(names) or 'no agent'}, the token {grant.requester}; use those of one agent",
        )


def _refusal(code: grpc.StatusCode, text: str) -> Handler:
    async def refuse(_: object, context: Context) -> NoReturn:
        await context.abort(code, text)

    # A handler of streams is called before any message of the call is read.
    return grpc.stream_stream_rpc_method_handler(refuse)
