"""The listening gRPC server of the engine: on loopback with tokens, beyond it with mutual TLS as well."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import dataclass

import grpc
import grpc.aio

from choroid.client.wire import nerves_pb2_grpc as pb_grpc
from nerves.admission import AccessInterceptor
from nerves.gateway import Gateway
from nerves.tls import TlsFiles
from nerves.tokens import Keyring

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 64 * 1024
OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.max_concurrent_streams", 128),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """Where agents on other machines connect; without `tls` the service refuses to listen."""

    host: str
    port: int
    tls: TlsFiles | None


class GatewayServer:
    """The listening server."""

    def __init__(self, gateway: Gateway, keyring: Keyring) -> None:
        self._gateway = gateway
        self._keyring = keyring
        self._server: grpc.aio.Server | None = None

    async def open(self, host: str, port: int, remote: RemoteAddress | None = None) -> str:
        """Listen on loopback, and with mutual TLS on the address for other machines; return the loopback address.

        Raises:
            ValueError: `host` is not on loopback, or `remote` has no TLS.
            OSError: A port is taken, or a file of the TLS cannot be read.
        """
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError(
                f"the electrode engine listens on {host} with mutual TLS only; give it as the remote address"
            )
        if remote is not None and remote.tls is None:
            raise ValueError(
                f"the electrode engine does not listen on {remote.host} without mutual TLS: tokens and stimulation would"
                " cross the network unprotected. Next: make its certificate with `choroid agent certify-engine --host NAME`"
            )
        self._server = grpc.aio.server(
            interceptors=[AccessInterceptor(self._keyring)], options=OPTIONS, maximum_concurrent_rpcs=512
        )
        pb_grpc.add_NervesServicer_to_server(self._gateway, self._server)
        address = _shown(host, port)
        try:
            bound = self._server.add_insecure_port(address)
            if remote is not None and remote.tls is not None:
                address = _shown(remote.host, remote.port)
                self._server.add_secure_port(address, remote.tls.credentials())
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}. Next: choose another port") from None
        await self._server.start()
        return _shown(host, bound)

    async def close(self) -> None:
        """Stop listening; calls that do not end by themselves within 0.2 s are ended."""
        if self._server is not None:
            await self._server.stop(grace=0.2)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
