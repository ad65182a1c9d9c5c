"""Whose jobs may read a data set at a member: what its operator has allowed, or what the author's sharing allows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from controller.signed_log.public import fingerprint
from grid.data.data_sets import JOBS, DataSet
from grid.data.manifest import Sharing
from grid.errors import GridError, GridRefused
from grid.identity.keys import write_private

MEMBERS, NONE = "members", "none"
"""In place of identities: the jobs of all members of the grid; of none but this member."""
_IDENTITY = re.compile(r"[0-9a-f]{64}")


def allow_jobs(data: DataSet, whose: Iterable[str]) -> None:
    """Keep whose jobs may read a data set here; this replaces what was allowed before.

    Args:
        data: The data set.
        whose: Identities of members, or :data:`MEMBERS`, or :data:`NONE`.

    Raises:
        GridError: One is something else, or the disk is full.
    """
    wanted = list(dict.fromkeys(whose))
    for each in wanted:
        if not _IDENTITY.fullmatch(each) and (each not in (MEMBERS, NONE) or len(wanted) > 1):
            raise GridError(
                f"“{each[:70]}” says not whose jobs. Next: give “{MEMBERS}”, “{NONE}”, or identities (`choroid grid"
                " identity show --json` prints that of a member)"
            )
    try:
        write_private(data.folder / JOBS, json.dumps([each for each in wanted if each != NONE]).encode())
    except OSError as error:
        raise GridError(f"{data.folder} cannot be written ({error.strerror or error}). Next: free space") from None


def allowed_jobs(data: DataSet) -> list[str]:
    """Return whose jobs may read a data set here, in addition to those of this member: identities, or :data:`MEMBERS`.

    Without a word of the operator it is what the author shares: public data are for all, others for the author alone.
    """
    try:
        found = json.loads((data.folder / JOBS).read_bytes())
    except FileNotFoundError:
        return [MEMBERS] if data.manifest.sharing is Sharing.PUBLIC else [_author(data)]
    except (OSError, ValueError):
        return []  # what the operator has said is not known
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def require_allowed(data: DataSet, submitter: str, own: str) -> None:
    """Check that a job may read a data set here.

    Args:
        data: The data set.
        submitter: Identity of the member whose job it is.
        own: Identity of this member.

    Raises:
        GridRefused: Its operator has not allowed it.
    """
    if submitter == own or not {submitter, MEMBERS}.isdisjoint(allowed_jobs(data)):
        return
    name, which = data.manifest.name, data.manifest.id[:16]
    raise GridRefused(
        f"the data set {which} (“{name}”, shared: {data.manifest.sharing}) is not allowed here for jobs of {submitter[:16]}."
        f" Next: its operator allows it: `choroid grid data allow {which} --jobs-of {submitter}`"
    )


def _author(data: DataSet) -> str:
    return fingerprint(bytes.fromhex(data.manifest.author))
