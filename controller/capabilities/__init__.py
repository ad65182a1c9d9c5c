"""Which functions a rig has, which it lacks, and why."""
