"""Tests for the agent's web page in a browser, on a real node."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.browser import Page, browsing
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

SCRIPT = 'i=0; while true; do echo "request $i served <b>in</b> $((i % 7 + 2)) ms"; i=$((i+1)); sleep 0.3; done'
TEXT = "document.body.innerText"


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeAgent, ApiServer]]:
    directory = tmp_path_factory.mktemp("page")
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    try:
        api.start()
        agent.start()
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        missing = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
        container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        api.create_pod(simple_pod("web", SCRIPT, nodeName="node-1", volumes=[volume], container=container))
        api.create_pod(simple_pod("waits", nodeName="node-1", volumes=[missing], container=container))
        claim_volume(api)
        absent = {"image": "registry.invalid/shop/api:v2"}
        api.create_pod(simple_pod("api", nodeName="node-1", container=absent))

        def runs() -> bool:
            pod = api.pod("web")
            return bool(pod and pod.get("status", {}).get("phase") == "Running")

        wait_until(runs, "the pod runs")
        yield agent, api
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def claim_volume(api: ApiServer) -> None:
    """Create a claim that is bound to a directory of the host."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {**common, "capacity": {"storage": "1Mi"}, "hostPath": {"path": "/tmp", "type": "Directory"}}
    api.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": volume})
    claim = {**common, "resources": {"requests": {"storage": "1Mi"}}, "volumeName": "pv"}
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    api.request("POST", path, {"metadata": {"name": "data"}, "spec": claim})


def fetch(agent: NodeAgent, path: str) -> tuple[int, dict[str, str], bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{agent.port}{path}", context=context) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


class _StuckTab:
    """Connection to a browser tab in which every expression is false."""

    def __init__(self) -> None:
        self.page = Page(self)  # type: ignore[arg-type]

    async def send_json(self, request: dict[str, Any]) -> None:
        asyncio.get_running_loop().call_soon(self.page.receive, {"id": request["id"], "result": {"result": {}}})


async def test_wait_for_a_page_ends_with_the_errors_of_the_browser() -> None:
    tab = _StuckTab()
    tab.page.receive({"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": "x is not defined"}})

    with pytest.raises(AssertionError, match="x is not defined"):
        await tab.page.until("window.ready", seconds=0.01)


async def test_page_has_pods_stages_logs_and_events(node: tuple[NodeAgent, ApiServer], tmp_path: Path) -> None:
    agent, api = node
    async with browsing(tmp_path / "browser") as page:
        await page.open(f"https://127.0.0.1:{agent.port}/ui/")
        await page.sign_in("nobody-s")
        await page.until("!document.getElementById('sign-in-error').hidden")
        await page.screenshot(tmp_path / "refused.png")
        await page.sign_in(api.facts["token"])

        await page.until(f"{TEXT}.includes('web') && document.getElementById('ready').textContent === 'Ready'")
        await page.until(f"{TEXT}.includes('ImagePull') || {TEXT}.includes('ErrImage')", 30)
        await page.run("[...document.querySelectorAll('#pods tr')].find(r => r.innerText.includes('web')).click()")
        await page.until("document.getElementById('log').textContent.split('\\n').length > 5")
        await page.until("document.getElementById('events').innerText.includes('Started')")
        first = await page.run("document.getElementById('log').textContent.length")
        await page.until(f"document.getElementById('log').textContent.length > {first} + 50")
        await page.until("document.querySelectorAll('#stages .good').length >= 5")
        await page.until("document.querySelector('#plots .curve').getAttribute('d').split('L').length > 3", 30)
        volumes = "document.getElementById('volumes').innerText"
        for text in ("Mounted", "kubernetes.io/host-path", "Resolving", '"missing" not found'):
            await page.until(f"{volumes}.includes({text!r})", 30)
        await page.screenshot(tmp_path / "node-page.png")

        assert await page.run("document.querySelectorAll('#log b').length") == 0  # Output of pods is not markup.
        assert page.errors == []
        await page.run("[...document.querySelectorAll('#pods tr')].find(r => r.innerText.includes('api')).click()")
        await page.until("!document.getElementById('cause').hidden")
        terms = await page.run("[...document.querySelectorAll('#cause dt')].map(each => each.textContent)")
        assert (terms[0], terms[-1]) == ("Cause", "Remedy")
        commands = await page.run("[...document.querySelectorAll('#cause code')].map(each => each.textContent)")
        assert "nodeagent creds test IMAGE" in commands
        await page.screenshot(tmp_path / "blocked.png")
        await page.run("document.getElementById('leave').click()")
        await page.until("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")


def test_only_the_data_of_the_page_requires_authentication(node: tuple[NodeAgent, ApiServer]) -> None:
    agent, _ = node
    status, headers, body = fetch(agent, "/ui/")
    assert (status, b"<title>" in body) == (200, True)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert b"node-1" not in body
    for name in ("app.js", "page.js", "page.css"):
        status, _, body = fetch(agent, f"/ui/{name}")
        assert status == 200
        assert b"http" not in body.replace(b"http://www.w3.org/2000/svg", b"")
    for path in ("/ui/data/status", "/ui/data/volumes", "/ui/data/pods/default/web"):
        assert fetch(agent, path)[0] == 401
    for path in ("/ui/nothing.js", "/ui/..%2f..%2fetc%2fpasswd"):
        assert fetch(agent, path)[0] in (401, 404)
