"""The identity of a rig: a random identifier in its data folder, made at the first start and never changed.

Two rigs may have one name. What leaves a rig (MQTT, InfluxDB, LSL, NWB, checkpoints of the journal) carries this identifier,
so that data of the two stay distinct.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from pathlib import Path

from controller.memory.quarantine import quarantine_path

logger = logging.getLogger(__name__)

FILE = "rig-identity.json"
ID = re.compile(r"[0-9a-f]{12}")
"""Short enough for an MQTT client id that every broker accepts (23 characters)."""


def read_identity(data: Path) -> str:
    """Return the identifier of the rig in a data folder; empty when the folder has none that can be read."""
    try:
        found = json.loads((data / FILE).read_bytes())
        rig_id = found["rig_id"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return rig_id if isinstance(rig_id, str) and ID.fullmatch(rig_id) else ""


def kept_identity(data: Path) -> str:
    """Return the identifier of the rig in a data folder, made at the first call.

    A damaged file is kept under another name and a new identifier begins. Where nothing can be written, the identifier holds
    for this process.
    """
    path = data / FILE
    if found := read_identity(data):
        return found
    rig_id = secrets.token_hex(6)
    try:
        if os.path.lexists(path):
            kept = quarantine_path(path)
            path.rename(kept)
            logger.error("%s has no identifier; it is kept as %s and the rig gets a new one", path, kept.name)
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(json.dumps({"rig_id": rig_id}) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return read_identity(data) or rig_id
    except OSError as error:
        logger.warning("%s cannot be written (%s): this rig has another identity at its next start", path, error)
    return rig_id
