"""A member's side: joining, its lasting connection to the hub, leases on tissue, tunnels to laboratories."""
