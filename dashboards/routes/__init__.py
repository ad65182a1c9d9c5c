"""The HTTP API, one subject a file. Every acting route records who and why."""
