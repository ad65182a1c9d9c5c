"""Rules of wires and names: links, addresses, points, and what the organs and interlocks are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from controller.rig.array_rules import ARRAY_RULES
from controller.rig.card import is_replay_or_simulated, link_fits
from controller.rig.description import DeviceSpec, Rig, WatchdogRelay
from controller.rig.families import (
    FAMILIES,
    GAS,
    MASS,
    OXYGEN,
    PH,
    PRESSURE,
    PUMP,
    SETPOINT,
    SWITCH,
    TEMPERATURE,
    Family,
    PointKind,
    may_be_point,
    points_of,
)
from controller.rig.problems import Finding, Place, nearest
from drivers.discovery import Catalogue

LOCAL = ("localhost", "127.0.0.1", "::1")
_LINKS = "Write serial:///dev/…?baud=9600, serial:usb-serial=…, tcp://host:port or sim:name"


def device_model(rig: Rig, name: str, device: DeviceSpec, models: Collection[str]) -> Iterator[Finding]:
    """Some driver knows the model."""
    if device.model not in models:
        why = models.why_absent(device.model) if isinstance(models, Catalogue) else ""
        what = f"no driver is called “{device.model}”" + (f": {why}" if why else "")
        yield Finding(("devices", name, "model"), what, nearest(device.model, models, "models"))


def device_link(rig: Rig, name: str, device: DeviceSpec) -> Iterator[Finding]:
    """Its link can be understood, and no other device spells the same line in another way."""
    place = ("devices", name, "link")
    if not _is_link(device.link):
        yield Finding(place, f"link “{device.link}” is of no known kind", _LINKS)
        return
    for other, spec in _earlier(rig, name):
        if spec.link != device.link and spec.link.partition("?")[0] == device.link.partition("?")[0]:
            what = f"names the line of “{other}” with other settings"
            yield Finding(place, what, f"Write exactly {spec.link}, or give it a line of its own")
            return


def device_shares_its_link(rig: Rig, name: str, device: DeviceSpec) -> Iterator[Finding]:
    """Check that the other devices on its link use the same protocol and other addresses."""
    family = FAMILIES.get(device.model)
    if family is None:
        return
    for other, spec in _earlier(rig, name):
        if spec.link != device.link or spec.model not in FAMILIES:
            continue
        theirs = FAMILIES[spec.model]
        if family.bus is None or theirs.bus is None:
            alone = device.model if family.bus is None else spec.model
            what = f"{alone} has no address and cannot share link “{device.link}” with “{other}”"
            yield Finding(("devices", name, "link"), what, "Give each a link of its own")
        elif family.bus != theirs.bus:
            what = f"speaks {family.bus}, “{other}” on the same link speaks {theirs.bus}"
            yield Finding(("devices", name, "link"), what, "Give each a link of its own")
        elif not (_may_share(family, device) and _may_share(theirs, spec)):
            key, value = family.shares_if or theirs.shares_if or ("", "")
            what = f"shares its link with “{other}”, and both would take each other's commands"
            fix = f"Give each a link of its own, or write “{key}: {value}” under the settings of both"
            yield Finding(("devices", name, "link"), what, fix)
        elif family.same_address(device) == theirs.same_address(spec):
            what = f"has the same link and address as “{other}” ({family.same_address(device)})"
            yield Finding(("devices", name, "address"), what, "Give each device on the link its own address")
        else:
            continue
        return


def _may_share(family: Family, device: DeviceSpec) -> bool:
    """Return whether a device obeys only commands that name it."""
    return family.shares_if is None or device.settings.get(family.shares_if[0]) == family.shares_if[1]


def device_address(rig: Rig, name: str, device: DeviceSpec) -> Iterator[Finding]:
    """Its address is one that the model can have."""
    family = FAMILIES.get(device.model)
    if family is None or family.address_fits(device):
        return
    what = f"“{device.address}” is no address of {device.model}"
    fix = f"Write {family.address_form}" if family.address_form else "Remove it; this model has none"
    yield Finding(("devices", name, "address"), what, fix)


def device_channels(rig: Rig, name: str, device: DeviceSpec) -> Iterator[Finding]:
    """The model has these channels, and each has a point of its own."""
    place: Place = ("devices", name, "channels")
    family = FAMILIES.get(device.model)
    if family is not None and family.channel is None and device.channels:
        points = ", ".join(f"{name}.{point}" for point in family.points)
        yield Finding(place, f"{device.model} has no channels", f"Remove them; its point is {points}")
        return
    if family is not None and family.channel is not None and not device.channels:
        what = f"{device.model} has channels, and none is named"
        yield Finding(("devices", name), what, 'Add “channels: {"1": {point: heart}}” or the like')
    known = None if family is None else [str(number) for number in family.channels]
    yield from _each_channel(name, device, known)


def _each_channel(name: str, device: DeviceSpec, known: Sequence[str] | None) -> Iterator[Finding]:
    """Yield findings for channels that the model does not have (`known`, if given), and for points named twice."""
    place: Place = ("devices", name, "channels")
    named: dict[str, str] = {}
    for number, channel in device.channels.items():
        if known is not None and number not in known:
            fix = f"Use {known[0]} to {known[-1]}"
            yield Finding((*place, number), f"{device.model} has no channel {number}", fix)
        if channel.point in named:
            what = f"point “{name}.{channel.point}” is already channel {named[channel.point]}"
            yield Finding((*place, number, "point"), what, "Give each channel its own name")
        named.setdefault(channel.point, number)


def device_place(rig: Rig, name: str, device: DeviceSpec) -> Iterator[Finding]:
    """Its probe sits in a vessel or on a line that exists."""
    places = [*rig.vessels, *rig.lines]
    if device.at is not None and device.at not in places:
        what = f"“{device.at}” is neither a vessel nor a line"
        yield Finding(("devices", name, "at"), what, nearest(device.at, places, "places"))


def links_are_all_real_or_all_simulated(rig: Rig) -> Iterator[Finding]:
    """A simulated device never stands in for a real one unnoticed (C5)."""
    links = _links(rig)
    simulated = [place for place, link in links.items() if is_replay_or_simulated(link)]
    if rig.mixed or len(simulated) in (0, len(links)):
        return
    odd = simulated if 2 * len(simulated) <= len(links) else [place for place in links if place not in simulated]
    what = f"{len(simulated)} of {len(links)} links are simulated, the others real"
    fix = "Make them all of one kind, or write “mixed: true” at the top; the page will then say so in a banner"
    yield Finding(odd[0], what, fix)


def _links(rig: Rig) -> dict[Place, str]:
    """Return every valid link by its place in the file."""
    links: dict[Place, str] = {("devices", name, "link"): device.link for name, device in rig.devices.items()}
    links = {place: link for place, link in links.items() if _is_link(link)}
    if rig.nerves is not None and link_fits(rig.nerves.card, rig.nerves.link):
        links[("nerves", "link")] = rig.nerves.link
    return links


@dataclass(frozen=True, slots=True)
class Wants:
    """A key of the description that names something else: where, and what it must be."""

    place: tuple[str, ...]
    kind: PointKind | str
    or_else: PointKind | None = None

    def value(self, rig: Rig) -> str | None:
        """Return the name at this place of a rig; None where the rig has none."""
        part: object = rig
        for step in self.place:
            if part is None:  # an organ or an interlock that the rig does not have
                return None
            part = part[step] if isinstance(part, Mapping) else getattr(part, "return_" if step == "return" else step)
        return None if part is None else str(part)


def names(rig: Rig) -> Iterator[Wants]:
    """Yield the keys of a rig that name something else: those of each heart, and :data:`NAMES`."""
    for heart in getattr(getattr(rig, "organs", None), "hearts", {}):
        yield Wants(("organs", "hearts", heart, "line"), "line")
        yield Wants(("organs", "hearts", heart, "pressure"), PRESSURE)
    yield from NAMES


NAMES: tuple[Wants, ...] = (
    Wants(("organs", "kidney", "vessel"), "vessel"),
    Wants(("organs", "kidney", "waste"), "vessel"),
    Wants(("organs", "kidney", "draw"), "line"),
    Wants(("organs", "kidney", "return"), "line"),
    Wants(("organs", "kidney", "discard"), "line"),
    Wants(("organs", "kidney", "mass"), MASS),
    Wants(("organs", "gut", "feed"), "line"),
    Wants(("organs", "liver", "glucose"), "line"),
    Wants(("organs", "liver", "base"), "line"),
    Wants(("organs", "liver", "ph"), PH),
    Wants(("organs", "immune", "filter"), "filter"),
    Wants(("organs", "immune", "pressure"), PRESSURE),
    Wants(("organs", "immune", "valve"), SWITCH),
    Wants(("organs", "lung", "vessel"), "vessel"),
    Wants(("organs", "lung", "air"), GAS),
    Wants(("organs", "lung", "co2"), GAS),
    Wants(("organs", "lung", "o2"), GAS),
    Wants(("organs", "lung", "oxygen"), OXYGEN),
    Wants(("organs", "lung", "ph"), PH),
    Wants(("organs", "skin", "heater"), SWITCH, SETPOINT),
    Wants(("organs", "skin", "temperature"), TEMPERATURE),
    Wants(("safety", "temperature", "point"), TEMPERATURE),
    Wants(("safety", "over_pressure_heart", "point"), PRESSURE),
    Wants(("safety", "over_pressure_filter", "point"), PRESSURE),
)


def name_means_something(rig: Rig, wants: Wants) -> Iterator[Finding]:
    """What an organ or an interlock names exists and is of the right kind: no temperature passes for a pH (F6)."""
    name = wants.value(rig)
    if name is None:
        return
    if isinstance(wants.kind, str):
        known: Mapping[str, object] = getattr(rig, f"{wants.kind}s")
        if name not in known:
            yield Finding(wants.place, f"{wants.kind} “{name}” does not exist", nearest(name, known, f"{wants.kind}s"))
        return
    if not may_be_point(rig, name):
        yield from _is_of_kind(rig, wants.place, name, tuple(kind for kind in (wants.kind, wants.or_else) if kind))


def trips_are_actuators(rig: Rig, interlock: str) -> Iterator[Finding]:
    """An interlock turns off what can be turned off."""
    limit = getattr(rig.safety, interlock)
    for index, name in enumerate(() if limit is None else limit.trips):
        if not may_be_point(rig, name):
            yield from _is_of_kind(rig, ("safety", interlock, "trips", index), name, ACTUATORS)


def further_interlocks(rig: Rig) -> Iterator[Finding]:
    """Further interlocks look at pressures and temperatures and turn off what can be turned off."""
    for line, limit in rig.safety.over_pressure.items():
        place: Place = ("safety", "over_pressure", line)
        if line not in rig.lines:
            yield Finding(place, f"line “{line}” does not exist", nearest(line, rig.lines, "lines"))
        yield from _named_by_interlock(rig, place, limit.point, PRESSURE, limit.trips)
    for name, temperature in rig.safety.temperatures.items():
        place = ("safety", "temperatures", name)
        yield from _named_by_interlock(rig, place, temperature.point, TEMPERATURE, temperature.trips)


def _named_by_interlock(rig: Rig, place: Place, point: str, kind: PointKind, trips: Sequence[str]) -> Iterator[Finding]:
    """Yield findings for what an interlock names and what is absent or of another kind."""
    if not may_be_point(rig, point):
        yield from _is_of_kind(rig, (*place, "point"), point, (kind,))
    for index, name in enumerate(trips):
        if not may_be_point(rig, name):
            yield from _is_of_kind(rig, (*place, "trips", index), name, ACTUATORS)


def emergency_button_is_read_in_time(rig: Rig) -> Iterator[Finding]:
    """The emergency button is a point of a device that is asked often enough."""
    button = rig.safety.emergency_stop
    if button is None:
        return
    place: Place = ("safety", "emergency_stop", "input")
    name = button.input.partition(".")[0]
    if name not in rig.devices or not (may_be_point(rig, button.input) or button.input in points_of(rig)):
        inputs = [point for point, kind in points_of(rig).items() if kind.kind == "sensor"]
        yield Finding(place, f"no device has the point “{button.input}”", nearest(button.input, inputs, "inputs"))
    elif 2.0 * rig.devices[name].every_s > button.stale_s:
        every_s, stale_s = rig.devices[name].every_s, button.stale_s
        what = f"{name} is asked every {every_s:g} s, and the button counts as lost after {stale_s:g} s"
        yield Finding(place, what, f"Ask {name} at least every {button.stale_s / 2:g} s (`every`)")


def _is_of_kind(rig: Rig, place: Place, name: str, kinds: tuple[PointKind, ...]) -> Iterator[Finding]:
    points = points_of(rig)
    fitting = [point for point, kind in points.items() if kind in kinds]
    if name not in points:
        yield Finding(place, f"no device has the point “{name}”", nearest(name, fitting, "points of this kind"))
    elif points[name] not in kinds:
        wanted = " or ".join(map(str, kinds))
        fix = f"Choose {' or '.join(fitting)}" if fitting else f"Add a device with a {wanted}"
        yield Finding(place, f"“{name}” is a {points[name]}, and a {wanted} belongs here", fix)


def alarms_have_a_broker(rig: Rig) -> Iterator[Finding]:
    """A channel that says `mqtt: true` has a broker to go to."""
    notify = rig.alarms.notify
    for name, channel in notify.channels.items() if notify is not None else ():
        if channel.mqtt and rig.telemetry.mqtt is None:
            what = "it goes to the MQTT broker of telemetry, and there is none"
            yield Finding(("alarms", "notify", "channels", name), what, "Add telemetry: mqtt: broker, or use url_file")


def one_switch_one_purpose(rig: Rig) -> Iterator[Finding]:
    """The heater's switch opens no valve."""
    heater = None if rig.organs.skin is None else rig.organs.skin.heater
    for name, line in rig.lines.items():
        if heater is not None and line.valve == heater:
            what = f"“{heater}” is the heater's switch"
            yield Finding(("lines", name, "valve"), what, "Name the switch of the valve")


