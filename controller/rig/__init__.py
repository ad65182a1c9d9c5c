"""The rig description."""
