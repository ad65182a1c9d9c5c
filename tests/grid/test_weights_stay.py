"""G2: no gRPC method and no HTTP route of a hub returns the weights of a submitted model.

The methods are those that a hub registers at its servers, and the routes those of its page, so that a new one without a
probe here fails the test. What is looked for is found in spoilt hubs (`test_G2_a_spoilt_…`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import numpy as np
import pytest
from starlette.routing import Mount, Route

from grid.boards.manifest import sign_manifest
from grid.clock import utc_s
from grid.grading import rpc
from grid.grading.service import BoardService
from grid.grading.store import BoardStore
from grid.hub.hub import Hub
from grid.member.membership import Membership
from grid.page.app import STATIC, page_app
from grid.page.reading import HubReader
from grid.wire import grid_pb2 as pb
from grid.wire.boards import boards_pb2
from tests.grid.boards.models import linear_decoder
from tests.grid.small_board import BINS, CLASSES, ELECTRODES, NAME, TRIALS, small_board
from tests.grid.world import a_hub, approved

RNG = np.random.default_rng(5)
WEIGHTS = RNG.normal(size=(BINS * ELECTRODES + 1, CLASSES))
MODEL = linear_decoder(WEIGHTS, TRIALS, BINS, ELECTRODES)
ROWS = WEIGHTS.astype("<f4")
RUN = 12
"""Consecutive bytes of the weights that count as a leak: three weights."""
OF_THE_WEIGHTS = frozenset(ROWS.tobytes()[n : n + RUN] for n in range(ROWS.nbytes - RUN))
NUMBERS = frozenset(f"{float(each):.5g}" for each in ROWS.ravel())
FEW = 3
"""Numbers of a reply that may equal weights by chance."""


def leaks(reply: bytes) -> str:
    """Return in which form a reply has weights of the model, or an empty text."""
    for form, found in _readings(reply):
        if any(found[n : n + RUN] in OF_THE_WEIGHTS for n in range(len(found) - RUN + 1)):
            return f"{form}: bytes of the weights"
    texts = re.findall(rb"-?\d+\.\d+(?:[eE][-+]?\d+)?", reply)
    equal = {text for text in (f"{float(each):.5g}" for each in texts) if text in NUMBERS}
    return f"numbers: {len(equal)} weights" if len(equal) > FEW else ""


def _readings(reply: bytes) -> Iterator[tuple[str, bytes]]:
    yield "raw", reply
    for run in re.findall(rb"[A-Za-z0-9+/_=-]{32,}", reply):
        plain = run.replace(b"-", b"+").replace(b"_", b"/").rstrip(b"=")
        for start in range(4):
            part = plain[start:]
            with contextlib.suppress(binascii.Error):
                yield "base64", base64.b64decode(part[: len(part) // 4 * 4])
    for run in re.findall(rb"[0-9a-fA-F]{32,}", reply):
        yield "hex", bytes.fromhex(run[: len(run) // 2 * 2].decode())
    for match in re.finditer(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]", reply):
        with contextlib.suppress(zlib.error):
            yield "compressed", zlib.decompressobj(47).decompress(reply[match.start() :])


def fill(hub: Hub, author: Membership) -> str:
    """Put the model on the small board as graded; return the submission."""
    board = hub.boards.service.boards[f"{NAME}@1"]
    store: BoardStore = hub.boards.service.store
    manifest = sign_manifest(author.key.private, MODEL, board=board.key, name="mine", nonce=bytes(32))
    hub.boards.service.submit(author.key.id, manifest.to_json(), MODEL)
    with store.writing():
        store.settle(manifest.id, 1, state="graded", published=0.9, reason="", detail="", now_s=utc_s())
    return manifest.id


def probes(author: Membership, submission: str) -> dict[str, list[Any]]:
    """Return what is asked of each method; a wrong or empty request is one of them."""
    again = sign_manifest(author.key.private, MODEL, board=f"{NAME}@1", name="again", nonce=b"2" * 32)
    spikes = RNG.poisson(1.0, (TRIALS, BINS, ELECTRODES)).astype(np.float32)
    frame = pb.RelayFrame(tunnel="x", lease="y")
    hello = pb.MemberMessage(hello=pb.Hello(choroid="0.2.0", claims=pb.Claims(cores=1)))
    answer = pb.MemberMessage(answer=pb.ChallengeAnswer(challenge="none"))
    manifests = [json.dumps(again.to_json()), "{}", ""]
    return {
        "Enrolment/Describe": [pb.DescribeRequest()],
        "Enrolment/Enrol": [pb.EnrolRequest(), pb.EnrolRequest(name="x", kind="member", public_key=author.key.public)],
        "Witnessing/AddCheckpoint": [pb.AddCheckpointRequest(), pb.AddCheckpointRequest(body="old 0")],
        "Witnessing/Witnessed": [pb.WitnessedRequest(), pb.WitnessedRequest(origin=submission)],
        "Hub/Session": [[hello, answer], []],
        "Hub/Relay": [[frame], []],
        "Hub/RequestLease": [pb.LeaseRequest(key="k", lab="lab", organoid=submission, purpose="weights")],
        "Hub/RenewLeases": [pb.RenewRequest(leases=[submission])],
        "Hub/ReleaseLease": [pb.ReleaseRequest(lease=submission)],
        "Hub/RequestWork": [pb.WorkRequest(key="k", job=submission, ranks=["alpha"])],
        "Hub/RenewWork": [pb.RenewRequest(leases=[submission])],
        "Hub/ReleaseWork": [pb.ReleaseRequest(lease=submission)],
        "Hub/Tissues": [pb.TissuesRequest()],
        "Hub/Members": [pb.MembersRequest()],
        "Hub/Leases": [pb.LeasesRequest(ended=1000)],
        "Hub/Log": [pb.LogRequest(), pb.LogRequest(limit=1000)],
        "Boards/Submit": [boards_pb2.SubmitRequest(manifest=each, model=MODEL) for each in manifests],
        "Boards/Submission": [boards_pb2.SubmissionRequest(submission=each) for each in (submission, "")],
        "Boards/Standings": [boards_pb2.StandingsRequest(board=each) for each in ("", NAME)],
        "Boards/Call": [
            boards_pb2.CallRequest(board=key, inputs=rpc.to_wire(inputs))
            for key, inputs in ((f"{NAME}@best", {"spikes": spikes}), (f"{NAME}@best", {}), (submission, {}))
        ],
    }


@contextlib.contextmanager
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bool]]:
    """Note each method that is registered at a server from now on, and whether it streams."""
    found: dict[str, bool] = {}
    server = type(grpc.aio.server())
    original = server.add_generic_rpc_handlers

    def noted(self: Any, handlers: Any) -> None:
        for each in handlers:
            for path, method in each._method_handlers.items():
                found[path.removeprefix("/choroid.grid.v1.")] = method.request_streaming
        original(self, handlers)

    with monkeypatch.context() as patch:
        patch.setattr(server, "add_generic_rpc_handlers", noted)
        yield found


async def replies(hub: Hub, who: Membership, method: str, streams: bool, requests: list[Any]) -> bytes:
    """Ask a method everything; return all bytes that came back, one line for each answer, errors included."""
    enrolment = method.startswith(("Enrolment/", "Witnessing/"))
    authority = grpc.ssl_channel_credentials(hub.authority.certificate_pem)
    options = (("grpc.ssl_target_name_override", "choroid-grid-hub"),)
    place = hub.address.partition("#")[0]
    channel = grpc.aio.secure_channel(place, authority, options=options) if enrolment else who.channel()
    kind = channel.stream_stream if streams else channel.unary_unary
    call: Any = kind(f"/choroid.grid.v1.{method}", request_serializer=_sent, response_deserializer=bytes)
    found = b""
    for request in requests:
        try:
            if not streams:
                found += await call(request, timeout=60) + b"\n"
                continue
            stream = call(iter(request))
            async with asyncio.timeout(1.0):
                async for each in stream:
                    found += each
        except TimeoutError:
            stream.cancel()
        except grpc.aio.AioRpcError as error:
            found += f"{error.code()} {error.details()}".encode() + repr(error.trailing_metadata()).encode()
    await channel.close(None)
    return found


def _sent(message: Any) -> bytes:
    return bytes(message.SerializeToString())


@contextlib.asynccontextmanager
async def filled(tmp_path: Path) -> AsyncIterator[tuple[Hub, Membership, Membership, str]]:
    small_board(tmp_path / "hub")
    async with a_hub(tmp_path) as hub:
        author, other = await approved(tmp_path, hub, "author"), await approved(tmp_path, hub, "other")
        yield hub, author, other, fill(hub, author)


async def test_G2_no_method_returns_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with registered(monkeypatch) as methods:
        async with filled(tmp_path) as (hub, author, other, submission):
            asked = probes(author, submission)
            assert set(asked) == set(methods)
            for method, streams in methods.items():
                for who in (author, other):
                    found = await replies(hub, who, method, streams, asked[method])
                    assert found, method
                    assert b"UNIMPLEMENTED" not in found, method
                    assert not leaks(found), method
            best = await replies(hub, other, "Boards/Call", False, asked["Boards/Call"][:1])
            assert len(boards_pb2.CallReply.FromString(best[:-1]).outputs[0].values) == TRIALS * CLASSES


SPOILT = {
    "raw": MODEL,
    "base64": base64.b64encode(MODEL),
    "shifted base64": b"ab" + base64.urlsafe_b64encode(MODEL),
    "hex": MODEL.hex().encode(),
    "compressed": b"x" + zlib.compress(MODEL),
    "gzip": zlib.compress(MODEL, wbits=31),
    "part": b"." * 99 + ROWS[7:9].tobytes(),
    "numbers": json.dumps(ROWS[3:5].tolist()).encode(),
}


@pytest.mark.parametrize("form", SPOILT)
def test_G2_weights_are_recognised_in_every_form(form: str) -> None:
    assert leaks(SPOILT[form])
    assert not leaks(base64.b64encode(RNG.bytes(9999)) + json.dumps(RNG.normal(size=99).tolist()).encode())


async def test_G2_a_spoilt_board_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = BoardService.standings

    def spoilt(self: BoardService, name: str) -> dict[str, Any]:
        return original(self, name) | {"file": base64.b64encode(MODEL).decode()}

    async with filled(tmp_path) as (hub, author, other, submission):
        request = probes(author, submission)["Boards/Standings"]
        assert not leaks(await replies(hub, other, "Boards/Standings", False, request))
        monkeypatch.setattr(BoardService, "standings", spoilt)
        assert leaks(await replies(hub, other, "Boards/Standings", False, request))


def routes(folder: Path) -> set[str]:
    """Return the paths of the page's routes."""
    reader = HubReader(folder)
    app: Any = page_app(reader)
    while not hasattr(app, "routes"):
        app = app._app
    found = {each.path for each in app.routes if isinstance(each, (Route, Mount))}
    reader.close()
    return found