def watchdog_relay(rig: Rig) -> Iterator[Finding]:
    """The watchdog's relay opens by itself, has no other purpose, and never takes the power from heart or board."""
    watchdog = rig.safety.watchdog
    if watchdog is None:
        return
    place = ("safety", "watchdog")
    yield from _is_of_kind(rig, (*place, "relay"), watchdog.relay, (SWITCH,))
    board = watchdog.relay.partition(".")[0]
    spec = rig.devices.get(board)
    if spec is not None and (spec.model != "modbus-coil-relay" or spec.settings.get("flash") is False):
        what = f"{board} does not open its relays by itself"
        yield Finding((*place, "relay"), what, "Use a modbus-coil-relay that knows timed closing (no “flash: false”)")
    heater = None if rig.organs.skin is None else rig.organs.skin.heater
    if watchdog.relay in (heater, *(line.valve for line in rig.lines.values())):
        yield Finding((*place, "relay"), f"“{watchdog.relay}” has another purpose", "Use a relay of its own")
    yield from _fed_devices(rig, watchdog, board)


def _fed_devices(rig: Rig, watchdog: WatchdogRelay, board: str) -> Iterator[Finding]:
    """Yield findings for devices on the watchdog's relay that do not exist, or that must keep their power."""
    place = ("safety", "watchdog", "feeds")
    lines = (rig.lines.get(heart.line) for heart in rig.organs.hearts.values())
    hearts = [line.pump.partition(".")[0] for line in lines if line is not None and line.pump is not None]
    for name in watchdog.feeds:
        if name not in rig.devices:
            yield Finding(place, f"there is no device “{name}”", nearest(name, list(rig.devices), "devices"))
        elif name in (*hearts, board):
            what = f"“{name}” must keep its power: tissue without circulation dies, and a board without power opens"
            yield Finding(place, what, "Feed it from elsewhere, and take it out of this list")


