"""`choroid bench`: measure the figures of docs/performance.md on this machine.

Each module here measures one subject and returns plain figures; timing is real, so these are benchmarks, never tests.
"""
