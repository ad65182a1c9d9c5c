"""Run by the Python of an agent's machine: the electrode engine over the client alone. Prints what it saw as JSON."""

import importlib.util
import json
import sys
from collections.abc import Callable

import choroid
from choroid import FrameBatch, NervesClient, NervesError, PulsePhase


def refused(work: Callable[[], object]) -> str:
    try:
        work()
    except (NervesError, ImportError) as error:
        return str(error)
    return ""


def main(address_file: str) -> None:
    with NervesClient.from_file(address_file) as nerves:
        info = nerves.info()
        batch = next(filter(len, nerves.spikes(100)))
        frames = next(each for each in nerves.frames(frames=500) if isinstance(each, FrameBatch))
        electrode = next(e for e, kohm in enumerate(info.impedance_kohm) if 10 < kohm < 2000)
        lease = nerves.acquire_lease([electrode]).lease
        nerves.renew_lease(lease)
        phases = [PulsePhase(200, -1.0), PulsePhase(200, 1.0)]
        answer = nerves.stimulate(lease, [electrode], phases, purpose="a test", reply_at_decision=True)
        unbalanced = nerves.stimulate(lease, [electrode], phases[:1], purpose="a test", reply_at_decision=True)
        nerves.release_lease(lease)
        found = {
            "electrodes": info.electrodes,
            "summary": nerves.summary().electrodes,
            "spikes": [batch.frames.dtype.name, batch.electrodes.dtype.name, len(batch) > 0],
            "frames": [list(frames.samples.shape), frames.samples.dtype.name],
            "accepted": answer.accepted,
            "unbalanced": [unbalanced.accepted, unbalanced.limiting],
            "renewed": refused(lambda: nerves.renew_lease(lease)),
            "ledger": [record.purpose for record in nerves.ledger()],
            "whole": refused(lambda: choroid.simulate),
            "remote": refused(lambda: NervesClient("10.0.0.1:50051", "secret")),
            "controller": importlib.util.find_spec("controller") is not None,
        }
    print(json.dumps(found))


main(sys.argv[1])
