"""Time from a limit to the action at the device."""

from __future__ import annotations

from controller.hazards.terms import Subject
from controller.rig.families import poll_s
from controller.safety.terms import Interlock

TICK_S = 1.0
"""The controller evaluates every interlock once a second."""
ACTUATION_S = 2.0
"""Command and readback on a bus whose other devices time out (vigilance.TURN_S)."""
FOLLOWS_S = 5.0
"""Longest sampling period of a heart's pump (s): that it no longer follows its command is an alarm within ten seconds."""
READINGS = 2.0
"""A reading may be late by one period."""


def link_cycle_s(subject: Subject, device: str) -> float:
    """Return the time of one polling round of the device's link (s)."""
    link = subject.rig.devices[device].link
    return sum(poll_s(spec) for spec in subject.rig.devices.values() if spec.link == link)


def seen_s(subject: Subject, rule: Interlock) -> float:
    """Return the maximum time from the crossing of an interlock's limit to the action (s)."""
    every_s, device = subject.every_s(rule.point), rule.point.partition(".")[0]
    confirmed_s = min(every_s, rule.debounce_s)
    return every_s + confirmed_s + link_cycle_s(subject, device) + TICK_S + ACTUATION_S


def blind_s(stale_s: float) -> float:
    """Return the maximum time from a sensor's last reading to the action (s)."""
    return stale_s + TICK_S + ACTUATION_S


def status_s(subject: Subject, actuator: str) -> float:
    """Return the maximum time until an actuator's own status shows its state and is acted on (s)."""
    device = actuator.partition(".")[0]
    return subject.every_s(actuator) + link_cycle_s(subject, device) + TICK_S + ACTUATION_S
