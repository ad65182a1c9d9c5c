"""Tools shared by several commands: user errors, child processes, signals."""
