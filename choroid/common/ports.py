"""TCP ports."""

MAX_PORT = 65535
