"""Commands on a rig file."""
