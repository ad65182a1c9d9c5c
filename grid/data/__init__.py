"""Data sets of the grid: signed listings of existing files, and their encrypted objects."""
