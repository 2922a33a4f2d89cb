"""Tests for system logs over the secured port: files, ranges, listings, following, confinement."""

from __future__ import annotations

import asyncio
import os

import aiohttp
import pytest

from nodeagent_plugins import routes_logs
from nodeagent_plugins.routes_logs import beneath
from tests.integration.server.conftest import serving


@pytest.fixture
def var_log(tmp_path, monkeypatch):
    """Log directory with symbolic links to the outside."""
    root = tmp_path / "log"
    (root / "apt").mkdir(parents=True)
    (root / "syslog").write_text("one\ntwo\nthree\n")
    (root / "apt" / "a<b>.log").write_text("apt")
    (root / "old.gz").write_bytes(b"\x1f\x8b")
    (root / "inside").symlink_to("apt/a<b>.log")
    (tmp_path / "secret").write_text("secret")
    (root / "relative").symlink_to("../secret")
    (root / "absolute").symlink_to(tmp_path / "secret")
    (root / "directory").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    monkeypatch.setattr(routes_logs, "SYSTEM_LOGS", root)
    return root


@pytest.fixture
async def node(pki, tmp_path, var_log):
    async with serving(pki, tmp_path) as served:
        yield served


@pytest.mark.row("path.agent./logs/", "config.enableSystemLogHandler")
async def test_file_is_sent_completely_or_in_part(node):
    admin = node.pki.client("admin")

    whole, text, headers = await node.fetch("/logs/syslog", tls=admin)
    part, range_, ranged = await node.fetch("/logs/syslog", tls=admin, headers={"Range": "bytes=4-6"})
    newer, _, _ = await node.fetch("/logs/syslog", tls=admin, headers={"If-Modified-Since": headers["Last-Modified"]})
    last, tail, _ = await node.fetch("/logs/syslog?tailLines=1", tls=admin)

    assert (whole, text) == (200, "one\ntwo\nthree\n")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert (part, range_, ranged["Content-Range"]) == (206, "two", "bytes 4-6/14")
    assert newer == 304
    assert (last, tail) == (200, "three\n")


@pytest.mark.parametrize("number", ["-1", "1.5", "9" * 5000])
async def test_invalid_number_of_lines_is_rejected(node, number):
    status, text, _ = await node.fetch(f"/logs/syslog?tailLines={number}", tls=node.pki.client("admin"))

    assert (status, text) == (400, "tailLines must be a whole number\n")


async def test_connection_stays_open_after_a_file(node, caplog):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=node.pki.client("admin"), limit=1)) as session:
        for _ in range(3):
            async with session.get(f"https://127.0.0.1:{node.server.port}/logs/syslog") as response:
                assert await response.text() == "one\ntwo\nthree\n"

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.row("path.agent./logs/")
async def test_directory_is_listed(node):
    admin = node.pki.client("admin")

    status, page, headers = await node.fetch("/logs/", tls=admin)
    _, below, _ = await node.fetch("/logs/apt/", tls=admin)
    moved, _, there = await node.fetch("/logs/apt", tls=admin)

    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert '<a href="./apt/">apt/</a>\n' in page
    assert '<a href="./syslog">syslog</a>' in page
    assert '<a href="./a%3Cb%3E.log">a&lt;b&gt;.log</a>' in below
    assert (moved, there["Location"]) == (301, "./apt/")


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "apt/../../secret",
        "apt/%2e%2e/%2e%2e/secret",
        "/etc/passwd",
        "//etc/passwd",
        "relative",
        "absolute",
        "directory/secret",
        "loop",
        "pipe",
        "none",
        "syslog/below",
        "%00",
        "a%00/../../secret",
        "..",
        "proc/self/root/etc/passwd",
    ],
)
async def test_files_outside_the_directory_are_not_accessible(node, monkeypatch, path, fallback):
    if fallback:
        monkeypatch.setattr(beneath, "_SYS_OPENAT2", -1)  # A kernel without the system call.
    status, text, _ = await node.fetch(f"/logs/{path}", tls=node.pki.client("admin"))

    assert status in (400, 404)
    assert "secret" not in text
    assert "root:" not in text


async def test_link_inside_the_directory_is_followed(node):
    assert (await node.fetch("/logs/inside", tls=node.pki.client("admin")))[:2] == (200, "apt")


@pytest.mark.row("card.logs")
async def test_file_is_followed_over_rotation(node, var_log):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=node.pki.client("admin"))) as session:
        url = f"https://127.0.0.1:{node.server.port}/logs/syslog?follow=true&tailLines=1"
        async with asyncio.timeout(10), session.get(url) as response:
            first = await response.content.readexactly(6)
            with (var_log / "syslog").open("a") as file:
                file.write("four\n")
            second = await response.content.readexactly(5)
            (var_log / "syslog").rename(var_log / "syslog.1")
            (var_log / "syslog").write_text("five\n")
            reading = asyncio.create_task(response.content.readexactly(5))
            while not reading.done():
                await node.clock.advance(1)
            third = await reading

    assert (first, second, third) == (b"three\n", b"four\n", b"five\n")


@pytest.mark.row("config.enableSystemLogHandler", "path.agent./logs/")
async def test_handler_can_be_disabled(pki, tmp_path, var_log):
    async with serving(pki, tmp_path, enable_system_log_handler=False) as node:
        responses = [await node.fetch(path, tls=pki.client("admin")) for path in ("/logs/", "/logs/syslog")]

    assert [response[:2] for response in responses] == [(405, "logs endpoint is disabled.\n")] * 2


async def test_logs_require_a_separate_permission(node):
    allowed = await node.fetch("/logs/syslog", token="viewer-token")
    forbidden = await node.fetch("/logs/syslog", token="scraper-token")

    assert (allowed[0], forbidden[0]) == (200, 403)
    assert forbidden[1] == "Forbidden (user=scraper, verb=get, resource=nodes, subresource=log)"
