"""Parsers of `choroid verify`; what each does is imported only when it runs."""

from __future__ import annotations

from typing import Any

from verification.commands import bench, campaign, compare, conformance, kills, sensitivity


def add(commands: Any) -> None:
    """Add the subcommands of `choroid verify` to `commands`."""
    for each in (campaign, kills, bench, conformance, sensitivity, compare):
        each.add(commands)