def agitators_fit(rig: Rig) -> Iterator[Finding]:
    """Check that each agitator stands somewhere, and that its drive exists and has no other purpose."""
    taken = {line.valve: f"the valve of line “{name}”" for name, line in rig.lines.items() if line.valve}
    if rig.organs.skin is not None:
        taken[rig.organs.skin.heater] = "the heater"
    if rig.safety.watchdog is not None:
        taken[rig.safety.watchdog.relay] = "the watchdog's relay"
    for name, agitator in rig.agitators.items():
        place: Place = ("agitators", name)
        for number, at in enumerate(agitator.at):
            if at not in rig.vessels and at not in rig.zones:
                fix = nearest(at, (*rig.vessels, *rig.zones), "vessels and zones")
                yield Finding((*place, "at", number), f"“{at}” is no vessel, plate or zone", fix)
        if agitator.switch is not None and not may_be_point(rig, agitator.switch):
            yield from _is_of_kind(rig, (*place, "switch"), agitator.switch, (SWITCH,))
        for key, point in (("setpoint", agitator.setpoint), ("measured", agitator.measured)):
            if point is not None and not may_be_point(rig, point):
                what = f"“{point}” is {points_of(rig).get(point, 'no point of a device')}, and a speed belongs here"
                yield Finding((*place, key), what, "Name a point of a device that tells or takes a speed in rpm")
        if (drive := agitator.drive) is not None:
            if drive in taken:
                yield Finding(place, f"“{drive}” drives {taken[drive]}", "Give each an output of its own")
            taken[drive] = f"the {agitator.kind} “{name}”"


