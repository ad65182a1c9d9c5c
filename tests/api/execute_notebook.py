"""Execute a notebook in a folder as Jupyter would: `python -m tests.api.execute_notebook IN OUT FOLDER`."""

from __future__ import annotations

import sys
from typing import Any

import nbformat
from nbclient import NotebookClient

formats: Any = nbformat  # without types

if __name__ == "__main__":
    source, target, folder = sys.argv[1:]
    notebook = formats.read(source, as_version=4)
    NotebookClient(notebook, timeout=100, resources={"metadata": {"path": folder}}).execute()
    formats.write(notebook, target)
