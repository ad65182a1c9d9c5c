"""Passwords of people: rules, hashes, and limits of attempts.

A hash takes tens of milliseconds and 19 MiB, so that a copied file cannot be searched; it is computed in a thread, one at a
time, and the control loop does not wait. Rules and limits follow NIST SP 800-63B-4 (section 3.1.1 and 3.2.2).
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from controller.runs.people import plain_name
from dashboards.rates import Rates

MIN_LENGTH, MAX_LENGTH = 15, 128
"""Characters. A password is the only factor, so 15 are the minimum of the standard."""
MIN_DIFFERENT = 6
"""Minimum number of different characters."""
MAX_WAITING = 8
"""Maximum number of attempts that wait for the thread; further ones are refused."""
ADDRESS_ATTEMPTS = (1 / 6, 10.0)
ALL_ATTEMPTS = (5.0, 100.0)
ACCOUNT_ATTEMPTS = (1 / 60, 20.0)
"""Attempts per second on average, and at once: of an address, of all addresses, and for an account."""
UNLIMITED = (1e9, 1e9)

HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
"""argon2id with the parameters of the OWASP password storage sheet for 19 MiB."""
T = TypeVar("T")


class PasswordRefused(Exception):
    """A password does not keep the rules: what, likely cause, next action."""


class TooManyAttempts(Exception):
    """An attempt is beyond the limits; it was not judged."""


def require_strong(password: str, name: str) -> None:
    """Refuse a password that is short, of few characters, or the name.

    Args:
        password: What the person wrote.
        name: The person's account.

    Raises:
        PasswordRefused: It does not keep the rules.
    """
    text = _normal(password)
    if len(text) < MIN_LENGTH:
        raise _refusal(f"the password has {len(text)} characters, of {MIN_LENGTH} that are needed")
    if len(text) > MAX_LENGTH:
        raise _refusal(f"the password has more than {MAX_LENGTH} characters")
    plain = plain_name(text)
    others = plain.replace(plain_name(name), "").replace("choroid", "").replace("password", "")
    if len(set(others)) < MIN_DIFFERENT:
        raise _refusal("the password is made of few characters, a name or a well-known word")


def _refusal(what: str) -> PasswordRefused:
    return PasswordRefused(
        f"{what}. Likely cause: such passwords are guessed first."
        " Next: take four or more words that do not belong together, or one of a password manager"
    )


def _normal(password: str) -> str:
    return unicodedata.normalize("NFKC", password)


class Passwords:
    """Hashes and verifies passwords within limits of attempts."""

    def __init__(self, *, threaded: bool) -> None:
        """With `threaded`, a thread computes, one hash at a time, and the event loop goes on."""
        self._thread = ThreadPoolExecutor(1, "passwords") if threaded else None
        self._waiting = 0
        self._limits: tuple[Rates, Rates] | None = None
        self._absent = ""

    async def hashed(self, password: str) -> str:
        """Return the argon2id hash of a password.

        Raises:
            TooManyAttempts: Too many others wait.
        """
        return await self._compute(lambda: HASHER.hash(_normal(password)))

    async def matches(self, password: str, hashed: str, *, name: str, address: str) -> bool:
        """Return whether a password is the one of a hash.

        Args:
            password: What was written.
            hashed: The hash of the account; empty for an account without a password, which takes the same time.
            name: The account.
            address: Address of the client.

        Raises:
            TooManyAttempts: It is beyond a limit, and was not judged.
        """
        now_s = asyncio.get_running_loop().time()
        if self._limits is None:
            self._limits = Rates(ADDRESS_ATTEMPTS, ALL_ATTEMPTS, now_s), Rates(ACCOUNT_ATTEMPTS, UNLIMITED, now_s)
        addresses, accounts = self._limits
        if not (addresses.take(address, now_s) and accounts.take(plain_name(name), now_s)):
            raise TooManyAttempts
        if not hashed and not self._absent:
            self._absent = await self.hashed("the password of an account that has none")
        known, text = hashed or self._absent, _normal(password[: 2 * MAX_LENGTH])
        return await self._compute(lambda: _verify(known, text)) and hashed != ""

    async def _compute(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            return work()
        if self._waiting >= MAX_WAITING:
            raise TooManyAttempts
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1


def _verify(hashed: str, password: str) -> bool:
    try:
        return HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False
