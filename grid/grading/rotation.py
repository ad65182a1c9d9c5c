"""Hidden seeds of a board: drawn from a secret that is committed to beforehand and published afterwards."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from grid.boards.board import Board

SECRET_BYTES = 32
HIDDEN_FROM = 2**32
"""Hidden seeds are at or above this; seeds below are for training and baselines."""
HIDDEN_TO = 2**62
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """One period in which a board is graded on the same hidden seeds.

    `began_s` is UTC (Unix seconds). The commitment is public from the beginning, the secret from the end.
    """

    board: str
    number: int
    secret: bytes
    began_s: float

    @property
    def commitment(self) -> str:
        """Return the SHA-256 that binds the secret to this board and number."""
        text = f"choroid rotation v1\n{self.board}\n{self.number}\n".encode()
        return hashlib.sha256(text + self.secret).hexdigest()

    def seeds(self, episodes: int) -> list[int]:
        """Return the seeds of the episodes."""
        return [self._seed(episode) for episode in range(episodes)]

    def _seed(self, episode: int) -> int:
        text = f"{self.board}\n{self.number}\n{episode}".encode()
        drawn = int.from_bytes(hmac.digest(self.secret, text, "sha256")[:16], "big")
        return HIDDEN_FROM + drawn % (HIDDEN_TO - HIDDEN_FROM)


def is_committed(rotation: Rotation, commitment: str) -> bool:
    """Whether a published secret is the one that was committed to."""
    return hmac.compare_digest(rotation.commitment, commitment)


def is_over(board: Board, rotation: Rotation, *, submissions: int, now_s: float) -> bool:
    """Whether the next rotation is due, by age or by the submissions that used this one."""
    old = now_s - rotation.began_s >= board.rotation.days * DAY_S
    return old or submissions >= board.rotation.submissions
