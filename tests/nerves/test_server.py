"""Where the engine's service listens: on loopback, and elsewhere with mutual TLS only (S1)."""

from __future__ import annotations

from typing import cast

import pytest

from nerves.gateway import Gateway
from nerves.server import GatewayServer, RemoteAddress
from nerves.tokens import Keyring


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104  (it must not)
async def test_S1_it_refuses_to_listen_beyond_loopback_without_mutual_tls(host: str) -> None:
    server = GatewayServer(cast(Gateway, None), Keyring({}))
    with pytest.raises(ValueError, match="mutual TLS"):
        await server.open(host, 0)
    with pytest.raises(ValueError, match="mutual TLS"):
        await server.open("127.0.0.1", 0, RemoteAddress(host, 0, None))
