"""The ledger: the volume and composition of the medium in every vessel, with uncertainties."""
