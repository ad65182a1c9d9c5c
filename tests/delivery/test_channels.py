"""Delivery to real counterparts: an SMTP server, an HTTP receiver, Mosquitto; that hang, refuse, and are down."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message as Mail
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import aiomqtt
import pytest
from aiosmtpd.controller import Controller as SmtpServer
from aiosmtpd.smtp import AuthResult, LoginPassword

from controller.alarms.states import Alarms
from controller.core.clock import Clock
from controller.delivery import channels
from controller.delivery.channels import AppriseChannel, Message, MqttChannel, by_sender, ping
from controller.delivery.notifier import Notifier
from controller.delivery.people import Monitor, People
from controller.delivery.sender import without_secrets
from controller.delivery.store import NoticeStore
from controller.rig.notify import ChannelSpec, MonitorSpec, NotifySpec
from controller.rig.sinks import Mqtt
from tests.telemetry.mosquitto import Mosquitto

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")

SECRET = "Tr0ub4dor-and-3"
HELLO = Message(
    "[critical] bench: no heart flow", "CRITICAL: look at the pump\n37 °C, 5 µL", "critical", {"alarms": []}
)


class Mailbox:
    """Keeps what arrives; knows one account."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content))
        return "250 OK"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, login: object) -> AuthResult:
        right = isinstance(login, LoginPassword) and (login.login, login.password) == (b"rig", SECRET.encode())
        return AuthResult(success=right, handled=False)


@pytest.fixture
def post() -> Iterator[tuple[Mailbox, int]]:
    box = Mailbox()
    server = SmtpServer(
        box, hostname="127.0.0.1", port=_free_port(), authenticator=box.authenticate, auth_required=True,
        auth_require_tls=False,
    )  # fmt: skip
    server.start()
    try:
        yield box, server.port
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Receiver:
    """An HTTP receiver: what it got, and how it answers."""

    port: int = 0
    got: list[tuple[str, str]] = field(default_factory=list)
    status: int = 200
    hang: threading.Event = field(default_factory=threading.Event)
    hangs: bool = False


def secret_file(folder: Path, url: str, name: str = "url") -> str:
    path = folder / name
    path.write_text(url + "\n", encoding="utf-8")
    return str(path)


def mail_url(port: int, password: str = SECRET) -> str:
    return f"mailto://rig:{password}@127.0.0.1:{port}/?from=rig@lab.example&to=anna@lab.example&mode=insecure"


async def test_L5_an_alarm_arrives_by_mail_and_is_confirmed(post: tuple[Mailbox, int], tmp_path: Path) -> None:
    box, port = post
    outcome = await AppriseChannel(ChannelSpec(url_file=secret_file(tmp_path, mail_url(port)))).send(HELLO)
    assert outcome.ok, outcome.detail
    (mail,) = box.mails
    assert "no heart flow" in str(mail["subject"])
    text = "".join(
        bytes(part.get_payload(decode=True) or b"").decode()
        for part in mail.walk()
        if part.get_content_maintype() == "text"
    )
    assert "37 °C, 5 µL" in text


