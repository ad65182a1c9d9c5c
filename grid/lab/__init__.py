"""A laboratory's side: it offers tissue, answers offers of leases, ends them by itself, and lets tunnels in."""
