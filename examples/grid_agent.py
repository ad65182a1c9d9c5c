"""An agent of a grid: submit a decoder to a board, listen to tissue meanwhile, and call the best model by name.

python examples/grid_agent.py FOLDER [BOARD]

FOLDER is the data folder of a member (`choroid grid join`). The distribution choroid-grid is needed.
"""

import asyncio
import hashlib
import json
import runpy
import sys
import tempfile
from pathlib import Path

import numpy as np

from grid.errors import GridError
from grid.member.boards import BoardsClient
from grid.member.tissue import GridClient
from grid.member.waiting import patiently

decoder = runpy.run_path(str(Path(__file__).with_name("grid_decoder.py")))["decoder"]
SEEDS = (1, 2)
LISTEN_S = 2.0


def say(text):
    """Print a line at once."""
    print(text, flush=True)


async def training(described, place):
    """Make public data of a board, as `choroid grid data make` does; return the files."""
    (place / "board.json").write_text(json.dumps(described))
    files = [place / f"{seed}.npz" for seed in SEEDS]
    for seed, file in zip(SEEDS, files, strict=True):
        words = ["grid", "data", "make", str(place / "board.json"), "--seed", str(seed), "--out", str(file)]
        process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-m", "choroid", *words)
        if await process.wait():
            sys.exit("the data of the board were not made")
    return files


async def asked(folder, question):
    """Ask the boards of the hub, as often as it takes: the hub may be away for a while."""

    async def attempt():
        async with BoardsClient(folder) as boards:
            return await question(boards)

    return await patiently(attempt, say)


async def listen(folder, say=say):
    """Count the spikes of an organoid under a lease for reading, as soon as a laboratory and the queue allow it."""

    async def attempt():
        async with GridClient(folder) as client:
            here = [each for each in await client.tissues() if each.connected and each.offer.electrodes]
            if not here:
                raise GridError("no laboratory is connected")
            where = (here[0].lab, here[0].offer.organoid)
            lease = client.lease(*where, mode="read", purpose="example agent", wait_s=None, on_wait=say)
            async with lease as held, held.engine() as nerves:
                spikes, loop = 0, asyncio.get_running_loop()
                end = loop.time() + LISTEN_S
                async for batch in nerves.spikes():
                    spikes += len(batch)
                    if loop.time() > end:
                        break
            return f"{spikes} spikes of {where[1]} in {where[0]} within {LISTEN_S:g} s"

    say(await patiently(attempt, say))


async def main(folder, name):
    """Train, submit, listen, and call the best model of the board."""
    described = (await asked(folder, lambda boards: boards.standings(name)))["board"]
    with tempfile.TemporaryDirectory() as place:
        files = await training(described, Path(place))
        model = decoder(files)
        with np.load(files[0]) as public:
            trials = public["spikes"]
    same = hashlib.sha256(model).digest()  # the same model is the same submission, also after a restart of this agent
    sent = await asked(folder, lambda boards: boards.submit(name, model, "example-agent", nonce=same))
    await listen(folder)
    reply = await asked(
        folder, lambda boards: boards.settled(sent.submission, lambda state: say(f"submission: {state}"))
    )
    say(f"{reply.board}: {reply.state} {reply.published if reply.state == 'graded' else reply.reason}")
    outputs = await asked(folder, lambda boards: boards.call(f"{name}@best", {"spikes": trials}))
    say(f"the best model names the stimuli {outputs['logits'].argmax(axis=1)[:8].tolist()} …")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "decode-stimulus"))
