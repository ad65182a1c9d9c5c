"""`choroid bench`: the numbers of the house, measured on this machine (design §6).

Each module here measures one subject and returns plain figures; timing is real, so these are benchmarks, never tests.
"""
