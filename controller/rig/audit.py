"""The part `audit` of the rig file: where the journal's checkpoints are signed and kept."""

from __future__ import annotations

from controller.rig.part import RigPart


class AuditSpec(RigPart):
    """Places outside the data folder (docs/audit.md)."""

    key: str | None = None
    """File of the private key, made at the first start; None for the usual place."""
    witnesses: tuple[str, ...] = ()
    """Folders of other machines in which each checkpoint is kept."""
