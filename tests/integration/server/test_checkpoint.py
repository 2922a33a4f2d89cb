"""Tests for container checkpoints and the pages flagz and statusz: feature gate and permissions."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod
from nodeagent.errors import RuntimeFailure
from nodeagent.testing import FakePodDirectory, FakeRuntime, make_pod
from tests.integration.server.conftest import serving

PATH = "/checkpoint/default/web/main"
GATE = {"ContainerCheckpoint": True}


class Checkpoints(FakeRuntime):
    """Runtime that writes checkpoints, or fails with a configured error."""

    error: Exception | None = None

    async def checkpoint_container(self, container_id, location, timeout_seconds):

        Path(location).write_text(f"{container_id} {timeout_seconds}")
        if self.error is not None:
            raise self.error


def pods(state=ContainerState.RUNNING):
    pod = make_pod("web", containers=["main", "idle"])
    container = RuntimeContainerStatus(
        id="c1", name="main", attempt=0, state=state, created_at=1, started_at=1, finished_at=0, exit_code=0, image="i",
        image_ref="i",
    )  # fmt: skip
    directory = FakePodDirectory()
    directory.add(pod, observed=RuntimePod(pod.uid, "web", "default", containers=[container]))
    return directory


async def fetch(pki, tmp_path, path=PATH, runtime=None, token="admin-token", method="POST", **fields):
    fields.setdefault("feature_gates", GATE)
    parts = {"pods": fields.pop("pods", None) or pods(), "runtime": runtime or Checkpoints()}
    async with serving(pki, tmp_path, parts=parts, **fields) as node:
        status, text, _ = await node.fetch(path, method=method, token=token)
        return status, text


async def test_checkpoint_is_readable_only_by_root(pki, tmp_path, caplog):
    caplog.set_level("INFO")

    status, text = await fetch(pki, tmp_path, f"{PATH}?timeout=1&timeout=7")

    [file] = json.loads(text)["items"]
    assert status == 200
    assert file.startswith(f"{tmp_path}/checkpoints/checkpoint-web_default-main-20") and file.endswith("Z.tar")
    assert Path(file).read_text() == "c1 7"
    assert stat.S_IMODE((tmp_path / "checkpoints").stat().st_mode) == 0o700
    [served] = [record for record in caplog.records if record.message == "Served"]
    assert (served.user, served.path, served.status) == ("admin", PATH, 200)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/checkpoint/default/nobody/main", "pod does not exist"),
        ("/checkpoint/default/web/other", "container other does not exist"),
        ("/checkpoint/default/web/idle", "container idle is not running"),
        (f"{PATH}?timeout=soon", "cannot parse value of timeout parameter"),
        (f"{PATH}?timeout=-1", "timeout must be between"),
    ],
)
async def test_missing_pod_or_container_is_not_found(pki, tmp_path, path, text):
    status, body = await fetch(pki, tmp_path, path)

    assert status == 404
    assert text in body


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotImplementedError(), "does not support checkpoints"),
        (RuntimeFailure("criu is missing"), "checkpointing of default/web/main failed (criu is missing)"),
    ],
)
async def test_runtime_error_is_reported(pki, tmp_path, error, text):
    runtime = Checkpoints()
    runtime.error = error

    status, body = await fetch(pki, tmp_path, runtime=runtime)

    assert status == 500
    assert text in body


async def test_failed_checkpoint_removes_its_file(pki, tmp_path):
    runtime = Checkpoints()
    runtime.error = RuntimeFailure("no space")

    await fetch(pki, tmp_path, runtime=runtime)

    assert list((tmp_path / "checkpoints").iterdir()) == []


async def test_runtime_without_checkpoints_is_reported(pki, tmp_path):
    status, body = await fetch(pki, tmp_path, runtime=FakeRuntime())

    assert (status, "does not support checkpoints" in body) == (500, True)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"feature_gates": {}}, 404),
        ({"enable_debugging_handlers": False}, 404),
        ({"token": "viewer-token"}, 403),
        ({"token": "scraper-token"}, 403),
        ({"method": "GET"}, 405),
    ],
)
async def test_checkpoint_requires_gate_handlers_permission_and_method(pki, tmp_path, fields, status):
    assert (await fetch(pki, tmp_path, **fields))[0] == status


async def test_flagz_and_statusz(pki, tmp_path):
    headers = {"Authorization": ["Bearer do-not-show"]}
    async with serving(pki, tmp_path, max_pods=42, static_pod_url_header=headers) as node:
        await node.clock.advance(3725)
        flags, text, _ = await node.fetch("/flagz", token="admin-token")
        state, page, _ = await node.fetch("/statusz", token="admin-token")
        forbidden, _, _ = await node.fetch("/flagz", token="scraper-token")

    lines = text.splitlines()
    assert (flags, state, forbidden) == (200, 200, 403)
    assert "max-pods=42" in lines and f"root-dir={tmp_path}" in lines and "port=0" in lines
    assert "do-not-show" not in text
    assert "Up: 1 hr 02 min 05 sec" in page.splitlines()


def at_release(text, **gates):
    release = Release.parse(text)
    return {"release": SelectedRelease(release), "gates": build_gates(gates, release)}


async def test_pages_are_api_objects_on_request(pki, tmp_path):
    async with serving(pki, tmp_path, max_pods=42, parts=at_release("1.36")) as node:

        async def fetch(path, kind, version="v1beta1", media_type="application/json"):
            accept = f"{media_type};g=config.k8s.io;v={version};as={kind}"
            return await node.fetch(path, token="admin-token", headers={"Accept": accept})

        await node.clock.advance(60)
        flags, text, _ = await fetch("/flagz", "Flagz")
        state, page, headers = await fetch("/statusz", "Statusz")
        _, _, deprecated = await fetch("/statusz", "Statusz", "v1alpha1")
        _, document, yaml_headers = await fetch("/statusz", "Statusz", media_type="application/yaml")
        rejected, reason, _ = await node.fetch("/statusz", token="admin-token", headers={"Accept": "application/json"})

    flagz, statusz = json.loads(text), json.loads(page)
    assert (flags, state, rejected) == (200, 200, 406)
    assert (flagz["kind"], flagz["apiVersion"]) == ("Flagz", "config.k8s.io/v1beta1")
    assert (flagz["metadata"], flagz["flags"]["max-pods"]) == ({"name": "kubelet"}, "42")
    assert (statusz["kind"], statusz["uptimeSeconds"], statusz["emulationVersion"]) == ("Statusz", 60, "1.36")
    assert statusz["binaryVersion"].startswith("1.36.2+nodeagent-")
    assert {"/configz", "/healthz", "/metrics", "/statusz"} <= set(statusz["paths"])
    assert "Warning" not in headers
    assert deprecated["Warning"].startswith('299 - "This version of the statusz endpoint is deprecated.')
    assert yaml_headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(document)["kind"] == "Statusz"
    assert json.loads(reason)["message"] == (
        "only the following media types are accepted: application/json, application/yaml, text/plain"
    )


@pytest.mark.parametrize(
    ("parts", "statuses"),
    [
        (at_release("1.31"), (200, 200)),
        (at_release("1.35"), (404, 404)),
        (at_release("1.35", ComponentFlagz=True), (200, 404)),
        (at_release("1.36", ComponentStatusz=False), (200, 404)),
    ],
)
async def test_pages_depend_on_their_feature_gates(pki, tmp_path, parts, statuses):
    async with serving(pki, tmp_path, parts=parts) as node:
        found = [(await node.fetch(path, token="admin-token"))[0] for path in ("/flagz", "/statusz")]

    assert tuple(found) == statuses


async def test_pages_require_the_debugging_handlers(pki, tmp_path):
    async with serving(pki, tmp_path, enable_debugging_handlers=False) as node:
        assert [(await node.fetch(path, token="admin-token"))[0] for path in ("/flagz", "/statusz")] == [404, 404]
