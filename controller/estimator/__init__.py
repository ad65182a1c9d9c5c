"""The estimator of what is in the medium, and the assays that correct it."""
