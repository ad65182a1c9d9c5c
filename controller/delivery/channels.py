"""Channels, each of which carries a message to people and reports whether it arrived.

A channel never raises and never blocks the control loop. Delivery over Apprise runs in a separate process
(:mod:`controller.delivery.sender`), which is killed if it takes too long; MQTT is awaited on the loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiomqtt

from controller.alarms.definitions import Priority
from controller.children.patience import ChildSilent, MachineBusy, Patience, patiently
from controller.rig.description import Rig
from controller.rig.notify import ChannelSpec, MonitorSpec
from controller.rig.sinks import Mqtt

SEND_S = 20.0
"""Maximum time for the confirmation of a delivery (s)."""
BUSY_S = 120.0
"""Maximum time in which the process of a delivery gets no processor (s); the delivery is tried again."""
MAX_SECRET = 4000


@dataclass(frozen=True, slots=True)
class Message:
    """One message for people, with the same contents for programs in `data`."""

    title: str
    body: str
    priority: Priority
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """Reports whether a channel has confirmed a delivery, with its answer."""

    ok: bool
    detail: str


class Channel(Protocol):
    """Sends messages to people in one way, such as e-mail. Virtual time and tests use their own channels."""

    async def send(self, message: Message) -> DeliveryOutcome:
        """Deliver one message within :data:`SEND_S`. Raises nothing but CancelledError."""


class AppriseChannel:
    """A channel over Apprise: mail, webhook, chat, SMS gateway."""

    def __init__(self, spec: ChannelSpec) -> None:
        self._spec = spec

    async def send(self, message: Message) -> DeliveryOutcome:
        """Deliver in a separate process."""
        url = secret_of(self._spec)
        if isinstance(url, DeliveryOutcome):
            return url
        order = {"url": url, "title": message.title, "body": message.body, "priority": message.priority}
        return await by_sender(order)


class MqttChannel:
    """A channel to programs: `<prefix>/<rig>/alarms` at QoS 1, confirmed by the broker."""

    def __init__(self, config: Mqtt, rig_name: str) -> None:
        self._config = config
        self._rig = rig_name

    async def send(self, message: Message) -> DeliveryOutcome:
        """Publish as JSON."""
        config = self._config
        payload = json.dumps({"title": message.title, "body": message.body, **message.data}, ensure_ascii=False)
        try:
            async with asyncio.timeout(SEND_S):
                async with aiomqtt.Client(
                    config.host,
                    config.port,
                    identifier=f"choroid-{self._rig}-alarms",
                    username=config.user,
                    password=_password(config),
                    tls_context=ssl.create_default_context(cafile=config.ca_file) if config.tls else None,
                    timeout=SEND_S,
                ) as client:
                    await client.publish(f"{config.prefix}/{self._rig}/alarms", payload, qos=1)
        except TimeoutError:
            return DeliveryOutcome(False, f"the broker {config.broker} did not confirm within {SEND_S:g} s")
        except (aiomqtt.MqttError, OSError, ValueError) as error:
            return DeliveryOutcome(False, f"MQTT broker {config.broker}: {error}")
        return DeliveryOutcome(True, "confirmed by the broker")


def channels_of(rig: Rig) -> dict[str, Channel]:
    """Return the channels of a rig file, by name."""
    notify = rig.alarms.notify
    found: dict[str, Channel] = {}
    for name, spec in notify.channels.items() if notify is not None else ():
        if not spec.mqtt:
            found[name] = AppriseChannel(spec)
        elif rig.telemetry.mqtt is not None:
            found[name] = MqttChannel(rig.telemetry.mqtt, rig.name)
    return found


async def ping(monitor: MonitorSpec) -> DeliveryOutcome:
    """Report to an external monitor that the control loop ticks."""
    url = secret_of(monitor)
    return url if isinstance(url, DeliveryOutcome) else await by_sender({"ping": url})


def secret_of(spec: ChannelSpec | MonitorSpec) -> str | DeliveryOutcome:
    """Read an address from its file or the environment. It is read at each use, so that it can be changed at any time."""
    if spec.url_env is not None:
        url = os.environ.get(spec.url_env, "").strip()
        return url or DeliveryOutcome(False, f"the environment variable {spec.url_env} is not set")
    path = Path(spec.url_file or "")
    try:
        with path.open(encoding="utf-8") as file:
            url = file.read(MAX_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        return DeliveryOutcome(False, f"the secret file {path} cannot be read ({type(error).__name__})")
    return url or DeliveryOutcome(False, f"the secret file {path} is empty")


def _password(config: Mqtt) -> str | None:
    if config.password_file is None:
        return None
    return Path(config.password_file).read_text(encoding="utf-8").rstrip("\r\n")


async def by_sender(order: Mapping[str, str]) -> DeliveryOutcome:
    """Deliver in a separate process, which is killed if it takes longer than :data:`SEND_S`."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "controller.delivery.sender",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        return DeliveryOutcome(False, f"no delivery process could be started: {error.strerror}")
    try:
        patience = Patience(process.pid, SEND_S, busy_s=BUSY_S)
        output, _ = await patiently(process.communicate(json.dumps(order).encode()), patience)
    except MachineBusy as busy:
        return DeliveryOutcome(False, str(busy))
    except ChildSilent:
        return DeliveryOutcome(False, f"the channel did not confirm within {SEND_S:g} s")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        answer = json.loads(output)
        return DeliveryOutcome(bool(answer["ok"]), str(answer["detail"]))
    except (ValueError, KeyError, TypeError):
        return DeliveryOutcome(False, f"the delivery process ended with status {process.returncode} and no answer")