def disposables_belong_somewhere(rig: Rig) -> Iterator[Finding]:
    """Check that each disposable belongs to a part of the rig."""
    parts = (*rig.vessels, *rig.lines, *rig.filters, *rig.dialysers, *rig.junctions, *rig.devices)
    for name, disposable in rig.upkeep.disposables.items():
        if disposable.at is not None and disposable.at not in (*parts, "nerves"):
            place = ("upkeep", "disposables", name, "at")
            yield Finding(place, f"the rig has no part “{disposable.at}”", nearest(disposable.at, parts, "parts"))


def tubing_is_in_a_pump(rig: Rig) -> Iterator[Finding]:
    """Check that each entry of tubing belongs to a pump of a line."""
    pumps = [line.pump for line in rig.lines.values() if line.pump is not None]
    for name in rig.upkeep.tubing:
        if name not in pumps:
            yield Finding(("upkeep", "tubing", name), f"no line has the pump “{name}”", nearest(name, pumps, "pumps"))


def tasks_feed_vessels(rig: Rig) -> Iterator[Finding]:
    """Check that each manual task changes the medium of vessels that exist."""
    for name, task in rig.upkeep.tasks.items():
        for vessel in task.feeds:
            if vessel not in rig.vessels:
                what = f"“{vessel}” is neither a vessel nor a plate"
                yield Finding(("upkeep", "tasks", name, "feeds"), what, nearest(vessel, list(rig.vessels), "vessels"))
                break


