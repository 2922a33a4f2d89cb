"""Tests for the contention profile."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from aiohttp.test_utils import make_mocked_request

from nodeagent.base.profiling.contention import ContentionProfile
from nodeagent.base.profiling.encoding import Frame
from nodeagent.testing import load_plugin, make_config, make_context
from nodeagent_plugins import routes_debug

SECONDS = 30.0


def hold_the_loop_up(profile):
    """Block until that is seen: the watching thread may be scheduled late."""
    until = time.monotonic() + SECONDS
    while not seen(profile) and time.monotonic() < until:
        time.sleep(0.02)


def seen(profile):
    return {
        stack: values
        for stack, values in profile.stacks().items()
        if "hold_the_loop_up" in {frame.function for frame in stack}
    }


@pytest.mark.row("config.enableContentionProfiling")
async def test_blocking_code_is_named(tmp_path):
    context = make_context(tmp_path, config=make_config(enable_contention_profiling=True))
    manager = load_plugin(routes_debug, name="routes_debug", context=context)
    (response,) = manager.provide_all("nodeagent_provide_background_loops", context=context, plugins=manager)
    (profile,) = response.value
    task = asyncio.create_task(profile.run())
    try:
        await asyncio.sleep(0.1)
        hold_the_loop_up(profile)
        await asyncio.sleep(0.1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert sum(count for count, _ in seen(profile).values()) <= 1, "one delay counts once"
    assert sum(total for _, total in seen(profile).values()) > 0
    assert "contention-profile" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.row("config.enableContentionProfiling")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"enable_contention_profiling": True, "enable_debugging_handlers": False},
        {"enable_contention_profiling": True, "enable_profiling_handler": False},
    ],
)
def test_contention_profile_is_off_by_default(tmp_path, fields):
    context = make_context(tmp_path, config=make_config(**fields))
    manager = load_plugin(routes_debug, name="routes_debug", context=context)
    (response,) = manager.provide_all("nodeagent_provide_background_loops", context=context, plugins=manager)

    assert response.value == ()
    assert ContentionProfile().stacks() == {}


@pytest.mark.row("config.enableContentionProfiling", "path.agent./debug/pprof/")
@pytest.mark.parametrize("requested", [True, False])
async def test_block_profile_names_blocking_code(tmp_path, monkeypatch, requested):
    stack = (Frame("hold_the_loop_up", "loop.py", 7),)
    monkeypatch.setattr(ContentionProfile, "stacks", lambda self: {stack: (1, 400_000_000)})
    context = make_context(tmp_path, config=make_config(enable_contention_profiling=requested))
    manager = load_plugin(routes_debug, name="routes_debug", context=context)
    (response,) = manager.provide_all("nodeagent_provide_routes", context=context, plugins=manager)
    (route,) = [route for route in response.value if route.path == "/debug/pprof/{profile}"]

    request = make_mocked_request("GET", "/debug/pprof/block?debug=1", match_info={"profile": "block"})
    text = (await route.handler(request)).text

    assert text == ("0.400 s in 1 delays\n\thold_the_loop_up\tloop.py:7\n" if requested else "")
