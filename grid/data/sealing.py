"""Encrypt the files of a data set in chunks, each bound to data set, path and index; wrap the key for its readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyrage
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from grid.errors import GridError
from grid.identity.keys import IdentityKey

CHUNK_BYTES = 1 << 20
"""Bytes of a file that are encrypted together."""
TAG_BYTES = 16
KEY_BYTES = 32
PURPOSE = b"choroid data set v1\n"


class DataSeal:
    """Encrypts and decrypts the files of one data set with ChaCha20-Poly1305 (RFC 8439).

    The key of a file follows by HKDF from that of the data set, the data set's nonce and the path. The nonce of a chunk is
    its index and whether it is the last one (the construction STREAM of Hoang, Reyhanitabar, Rogaway, Vizár, 2015). So a
    chunk opens only at its place of its file, and a file that was cut short does not open. The same file has the same
    encrypted form each time: a laboratory encrypts when it sends, and keeps no second copy.
    """

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        """Use the secret key (32 bytes) and the nonce of a data set."""
        self._secret = secret
        self._nonce = nonce

    def sealed(self, path: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the encrypted chunks of a file; `chunks` are of :data:`CHUNK_BYTES` but for the last."""
        cipher, waiting, index = self._cipher(path), b"", 0
        for index, chunk in enumerate(chunks):
            if index:
                yield cipher.encrypt(_nonce(index - 1, last=False), waiting, None)
            waiting = chunk
        yield cipher.encrypt(_nonce(index, last=True), waiting, None)

    def opened(self, path: str, sealed: bytes) -> bytes:
        """Return the contents of a file.

        Raises:
            GridError: It was encrypted with another key or for another place, or it was changed or cut short.
        """
        cipher, step = self._cipher(path), CHUNK_BYTES + TAG_BYTES
        view, starts = memoryview(sealed), range(0, max(len(sealed), 1), step)
        try:
            chunks = [
                cipher.decrypt(_nonce(index, last=start == starts[-1]), view[start : start + step], None)
                for index, start in enumerate(starts)
            ]
        except (InvalidTag, ValueError):
            raise GridError(
                f"“{path}” cannot be decrypted. Likely cause: it was changed on its way, or the key is of another data set."
                " Next: fetch it from another replica"
            ) from None
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _cipher(self, path: str) -> ChaCha20Poly1305:
        info = PURPOSE + path.encode()
        return ChaCha20Poly1305(HKDF(hashes.SHA256(), KEY_BYTES, salt=self._nonce, info=info).derive(self._secret))


def _nonce(index: int, *, last: bool) -> bytes:
    return index.to_bytes(11, "big") + bytes([last])


def wrapped(secret: bytes, readers: Iterable[bytes]) -> bytes:
    """Return a key in an age envelope that each of the readers can open.

    Args:
        secret: The key.
        readers: Their public Ed25519 keys (32 bytes), at least one.
    """
    try:
        recipients = [pyrage.ssh.Recipient.from_str(_openssh(reader)) for reader in dict.fromkeys(readers)]
        return bytes(pyrage.encrypt(secret, recipients))
    except (pyrage.RecipientError, pyrage.EncryptError, ValueError) as error:
        raise GridError(f"a reader's key cannot be used ({error}). Next: copy it again from the reader") from None


def unwrapped(envelope: bytes, key: IdentityKey) -> bytes:
    """Return the key in an age envelope. Raises :class:`GridError` when it is for others."""
    private = key.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    try:
        return bytes(pyrage.decrypt(envelope, [pyrage.ssh.Identity.from_buffer(private)]))
    except (pyrage.DecryptError, ValueError) as error:
        raise GridError(
            f"the key of the data set cannot be opened with this identity ({error}). Likely cause: its author has not named"
            " this member as a reader. Next: ask the author, with the “reader” that `choroid grid identity show --json`"
            " prints"
        ) from None


def reader_key(text: str) -> bytes:
    """Return the public Ed25519 key in the words “ssh-ed25519 AAAA…”, or in the second of them.

    Raises:
        GridError: It is something else, such as an identity, which is no key.
    """
    words = text.split()
    try:
        key = serialization.load_ssh_public_key(f"ssh-ed25519 {words[1] if len(words) > 1 else text}".encode())
    except (UnsupportedAlgorithm, ValueError, IndexError):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise GridError(
            f"“{text[:60]}” is no reader's key. Next: copy the “reader” that `choroid grid identity show --json` prints there"
        )
    return key.public_bytes_raw()


def as_reader(public: bytes) -> str:
    """Return a public Ed25519 key in the form that :func:`reader_key` takes."""
    return _openssh(public).split()[1]


def _openssh(public: bytes) -> str:
    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
