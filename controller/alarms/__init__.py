"""Alarms after ISA-18.2: their definitions and their states."""
