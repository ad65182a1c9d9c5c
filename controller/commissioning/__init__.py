"""Commissioning: is the rig wired and plumbed as its file says? Found out by effect, through the gate, with a person."""

from controller.commissioning.bench import Bench
from controller.commissioning.procedure import commission
from controller.commissioning.record import not_commissioned, wiring_hash
from controller.commissioning.terms import Ask, Check, Report

__all__ = ["Ask", "Bench", "Check", "Report", "commission", "not_commissioned", "wiring_hash"]
