"""The far side of the electrode engine's interface: hub, members, laboratories, leases, log, boards."""
