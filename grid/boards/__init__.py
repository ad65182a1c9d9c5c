"""Boards: versioned tasks with a metric, their files, and the manifests of models that enter them."""
