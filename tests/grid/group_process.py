"""One of two ranks that form a group: `python group_process.py RANK ADDRESS OTHER PORT`, with `grid` on PYTHONPATH.

Rank 0 first waits without effect for a group with rank 1. Prints what each has given in the group that both form afterwards.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

from engines import group
from engines.presence import RankRound
from torch.distributed import TCPStore


def main(rank: int, addresses: list[str], port: int) -> None:
    own = group.Group(rank, addresses)
    if rank == 0:
        store = TCPStore(addresses[0], port, None, True, timeout=timedelta(seconds=600), wait_for_workers=False)
        group.TIMEOUT_S = 1.0
        try:
            own.open(RankRound("first", (0, 1), addresses[0], port))
        except RuntimeError as error:
            print(f"failed: {type(error).__name__}", file=sys.stderr, flush=True)
        own.close()
        store.set("over", "1")
    else:
        TCPStore(addresses[0], port, None, False, timeout=timedelta(seconds=600), wait_for_workers=False).wait(["over"])
    group.TIMEOUT_S = 60.0
    own.open(RankRound("second", (0, 1), addresses[0], port))
    print(json.dumps([each.decode() for each in own.gather(f"of rank {rank}".encode())]), flush=True)
    own.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:4], int(sys.argv[4]))
