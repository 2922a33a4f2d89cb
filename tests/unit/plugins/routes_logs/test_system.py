"""Tests for ``/logs/``: directories, files that are followed or read from their end, and queries."""

import asyncio

import pytest
from aiohttp import web_fileresponse

from nodeagent_plugins.routes_logs import journal, system
from nodeagent_plugins.routes_logs.system import SystemLogs


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "PROGRAM", str(tmp_path / "missing"))
    (tmp_path / "log" / "pods").mkdir(parents=True)
    (tmp_path / "log" / "a&b.log").write_text("one\ntwo\nthree\n")
    (tmp_path / "log" / "pods" / "pods.log").write_text("pods\n")
    return tmp_path / "log"


async def test_directory_is_listed_and_redirected_to_its_slash(client, root, clock):
    logs = SystemLogs(root, clock)

    status, page = await client.get(logs.handle, "/logs/")
    assert status == 200
    assert '<a href="./a%26b.log">a&amp;b.log</a>\n<a href="./pods/">pods/</a>\n' in page
    _, page = await client.get(logs.handle, "/logs/pods/", path="pods/")
    assert '<a href="./pods.log">' in page
    status, _ = await client.get(logs.handle, "/logs/pods", path="pods")
    assert status == 301
    assert await client.get(logs.handle, "/logs/x", path="x") == (404, "404 page not found\n")
    assert await client.get(logs.handle, "/logs/..", path="../log") == (404, "404 page not found\n")


async def test_listing_is_limited(client, root, clock, monkeypatch):
    monkeypatch.setattr(system, "MAX_ENTRIES", 1)

    _, page = await client.get(SystemLogs(root, clock).handle, "/logs/")

    assert page.count("<a ") == 1


async def test_end_of_a_file_is_sent(client, root, clock):
    handle = SystemLogs(root, clock).handle
    for query, expected in [
        ("tailLines=1", (200, "three\n")),
        ("tailLines=0", (200, "")),
        ("tailLines=2&follow=0", (200, "two\nthree\n")),
        ("tailLines=-1", (400, "tailLines must be a whole number\n")),
        ("tailLines=x&follow=true", (400, "tailLines must be a whole number\n")),
    ]:
        assert await client.get(handle, f"/logs/a?{query}", path="a&b.log") == expected, query
    assert client.counted == len("two\nthree\n")
    assert client.headers["Content-Type"] == "text/plain; charset=utf-8"
    (root / "old.log.gz").write_text("x")
    await client.get(handle, "/logs/old.log.gz?tailLines=1", path="old.log.gz")
    assert client.headers["Content-Type"] == "application/octet-stream"


async def test_file_is_followed_until_the_client_disconnects(client, root, clock):
    for query in ("follow=true", "follow=1&tailLines=3"):
        handle = SystemLogs(root, clock).handle
        following = asyncio.create_task(client.get(handle, f"/logs/a?{query}", path="a&b.log"))
        await clock.advance(5)
        assert not following.done(), query
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_query_returns_files_of_a_host_without_a_journal(client, root, clock):
    with_queries, without = SystemLogs(root, clock, queries=True).handle, SystemLogs(root, clock).handle
    (root / "kube.log").write_text("kube\n")
    options = "options present and query resolved to log files for [pods]\ntry without specifying options\n"
    for path, expected in [
        ("?query=pods", (200, "pods\n")),
        ("?query=kube", (200, "kube\n")),
        ("?query=kube&query=pods", (200, "kube\npods\n")),
        ("?query=pods/pods.log", (200, "pods\n")),
        ("?query=pods%5Cpods.log", (200, "pods\n")),
        ("?query=none", (404, "log not found for none\n")),
        ("?query=pods/none", (404, "log not found for pods/none\n")),
        ("?query=../log/kube.log", (404, "log not found for ../log/kube.log\n")),
        ("?query=pods/", (404, "log not found for pods/\n")),
        ("?query=pods&tailLines=1", (400, options)),
        ("?query=", (400, "query: must not be empty\n")),
        ("?query=-x", (406, "query: Invalid value: a service is named by up to 256 letters, digits and - _ @ . :\n")),
    ]:
        assert await client.get(with_queries, f"/logs/{path}") == expected, path
    status, page = await client.get(without, "/logs/?query=pods")
    assert (status, "<a " in page) == (200, True)
    status, page = await client.get(with_queries, "/logs/")
    assert (status, "<a " in page) == (200, True)
    assert await client.get(with_queries, "/logs/kube.log?query=pods&tailLines=1", path="kube.log") == (200, "kube\n")


@pytest.mark.parametrize(("output", "expected"), [("entry", (200, "entry\nentry\n")), ("", (200, "kube\n"))])
async def test_query_returns_the_journal_of_a_service_with_entries(
    client, root, clock, tmp_path, monkeypatch, output, expected
):
    """The first call of ``journalctl`` checks for entries, the second one returns them."""
    (root / "kube.log").write_text("kube\n")
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\n[ -z '{output}' ] || printf '{output}\\n{output}\\n'\n")
    program.chmod(0o755)
    monkeypatch.setattr(journal, "PROGRAM", str(program))

    handle = SystemLogs(root, clock, queries=True).handle

    assert await client.get(handle, "/logs/?query=kube") == expected


@pytest.mark.parametrize(("encoding", "compressed"), [("gzip", True), ("", False), ("deflate", False)])
async def test_query_is_compressed_on_request(client, root, clock, encoding, compressed):
    client.encoding = encoding

    await client.get(SystemLogs(root, clock, queries=True).handle, "/logs/?query=pods")

    assert client.compressed == compressed


async def test_sent_bytes_of_a_complete_file_are_counted(client, root, clock, monkeypatch):
    monkeypatch.setattr(web_fileresponse, "NOSENDFILE", True)  # The request has no socket.
    (root / "kube.log").write_text("kube\n")

    assert await client.get(SystemLogs(root, clock).handle, "/logs/kube.log", path="kube.log") == (200, "kube\n")
    assert client.counted == 5