async def test_G2_no_route_of_the_page_returns_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with filled(tmp_path) as (_, _, _, submission):
        pass
    folder = tmp_path / "hub"
    sha256 = next((folder / "models").iterdir()).name
    asked = {
        "/": ["/", f"/models/{sha256}", f"/{sha256}", "/../models/" + sha256],
        "/health": ["/health"],
        "/api/state": ["/api/state", f"/api/state?model={sha256}", f"/api/{submission}"],
        "/log/checkpoint": ["/log/checkpoint"],
        "/log/tile/{path:path}": [
            *(
                f"/log/tile/{each}"
                for each in ("0/000.p/8", "entries/000.p/8", "entries/000", f"../../models/{sha256}")
            ),
        ],
        "/static": [
            *(f"/static/{each.relative_to(STATIC)}" for each in STATIC.rglob("*") if each.is_file()),
            *(f"/static/{up}models/{sha256}" for up in ("../../../", "%2e%2e/", "../" * 8 + str(folder) + "/")),
        ],
    }
    assert set(asked) == routes(folder)
    with contextlib.closing(HubReader(folder)) as reader:
        transport = httpx.ASGITransport(app=page_app(reader))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

            async def reply(path: str) -> bytes:
                answer = await client.get(path)
                return repr(answer.headers).encode() + answer.content

            for path in (each for paths in asked.values() for each in paths):
                assert not leaks(await reply(path)), path
            assert submission[:8].encode() in await reply("/api/state")
            monkeypatch.setattr(HubReader, "checkpoint", lambda _: MODEL.hex())
            assert leaks(await reply("/log/checkpoint"))
