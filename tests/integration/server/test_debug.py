"""Tests for debugging endpoints: profiles, verbosity, effective configuration, and their switches."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from nodeagent import hookimpl
from nodeagent.base.aio import SystemClock
from nodeagent.base.logging import configure
from nodeagent.base.logging.settings import LoggingSettings
from nodeagent.base.logging.setup import LoggingOptions
from nodeagent.base.profiling.profiles import PROFILES
from nodeagent.server.health import HealthServer
from nodeagent.testing import FakeClock
from nodeagent.testing.clock import eventually
from tests.integration.server.conftest import serving


@pytest.fixture
async def node(pki, tmp_path):
    async with serving(pki, tmp_path) as served:
        yield served


async def download(node, path):
    connector = aiohttp.TCPConnector(ssl=node.pki.client("admin"))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"https://127.0.0.1:{node.server.port}{path}") as response,
    ):
        return response.status, await response.read(), response.headers


def fields(data):
    """Return the fields of a protobuf message: number → values (integers or bytes)."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            length = varint()
            value = data[at : at + length]
            at += length
        else:
            value = varint()
        found.setdefault(key >> 3, []).append(value)
    return found


def numbers(packed):
    """Return the integers of a packed field."""
    found = [0]
    shift = 0
    for byte in packed:
        found[-1] |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(0)
            shift = 0
    return found[:-1]


def names_of(profile):
    """Return sample types and every string of a gzipped profile."""
    message = fields(gzip.decompress(profile))
    strings = [text.decode() for text in message[6]]
    types = [strings[fields(kind)[1][0]] for kind in message[1]]
    return types, strings, message


def work(stop):
    """Consume CPU time in a function that a profile shows."""
    total = 0
    while not stop():
        total += sum(range(1000))
    return total


@pytest.mark.row("path.agent./debug/pprof/", "config.enableProfilingHandler")
async def test_cpu_profile_has_the_busy_function(node):
    before = signal.getsignal(signal.SIGPROF)
    fetching = asyncio.create_task(download(node, "/debug/pprof/profile?seconds=1"))
    while not fetching.done():
        await asyncio.sleep(0.001)
        end = asyncio.get_running_loop().time() + 0.05
        work(lambda: asyncio.get_running_loop().time() > end)  # noqa: B023
    status, body, headers = await fetching

    types, strings, message = names_of(body)
    assert status == 200
    assert headers["Content-Disposition"] == 'attachment; filename="profile"'
    assert types == ["samples", "cpu"]
    assert "work" in strings
    assert message[2]
    assert message[10] == [10**9]
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


