"""Errors of signed logs that a user can correct."""

from __future__ import annotations


class SignedLogError(Exception):
    """What happened, where, the likely cause and the next action."""
