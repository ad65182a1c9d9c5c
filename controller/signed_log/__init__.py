"""Signed logs in the forms of C2SP, for the journal's checkpoints and for the log of the grid: trees, notes, Ed25519 keys."""
