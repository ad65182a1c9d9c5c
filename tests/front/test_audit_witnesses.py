"""Checkpoints of the journal that others confirm: a hub of the grid, and an authority of time stamps (openssl)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from choroid.audit.audit import export, verify
from choroid.audit.store import CHECKPOINTS, kept_notes
from choroid.audit.time_stamps import TimeAuthority
from choroid.cli import main
from choroid.common.failure import UserError
from choroid.running.notary import Notary
from controller.rig.audit import AuditSpec, HubSpec, TimeStampSpec
from controller.signed_log.notes import COSIGNATURE, ED25519, Checkpoint, NoteKey
from grid.hub.hub import Hub
from tests.front.test_audit import Lab
from tests.grid.test_witnessing import command, log_key
from tests.grid.world import a_hub

pytestmark = pytest.mark.needs("openssl")


async def causes(lab: Lab, places: AuditSpec) -> dict[tuple[str, str], str]:
    """Return what a controller's notary reports after one round."""
    notary = Notary(lab.data, "bench", places)
    running = asyncio.create_task(notary.run(lambda: None))
    while not notary.rounds:
        await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return dict(notary.causes)


def places(lab: Lab, hub: Hub) -> AuditSpec:
    return AuditSpec(key=str(lab.key), hubs=(HubSpec(key=log_key(hub, COSIGNATURE), at=hub.address),))


