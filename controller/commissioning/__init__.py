"""Commissioning: is the rig wired and plumbed as its file says? Found out by effect, through the gate, with a person."""
