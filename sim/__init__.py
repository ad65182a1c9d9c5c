"""A lab in software: plant, wire-level devices, virtual clock."""
