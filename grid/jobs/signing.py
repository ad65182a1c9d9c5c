"""Sign the manifest of a job: the part that needs the key of its owner."""

from __future__ import annotations

import json

from grid.identity.keys import IdentityKey
from grid.jobs.manifest import CONTEXT, JobManifest


def signed(manifest: JobManifest, key: IdentityKey) -> bytes:
    """Return a manifest with the signature of its owner, as members take it."""
    body = {
        "manifest": manifest.plain.decode(),
        "owner": key.public.hex(),
        "signature": key.sign(CONTEXT + manifest.plain).hex(),
    }
    return json.dumps(body).encode()
