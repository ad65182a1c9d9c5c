"""A remote agent in forty lines: listen to the spikes, answer some with a pulse, print what the governor
says.

python examples/agent.py DATA/nerves.json        (the file that `choroid run --data DATA` leaves for its
owner)
"""

import asyncio
import json
import sys

import grpc.aio

from controller.nerves.wire import nerves_pb2 as pb
from controller.nerves.wire.nerves_pb2_grpc import NervesStub

PULSE = [
    pb.Phase(duration_us=200, current_ua=-1.0),
    pb.Phase(duration_us=200, current_ua=1.0),
]  # 0.2 nC, balanced


async def main(where: dict[str, str], answers: int) -> None:
    """Answer as many spikes as asked."""
    token = (("authorization", f"Bearer {where['token']}"),)
    async with grpc.aio.insecure_channel(where["address"]) as channel:
        nerves = NervesStub(channel)
        info = await nerves.Info(pb.InfoRequest(), metadata=token)
        electrodes = [e for e, kohm in enumerate(info.impedance_kohm) if 10 < kohm < 2000][:4]
        lease = await nerves.AcquireLease(pb.AcquireLeaseRequest(electrodes=electrodes, ttl_ms=2000), metadata=token)
        print(f"{info.array}; lease on electrodes {electrodes}: {lease.lease or lease.reason}")
        async for heard in nerves.StreamSpikes(pb.StreamSpikesRequest(), metadata=token):
            await nerves.RenewLease(pb.RenewLeaseRequest(lease=lease.lease), metadata=token)
            wish = pb.StimulateRequest(lease=lease.lease, electrodes=electrodes[:1], phases=PULSE, purpose="example")
            answer = await nerves.Stimulate(wish, metadata=token)
            print(f"spike on electrode {heard.electrodes[0]}: ", end="")
            if answer.accepted and answer.pulses[0].state == pb.PulseFate.DELIVERED:
                late_ms = (answer.pulses[0].delivered_frame - heard.frames[0]) / info.sample_rate_hz * 1e3
                print(f"accepted, delivered {late_ms:.1f} ms later")
            else:
                print("accepted, but not delivered" if answer.accepted else f"refused: {answer.reasons[0].text}")
            answers -= 1
            if answers == 0:
                break
        await nerves.ReleaseLease(pb.ReleaseLeaseRequest(lease=lease.lease), metadata=token)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as door:
        asyncio.run(main(json.load(door), int(sys.argv[2]) if len(sys.argv) > 2 else 10))
