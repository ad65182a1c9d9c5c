"""The estimate of the tissue's viability: a posterior from whatever is measured, with its interval."""
