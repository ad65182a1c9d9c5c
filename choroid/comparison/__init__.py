"""`choroid comparison`: arms over batches and cultures by a plan that was registered before the data."""
