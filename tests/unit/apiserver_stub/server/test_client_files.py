"""Tests for the files for clients."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.server.client_files import write_ready_file


@pytest.mark.parametrize("generated", [True, False])
def test_ready_file_names_the_ca_of_a_generated_client_certificate(tmp_path: Path, generated: bool) -> None:
    files = {name: tmp_path / name for name in ("ca_file", "kubeconfig", "node_kubeconfig")}
    authority = tmp_path / "client-ca.crt" if generated else None
    running: Any = SimpleNamespace(url="https://h:1", token="t", client_ca_file=authority, **files)

    write_ready_file(tmp_path / "ready.json", running)

    found = json.loads((tmp_path / "ready.json").read_text())
    assert found["clientCaFile"] == (str(authority) if generated else "")
    assert (found["url"], found["token"], found["caFile"]) == ("https://h:1", "t", str(files["ca_file"]))
