"""Seal the secrets of present rotations: in the database they are encrypted with a key that follows from the hub's own."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from grid.errors import GridError
from grid.identity.keys import RAW, IdentityKey

PURPOSE = b"choroid secrets of rotations v1"
NONCE_BYTES = 12


class SecretSeal:
    """Encrypts and decrypts with ChaCha20-Poly1305 (RFC 8439); the key is derived by HKDF from the hub's private key.

    Who has the database alone, as the page has, cannot decrypt.
    """

    def __init__(self, key: IdentityKey) -> None:
        """Derive the key of the seal.

        Args:
            key: The hub's own (`identity.key` in its folder). The seal must not be opened with another one.
        """
        private = key.private.private_bytes(RAW, serialization.PrivateFormat.Raw, serialization.NoEncryption())
        self._cipher = ChaCha20Poly1305(HKDF(hashes.SHA256(), 32, salt=None, info=PURPOSE).derive(private))

    def sealed(self, secret: bytes, about: str) -> bytes:
        """Return a secret, encrypted.

        Args:
            secret: What is encrypted.
            about: What it belongs to; it is not encrypted, and opening with another one fails.
        """
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, about.encode())

    def opened(self, sealed: bytes, about: str) -> bytes:
        """Return a secret that was sealed.

        Raises:
            GridError: It was sealed with another key or for another purpose, or was changed.
        """
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], about.encode())
        except (InvalidTag, ValueError):
            raise GridError(
                f"the secret of {about} cannot be decrypted. Likely cause: hub.sqlite was changed, or does not belong to the"
                " identity.key in the same folder. Next: restore both from the same backup"
            ) from None
