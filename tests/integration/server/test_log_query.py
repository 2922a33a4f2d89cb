"""Tests for node log queries: services in the journal, and services with log files."""

from __future__ import annotations

import os

import pytest

from nodeagent_plugins import routes_logs
from tests.integration.server.conftest import serving

# Replaces journalctl: has two services, and prints its arguments.
JOURNAL = """#!/bin/sh
case "$*" in
*--quiet*--unit=ssh*|*--quiet*--unit=cron*) echo entry ;;
*--quiet*) ;;
*) for word in "$@"; do printf '%s\\n' "$word"; done ;;
esac
"""


@pytest.fixture
async def node(pki, tmp_path, monkeypatch):
    processes, root = tmp_path / "bin", tmp_path / "log"
    processes.mkdir()
    (root / "nested").mkdir(parents=True)
    (processes / "journalctl").write_text(JOURNAL)
    (processes / "journalctl").chmod(0o755)
    (root / "plain").write_text("plain")
    (root / "dotted.log").write_text("dotted")
    (root / "nested" / "nested.log").write_text("nested")
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setenv("PATH", f"{processes}:{os.environ['PATH']}")
    monkeypatch.setattr(routes_logs, "SYSTEM_LOGS", root)
    async with serving(pki, tmp_path, enable_system_log_query=True, feature_gates={"NodeLogQuery": True}) as served:
        yield served


async def fetch(node, query, **headers):
    return await node.fetch(f"/logs/?{query}", tls=node.pki.client("admin"), headers=headers)


@pytest.mark.row("path.agent./logs/", "config.enableSystemLogQuery")
async def test_journal_query_passes_each_option_as_one_argument(node):
    options = "sinceTime=2024-01-01T00:00:00Z&untilTime=2024-01-02T01:00:00%2B01:00&tailLines=5&boot=-1"
    status, text, headers = await fetch(node, f"query=ssh&query=cron&{options}&pattern=a%20b;%20touch%20x%20$(id)")

    assert status == 200
    assert headers["Content-Type"] == "text/plain;charset=UTF-8"
    assert text.splitlines() == [
        "--utc",
        "--no-pager",
        "--output=short-precise",
        "--since=2024-01-01 00:00:00",
        "--until=2024-01-02 00:00:00",
        "--lines=5",
        "--unit=ssh",
        "--unit=cron",
        "--grep=a b; touch x $(id)",
        "--boot=-1",
    ]


@pytest.mark.row("config.enableSystemLogQuery")
@pytest.mark.parametrize(
    ("query", "text"),
    [("plain", "plain"), ("dotted", "dotted"), ("nested", "nested"), ("/nested/nested.log", "nested")],
)
async def test_other_services_are_read_from_their_log_files(node, query, text):
    assert (await fetch(node, f"query={query}"))[:2] == (200, text)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("query=", 400),
        ("query=ssh&sinceTime=yesterday", 400),
        ("query=ssh&tailLines=x", 400),
        ("query=ssh&tailLines=1_0", 400),
        ("query=ssh&sinceTime=2024-01-01", 400),
        ("query=a&query=b&query=c&query=d&query=e", 406),
        ("query=" + "a" * 257, 406),
        ("query=ssh;id", 406),
        ("query=--flush", 406),
        ("query=$(id)", 406),
        ("query=ssh&query=/plain", 406),
        ("query=/plain&query=/other", 406),
        ("query=/plain&tailLines=1", 406),
        ("query=ssh&tailLines=100001", 406),
        ("query=ssh&boot=1", 406),
        ("query=ssh&pattern=(", 406),
        ("query=ssh&sinceTime=2024-01-02T00:00:00Z&untilTime=2024-01-01T00:00:00Z", 406),
        ("tailLines=1", 406),
        ("query=plain&tailLines=1", 400),
        ("query=plain&follow=true", 400),
        ("query=none", 404),
        ("query=../secret", 404),
        ("query=/../secret", 404),
    ],
)
async def test_invalid_query_is_rejected(node, query, status):
    got, text, _ = await fetch(node, query)

    assert got == status, text
    assert not text.startswith("secret")


async def test_response_is_compressed_on_request(node):
    status, text, headers = await fetch(node, "query=plain", **{"Accept-Encoding": "gzip"})

    assert (status, text, headers["Content-Encoding"]) == (200, "plain", "gzip")


@pytest.mark.row("path.agent./logs/", "config.enableSystemLogQuery")
async def test_disabled_query_returns_a_listing(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        status, text, _ = await fetch(node, "query=ssh")

    assert status == 200
    assert text.startswith("<!doctype html>")
