"""The hazard table: for each hazard of a rig a sensor at its place and an interlock that acts in time (I8)."""
