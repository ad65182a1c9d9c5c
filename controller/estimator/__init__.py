"""The estimator of the medium's composition, and the assays that correct it."""
