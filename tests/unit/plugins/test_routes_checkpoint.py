"""Tests for the checkpoint of a container over HTTP."""

from __future__ import annotations

import json
import stat

import pytest
from aiohttp.test_utils import make_mocked_request

from nodeagent.config.features import build_gates
from nodeagent.errors import RuntimeFailure
from nodeagent.testing import FakeRuntime, make_context, make_pod
from nodeagent_plugins import routes_checkpoint
from nodeagent_plugins.routes_checkpoint import MAX_SECONDS, checkpoint


class CheckpointingRuntime(FakeRuntime):
    """Runtime that writes checkpoints, or fails with a configured error."""

    def __init__(self, clock):
        super().__init__(clock)
        self.written, self.error = [], None

    async def checkpoint_container(self, container_id, location, timeout_seconds):
        if self.error is not None:
            raise self.error
        self.written.append((container_id, location, timeout_seconds))


@pytest.fixture
def runtime(clock):
    return CheckpointingRuntime(clock)


@pytest.fixture
def context(tmp_path, clock, runtime):
    context = make_context(tmp_path, clock=clock, runtime=runtime)
    pod = make_pod("web", containers=["main", "done", "new"])
    runtime.start("main", pod)
    runtime.exit(runtime.start("done", pod))
    context.pods.add(pod, observed=runtime.pod(pod.uid))
    context.pods.add(make_pod("pending", containers=["main"]))
    return context


async def request(context, query="", **path):
    info = {"namespace": "default", "pod": "web", "container": "main", **path}
    response = await checkpoint(context, make_mocked_request("POST", f"/?{query}", match_info=info))
    return response.status, response.text


@pytest.mark.parametrize(
    ("query", "seconds"), [("", 0), ("timeout=0", 0), (f"timeout=1&timeout={MAX_SECONDS}", MAX_SECONDS)]
)
async def test_running_container_is_written_to_a_private_directory(context, runtime, query, seconds):
    status, text = await request(context, query)

    ((_, file, timeout),) = runtime.written
    assert (status, json.loads(text), timeout) == (200, {"items": [file]}, seconds)
    directory = context.root_dir / "checkpoints"
    assert file.startswith(f"{directory}/checkpoint-web_default-main-")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        ({"pod": "other"}, "", "pod does not exist"),
        ({"container": "other"}, "", "container other does not exist"),
        ({"container": "done"}, "", "container done is not running"),
        ({"container": "new"}, "", "container new is not running"),
        ({"pod": "pending"}, "", "container main is not running"),
        ({}, "timeout=x", "cannot parse value of timeout parameter"),
        ({}, "timeout=-1", f"timeout must be between 0 and {MAX_SECONDS} seconds"),
        ({}, f"timeout={MAX_SECONDS + 1}", f"timeout must be between 0 and {MAX_SECONDS} seconds"),
    ],
)
async def test_missing_container_or_invalid_timeout_is_not_found(context, runtime, path, query, text):
    assert await request(context, query, **path) == (404, f"{text}\n")
    assert runtime.written == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotImplementedError(), "the container runtime does not support checkpoints"),
        (RuntimeFailure("no CRIU"), "checkpointing of default/web/main failed (no CRIU)"),
    ],
)
async def test_failed_checkpoint_is_reported(context, runtime, error, text):
    runtime.error = error

    status, found = await request(context)

    assert status == 500
    assert found.startswith(text)


async def test_runtime_without_checkpoints_is_reported(context, clock):
    context.runtime = FakeRuntime(clock)

    assert (await request(context))[0] == 500


@pytest.mark.parametrize("enabled", [True, False])
def test_route_requires_its_gate(tmp_path, enabled):
    context = make_context(tmp_path, gates=build_gates({"ContainerCheckpoint": enabled}))

    assert bool(routes_checkpoint.nodeagent_provide_routes(context)) is enabled
