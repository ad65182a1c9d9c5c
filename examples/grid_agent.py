"""An agent of a grid: submit a decoder to a board, listen to tissue meanwhile, and call the best model by name.

python examples/grid_agent.py FOLDER [BOARD]

FOLDER is the data folder of a member (`choroid grid join`). The package choroid with the extra `grid` is needed.
"""

import asyncio
import json
import runpy
import sys
import tempfile
from pathlib import Path

import numpy as np

from grid.member.boards import BoardsClient
from grid.member.tissue import GridClient

decoder = runpy.run_path(str(Path(__file__).with_name("grid_decoder.py")))["decoder"]
SEEDS = (1, 2)
LISTEN_S, LABORATORY_WITHIN_S = 2.0, 60.0


async def training(described, place):
    """Make public data of a board, as `choroid grid data` does; return the files."""
    (place / "board.json").write_text(json.dumps(described))
    files = [place / f"{seed}.npz" for seed in SEEDS]
    for seed, file in zip(SEEDS, files, strict=True):
        words = ["grid", "data", str(place / "board.json"), "--seed", str(seed), "--out", str(file)]
        process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-m", "choroid", *words)
        if await process.wait():
            sys.exit("the data of the board were not made")
    return files


async def offered(client):
    """Wait for the first laboratory that is connected; None if there is none."""
    for _ in range(int(LABORATORY_WITHIN_S)):
        for tissue in await client.tissues():
            if tissue.connected and tissue.offer.electrodes:
                return tissue
        await asyncio.sleep(1.0)
    return None


async def listen(folder):
    """Count the spikes of an organoid under a lease for reading."""
    async with GridClient(folder) as client:
        tissue = await offered(client)
        if tissue is None:
            print("no laboratory is connected", flush=True)
            return
        where = (tissue.lab, tissue.offer.organoid)
        async with client.lease(*where, mode="read", purpose="example agent") as lease, lease.engine() as nerves:
            spikes, loop = 0, asyncio.get_running_loop()
            end = loop.time() + LISTEN_S
            async for batch in nerves.spikes():
                spikes += len(batch)
                if loop.time() > end:
                    break
            print(f"{spikes} spikes of {where[1]} in {where[0]} within {LISTEN_S:g} s", flush=True)


async def main(folder, name):
    """Train, submit, listen, and call the best model of the board."""
    async with BoardsClient(folder) as boards:
        described = (await boards.standings(name))["board"]
        with tempfile.TemporaryDirectory() as place:
            files = await training(described, Path(place))
            model = decoder(files)
            with np.load(files[0]) as public:
                trials = public["spikes"]
        submitted = await boards.submit(name, model, "example-agent")
        await listen(folder)
        reply = await boards.settled(submitted.submission, lambda state: print(f"submission: {state}", flush=True))
        print(
            f"{reply.board}: {reply.state} {reply.published if reply.state == 'graded' else reply.reason}", flush=True
        )
        outputs = await boards.call(f"{name}@best", {"spikes": trials})
        print(f"the best model names the stimuli {outputs['logits'].argmax(axis=1)[:8].tolist()} …", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "decode-stimulus"))
