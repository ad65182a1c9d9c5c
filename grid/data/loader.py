"""Read a data set file by file in a seeded order, for training: near files first, resumed exactly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from grid.data.data_sets import DataSet, Fetch
from grid.data.sealing import DataSeal
from grid.errors import GridError

AHEAD = 8
"""Files that are fetched and decrypted ahead."""


class DataReader:
    """The files of a data set, epoch after epoch; each of `world` readers has its own share.

    The order of an epoch is a permutation by seed and epoch, with the files first that were near when it began. What was near
    is part of the state: an epoch that is resumed has the same order, also if replicas have come or gone since.
    """

    def __init__(
        self,
        data: DataSet,
        replicas: Sequence[Fetch],
        seal: DataSeal | None,
        *,
        seed: int,
        rank: int = 0,
        world: int = 1,
        near: Callable[[str], bool] = lambda name: True,
        ahead: int = AHEAD,
    ) -> None:
        """Begin with epoch 0.

        Args:
            data: The data set.
            replicas: Each gives the object of a file, from threads; the first that has one whole is taken.
            seal: What decrypts them (:meth:`grid.data.data_sets.DataSet.seal`).
            seed: Of the order.
            rank: Number of this reader, from 0.
            world: Number of readers.
            near: Tells whether an object needs no transfer.
            ahead: Files that are fetched ahead.
        """
        self._data = data
        self._replicas = tuple(replicas)
        self._seal = seal
        self._seed = seed
        self._rank, self._world = rank, world
        self._is_near = near
        self._ahead = max(ahead, 1)
        self._epoch = 0
        self._position = 0
        self._near: bytes | None = None
        """Of the epoch that has begun: a bit for each file of the data set."""

    def state_dict(self) -> dict[str, Any]:
        """Return where the reader is, as plain data: all files that were yielded are behind it."""
        near = None if self._near is None else self._near.hex()
        return {**self._identity(), "epoch": self._epoch, "position": self._position, "near": near}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another reader was. Raises :class:`GridError` when that had other data, another seed or share."""
        differ = [name for name, value in self._identity().items() if state.get(name) != value]
        if differ:
            raise GridError(
                f"the state of the reader is of another {', '.join(differ)}. Next: resume with the same data set, seed and"
                " ranks"
            )
        self._epoch, self._position = int(state["epoch"]), int(state["position"])
        self._near = None if state["near"] is None else bytes.fromhex(state["near"])

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yield path and contents of each file that is left of the epoch; then the next epoch may begin.

        Raises:
            GridError: No replica gives a file whole.
        """
        order = self._order()
        coming: deque[Future[tuple[str, bytes]]] = deque()
        with ThreadPoolExecutor(self._ahead, thread_name_prefix="data") as pool:
            try:
                for at in range(self._position, len(order)):
                    while len(coming) < self._ahead and at + len(coming) < len(order):
                        coming.append(pool.submit(self._read, order[at + len(coming)]))
                    found = coming.popleft().result()
                    self._position = at + 1
                    yield found
            finally:
                for each in coming:
                    each.cancel()
        self._epoch, self._position, self._near = self._epoch + 1, 0, None

    def _identity(self) -> dict[str, Any]:
        return {"data": self._data.manifest.id, "seed": self._seed, "rank": self._rank, "world": self._world}

    def _order(self) -> list[int]:
        files = len(self._data.listing)
        if self._near is None:
            flags = np.fromiter((self._is_near(row.object) for row in self._data.listing), bool, files)
            self._near = np.packbits(flags).tobytes()
        near = np.unpackbits(np.frombuffer(self._near, np.uint8), count=files).astype(bool)
        order = np.random.default_rng([self._seed, self._epoch]).permutation(files)[self._rank :: self._world]
        return [*order[near[order]].tolist(), *order[~near[order]].tolist()]

    def _read(self, index: int) -> tuple[str, bytes]:
        return self._data.listing.row(index).path, self._data.read(index, self._replicas, self._seal)
