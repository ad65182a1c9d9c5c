"""The folder of certificates in a data folder, which the electrode engine reads for agents on other machines."""

from __future__ import annotations

from pathlib import Path

from nerves.tls import TlsFiles

FOLDER = "nerves-tls"


def tls_files(data_dir: Path) -> TlsFiles | None:
    """Return the files of the server; None without certificates."""
    folder = data_dir / FOLDER
    files = TlsFiles(folder / "server.pem", folder / "server.key", folder / "authority.pem")
    return files if files.certificate.exists() else None
