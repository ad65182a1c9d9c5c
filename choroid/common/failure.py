"""Turn errors that a user can cause or meet into readable text; anything else is a bug and keeps its traceback."""

from __future__ import annotations

import sqlite3


def explain(error: Exception) -> str | None:
    """Return the text for standard error, or None when `error` is not of a kind that a user can correct."""
    from choroid.client.errors import ClientError
    from controller.journal.terms import JournalError
    from controller.ledger.ledger import LedgerError
    from controller.links.connect import ConnectError
    from controller.memory.calibrations import CalibrationError
    from controller.rig.problems import RigError
    from controller.rig.quantities import QuantityError
    from controller.runs.runner import RunnerError
    from controller.signed_log.errors import SignedLogError
    from dashboards.auth import CredentialsError
    from drivers.errors import DeviceError
    from protocols.parameters import ParamError
    from protocols.registry import UnknownProtocol

    of_the_rig = (RigError, QuantityError, ConnectError, DeviceError, CalibrationError)
    of_a_run = (JournalError, LedgerError, RunnerError, ParamError, UnknownProtocol)
    if isinstance(error, (*of_the_rig, *of_a_run, ClientError, CredentialsError, SignedLogError, UserError)):
        return str(error)
    if isinstance(error, ExceptionGroup):
        texts = [explain(inner) for inner in error.exceptions]
        return None if None in texts else "\n".join(text for text in texts if text is not None)
    return _explain_file(error)


def _explain_file(error: Exception) -> str | None:
    """Return the text for an error of a database or of the operating system, or None for any other error."""
    from controller.core.disk import BY_ERRNO, DAMAGED, remedy

    if isinstance(error, sqlite3.Error) and not isinstance(error, (sqlite3.ProgrammingError, sqlite3.InterfaceError)):
        return f"a file of the data directory cannot be used ({error}). {remedy(error, other=DAMAGED)}"
    if isinstance(error, FileNotFoundError) and error.filename:
        return (
            f"{error.strerror}: {error.filename}. Likely cause: a slip in the path, words in another order,"
            " or another working directory. Next: check the path; `--help` after the command shows the order"
        )
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        known = BY_ERRNO.get(error.errno) if error.errno is not None else None
        return f"{error.strerror or error}{where}" + (f". {known}" if known is not None else "")
    return None


class UserError(Exception):
    """An error that the user can correct; the message says what, where, the likely cause and the next action."""
