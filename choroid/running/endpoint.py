"""The file that tells commands and scripts on this machine where a controller answers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from choroid.running.data_folder import ENDPOINT
from controller.core.disk import remedy
from dashboards.local import SOCKET


def leave_endpoint(data: Path, url: str, token: str, health_url: str = "") -> None:
    """Write where this controller answers, for `choroid protocol …`; readable by the owner only, atomically.

    The rig does not depend on it: a write error is reported, and the run continues.
    """
    path = data / ENDPOINT
    new = path.with_suffix(".new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            json.dump({"url": url, "socket": SOCKET, "token": token, "pid": os.getpid(), "health": health_url}, file)
        new.replace(path)
    except OSError as error:
        print(
            f"Choroid: {path} cannot be written ({error}); commands on this machine do not find the controller."
            f" {remedy(error)}; the page works, and so do they after the next start",
            file=sys.stderr,
            flush=True,
        )
