"""Tests for the permissions and gates of the pages with options and state."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Server

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("path", ["/flagz", "/statusz"])
@pytest.mark.parametrize(("release", "code"), [("1.36", 200), ("1.35", 404)])
def test_page_requires_permission_and_its_gate(tmp_path: Path, path: str, release: str, code: int) -> None:
    server = Server(tmp_path, f"--compatibility-version={release}")
    try:
        found, _, body = server.api(close=True).raw("GET", path)
        anonymous = server.api(None, close=True).raw("GET", path)[0]
    finally:
        server.stop()

    assert (found, anonymous) == (code, 403)
    assert (b"kube-apiserver" in body) is (code == 200)
