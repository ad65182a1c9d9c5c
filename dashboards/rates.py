"""Limits of rates: of one source, and of each source and all together."""

from __future__ import annotations

from collections import OrderedDict

MAX_ADDRESSES = 1024


class Bucket:
    """Limit a rate: `rate` per second on average, `burst` at once."""

    def __init__(self, rate: float, burst: float, now_s: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Return whether one more is within the limit, and count it."""
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._rate)
        self._at_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Rates:
    """Limit a rate for each address, and for all together. The addresses kept are bounded: the latest ones."""

    def __init__(self, each: tuple[float, float], every: tuple[float, float], now_s: float) -> None:
        """`each` and `every`: rate (per second) and burst of one address and of all."""
        self._each = each
        self._every = Bucket(*every, now_s)
        self._addresses: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def take(self, address: str, now_s: float) -> bool:
        """Return whether one more of `address` is within the limits, and count it."""
        bucket = self._addresses.pop(address, None) or Bucket(*self._each, now_s)
        self._addresses[address] = bucket
        while len(self._addresses) > MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        return bucket.take(now_s) and self._every.take(now_s)
