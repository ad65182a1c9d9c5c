"""Where the key and the checkpoints are: the key outside the data folder, the checkpoints in several places.

Each line of a file of checkpoints is the JSON {"note": …}: a signed note in the form of C2SP tlog-checkpoint, or the end of a
log; with {"time_stamp": …}, the base64 of an RFC 3161 answer for it, where an authority was asked.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from choroid.common.failure import UserError
from controller.signed_log.notes import ED25519, NoteKey

CHECKPOINTS = "journal.checkpoints"
"""File of checkpoints in the data folder and in an export."""
SUFFIX = ".checkpoints"
"""Of the files next to the key and at a witness, after the rig's identity."""
PUBLIC = "audit.key.pub"
"""The verifier key, in the data folder and in an export."""
RAW = serialization.Encoding.Raw


class AuditKey:
    """The private key that signs the checkpoints of a rig. `name` is the origin of its log."""

    def __init__(self, name: str, private: Ed25519PrivateKey) -> None:
        self.name = name
        self._private = private
        self.public = private.public_key().public_bytes(RAW, serialization.PublicFormat.Raw)

    @property
    def verifier(self) -> NoteKey:
        """Return the public half."""
        return NoteKey(self.name, ED25519, self.public)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self._private.sign(message)


def key_path(data: Path, rig_id: str, given: Path | None) -> Path:
    """Return where the key of a rig is: as given, else in the state folder of the service or in the user's configuration.

    Raises:
        UserError: It would be in the data folder.
    """
    state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    folder = Path(state) if state else Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "choroid"
    path = given or folder / "audit" / f"{rig_id}.key"
    if path.resolve().is_relative_to(data.resolve()):
        raise UserError(
            f"the key {path} of the journal's checkpoints is in the data folder: who can change the journal could sign it"
            " again. Next: name a place outside with `audit: {key: …}` in the rig file, or with --key"
        )
    return path


def kept_key(path: Path, name: str, *, new: bool) -> AuditKey:
    """Return the key in a file; make it where there is none.

    Args:
        path: The file.
        name: Origin of the log.
        new: Whether a key may be made: no checkpoint has been signed yet.

    Raises:
        UserError: It cannot be read or made, is no Ed25519 key, or other users can read it.
    """
    try:
        if new and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            pem = Ed25519PrivateKey.generate().private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            with open(path, "xb", opener=_private) as file:
                file.write(pem)
                file.flush()
                os.fsync(file.fileno())
        if path.stat().st_mode & 0o077:
            raise UserError(f"{path} can be read by other users, who could sign a journal. Next: chmod 600 {path}")
        found = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"the key {path} of the journal's checkpoints cannot be used ({error}). Likely cause: its folder is read-only, or"
            " the file was removed. Next: make the folder writable, restore the key from a backup, or name another place"
            " with `audit: {key: …}` in the rig file"
        ) from None
    if not isinstance(found, Ed25519PrivateKey):
        raise UserError(f"{path} is no Ed25519 key. Next: restore it from a backup")
    return AuditKey(name, found)


def kept_notes(path: Path) -> dict[str, bytes]:
    """Return the notes in a file, the oldest first, each with its time stamp (DER) or nothing; none where there is no file.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {str(line["note"]): base64.b64decode(line.get("time_stamp", "")) for line in lines}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"the checkpoints in {path} cannot be read ({error}). Next: restore the file") from None


def keep(path: Path, note: str, stamp: bytes = b"") -> None:
    """Append a note to a file, durably. Raises OSError."""
    line = {"note": note} | ({"time_stamp": base64.b64encode(stamp).decode("ascii")} if stamp else {})
    with open(path, "a", encoding="utf-8", opener=_private) as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
