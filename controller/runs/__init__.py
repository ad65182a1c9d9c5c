"""Runs: states, commands, performance and rehearsal of protocols."""
