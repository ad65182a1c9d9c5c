"""The page beyond this machine: TLS, a real proxy before it, and the local socket of commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
import websockets
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from uvicorn.middleware.proxy_headers import _TrustedHosts

from choroid.client import calls
from choroid.client.transport import Address, Transport
from controller.guard.wire import SocketPeer, login_of
from controller.runs.people import Person, command_line_of
from dashboards.admission import MAX_UNKNOWN
from dashboards.auth import Role
from dashboards.certificate import SOON, Certificate
from dashboards.local import SOCKET
from dashboards.outside import INSIDE, Outside
from dashboards.server import serve
from tests.dashboards.test_server import free_port
from tests.dashboards.world import World, world

PROXY = "127.0.0.2"
"""The address from which the proxy connects to the page: every address of 127/8 is this machine's."""
CLIENT = "127.0.0.3"


BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
END = BEGIN + timedelta(20_000)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """A certificate for localhost and its key."""
    return certified(tmp_path_factory.mktemp("tls"))


def certified(folder: Path, end: datetime = END) -> Outside:
    """Make a certificate for localhost and its key in `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), BEGIN, end)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "page.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "page.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Outside(certificate=folder / "page.pem", key=folder / "page.key")


def trusting(files: Outside) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.certificate))


def of(outside: Outside) -> Certificate:
    assert outside.certificate is not None
    assert outside.key is not None
    return Certificate(outside.certificate, outside.key)


@asynccontextmanager
async def page(outside: Outside = INSIDE, data: Path | None = None) -> AsyncIterator[tuple[World, int]]:
    """The page as `choroid run` opens it; with TLS once its certificate was read."""
    async with world(names=outside.hosts) as w:
        opened = asyncio.get_running_loop().create_future()
        certificate = None if outside.certificate is None else of(outside)
        if certificate is not None:
            assert await life(certificate, BEGIN) == ""
        serving = serve(
            w.app, "127.0.0.1", 0, opened=opened.set_result, outside=outside, certificate=certificate, data=data
        )
        task = asyncio.create_task(serving)
        try:
            yield w, await opened
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def nginx(folder: Path, files: Outside, behind: int) -> AsyncIterator[int]:
    """An nginx as docs/security.md sets it up, but for its addresses and its folder."""
    port = free_port()
    block = Path(__file__).parents[2].joinpath("docs/security.md").read_text(encoding="utf-8")
    block = block.partition("```nginx\n")[2].partition("```")[0]
    for documented, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("rig.example.org", "localhost"),
        ("/etc/nginx/rig.pem", str(files.certificate)),
        ("/etc/nginx/rig.key", str(files.key)),
        ("http://10.0.0.5:8090;", f"http://127.0.0.1:{behind}; proxy_bind {PROXY};"),
    ):
        assert documented in block
        block = block.replace(documented, here)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\nhttp {{ access_log off; {paths}\n{block}\n}}\n"
    )
    process = await asyncio.create_subprocess_exec(
        "nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), stderr=subprocess.PIPE
    )
    try:
        while True:
            assert process.returncode is None, (await process.communicate())[1].decode()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.05)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


def client(address: str, base: str, headers: dict[str, str], tls: ssl.SSLContext | None = None) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(local_address=address, verify=tls or ssl.create_default_context())
    return httpx.AsyncClient(transport=transport, base_url=base, headers=headers, timeout=60)


async def feed_answers(url: str, tls: ssl.SSLContext, cookie: str, origin: str) -> None:
    headers = {"Cookie": cookie, "Origin": origin}
    async with websockets.connect(url, ssl=tls, additional_headers=headers, open_timeout=60) as socket:
        assert await asyncio.wait_for(socket.recv(), 60)


async def signed_in(base: str, tls: ssl.SSLContext, token: str, headers: dict[str, str] | None = None) -> str:
    """Sign in over https as a browser does, act by the cookie, and return it."""
    async with client(CLIENT, base, {"Authorization": f"Bearer {token}", **(headers or {})}, tls) as browser:
        answer = await browser.post("/api/session")
        assert answer.status_code == 200, answer.text
        assert "Secure" in answer.headers["set-cookie"]
    (cookie,) = (f"{name}={value}" for name, value in answer.cookies.items())
    async with client(CLIENT, base, {"Cookie": cookie, "Origin": base}, tls) as browser:
        assert (await browser.post("/api/estop", json={})).status_code == 200
    async with client(CLIENT, base, {"Cookie": cookie, "Origin": base.replace("https", "http")}, tls) as other:
        assert (await other.post("/api/estop", json={})).status_code == 403
    return cookie


async def test_S1_the_page_serves_tls_with_secure_cookies_and_the_feed(files: Outside) -> None:
    async with page(files) as (w, port):
        base, tls = f"https://localhost:{port}", trusting(files)
        cookie = await signed_in(base, tls, w.tokens[Role.OPERATOR])
        await feed_answers(f"wss://localhost:{port}/ws", tls, cookie, base)
        for nonsense in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x00", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(nonsense)
            writer.write_eof()
            assert b"200" not in await reader.read()
            writer.close()
        async with client(CLIENT, base, {}, tls) as unknown:
            assert (await unknown.get("/health")).status_code == 200
            assert (await unknown.get("/api/rig")).status_code == 401


async def test_S1_behind_nginx_the_client_is_known_by_its_address_and_cookies_are_secure(
    files: Outside, tmp_path: Path
) -> None:
    async with page(Outside(proxies=(PROXY,))) as (w, port), nginx(tmp_path, files, port) as public:
        base, tls = f"https://localhost:{public}", trusting(files)
        cookie = await signed_in(base, tls, w.tokens[Role.OPERATOR], {"X-Forwarded-Proto": "http"})
        await feed_answers(f"wss://localhost:{public}/ws", tls, cookie, base)
        async with client(
            CLIENT, base, {"Authorization": "Bearer wrong", "X-Forwarded-For": "9.9.9.9"}, tls
        ) as hostile:
            assert (await hostile.get("/api/rig")).status_code == 401
        assert w.app.state.failures.last_source == CLIENT, "what the client wrote into the header is not believed"


async def test_S1_headers_of_a_client_that_is_no_proxy_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn believes every program on this machine by default, or what this variable names."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    spoofed = {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https"}
    for outside in (INSIDE, Outside(proxies=(PROXY,))):
        async with page(outside) as (w, port):
            base = f"http://127.0.0.1:{port}"
            token = f"Bearer {w.tokens[Role.VIEWER]}"
            async with client("127.0.0.1", base, {"Authorization": token, **spoofed}) as direct:
                assert "Secure" not in (await direct.post("/api/session")).headers["set-cookie"]
            async with client("127.0.0.1", base, {"Authorization": "Bearer wrong", **spoofed}) as direct:
                assert (await direct.get("/api/rig")).status_code == 401
            assert w.app.state.failures.last_source == "127.0.0.1"


async def test_S1_the_page_answers_to_its_names_alone() -> None:
    async with page(Outside(names=("rig.example.org",))) as (w, port):
        base = f"http://127.0.0.1:{port}"
        for host, status in (("rig.example.org", 200), (f"127.0.0.1:{port}", 200), ("other.example.org", 403)):
            async with client(
                "127.0.0.1", base, {"Authorization": f"Bearer {w.tokens[Role.VIEWER]}", "Host": host}
            ) as browser:
                assert (await browser.get("/api/rig")).status_code == status, host


async def test_P1_the_local_socket_tells_which_user_acts_and_takes_a_persons_token(tmp_path: Path) -> None:
    folder = tmp_path / ("a-long-name" * 12)
    folder.mkdir()
    me = command_line_of(login_of(SocketPeer(os.getpid(), os.geteuid())))
    invite = {"name": "bob", "role": "viewer", "reason": "new"}
    async with page(data=folder) as (w, _):
        assert stat.S_IMODE((folder / SOCKET).stat().st_mode) == 0o600
        address, _token = Address.parse(f"unix:{folder / SOCKET}")
        for token, user in (("", me), (w.tokens[Role.ADMIN], "a admin")):
            transport = Transport(address, token)
            await asyncio.to_thread(transport.do, calls.anything("POST", "/api/users", invite, ""))
            assert w.controller.journal.rows[-1].body["user"] == user
        assert Person(me).shared, "several people may use one account of a machine"


async def test_P1_other_users_of_the_machine_do_not_come_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.local.peer_of", lambda _: SocketPeer(0, 54_321))
    async with page(data=tmp_path) as (_, _port):
        transport = httpx.AsyncHTTPTransport(uds=str(tmp_path / SOCKET))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as other:
            assert (await other.get("/api/users")).status_code == 401


@pytest.mark.parametrize(
    ("host", "outside", "objects"),
    [
        ("127.0.0.1", INSIDE, ""),
        ("localhost", INSIDE, ""),
        ("::1", INSIDE, ""),
        ("0.0.0.0", INSIDE, "--certificate"),  # noqa: S104
        ("::", INSIDE, "--trusted-proxy"),
        ("rig.example.org", INSIDE, "--plain-http"),
        ("10.0.0.5", Outside(plain=True), ""),
        ("10.0.0.5", Outside(proxies=("10.0.0.6", "10.1.0.0/28")), ""),
        ("10.0.0.5", Outside(proxies=("*",)), "no address of a proxy"),
        ("10.0.0.5", Outside(certificate=Path("a"), key=Path("b")), ""),
        ("10.0.0.5", Outside(certificate=Path("a")), "--key"),
    ],
)
def test_S1_beyond_this_machine_the_page_wants_tls_or_a_proxy_or_an_explicit_word(
    host: str, outside: Outside, objects: str
) -> None:
    assert objects in outside.objection(host)
    assert bool(objects) == bool(outside.objection(host))


def test_S1_with_a_proxy_and_no_tls_only_the_proxy_and_this_machine_connect() -> None:
    outside = Outside(proxies=("10.0.0.6", "10.1.0.0/28"))
    for peer, admitted in (
        ("10.0.0.6", True),
        ("10.1.0.9", True),
        ("127.0.0.1", True),
        ("10.0.0.7", False),
        ("?", False),
    ):
        assert outside.admits(peer) is admitted, peer
    assert Outside(proxies=("10.0.0.6",), plain=True).admits("10.0.0.7")


@pytest.mark.parametrize(
    ("peer", "admitted"), [("10.0.0.6", True), ("10.1.0.9", True), ("127.0.0.1", True), ("10.1.0.16", False)]
)
def test_S1_a_socket_for_ipv4_and_ipv6_knows_its_proxies(peer: str, admitted: bool) -> None:
    outside = Outside(proxies=("10.0.0.6", "10.1.0.0/28"))
    assert outside.admits(f"::ffff:{peer}") is admitted
    trusted = _TrustedHosts([*outside.trusted])
    assert (f"::ffff:{peer}" in trusted) is (admitted and peer != "127.0.0.1")


@pytest.mark.parametrize("name", ["https://rig.example.org", "rig.example.org:8443", "rig/", ""])
def test_a_name_that_no_browser_sends_is_refused(name: str) -> None:
    assert "Next: " in Outside(names=(name,)).objection("127.0.0.1")


# --- the certificate --------------------------------------------------------------------------------------


async def life(certificate: Certificate, now: datetime) -> str:
    """Return how one life of the certificate's edge fails, or an empty text once it is up."""
    up = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(certificate.keep(lambda: up.set_result(None), lambda: now))
    await asyncio.wait((up, task), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return str(task.exception())
    task.cancel()
    return ""


async def test_a_certificate_that_cannot_be_used_is_told_with_a_next_step(files: Outside, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for wrong in (tmp_path / "missing.pem", tmp_path / "empty.pem", files.key):
        certificate = of(replace(files, certificate=wrong))
        told = await life(certificate, BEGIN)
        assert "cannot be used" in told
        assert "Next: " in told
        assert certificate.context is None


async def test_a_certificate_that_has_ended_or_ends_soon_is_told_and_used(files: Outside) -> None:
    for now, told in (
        (BEGIN - timedelta(1), "is valid from 2020-01-01"),
        (BEGIN, ""),
        (END - SOON - timedelta(minutes=1), ""),
        (END - SOON, f"ends on {END:%Y-%m-%d}"),
        (END + timedelta(1), f"ends on {END:%Y-%m-%d}"),
    ):
        certificate = of(files)
        found = await life(certificate, now)
        assert told in found
        assert bool(told) == bool(found)
        assert certificate.context is not None


async def test_S1_a_renewed_certificate_is_used_and_one_that_is_half_written_leaves_the_one_before(
    tmp_path: Path,
) -> None:
    """The settings in use were once loaded again themselves: with a key that did not fit, they lost their own."""
    (tmp_path / "next").mkdir()
    certificate = of(certified(tmp_path))
    certified(tmp_path / "next", END + 2 * SOON)
    assert await life(certificate, BEGIN) == ""
    before, old = certificate.context, (tmp_path / "page.pem").read_bytes()
    (tmp_path / "next/page.pem").replace(tmp_path / "page.pem")
    assert "cannot be used" in await life(certificate, BEGIN)
    assert certificate.context is before
    assert await shown(certificate) == old
    (tmp_path / "next/page.key").replace(tmp_path / "page.key")
    assert await life(certificate, END) == ""
    assert await shown(certificate) == (tmp_path / "page.pem").read_bytes() != old


async def shown(certificate: Certificate) -> bytes:
    """Return the certificate that a client sees (PEM)."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context)
    async with server:
        return (await asyncio.to_thread(ssl.get_server_certificate, server.sockets[0].getsockname())).encode()


async def test_B1_without_its_certificate_the_page_lets_no_browser_in_and_commands_act(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path / "page.pem", tmp_path / "page.key")
    async with world() as w:
        opened = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(w.app, "127.0.0.1", 0, opened=opened.set_result, certificate=certificate, data=tmp_path)
        )
        port = await opened
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await reader.read() == b""
        writer.close()
        address, _token = Address.parse(f"unix:{tmp_path / SOCKET}")
        await asyncio.to_thread(Transport(address, "").do, calls.anything("GET", "/api/users", None, ""))
        tls = trusting(certified(tmp_path))
        assert await life(certificate, BEGIN) == ""
        async with client(CLIENT, f"https://localhost:{port}", {}, tls) as browser:
            assert (await browser.get("/health")).status_code == 200
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        assert not (tmp_path / SOCKET).exists()


async def test_S3_with_tls_a_flood_of_other_addresses_does_not_keep_a_person_out(files: Outside) -> None:
    """New connections wait for a share of the handshakes; a flood from few addresses has no more than its own."""
    ended = False

    async def flood(address: str) -> None:
        while not ended:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
                writers.append(writer)
            await asyncio.sleep(0)
            if len(writers) > 2 * MAX_UNKNOWN:
                writers.pop(0).close()

    writers: list[asyncio.StreamWriter] = []
    async with page(files) as (w, port):
        attackers = [asyncio.create_task(flood(f"127.0.1.{number}")) for number in range(1, 9)]
        while len(writers) < MAX_UNKNOWN:
            await asyncio.sleep(0.05)
        headers = {"Authorization": f"Bearer {w.tokens[Role.OPERATOR]}"}
        answered = 0
        async with client(CLIENT, f"https://localhost:{port}", headers, trusting(files)) as person:
            while not answered:
                with contextlib.suppress(httpx.TransportError):  # a browser tries again, too
                    answered = (await person.post("/api/estop", json={})).status_code
        assert answered == 200
        assert w.controller.gate.emergency is not None
        ended = True
        await asyncio.gather(*attackers)
        for writer in writers:
            writer.close()
