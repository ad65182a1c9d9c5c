"""The public keys of a federated rank, as they are registered through the hub.

A rank signs them with its identity, for one lease. The hub passes the statement on to the other ranks, and each checks it
against the identity that the lease names: the hub cannot put another key in its place.
"""

from __future__ import annotations

import json

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from grid.errors import GridRefused

CONTEXT = b"choroid node keys v1\n"
"""Prefix of what is signed, so that a signature is valid for nothing else."""
MAX_BYTES = 4096


def read_statement(data: bytes, lease: str, public: bytes) -> tuple[str, str]:
    """Return the public key of the node and the certificate that a rank has signed.

    Args:
        data: Its statement.
        lease: The lease at hand.
        public: Ed25519 key of the rank's identity.

    Raises:
        GridRefused: It is malformed, for another lease, or not signed by that identity.
    """
    again = "Next: submit the job again; see that all members run the same release"
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"{len(data):,} bytes")
        plain = json.loads(data)
        body = plain["body"]
        signature = bytes.fromhex(plain["signature"])
        Ed25519PublicKey.from_public_bytes(public).verify(signature, CONTEXT + body.encode())
        found = json.loads(body)
        node, certificate = str(found["node"]), str(found["certificate"])
        x509.load_pem_x509_certificate(certificate.encode())
    except InvalidSignature:
        raise GridRefused(f"the keys of a node are not signed by its identity. {again}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GridRefused(f"the keys of a node are malformed ({error}). {again}") from None
    if found.get("lease") != lease:
        raise GridRefused(f"the keys of a node are for another lease. {again}")
    return node, certificate
