"""Progress of commands that take longer than a few seconds, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def show_share(done: float, of: str) -> None:
    """Print how much is done, over the line before; the last call, with 1.0, ends the line."""
    print(f"\r{done:6.1%} of {of}", end="\n" if done >= 1.0 else "", file=sys.stderr, flush=True)


def counted(items: Sequence[T], named: Callable[[T], str] = str) -> Iterator[T]:
    """Yield each item, and print its number and name before the caller works on it."""
    width = max((len(named(item)) for item in items), default=0)
    for number, item in enumerate(items, 1):
        print(f"\r{number} of {len(items)}: {named(item):<{width}}", end="", file=sys.stderr, flush=True)
        yield item
    if items:
        print(file=sys.stderr)