async def test_S4_a_wrong_password_is_a_failure_that_does_not_tell_the_password(
    post: tuple[Mailbox, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box, port = post
    caplog.set_level(logging.DEBUG)
    outcome = await AppriseChannel(ChannelSpec(url_file=secret_file(tmp_path, mail_url(port, "wr0ng-word")))).send(
        HELLO
    )
    assert not outcome.ok
    assert outcome.detail
    assert "wr0ng-word" not in outcome.detail + caplog.text
    assert box.mails == []


async def test_L5_an_alarm_arrives_at_a_webhook_and_a_refusal_is_none(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOROID_TEST_HOOK", f"json://127.0.0.1:{receiver.port}/hook/{SECRET}")
    channel = AppriseChannel(ChannelSpec(url_env="CHOROID_TEST_HOOK"))
    outcome = await channel.send(HELLO)
    assert outcome.ok, outcome.detail
    path, body = receiver.got[0]
    assert path == f"/hook/{SECRET}"
    assert "look at the pump" in json.loads(body)["message"]
    receiver.status = 500
    outcome = await channel.send(HELLO)
    assert not outcome.ok
    assert SECRET not in outcome.detail


@pytest.mark.parametrize("url", ["", "no url at all", "nosuch://thing", "mailto://", f"json://127.0.0.1:1/{SECRET}"])
async def test_S4_an_address_that_cannot_work_fails_in_words_without_it(tmp_path: Path, url: str) -> None:
    outcome = await AppriseChannel(ChannelSpec(url_file=secret_file(tmp_path, url))).send(HELLO)
    assert not outcome.ok
    assert len(outcome.detail) > 10
    assert SECRET not in outcome.detail
    outcome = await AppriseChannel(ChannelSpec(url_file=str(tmp_path / "missing"))).send(HELLO)
    assert not outcome.ok
    assert "missing" in outcome.detail


def test_S4_no_part_of_an_address_gets_through() -> None:
    url = "tgram://123456789:abcdefg_HIJ%20k/?to=anna%40lab.example"
    said = without_secrets(
        f"could not open {url}: token abcdefg_HIJ k of 123456789 for anna@lab.example at port 25", url
    )
    for secret in ("abcdefg", "123456789", "anna@lab.example", "HIJ"):
        assert secret not in said
    assert "could not open" in said


async def test_L5_a_channel_that_hangs_is_given_up_its_process_is_killed_and_the_loop_goes_on(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "SEND_S", 2.0)
    receiver.hangs = True
    loop = asyncio.get_running_loop()
    lags: list[float] = []

    async def watch() -> None:
        while True:
            begin_s = loop.time()
            await asyncio.sleep(0.01)
            lags.append(loop.time() - begin_s - 0.01)

    watching = asyncio.create_task(watch())
    begin_s = loop.time()
    url = secret_file(tmp_path, f"json://127.0.0.1:{receiver.port}/x?rto=60")
    outcome = await AppriseChannel(ChannelSpec(url_file=url)).send(HELLO)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert not outcome.ok
    assert "did not confirm within 2 s" in outcome.detail
    assert loop.time() - begin_s < 6.0
    assert sorted(lags)[int(0.95 * len(lags))] < 0.1, "the loop does not wait for a channel"
    assert _children() == []


def _children() -> list[str]:
    """Return the sender processes of this process that still run."""
    mine = f"PPid:\t{os.getpid()}\n"
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if mine in status.read_text() and "sender" in (status.parent / "cmdline").read_text():
                found.append(status.parent.name)
        except OSError:
            continue
    return found


async def test_L5_a_sender_that_dies_is_a_failure(tmp_path: Path) -> None:
    outcome = await by_sender({"url": "json://127.0.0.1:1"})  # an order that it cannot read: it ends with a traceback
    assert not outcome.ok
    assert "no answer" in outcome.detail


@pytest.mark.needs("mosquitto")
async def test_L5_an_alarm_is_published_and_confirmed_by_a_broker_and_a_broker_that_is_down_fails(
    tmp_path: Path,
) -> None:
    broker = Mosquitto(tmp_path)
    channel = MqttChannel(Mqtt(broker=broker.address), "bench")
    outcome = await channel.send(HELLO)
    assert not outcome.ok
    try:
        await broker.start()
        async with aiomqtt.Client("127.0.0.1", broker.port, identifier="display") as display, asyncio.timeout(20):
            await display.subscribe("choroid/bench/alarms", qos=1)
            outcome = await channel.send(HELLO)
            assert outcome.ok, outcome.detail
            message = await anext(aiter(display.messages))
            assert json.loads(bytes(message.payload))["title"] == HELLO.title
    finally:
        broker.close()


async def test_L6_the_heartbeat_to_an_external_monitor_stops_when_the_control_loop_does_not_tick(
    receiver: Receiver, tmp_path: Path
) -> None:
    spec = MonitorSpec.model_validate(
        {"url_file": secret_file(tmp_path, f"http://127.0.0.1:{receiver.port}/ping/{SECRET}")}
    )
    loop = asyncio.get_running_loop()
    monitor = Monitor(spec.model_copy(update={"every_s": 0.2}), now_s=loop.time, ping=ping)
    running = asyncio.create_task(monitor.run())
    try:
        await asyncio.sleep(0.3)
        assert receiver.got == [], "a loop that has never ticked is not alive"
        for _ in range(400):
            monitor.ticked()
            if monitor.pings >= 2:
                break
            await asyncio.sleep(0.05)
        assert receiver.got[0][0] == f"/ping/{SECRET}"
        monitor._ticked_s -= 10.0  # the loop stands
        await asyncio.sleep(1.0)
        count = len(receiver.got)
        await asyncio.sleep(1.5)
        assert len(receiver.got) == count, "the monitor receives nothing"
        receiver.status = 503
        for _ in range(400):
            monitor.ticked()
            if monitor.problem is not None:
                break
            await asyncio.sleep(0.05)
        assert monitor.problem is not None
        assert SECRET not in monitor.problem
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.long
async def test_L5_mail_down_and_webhook_up_with_a_real_outbox(
    post: tuple[Mailbox, int], receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole and in real time: a mail account with a wrong password, a webhook as the second step, a restart between."""
    box, port = post
    spec = NotifySpec.model_validate(
        {
            "channels": {
                "mail": {"url_file": secret_file(tmp_path, mail_url(port, "wr0ng-word"), "mail")},
                "hook": {"url_file": secret_file(tmp_path, f"json://127.0.0.1:{receiver.port}/hook", "hook")},
            },
            "escalation": [["mail"], ["hook"]],
        }
    )
    clock = Clock(follow_system=True)
    alarms = Alarms(lambda _kind, _body: None, clock.utc_text)
    alarms.event("emergency_stop", "rig", "anna: smoke")

    def made() -> People:
        found = {name: AppriseChannel(each) for name, each in spec.channels.items()}
        return People(
            Notifier(
                spec, rig="bench", zone=ZoneInfo("Europe/Berlin"), channels=found,
                store=NoticeStore(tmp_path / "notices.db"), clock=clock, record=lambda _kind, _body: None,
            ),
            None,
        )  # fmt: skip

    async def looking(people: People, condition: Callable[[], bool]) -> None:
        for _ in range(600):
            people.update(alarms)
            if condition():
                return
            await asyncio.sleep(0.1)
        pytest.fail("it did not happen in time")

    def hooked() -> list[str]:
        return [body for _, body in receiver.got if "emergency stop" in json.loads(body)["message"]]

    people = made()
    running = asyncio.create_task(people.run())
    try:
        await looking(people, lambda: people.status()[1]["delivered"] > 1)
        assert ("channel_failed", "mail") in people.causes()
        await asyncio.sleep(1.5)  # what was delivered is stored a moment later
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    secret_file(tmp_path, mail_url(port), "mail")  # an operator enters the right password; the controller starts again
    people = made()
    running = asyncio.create_task(people.run())
    try:
        await looking(people, lambda: any("emergency" in str(mail["subject"]) for mail in box.mails))
        await asyncio.sleep(1.5)
        assert len(hooked()) == 1, "the webhook had its message already"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert b"wr0ng-word" not in (tmp_path / "notices.db").read_bytes()
