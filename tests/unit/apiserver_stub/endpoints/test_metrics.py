"""Tests for the metrics of components."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

from apiserver_stub.endpoints.metrics import show_authentication, show_key_sets
from apiserver_stub.telemetry.exposition import Choice, Page
from nodeagent.base.metrics import Buckets


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


def test_attempts_and_tokens_of_authentication_are_counted() -> None:
    tokens: Any = SimpleNamespace(valid_tokens=3, stale_tokens=1)
    left = Buckets((10.0,))
    left.observe(4.0)
    for certificates, histogram in ((None, []), (SimpleNamespace(seconds_left=left), ["1", "1", "1", "4"])):
        authenticator: Any = SimpleNamespace(rejected={"error": 2}, certificates=certificates)
        page = Page(Choice())
        show_authentication(page, 5, authenticator, tokens)

        lines = [line for line in page.text()[0].decode().splitlines() if not line.startswith("#")]
        assert lines[:4] == [
            "serviceaccount_valid_tokens_total 3",
            "serviceaccount_stale_tokens_total 1",
            'authentication_attempts{result="error"} 2',
            'authentication_attempts{result="success"} 5',
        ]
        assert sorted(line.rpartition(" ")[2] for line in lines[4:]) == histogram
