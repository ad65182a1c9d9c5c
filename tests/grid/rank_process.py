"""One rank of an all-reduce, with torch's Gloo as it is: `python rank_process.py WORK.json SECONDS` in torch's environment.

It runs without this project. Each rank adds a tensor of its own pattern, prints one JSON object, and repeats until the time
is over. Gloo gets the address of the rank by its own option.
"""

import json
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

PORT = 29_500
SHAPE = 1 << 20
"""Numbers in the tensor: 4 MiB."""


def main(path: str, seconds: float) -> None:
    with open(path, encoding="utf-8") as file:
        about = json.load(file)
    rank, addresses = about["rank"], about["addresses"]

    def gloo(store: dist.Store, number: int, size: int, timeout: timedelta) -> dist.ProcessGroupGloo:
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=addresses[rank])]
        options._timeout = timeout
        return dist.ProcessGroupGloo(store, number, size, options)

    dist.Backend.register_backend("grid", gloo, devices=["cpu"])
    store = dist.TCPStore(addresses[0], PORT, len(addresses), rank == 0, timeout=timedelta(seconds=120))
    dist.init_process_group("grid", store=store, rank=rank, world_size=len(addresses), timeout=timedelta(seconds=120))
    marked = torch.frombuffer(bytearray(b"MARKED-PLAINTEXT" * (SHAPE // 4)), dtype=torch.uint8).clone()
    rounds, wrong, begin = 0, 0, time.monotonic()
    while True:
        tensor = torch.full((SHAPE,), float(rank + 1))
        dist.all_reduce(tensor)
        wrong += int(not bool((tensor == sum(range(1, len(addresses) + 1))).all()))
        for source in range(len(addresses)):
            received = marked.clone() if rank == source else torch.zeros_like(marked)
            dist.broadcast(received, source)
            wrong += int(not torch.equal(received, marked))
        rounds += 1
        over = torch.tensor([float(time.monotonic() - begin > seconds)])
        dist.all_reduce(over)
        if over.item() > 0:
            break
    dist.barrier()
    print(json.dumps({"rank": rank, "rounds": rounds, "wrong": wrong, "s": time.monotonic() - begin}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
