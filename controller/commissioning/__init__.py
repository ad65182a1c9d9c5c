"""Commissioning: test by effect, through the gate and with a person, whether the rig matches its file."""
