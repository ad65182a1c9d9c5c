"""Private Ed25519 keys of members, laboratories and hubs, each in a file of its owner."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.signed_log.public import fingerprint
from grid.errors import GridError

RAW = serialization.Encoding.Raw
KEY_FILE = "identity.key"


class IdentityKey:
    """A private Ed25519 key.

    Attributes:
        public: The public key, 32 bytes.
        id: The identity: SHA-256 of the public key in hexadecimal.
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.private = private
        self.public = private.public_key().public_bytes(RAW, serialization.PublicFormat.Raw)
        self.id = fingerprint(self.public)

    @classmethod
    def generate(cls) -> IdentityKey:
        """Return a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def in_folder(cls, folder: Path) -> IdentityKey:
        """Return the key in `folder`; make one if there is none.

        Raises:
            GridError: The file cannot be read or written, is no Ed25519 key, or other users can read it.
        """
        path = folder / KEY_FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                write_private(path, cls.generate().pem())
            if path.stat().st_mode & 0o077:
                raise GridError(f"{path} can be read by other users. Next: chmod 600 {path}")
            found = serialization.load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise GridError(
                f"{path} cannot be used ({error}). Likely cause: the disk is full, or the file is damaged. Next: restore it"
                " from a backup, or remove it and enrol again with a new key"
            ) from None
        if not isinstance(found, Ed25519PrivateKey):
            raise GridError(f"{path} is no Ed25519 key. Next: restore it from a backup, or remove it and enrol again")
        return cls(found)

    def pem(self) -> bytes:
        """Return the private key in PKCS #8 form."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, message: bytes) -> bytes:
        """Return the signature (64 bytes) of a message."""
        return self.private.sign(message)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file that its owner alone can read, whole or not at all. Raises OSError."""
    partial = path.with_name(f"{path.name}.new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    partial.replace(path)
