"""Errors of the clients. Each message says what happened, where, the likely cause and the next action."""

from __future__ import annotations

import importlib
from types import ModuleType


class ClientError(Exception):
    """Base class of every error that a client raises."""


class ConnectionFailed(ClientError):
    """The controller or the electrode engine cannot be reached, or something else answers at its address."""


class RequestRefused(ClientError):
    """The controller answered a request with an error.

    Attributes:
        status: HTTP status (401 unknown token, 403 role too low, 404 unknown name, 409 not possible in the present state,
            422 a value that cannot be used, 503 the journal cannot be written).
        what: What happened.
        where: The part of the request that it is about.
        cause: The likely cause.
        action: The next action.
    """

    def __init__(self, status: int, what: str, *, where: str = "", cause: str = "", action: str = "") -> None:
        at = f" ({where})" if where else ""
        because = f". Likely cause: {cause}" if cause else ""
        then = f". Next: {action}" if action else ""
        super().__init__(f"{what}{at}{because}{then}")
        self.status = status
        self.what = what
        self.where = where
        self.cause = cause
        self.action = action


class NervesError(ClientError):
    """The electrode engine refused a call, or cannot be reached.

    Attributes:
        code: Name of the gRPC status, such as `UNAVAILABLE` or `UNAUTHENTICATED`; empty where the engine answered.
    """

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class MissingPackage(ClientError, ImportError):
    """An optional package is not installed."""


def optional(package: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional package.

    Args:
        package: The module to import.
        extra: The extra of this distribution that installs it.
        purpose: What it is needed for.

    Returns:
        The module.

    Raises:
        MissingPackage: It is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        top = package.partition(".")[0]
        raise MissingPackage(
            f"{purpose} needs the package {top}, which cannot be imported ({error}). Likely cause: it is not installed."
            f" Next: pip install {top}, or install Choroid with its extra: pip install 'choroid[{extra}]'"
        ) from None