async def test_P2_a_hub_confirms_the_journal_and_holds_it_against_one_that_was_rewritten_everywhere(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    lab.write(100)
    async with a_hub(tmp_path / "hub", name="hub.example/log") as hub:
        asked = places(lab, hub)
        told = await causes(lab, asked)
        assert "not witnessed here" in told["checkpoint_failed", "journal"], "its operator has not agreed yet"
        key = (lab.data / "audit.key.pub").read_text()
        await asyncio.to_thread(command, "watch", key, "--data", str(hub.store.folder))
        for rows in (0, 33, 7, 1):
            lab.write(rows)
            assert await causes(lab, asked) == {}
        assert await causes(lab, asked) == {}, "it has confirmed these rows"
        witness_key = NoteKey.parse(log_key(hub, COSIGNATURE))
        export(lab.data, tmp_path / "sound")
        assert verify(tmp_path / "sound", key=key, hubs=[witness_key])["confirmed_rows"] == {"hub.example/log": 141}
        words = ["audit", "verify", str(tmp_path / "sound"), "--key", key, "--witness", str(witness_key)]
        assert await asyncio.to_thread(main, [*words, "--ask", hub.address]) == 0

        lab.attack()
        for each in (lab.data / CHECKPOINTS, lab.key.with_suffix(".checkpoints")):
            each.unlink()
        lab.write(20)
        told = await causes(lab, asked)
        assert "hub.example/log holds a checkpoint over 141 rows" in told["journal_contradicted", "journal"]
        sizes = {Checkpoint.parse(note).size for note in kept_notes(lab.data / CHECKPOINTS)}
        assert sizes == {141}, "what the hub holds is kept, and the rewritten rows are not signed"
        again = await causes(lab, AuditSpec(key=str(lab.key)))
        assert ("journal_contradicted", "journal") in again, "what the hub holds is kept here"
    (tmp_path / "sound").rename(tmp_path / "before")
    other = NoteKey("other.example/log", COSIGNATURE, witness_key.public)
    with pytest.raises(UserError, match=r"other\.example/log has confirmed no checkpoint"):
        verify(tmp_path / "before", key=key, hubs=[other])


async def test_P2_a_journal_that_was_rewritten_is_found_by_an_outsider_who_asks_the_hub(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(tmp_path)
    lab.write(100)
    async with a_hub(tmp_path / "hub", name="hub.example/log") as hub:
        await causes(lab, places(lab, hub))
        key = (lab.data / "audit.key.pub").read_text()
        await asyncio.to_thread(command, "watch", key, "--data", str(hub.store.folder))
        assert await causes(lab, places(lab, hub)) == {}
        lab.attack()
        for each in (lab.data / CHECKPOINTS, lab.key.with_suffix(".checkpoints")):
            each.unlink()
        assert await causes(lab, AuditSpec(key=str(lab.key))) == {}, "all places on this machine were rewritten"
        words = ["audit", "verify", str(lab.data), "--key", key]
        assert await asyncio.to_thread(main, words) == 0
        assert await asyncio.to_thread(main, [*words, "--ask", hub.address]) == 1
        assert "at least one was changed" in capsys.readouterr().err


async def test_P2_a_hub_that_is_away_or_another_key_is_an_alarm_and_the_checkpoint_is_kept(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write(10)
    async with a_hub(tmp_path / "hub", name="hub.example/log") as hub:
        asked = places(lab, hub)
        log = AuditSpec(key=str(lab.key), hubs=(HubSpec(key=log_key(hub, ED25519), at=hub.address),))
    assert "cannot be reached" in (await causes(lab, asked))["checkpoint_failed", "journal"]
    assert len(kept_notes(lab.data / CHECKPOINTS)) == 1
    assert "take the line `witness`" in (await causes(lab, log))["checkpoint_failed", "journal"]


CONFIG = """
[tsa]
dir = {folder}
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_chain = no
ess_cert_id_alg = sha256
[ext]
extendedKeyUsage = critical,timeStamping
keyUsage = critical,digitalSignature
"""


class Authority(HTTPServer):
    """An authority of time stamps, which openssl makes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "tsa.cnf").write_text(CONFIG.format(folder=folder))
        (folder / "serial").write_text("01\n")
        for words in (
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
            "req -newkey rsa:2048 -nodes -subj /CN=tsa -keyout tsa.key -out tsa.csr",
            "x509 -req -in tsa.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out tsa.pem"
            " -extfile tsa.cnf -extensions ext",
        ):
            subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
        super().__init__(("127.0.0.1", 0), Asked)
        self.url = f"http://127.0.0.1:{self.server_port}"


class Asked(BaseHTTPRequestHandler):
    """One query."""

    server: Authority

    def do_POST(self) -> None:
        folder = self.server.folder
        (folder / "query").write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        words = "ts -reply -config tsa.cnf -section tsa -queryfile query -out answer"
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
        self.send_response(200)
        self.end_headers()
        self.wfile.write((folder / "answer").read_bytes())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[Authority]:
    server = Authority(tmp_path / "tsa")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_P2_an_authority_stamps_each_checkpoint_and_openssl_agrees(
    tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(tmp_path)
    ca = authority.folder / "ca.pem"
    spec = AuditSpec(key=str(lab.key), time_stamps=TimeStampSpec(url=authority.url, certificates=str(ca)))
    for rows in (10, 5):
        lab.write(rows)
        assert await causes(lab, spec) == {}
    key = (lab.data / "audit.key.pub").read_text()
    notes = kept_notes(lab.data / CHECKPOINTS)
    assert len(notes) == 2
    assert all(notes.values())
    for note, stamp in notes.items():
        (tmp_path / "note").write_text(note)
        (tmp_path / "stamp").write_bytes(stamp)
        words = f"ts -verify -data {tmp_path}/note -in {tmp_path}/stamp -CAfile {ca}"
        verified = subprocess.run(["openssl", *words.split()], check=True, capture_output=True, text=True)
        assert "Verification: OK" in verified.stdout + verified.stderr

    export(lab.data, tmp_path / "bundle")
    found = verify(tmp_path / "bundle", key=key, authority=TimeAuthority(ca))
    assert (found["time_stamps"], len(found["stamped_utc"])) == (2, 2)
    assert verify(tmp_path / "bundle", key=key)["stamped_utc"] == []
    assert main(["audit", "verify", str(tmp_path / "bundle"), "--key", key]) == 0
    assert "2 time stamps, not verified" in capsys.readouterr().out

    lines = (tmp_path / "bundle" / CHECKPOINTS).read_text().splitlines()
    stamps = [json.loads(line)["time_stamp"] for line in reversed(lines)]
    swapped = [json.dumps(json.loads(line) | {"time_stamp": stamp}) for line, stamp in zip(lines, stamps, strict=True)]
    (tmp_path / "bundle" / CHECKPOINTS).write_text("\n".join(swapped) + "\n")
    with pytest.raises(UserError, match="a time stamp is not valid"):
        verify(tmp_path / "bundle", key=key, authority=TimeAuthority(ca))


async def test_P2_an_authority_that_is_away_or_not_trusted_is_an_alarm_and_the_checkpoint_is_kept(
    tmp_path: Path, authority: Authority
) -> None:
    lab = Lab(tmp_path)
    lab.write(10)
    other = Authority(tmp_path / "other")
    other.server_close()
    for url, certificates, why in (
        (authority.url, other.folder / "ca.pem", "is not valid"),
        (authority.url, tmp_path / "none.pem", "cannot be read"),
        (other.url, authority.folder / "ca.pem", "does not answer"),
        ("file:///etc/passwd", authority.folder / "ca.pem", "no address of http"),
    ):
        spec = AuditSpec(key=str(lab.key), time_stamps=TimeStampSpec(url=url, certificates=str(certificates)))
        assert why in (await causes(lab, spec))["checkpoint_failed", "journal"], url
    notes = kept_notes(lab.data / CHECKPOINTS)
    assert list(notes.values()) == [b""], "without a stamp"
