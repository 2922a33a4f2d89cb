"""Tests for the metrics of components."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

from apiserver_stub.endpoints.metrics import show_key_sets
from apiserver_stub.telemetry.exposition import Choice, Page


def sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_key_sets_are_identified_by_hashes() -> None:
    fetched: Any = SimpleNamespace(issuer="https://a", keys=SimpleNamespace(fetched_at={"success": 5.0}, digest="d"))
    failed: Any = SimpleNamespace(issuer="https://b", keys=SimpleNamespace(fetched_at={"failure": 7.0}, digest=""))
    page = Page(Choice())

    show_key_sets(page, [fetched, failed], "server")

    lines = [line for line in page.text()[0].decode().splitlines() if not line.startswith("#")]
    prefix, server = "apiserver_authentication_jwt_authenticator_jwks_fetch_last", sha256("server")
    a, b = sha256("https://a"), sha256("https://b")
    assert lines == [
        f'{prefix}_timestamp_seconds{{result="failure",jwt_issuer_hash="{b}",apiserver_id_hash="{server}"}} 7',
        f'{prefix}_timestamp_seconds{{result="success",jwt_issuer_hash="{a}",apiserver_id_hash="{server}"}} 5',
        f'{prefix}_key_set_info{{jwt_issuer_hash="{a}",apiserver_id_hash="{server}",hash="d"}} 1',
    ]
