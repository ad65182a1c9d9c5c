"""`choroid verify bench`: measure the figures of docs/performance.md on this machine.

Each module measures one subject and returns plain figures. Timing is real, so these are benchmarks, never tests.
"""
