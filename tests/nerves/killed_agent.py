"""An agent that stimulates as fast as it may until it is killed: `python -m tests.nerves.killed_agent NERVES.JSON`."""

from __future__ import annotations

import sys
import time

from choroid import NervesClient, PulsePhase

ELECTRODES = (0, 1, 2, 3)
SMALL = [PulsePhase(100, -0.2), PulsePhase(100, 0.2)]
PERIOD_FRAMES = 250
PULSES = 40


def main(address_file: str) -> None:
    """Hold a lease; keep trains planned ahead on four electrodes, 2.5 ms apart; print a line when the first is decided."""
    with NervesClient.from_file(address_file) as nerves:
        usable = [e for e, kohm in enumerate(nerves.info().impedance_kohm) if 10 < kohm < 2000][: len(ELECTRODES)]
        lease = nerves.acquire_lease(usable, ttl_ms=2000).lease
        start = nerves.status().next_frame + 12_500
        while True:
            for turn, electrode in enumerate(usable):
                reply = nerves.stimulate(
                    lease, [electrode], SMALL, purpose="kill", at_frame=start + turn * PERIOD_FRAMES // 4,
                    pulses=PULSES, period_frames=PERIOD_FRAMES, reply_at_decision=True,
                )  # fmt: skip
                print(reply.accepted, [reason.text for reason in reply.reasons], flush=True)
            start += PULSES * PERIOD_FRAMES
            while nerves.status().next_frame < start - PULSES * PERIOD_FRAMES // 2:
                time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1])
