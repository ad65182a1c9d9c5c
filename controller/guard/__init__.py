"""The guard: a process of its own that brings a rig to its basal state when the controller is lost.

`wire` is what controller, guard and command line say to each other; `liveness` judges, without input or output, whether a
process is alive; `processes` reads what the kernel tells of it; `plan` is what the guard must do and `rescue` does it;
`service` holds them together. Nothing here imports a library beyond the drivers', so that the guard stays small.
"""
