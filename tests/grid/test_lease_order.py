"""X2: what the hub announces about leases, in which order."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from grid.hub.leases import LeaseBook
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.policy.policy import load_policy
from tests.grid.filled_hub import fill


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_X2_the_end_of_a_lease_is_announced_before_the_offer_that_follows_it(
    names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = iter(names)
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(wanted))
    keys = fill(tmp_path)
    store = owned(tmp_path)
    book = LeaseBook(store, Members(store), load_policy().leases)
    for row in book.unshown():
        book.mark_shown(row["id"], row["state"])
    first, second = names
    book.end(first, "over")
    book.advance({keys["lab-1"].id})
    assert [(row["id"], row["state"]) for row in book.unshown()] == [(first, "ended"), (second, "offered")]
    store.close()
