"""A remote agent in forty lines: listen to the spikes, answer some with a pulse, print the governor's decisions.

python examples/agent.py DATA/nerves.json [ANSWERS]

DATA/nerves.json is the file that `choroid run --data DATA` leaves for its owner. On the agent's machine the distribution
`choroid-client` is enough (docs/python.md).
"""

import sys

from choroid import NervesClient, PulsePhase

PULSE = [PulsePhase(200, -1.0), PulsePhase(200, 1.0)]  # µs, µA: 0.2 nC, balanced


def main(where: str, answers: int) -> None:
    """Answer as many batches of spikes as asked."""
    with NervesClient.from_file(where) as nerves:
        info = nerves.info()
        electrodes = [e for e, kohm in enumerate(info.impedance_kohm) if 10 < kohm < 2000][:4]
        lease = nerves.acquire_lease(electrodes, ttl_ms=2000).lease
        print(f"{info.array}; lease on electrodes {electrodes}: {lease}")
        for batch in filter(len, nerves.spikes()):
            nerves.renew_lease(lease)
            answer = nerves.stimulate(lease, electrodes[:1], PULSE, purpose="example")
            told = f"spike on electrode {batch.electrodes[0]}: "
            if not answer.accepted:
                print(f"{told}refused: {answer.reasons[0].text}")
            elif answer.pulses[0].HasField("delivered_frame"):
                late_ms = (answer.pulses[0].delivered_frame - int(batch.frames[0])) / info.sample_rate_hz * 1e3
                print(f"{told}accepted, delivered {late_ms:.1f} ms later")
            else:
                print(f"{told}accepted, but not delivered")
            answers -= 1
            if answers == 0:
                break
        nerves.release_lease(lease)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10)
