"""`choroid user` against a running controller: a token is given, works, and is taken back."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.processes import Bench


@pytest.mark.long
def test_P5_a_token_is_given_works_and_is_taken_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        bench.run()

        def users(*words: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "choroid", "user", *words, "--data", str(bench.data)]
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

        given = users("add", "Ada L.", "--role", "viewer", "--for", "laptop", "--json")
        assert given.returncode == 0, given.stderr
        token = json.loads(given.stdout)["token"]
        url = json.loads((bench.data / "endpoint.json").read_text())["url"]
        request = urllib.request.Request(url + "/api/state", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.status == 200
        assert "Ada L." in users("list").stdout
        assert token not in (bench.data / "credentials.json").read_text()
        listed = json.loads(users("list", "--json").stdout)["tokens"]
        assert [(row["name"], row["purpose"], row["used_utc"] is not None) for row in listed] == [
            ("Ada L.", "laptop", True)
        ]
        assert listed[0]["id"] in users("list").stdout
        second = json.loads(users("add", "Ada L.", "--json").stdout)["token"]
        assert users("revoke", listed[0]["id"], "--reason", "lost").returncode == 0
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=10)
        request = urllib.request.Request(url + "/api/state", headers={"Authorization": f"Bearer {second}"})
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.status == 200
        assert users("remove", "Ada L.").returncode == 0
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=10)
        again = users("remove", "Ada L.")
        assert again.returncode == 1
        assert "there is no user" in again.stderr
        assert "Next:" in again.stderr
    finally:
        bench.end()
