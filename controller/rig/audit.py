"""The part `audit` of the rig file: where the journal's checkpoints are signed and kept, and who confirms them."""

from __future__ import annotations

from controller.rig.part import RigPart


class HubSpec(RigPart):
    """A hub of the grid that confirms checkpoints."""

    key: str
    """Its verifier key as a witness (`choroid grid log show-keys`, line `witness`)."""
    at: str
    """Where it listens: host:port#fingerprint."""


class TimeStampSpec(RigPart):
    """An authority that stamps checkpoints with the time (RFC 3161)."""

    url: str
    certificates: str
    """PEM file of the certificates that its time stamps are verified with."""


class AuditSpec(RigPart):
    """Places outside the data folder (docs/audit.md)."""

    key: str | None = None
    """File of the private key, made at the first start; None for the usual place."""
    witnesses: tuple[str, ...] = ()
    """Folders of other machines in which each checkpoint is kept."""
    hubs: tuple[HubSpec, ...] = ()
    """Hubs that confirm each checkpoint."""
    time_stamps: TimeStampSpec | None = None
    """The authority that stamps each checkpoint, or none."""