def the_brokers_password_stays_secret(rig: Rig) -> Iterator[Finding]:
    """A password travels to another machine only through TLS."""
    mqtt = rig.telemetry.mqtt
    if mqtt is None:
        return
    if not 1 <= mqtt.port <= 65535:
        yield Finding(("telemetry", "mqtt", "broker"), f"{mqtt.port} is no port", "Write host:port, port 1 to 65535")
    if mqtt.password_file is not None and not mqtt.tls and mqtt.host not in LOCAL:
        what = f"the password would travel to {mqtt.host} in the clear"
        yield Finding(("telemetry", "mqtt", "password_file"), what, "Add “tls: true” (usually port 8883)")
    if mqtt.password_file is not None and mqtt.user is None:
        yield Finding(("telemetry", "mqtt", "password_file"), "there is a password, and no user", "Add “user: …”")
    if mqtt.ca_file is not None and not mqtt.tls:
        yield Finding(("telemetry", "mqtt", "ca_file"), "there are certificates, and no TLS", "Add “tls: true”")


def the_databases_token_stays_secret(rig: Rig) -> Iterator[Finding]:
    """A token travels to another machine only through TLS."""
    influx = rig.telemetry.influx
    if influx is None:
        return
    place = ("telemetry", "influx")
    url = urlsplit(influx.url)
    if influx.token_file is not None and url.scheme != "https" and url.hostname not in LOCAL:
        what = f"the token would travel to {url.hostname} in the clear"
        yield Finding((*place, "token_file"), what, "Write https:// in the url")
    if influx.ca_file is not None and url.scheme != "https":
        yield Finding((*place, "ca_file"), "there are certificates, and no TLS", "Write https:// in the url")


def _earlier(rig: Rig, name: str) -> Iterator[tuple[str, DeviceSpec]]:
    """Yield the devices before `name`, so that a conflict of two devices is reported once, at the later one."""
    for other, spec in rig.devices.items():
        if other == name:
            return
        yield other, spec


def _is_link(link: str) -> bool:
    try:
        parts = urlsplit(link)
        if parts.scheme == "tcp":
            return bool(parts.hostname and parts.port)
    except ValueError:
        return False
    return parts.scheme in ("serial", "sim") and bool(parts.path) and not parts.netloc


ACTUATORS = (PUMP, SWITCH, GAS, SETPOINT)
CONTACT = PointKind("sensor", "contact", "")
"""A digital input: 1 is closed, 0 is open."""
DEVICE_RULES = (
    device_link,
    device_shares_its_link,
    device_address,
    device_channels,
    device_place,
)
RIG_RULES = (
    links_are_all_real_or_all_simulated,
    *ARRAY_RULES,
    one_switch_one_purpose,
    further_interlocks,
    watchdog_relay,
    emergency_button_is_read_in_time,
    tubing_is_in_a_pump,
    agitators_fit,
    disposables_belong_somewhere,
    tasks_feed_vessels,
    the_brokers_password_stays_secret,
    the_databases_token_stays_secret,
    alarms_have_a_broker,
)
INTERLOCKS = ("temperature", "over_pressure_heart", "over_pressure_filter")
