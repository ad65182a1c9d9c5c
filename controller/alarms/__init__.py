"""Alarms after ISA-18.2: definitions and states."""
