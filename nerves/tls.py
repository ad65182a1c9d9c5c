"""Certificates of the engine's server for agents on other machines."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of the server: its certificate and key, and the authority that signs the clients' certificates."""

    certificate: Path
    key: Path
    authority: Path

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that demand a certificate of every client.

        A new certificate in the file is in use from the next connection on.

        Raises:
            OSError: A file cannot be read.
        """
        configuration, written_ns = self._read(), self.certificate.stat().st_mtime_ns

        def renewed() -> Any:  # a configuration, or None for the present one; the stubs do not know of None
            nonlocal written_ns
            try:
                found_ns = self.certificate.stat().st_mtime_ns
                if found_ns == written_ns:
                    return None
                configuration = self._read()
            except OSError:
                logger.exception(
                    "the new certificate of the electrode engine cannot be read; the former one stays in use"
                )
                return None
            written_ns = found_ns
            return configuration

        return grpc.dynamic_ssl_server_credentials(configuration, renewed, require_client_authentication=True)

    def _read(self) -> grpc.ServerCertificateConfiguration:
        pair = (self.key.read_bytes(), self.certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], self.authority.read_bytes())
