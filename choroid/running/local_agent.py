"""What stays the same of an electrode engine over its restarts: its port, and the token of the agent on this machine.

`nerves.json` tells both while the engine runs. The agent on this machine is an agent like others (`choroid agent`); its
token is in a file that the owner of the data folder alone can read.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from controller.core.disk import remedy
from nerves.credentials import AgentCredentials, AgentRole, CredentialsProblem, write_private
from nerves.tokens import new_token, token_digest

logger = logging.getLogger(__name__)

ENDPOINT = "nerves.json"
LOCAL = "nerves-local.json"
LOCAL_AGENT = "agent"
"""Name of the agent on this machine."""


def local_token(data_dir: Path, credentials: AgentCredentials) -> str:
    """Return the token of the agent on this machine; issue it at the first start.

    Returns:
        The token; empty when it was revoked or renewed by hand.

    Raises:
        CredentialsProblem: The credentials cannot be read or written.
    """
    token = str(_read(data_dir / LOCAL).get("token", ""))
    mine = [each for each in credentials.every() if each.name == LOCAL_AGENT]
    if mine:
        return token if not mine[0].revoked_utc and mine[0].sha256 == token_digest(token) else ""
    token = token or new_token()
    _keep(data_dir, token=token)
    return credentials.issue(LOCAL_AGENT, AgentRole.AGENT, token=token)


def former_port(data_dir: Path) -> int:
    """Return the port of the engine before; 0 when there is none."""
    port = _read(data_dir / LOCAL).get("port", 0)
    return port if isinstance(port, int) and 0 < port < 65_536 else 0


def keep_port(data_dir: Path, port: int) -> None:
    """Keep the port for the next engine."""
    if former_port(data_dir) != port:
        try:
            _keep(data_dir, port=port)
        except CredentialsProblem as error:
            logger.warning("the electrode engine will listen on another port after its next start: %s", error)


def _keep(data_dir: Path, **changes: str | int) -> None:
    path = data_dir / LOCAL
    try:
        write_private(path, json.dumps(_read(path) | changes))
    except OSError as error:
        raise CredentialsProblem(
            f"{path} cannot be written ({error.strerror or error}). {remedy(error)}; the next start tries it again"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
