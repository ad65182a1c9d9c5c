"""The model of many organoids that comes with the release: a code package for training jobs (torch and numpy only)."""
