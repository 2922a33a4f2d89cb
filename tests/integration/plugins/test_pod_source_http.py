"""Tests for the URL source over HTTP: headers, timeout, size limit, redirects."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from aiohttp import web

from nodeagent.base.aio import SystemClock
from nodeagent.testing import load_plugin, make_config, make_context
from nodeagent_plugins import pod_source_http
from nodeagent_plugins.pod_source_http import Fetcher, FetchError

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "a:1"}]},
}


@pytest.fixture
async def server():
    """Yield a function that starts a server for one handler and returns its URL."""
    runners = []

    async def start(handler):
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/pods"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.mark.row("config.staticPodURL", "config.staticPodURLHeader")
async def test_request_has_the_configured_headers(server, tmp_path):
    seen = []

    async def handler(request):
        seen.append(request.headers.getall("X-Token", []))
        return web.Response(text=json.dumps(POD))

    config = make_config(static_pod_url=await server(handler), static_pod_url_header={"X-Token": ("one", "two")})
    context = make_context(tmp_path, config=config)
    context.clock = SystemClock()
    (hook_call,) = load_plugin(pod_source_http).provide_all("nodeagent_provide_pod_sources", context=context)
    (source,) = hook_call.value
    published = asyncio.get_running_loop().create_future()

    task = asyncio.create_task(source.run(published.set_result))
    (pod,) = await asyncio.wait_for(published, 10)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert pod.name == "web-node-1"
    assert seen == [["one", "two"]]


async def test_error_status_is_an_error(server):
    async def handler(request):
        return web.Response(status=503)

    with pytest.raises(FetchError, match="status 503"):
        await Fetcher(await server(handler), {})()


async def test_response_over_the_size_limit_is_an_error(server):
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b" " * (1 << 20))
        return response

    with pytest.raises(FetchError, match="exceeds"):
        await Fetcher(await server(handler), {})()


async def test_request_times_out(server):
    async def handler(request):
        await asyncio.sleep(30)

    with pytest.raises(FetchError, match="timed out after"):
        await Fetcher(await server(handler), {}, timeout_seconds=0.2)()


async def test_redirects_are_followed_only_on_the_same_host(server):
    async def there(request):
        return (
            web.Response(text="there") if request.path == "/x" else web.Response(status=302, headers={"Location": "/x"})
        )

    url = await server(there)
    assert await Fetcher(url, {})() == b"there"

    async def away(request):
        return web.Response(status=302, headers={"Location": url})

    with pytest.raises(FetchError, match="another host"):
        await Fetcher(await server(away), {"X-Token": ["secret"]})()


async def test_missing_server_is_an_error():
    with pytest.raises(FetchError, match="request failed"):
        await Fetcher("http://127.0.0.1:1/", {})()
