"""What the fuzzer feeds, and what it finds."""

from __future__ import annotations

from collections.abc import Callable

Feed = Callable[[bytes], None]
"""Takes one input; raises when something does what it must not do."""


class Finding(AssertionError):
    """A parser did what none may do."""
