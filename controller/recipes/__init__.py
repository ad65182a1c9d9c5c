"""Recipe files: reading, checking, parameters and the catalogue."""
