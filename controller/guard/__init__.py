"""The guard: a separate process that brings a rig to its basal state when the controller is lost.

`wire` defines the messages between controller, guard and command line. `liveness` judges, without input or output, whether a
process is alive; `processes` reads what the kernel reports about it. `plan` is what the guard must do, `rescue` does it, and
`service` connects them. The guard stays small: it imports no library except the drivers'.
"""
