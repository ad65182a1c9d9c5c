"""The HTTP API, one subject per file. Every route that acts records user and reason."""