async def test_concurrent_cpu_profile_is_rejected(node, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(SystemClock, "sleep", clock.sleep)
    first = asyncio.create_task(download(node, "/debug/pprof/profile?seconds=30"))
    await eventually(lambda: clock.sleepers)

    second = await download(node, "/debug/pprof/profile?seconds=30")
    await clock.advance(30)

    assert (second[0], (await first)[0]) == (409, 200)


@pytest.mark.row("path.agent./debug/pprof/")
async def test_tasks_threads_and_memory_have_profiles(node):
    for name, kind in [
        ("goroutine", "goroutine"),
        ("threadcreate", "threadcreate"),
        ("heap?seconds=0.2", "inuse_space"),
        ("heap?gc=1", "inuse_space"),
        ("allocs?seconds=0.2", "alloc_space"),
        ("mutex", "delay"),
        ("block", "delay"),
    ]:
        status, body, _ = await download(node, f"/debug/pprof/{name}")
        assert status == 200
        assert kind in names_of(body)[0]
    _, text, _ = await node.fetch("/debug/pprof/goroutine?debug=2", tls=node.pki.client("admin"))
    _, threads, _ = await node.fetch("/debug/pprof/threadcreate?debug=1", tls=node.pki.client("admin"))
    _, types, _ = await node.fetch("/debug/pprof/heap?debug=1", tls=node.pki.client("admin"))

    assert "secure port" in text
    assert "Listener.run" in text
    assert "MainThread" in threads
    assert "builtins.dict" in types


async def test_cpu_time_is_attributed_to_its_thread(node):
    over = threading.Event()
    worker = threading.Thread(target=work, args=(over.is_set,))
    worker.start()
    try:
        _, body, _ = await download(node, "/debug/pprof/profile?seconds=1")
    finally:
        over.set()
        await asyncio.to_thread(worker.join)

    _, strings, message = names_of(body)
    functions = {fields(f)[1][0]: strings[fields(f)[2][0]] for f in message[5]}
    locations = {fields(at)[1][0]: functions[fields(fields(at)[4][0])[1][0]] for at in message[4]}
    used = Counter()
    for sample in map(fields, message[2]):
        stack = {locations[number] for number in numbers(sample[1][0])}
        used["work" in stack] += numbers(sample[2][0])[1]
    assert used[True] > used[False]


async def test_profile_with_seconds_has_the_changes(node, monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(SystemClock, "sleep", clock.sleep)
    released = asyncio.Event()

    async def newcomer():
        await released.wait()

    async def always_there():
        await released.wait()

    tasks = [asyncio.create_task(always_there())]
    fetching = asyncio.create_task(download(node, "/debug/pprof/goroutine?seconds=2"))
    try:
        await eventually(lambda: clock.sleepers)
        tasks.append(asyncio.create_task(newcomer()))
        await clock.advance(2)
        _, body, _ = await fetching
    finally:
        released.set()
        await asyncio.gather(*tasks)

    _, strings, message = names_of(body)
    assert any("newcomer" in text for text in strings)
    assert not any("always_there" in text for text in strings)
    assert message[10] == [2 * 10**9]


async def test_trace_is_a_speedscope_file(node):
    status, body, headers = await download(node, "/debug/pprof/trace?seconds=0.3")
    too_long = await node.fetch("/debug/pprof/trace?seconds=31", tls=node.pki.client("admin"))

    trace = json.loads(body)
    main = trace["profiles"][0]
    assert (status, headers["Content-Disposition"]) == (200, 'attachment; filename="trace.speedscope.json"')
    assert (main["type"], main["name"], main["unit"]) == ("sampled", "MainThread", "seconds")
    assert len(main["samples"]) == len(main["weights"]) > 2
    assert {number for sample in main["samples"] for number in sample} <= set(range(len(trace["shared"]["frames"])))
    assert too_long[0] == 400


async def test_index_cmdline_and_symbol(node):
    admin = node.pki.client("admin")

    index = await node.fetch("/debug/pprof/", tls=admin)
    cmdline = await node.fetch("/debug/pprof/cmdline", tls=admin)
    symbol = await node.fetch("/debug/pprof/symbol", method="POST", tls=admin)
    unknown = await node.fetch("/debug/pprof/none", tls=admin)
    bare = await node.fetch("/debug/pprof", tls=admin)
    wrong = [await node.fetch(f"/debug/pprof/profile?seconds={text}", tls=admin) for text in ("x", "-1", "1e9", "nan")]

    assert all(f'href="./{name}?debug=1"' in index[1] for name in PROFILES)
    assert cmdline[1] == Path("/proc/self/cmdline").read_text().rstrip("\0")
    assert (bare[0], bare[2]["Location"]) == (301, "/debug/pprof/")
    assert symbol[:2] == (200, "num_symbols: 0\n")
    assert unknown[:2] == (404, "Unknown profile\n")
    assert {response[0] for response in wrong} == {400}


@pytest.mark.row("path.agent./debug/flags/v", "config.enableDebugFlagsHandler")
async def test_verbosity_changes_immediately(node, tmp_path):
    admin = node.pki.client("admin")
    with (tmp_path / "log").open("wb", buffering=0) as stream:
        options = LoggingOptions(error_stream=stream, info_stream=stream)
        with configure(LoggingSettings(), options=options) as log:
            set_ = await node.fetch("/debug/flags/v", method="PUT", body=b"5", tls=admin)
            after = log.verbosity
            shown = logging.getLogger("x").isEnabledFor(logging.DEBUG)
            wrong = [
                await node.fetch("/debug/flags/v", method="PUT", body=body, tls=admin) for body in (b"x", b"-1", b"")
            ]
            method = await node.fetch("/debug/flags/v", tls=admin)
            unchanged = log.verbosity

    assert set_[:2] == (200, "successfully set klog.logging.verbosity to 5\n")
    assert (after, shown, unchanged) == (5, True, 5)
    assert {response[0] for response in wrong} == {400}
    assert method[:2] == (406, "unsupported http method\n")


PROFILING_ROWS = pytest.mark.row("path.agent./debug/pprof/", "config.enableProfilingHandler")
FLAGS_ROWS = pytest.mark.row("path.agent./debug/flags/v", "config.enableDebugFlagsHandler")


@pytest.mark.parametrize(
    ("switch", "path", "method", "text"),
    [
        *(
            pytest.param(
                "enable_profiling_handler",
                f"/debug/pprof{name}",
                method,
                "profiling endpoint is disabled.\n",
                marks=PROFILING_ROWS,
            )
            for name, method in (
                ("", "GET"),
                ("/", "GET"),
                ("/profile", "GET"),
                ("/symbol", "GET"),
                ("/symbol", "POST"),
            )
        ),
        pytest.param(
            "enable_debug_flags_handler", "/debug/flags/v", "PUT", "flags endpoint is disabled.\n", marks=FLAGS_ROWS
        ),
    ],
)
async def test_each_switch_disables_its_path(pki, tmp_path, switch, path, method, text):
    async with serving(pki, tmp_path, **{switch: False}) as node:
        off = await node.fetch(path, method=method, tls=pki.client("admin"))

    assert off[:2] == (405, text)


@pytest.mark.row("config.enableDebuggingHandlers")
async def test_without_debugging_handlers_profiles_and_configz_are_off(pki, tmp_path):
    async with serving(pki, tmp_path, enable_debugging_handlers=False) as node:
        admin = pki.client("admin")
        got = {
            path: (await node.fetch(path, tls=admin))[0]
            for path in (
                "/debug/pprof/",
                "/containerLogs/a/b/c",
                "/logs/",
                "/runningpods/",
                "/debug/flags/v",
                "/configz",
                "/healthz",
                "/pods",
            )
        }

    assert got == {
        "/debug/pprof/": 405,
        "/containerLogs/a/b/c": 405,
        "/logs/": 405,
        "/runningpods/": 405,
        "/debug/flags/v": 404,
        "/configz": 404,
        "/healthz": 200,
        "/pods": 200,
    }


async def test_configz_shows_the_driver_in_effect_and_no_secrets(pki, tmp_path):
    async with serving(pki, tmp_path, static_pod_url_header={"Authorization": ("Bearer secret",)}, max_pods=7) as node:
        node.context.cgroups.driver = "systemd"
        _, text, _ = await node.fetch("/configz", tls=pki.client("admin"))

    shown = json.loads(text)["kubeletconfig"]
    assert (shown["kind"], shown["apiVersion"]) == ("KubeletConfiguration", "kubelet.config.k8s.io/v1beta1")
    assert (shown["maxPods"], shown["cgroupDriver"]) == (7, "systemd")
    assert shown["authentication"]["x509"]["clientCAFile"] == str(pki.directory / "ca.crt")
    assert "secret" not in text


async def test_health_port_on_the_unspecified_address_is_dual_stack(clock):
    server = HealthServer("::" if socket.has_dualstack_ipv6() else "0.0.0.0", 0, {"ping": lambda: ""}, clock)
    serving_ = asyncio.create_task(server.run())
    try:
        while not server.port:
            await asyncio.sleep(0.01)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{server.port}/healthz") as response,
        ):
            assert response.status == 200
    finally:
        serving_.cancel()
        await asyncio.gather(serving_, return_exceptions=True)


@pytest.mark.row("path.agent.healthz")
async def test_health_port_serves_only_health(clock):
    problem = ""
    server = HealthServer("127.0.0.1", 0, {"ping": lambda: "", "pleg": lambda: problem}, clock)
    serving_ = asyncio.create_task(server.run())
    try:
        while not server.port:
            await asyncio.sleep(0.01)
        got = {}
        async with aiohttp.ClientSession() as session:
            for path in ("/healthz", "/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v", "/metrics", "/pods"):
                async with session.get(f"http://127.0.0.1:{server.port}{path}") as response:
                    got[path] = response.status
            problem = "stuck"
            async with session.get(f"http://127.0.0.1:{server.port}/healthz") as response:
                failing, text = response.status, await response.text()
    finally:
        serving_.cancel()
        await asyncio.gather(serving_, return_exceptions=True)

    assert (failing, text) == (500, "[+]ping ok\n[-]pleg failed: stuck\nhealthz check failed\n")
    assert got.pop("/healthz") == 200
    assert set(got.values()) == {404}


async def test_health_port_serves_many_requests_and_rejects_others(clock):
    server = HealthServer("127.0.0.1", 0, {"ping": lambda: ""}, clock)
    serving_ = asyncio.create_task(server.run())
    sent = {
        b"GET /healthz?verbose HTTP/1.1\r\nHost: a\r\n\r\n": b"200",
        b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n": b"200",
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi": b"405",
        b"GET /healthz/ping HTTP/1.0\r\n\r\n": b"200",
    }
    try:
        while not server.port:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for request in sent:
            writer.write(request)
        async with asyncio.timeout(10):
            received = await reader.read()  # The connection is closed after the request of HTTP/1.0.
        writer.close()
        replies = []
        for bad in (
            b"\0\r\n\r\n",
            b"GET /" + b"a" * 20_000,
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(bad.ljust(12_000, b"a"))
            async with asyncio.timeout(10):
                with contextlib.suppress(ConnectionResetError):
                    replies.append((await reader.read()).split(b" ", 2)[1])
            writer.close()
    finally:
        serving_.cancel()
        await asyncio.gather(serving_, return_exceptions=True)

    assert [part.split(b" ", 1)[0] for part in received.split(b"HTTP/1.1 ")[1:]] == list(sent.values())
    assert received.count(b"[+]ping ok\nhealthz check passed\n") == 1
    assert received.endswith(b"\r\n\r\nok")
    assert replies == [b"400"] * 3


async def test_routes_are_created_at_the_first_connection(pki, tmp_path):
    created = []

    class Routes:
        @hookimpl
        def nodeagent_provide_routes(self):
            created.append(True)
            return ()

    async with serving(pki, tmp_path) as node:
        assert node.server._routes is None
        status, *_ = await node.fetch("/healthz", tls=pki.client("admin"))
        assert status == 200
        assert node.server._routes
    async with serving(pki, tmp_path, plugins=[Routes()]):
        assert created, "routes of a third-party plugin are created at the start, to find its errors"
