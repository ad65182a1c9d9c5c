"""`choroid kills`: the kill matrix over real processes (docs/protocols.md)."""
