"""Whether a link of the rescue leads to the guard's own rig: checked at each opening, before any command.

A network address says where a line ends, and not at which rig: while it was lost, another rig may have been connected there.
A link is trusted, at each opening again, for one of these reasons:

* a device on it reports the serial number that the controller has verified;
* it is a local port with a name of its own (by adapter or by place): the operating system knows where it leads;
* it is the first opening, and the controller had an answer from it a moment ago (`UNBROKEN_S`);
* it was lost for at most `CONTINUITY_S`, no other link has found devices of another rig (`WITNESS_S`), and its pumps have
  counted on from where they were.

Until then only queries of the drivers are sent on it, which :attr:`drivers.transport.link.Link.only_asks` enforces, and no
device on it is verified, so that no driver sends a command. A link that cannot be trusted is given up: closed, its claim
released, and left alone until the next controller.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum

from controller.guard.identities import Identities
from controller.guard.plan import GuardedDevice
from drivers.commands import PumpStatus
from drivers.device import Device, Identity
from drivers.errors import DeviceError, WouldCommand, WrongDevice
from drivers.registry import build, line_settings
from drivers.transport.attached import Speaker, Verify
from drivers.transport.claims import ClaimHeld
from drivers.transport.link import Link
from drivers.transport.opener import Opener, Streams
from drivers.transport.url import LineSettings, LinkUrl

CONTINUITY_S = 30.0
"""Maximum time (s) since the last answer from a link without serial numbers after which it still counts as the same."""
UNBROKEN_S = 6.0
"""The same (s) at the first opening, just after the controller has lost it, without a look at other links. A guard that takes
the place of one that was lost with its controller knows answers of up to four seconds before."""
WITNESS_S = 8.0
"""Time (s) that a link without serial numbers waits for the links with some: a lost link is opened again within five
seconds."""
MAX_FLOW_UL_S = 1000.0
"""Flow (µL/s) above which no pump of a rig counts: twice the maximum of the widest tubing of a Reglo ICC."""
GIVE_UP_S = 60.0
"""Time (s) after which a link that is open, or held by another program, and cannot be trusted is given up."""
OTHER_TIMES = 3
"""Number of verifications that must find the same other device: one answer may be garbled."""
UNSTABLE = re.compile(r"/dev/(?:ttyUSB|ttyACM|pts/)\d+")
"""Names that a system gives in the order in which devices appear."""
NOTHING = re.compile(rb"(?!)")
"""Pattern that no request matches."""


class LinkTrust(StrEnum):
    """Names the reason why a link is trusted."""

    SERIAL = "a serial number"
    LOCAL = "the local port"
    UNBROKEN = "no interruption"
    CONTINUITY = "a short interruption"


def is_local(url: LinkUrl) -> bool:
    """Return whether the operating system, or this process, knows where a link leads."""
    match url.scheme:
        case "tcp":
            return False
        case "sim":
            return True
        case "serial":
            return UNSTABLE.fullmatch(url.target) is None


class CheckedLink(Link):
    """One link of the rescue with its devices: those with outputs, and in doubt those that may know where it leads."""

    def __init__(
        self,
        url: str,
        devices: Iterable[GuardedDevice],
        witnesses: Iterable[GuardedDevice],
        opener: Opener,
        rig: GuardedLinks,
    ) -> None:
        """Build the devices. Nothing is opened."""
        devices = tuple(devices)
        parsed = LinkUrl.parse(url)
        super().__init__(parsed, self._opened, line=line_settings(parsed, (each.model for each in devices)))
        self.name = url
        self.local = is_local(parsed)
        self.trusted: LinkTrust | None = None
        self.left = asyncio.Event()
        """Set when the link is given up."""
        self._rig = rig
        self._real_opener = opener
        self._witnesses = tuple(witnesses)
        self._speakers: list[Speaker] = []
        self._interrupted = False
        """Whether the link was open before, or could not be opened: whatever answers next may be another rig."""
        self._opened_s = -math.inf
        self._in_doubt_s: float | None = None
        self._held_s: float | None = None
        self._others: Counter[str] = Counter()
        self._miscounts: dict[str, str] = {}
        """By device, which count says that it may be another one of the same model."""
        self._building = ""
        self.devices: dict[str, Device] = {}
        for each in devices:
            self._build(each)

    def _build(self, guarded: GuardedDevice) -> None:
        self._building = guarded.name
        self.devices[guarded.name] = build(guarded.model, self, guarded.config)

    # --- opening ----------------------------------------------------------------------------------------

    async def _opened(self, url: LinkUrl, line: LineSettings) -> Streams:
        """Open the line. Trust it at once, or send only queries on it."""
        loop = asyncio.get_running_loop()
        if self.trusted is not None:
            self._rig.identities.answered(self.name, loop.time() - self.received_at_s)
        self.trusted = None
        first, self._interrupted = not self._interrupted, True
        held_s, self._held_s = self._held_s, None
        try:
            streams = await self._real_opener(url, line)
        except ClaimHeld:
            self._held_s = loop.time() if held_s is None else held_s
            self._interrupted = not first  # the controller that has ended still held it: the line itself was not lost
            raise
        self._others.clear()
        self._miscounts.clear()
        self._opened_s = loop.time()
        if self.local:
            self._trust(LinkTrust.LOCAL)
        elif first and self._rig.identities.age_s(self.name) <= UNBROKEN_S:
            self._trust(LinkTrust.UNBROKEN)
        else:
            self._doubt()
        return streams

    def _trust(self, reason: LinkTrust) -> None:
        self.trusted = reason
        self.only_asks = None
        self._in_doubt_s = None

    def _doubt(self) -> None:
        """Send only queries from now on, and ask the devices that may know where this link leads."""
        self.trusted = None
        self._begin_doubt()
        known = self._rig.identities.witnesses(self.name)
        for each in self._witnesses:
            if each.name in known and each.name not in self.devices:
                self._build(each)
        asks = [type(device).queries for device in self.devices.values()]
        patterns = b"|".join(b"(?:%s)" % each.pattern for each in asks if each is not None)
        self.only_asks = re.compile(patterns, re.DOTALL) if patterns else NOTHING
        for speaker in self._speakers:
            speaker.distrust()
        self.wake()

    def _begin_doubt(self) -> None:
        self._in_doubt_s = self._rig.now_s() if self._in_doubt_s is None else self._in_doubt_s

    # --- verification -----------------------------------------------------------------------------------

    def attach(self, conversation: Speaker, verify: Verify) -> None:
        """Verify a device as :meth:`Link.attach` says, and only if this link is trusted."""
        name = self._building

        async def checked() -> None:
            asking, refused = self.read_only, None
            device = self.devices[name]
            device.answered = None
            try:
                await verify()
            except DeviceError as error:
                if device.answered is None:
                    if isinstance(error, WrongDevice):
                        self._begin_doubt()
                    raise
                refused = error  # not the one that answered here before, in this process
            try:
                if refused is None and (asking or self.trusted is LinkTrust.CONTINUITY):
                    self._miscounts.pop(name, None)
                    if miscount := await self._miscount(name, device):
                        self._miscounts[name] = miscount
                self._judge(name, device.answered or Identity(device.model.id))
            except WrongDevice:
                conversation.distrust()
                raise
            if asking:
                await verify()  # now with its settings
            elif refused is not None:
                raise refused

        self._speakers.append(conversation)
        super().attach(conversation, checked)

    async def _miscount(self, name: str, device: Device) -> str:
        """Return which pump of `device` has not counted on from where it was; "" if none is known to.

        Equal counts prove nothing: two new pumps count the same. One that has lost its power counts from zero.
        """
        with device.conversation.verifying():
            for point, actuator in device.actuators.items():
                if (known := self._rig.identities.counted(f"{name}.{point}")) is None:
                    continue
                try:
                    status = await actuator.status()
                except WouldCommand:  # this driver asks for no count, or its device does not have its settings
                    continue
                if not isinstance(status, PumpStatus) or status.host_counted:
                    continue
                before_ul, age_s = known
                max_gain_ul = MAX_FLOW_UL_S * (age_s + 2 * CONTINUITY_S)  # it was read before it was sent
                if not -status.resolution_ul <= status.delivered_ul - before_ul <= max_gain_ul:
                    return f"{point} has counted {status.delivered_ul:g} µL, and had {before_ul:g} µL {age_s:.0f} s ago"
        return ""

    def _judge(self, name: str, found: Identity) -> None:
        """Accept what answers as device `name`, or raise :class:`WrongDevice`."""
        identities = self._rig.identities
        known = identities.of(name, self.name)
        if known is not None and not known.is_like(found):
            self.devices[name].identity = None  # it may have been a garbled answer
            self._other(name, f"{found.model} {found.serial or 'without a serial number'} answers".strip())
            raise WrongDevice(
                f"{found.model}, serial number {found.serial or 'unknown'}, answers, and it was {known.model},"
                f" {known.serial or 'unknown'}",
                where=name,
                cause="the link now leads to another rig, or the device was exchanged",
                action="look where the link leads; the next controller takes up what it finds",
            )
        if known is not None and known.serial:
            self._trust(LinkTrust.SERIAL)
        elif not self._trusted():
            raise WrongDevice(
                f"whether it is the device of this rig is not known yet{self._told_miscounts()}",
                where=name,
                cause="the link was lost, and it reports no serial number that was verified before",
                action="nothing at once: other devices are asked, then the guard gives this link up",
            )
        self._in_doubt_s = None
        identities.learn(name, self.name, found)

    def _trusted(self) -> bool:
        """Return whether commands may be sent although no serial number proves where this link leads."""
        if self.trusted is LinkTrust.CONTINUITY and self._miscounts:
            self._doubt()
        if self.trusted is None and not self._rig.contradicted and not self._miscounts:
            away_s = self._rig.identities.age_s(self.name) - (self._rig.now_s() - self._opened_s)
            waited = self._rig.now_s() >= self._opened_s + WITNESS_S
            if away_s <= CONTINUITY_S and (waited or self._rig.settled):
                self._trust(LinkTrust.CONTINUITY)
        return self.trusted is not None

    def _told_miscounts(self) -> str:
        return "".join(f"; {name}: {what}" for name, what in self._miscounts.items())

    def _other(self, name: str, what: str) -> None:
        """Count the answer of another device than `name`; give the link up when it is certain."""
        if self.trusted is LinkTrust.SERIAL:
            return  # this device was exchanged, and the link is the right one
        if self.only_asks is None:
            self._doubt()
        found = f"{name}: {what}"
        self._others[found] += 1
        if self._others[found] >= OTHER_TIMES:
            self._rig.contradict(self, found)

    # --- giving up --------------------------------------------------------------------------------------

    @property
    def witnessed(self) -> bool:
        """Whether a device of this link has reported a serial number before, so that it can tell where the link leads."""
        return not self.local and bool(self._rig.identities.witnesses(self.name))

    @property
    def settled(self) -> bool:
        """Whether it is known where this link leads: it is trusted, or given up."""
        return self.trusted is not None or self.left.is_set()

    def contradicted(self) -> None:
        """Trust this link no longer if only time speaks for it: another link leads to another rig."""
        if self.trusted is LinkTrust.CONTINUITY:
            self._doubt()

    def hopeless(self) -> str:
        """Return why this link must be given up now; "" if it need not."""
        now_s, age_s = self._rig.now_s(), self._rig.identities.age_s(self.name)
        lost = not self.is_open and not self.witnessed and age_s > CONTINUITY_S
        if self._held_s is not None and (now_s > self._held_s + GIVE_UP_S or (lost and not self.local)):
            return f"another program has held it for {now_s - self._held_s:.0f} s"
        if self.local:
            return ""
        doubtful = self._in_doubt_s is not None and not any(each.verified for each in self._speakers)
        if doubtful and self._in_doubt_s is not None and now_s > self._in_doubt_s + GIVE_UP_S:
            return f"for {GIVE_UP_S:g} s no device on it has proved that it leads to this rig{self._told_miscounts()}"
        if self.trusted is not None:
            return ""
        if self._rig.contradicted and not self.witnessed:
            return f"another rig answers on another link ({self._rig.contradicted})"
        if lost:
            since = f"for {age_s:.0f} s" if math.isfinite(age_s) else "since the guard began"
            return f"no device of it has answered {since}, and none reports a serial number: it may lead to another rig"
        return ""


class GuardedLinks:
    """The links of one rescue, and what they tell of each other."""

    def __init__(
        self, devices: Iterable[GuardedDevice], opener: Opener, identities: Identities, tell: Callable[[str], None]
    ) -> None:
        """Build the links of `devices`; those without outputs only bear witness."""
        self.identities = identities
        self.contradicted = ""
        """What has answered that belongs to another rig; empty while nothing has."""
        self._tell = tell
        by_link: dict[str, list[GuardedDevice]] = {}
        for device in devices:
            by_link.setdefault(device.link, []).append(device)
        self.links = {
            url: CheckedLink(
                url,
                (each for each in of if each.acts),
                (each for each in of if not each.acts),
                opener,
                self,
            )
            for url, of in by_link.items()
            if any(each.acts for each in of)
        }

    def now_s(self) -> float:
        """Return loop time (s)."""
        return asyncio.get_running_loop().time()

    @property
    def settled(self) -> bool:
        """Whether every link with serial numbers has shown where it leads."""
        return all(link.settled for link in self.links.values() if link.witnessed)

    def contradict(self, link: CheckedLink, found: str) -> None:
        """Record that `link` leads to another rig: what only time speaks for is trusted no longer."""
        self.contradicted = self.contradicted or found
        self.give_up(link, f"another rig answers: {found}")
        for other in self.links.values():
            other.contradicted()
        self.check()

    def check(self) -> None:
        """Give up the links that cannot be trusted any more."""
        for name, link in self.links.items():
            if not link.left.is_set() and (why := self.identities.given_up.get(name) or link.hopeless()):
                self.give_up(link, why)

    def give_up(self, link: CheckedLink, why: str) -> None:
        """Leave `link` alone until the next controller."""
        if link.left.is_set():
            return
        link.left.set()
        if link.name not in self.identities.given_up:
            self.identities.given_up[link.name] = why
            self._tell(f"ALARM: leaves link {link.name} alone: {why}. Its outputs may not be at their basal state")
