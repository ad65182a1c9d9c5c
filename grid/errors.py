"""Errors of the grid that a user can correct."""

from __future__ import annotations

from controller.signed_log.errors import SignedLogError

GridError = SignedLogError
"""What happened, where, the likely cause and the next action. The signed log, which the grid shares, has no other error."""


class GridRefused(GridError):
    """The hub or the laboratory has refused a request; the message has the reason."""


class LeaseEnded(GridRefused):
    """A lease was not granted, or has ended before its holder released it. A new one may be asked for."""
