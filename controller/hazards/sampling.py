"""Hazards of sampling: a device polled faster than it answers, or a link without room for commands."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.rig.families import poll_s
from controller.rig.problems import Finding

MIN_EVERY_S = 0.05
"""Minimum sampling period (s): no device of a rig answers more than twenty times a second."""
MAX_LOAD = 0.8
"""Maximum share of a link's time for polling: the rest is for commands and repeats."""


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield one row for all links: on a link that is always busy a command comes late."""
    links = dict.fromkeys(device.link for device in subject.rig.devices.values())
    if not links:
        return
    loads = {link: _load(subject, link) for link in links}
    busiest = max(loads, key=lambda link: loads[link])
    gaps = [gap for link in links for gap in _gaps(subject, link, loads[link])]
    yield Hazard(
        "late_commands", busiest, "all devices", "polling leaves room for commands", (), f"at most {MAX_LOAD:.0%} of a link",
        0.0, NEVER_S if not gaps else 0.0, f"the busiest link is polled {loads[busiest]:.0%} of the time", tuple(gaps),
    )  # fmt: skip


def _load(subject: Subject, link: str) -> float:
    """Return the share of a link's time that polling takes."""
    return sum(poll_s(spec) / spec.every_s for spec in subject.rig.devices.values() if spec.link == link)


def _gaps(subject: Subject, link: str, load: float) -> Iterator[Finding]:
    devices = {name: spec for name, spec in subject.rig.devices.items() if spec.link == link}
    too_fast = False
    for name, spec in devices.items():
        min_every_s = max(
            MIN_EVERY_S, ceil(10.0 * poll_s(spec) / MAX_LOAD) / 10.0 if len(devices) == 1 else poll_s(spec)
        )
        if spec.every_s < min_every_s:
            too_fast = True
            what = f"every {spec.every_s:g} s is faster than {spec.model} can be read ({min_every_s:g} s)"
            yield Finding(("devices", name, "every"), what, f"Write at least {min_every_s:g} s")
    if load > MAX_LOAD and not too_fast:
        name = max(devices, key=lambda each: poll_s(devices[each]) / devices[each].every_s)
        what = f"polling takes {load:.0%} of link “{link}”, and commands need {1 - MAX_LOAD:.0%} of it"
        yield Finding(("devices", name, "every"), what, "Read its devices less often, or give one a link of its own")
