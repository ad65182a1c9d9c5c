"""Execute a notebook in a folder as Jupyter would: `python -m tests.api.execute_notebook IN OUT FOLDER`."""

from __future__ import annotations

import sys

import nbformat
from nbclient import NotebookClient

if __name__ == "__main__":
    source, target, folder = sys.argv[1:]
    notebook = nbformat.read(source, as_version=4)
    NotebookClient(notebook, timeout=100, resources={"metadata": {"path": folder}}).execute()
    nbformat.write(notebook, target)
