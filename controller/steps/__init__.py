"""Journalled steps: how one begins, ends, waits and is taken up after a crash."""
