"""Training jobs of the grid: signed manifests, the training environment, the processes of the ranks."""
