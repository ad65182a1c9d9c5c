"""The lines that bytes travel."""
