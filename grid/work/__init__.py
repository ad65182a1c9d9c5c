"""Work leases at their members: tunnels between the ranks of a job, its loopback addresses, and the process of a relay."""
