"""`choroid verify kills`: the kill matrix over real processes (docs/protocols.md)."""
