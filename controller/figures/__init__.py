"""The figures by which each organ is judged, computed from records alone: history, journal, ledger.

Nothing here looks at a device or at the simulated plant, and nothing here writes.
"""
