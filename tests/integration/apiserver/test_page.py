"""Tests for the web page of the API server in a browser."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integration.apiserver.conftest import Api, Server
from tests.integration.browser import browsing

TEXT = "document.body.innerText"


def node(name: str, address: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    status = {"conditions": [condition], "addresses": addresses, "nodeInfo": {"kubeletVersion": "v1.29.1"}}
    return {"metadata": {"name": name}, "status": status}


def pod(name: str, on: str, phase: str = "Running", reason: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    spec = {"nodeName": on, "containers": [{"name": "main", "image": "registry.example/app:v1"}]}
    state = {"waiting": {"reason": reason}} if reason else {"running": {}}
    container = {"name": "main", "ready": not reason, "restartCount": 0, "state": state, "image": "a", "imageID": "b"}
    conditions = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [container]}
    return {"metadata": {"name": name}, "spec": spec}, {"status": status}


def put_pod(api: Api, *arguments: str) -> None:
    made, status = pod(*arguments)
    api.ok("POST", "/api/v1/namespaces/default/pods", made)
    path = f"/api/v1/namespaces/default/pods/{arguments[0]}/status"
    api.ok("PATCH", path, status, content_type="application/merge-patch+json")


def event(api: Api, name: str, about: str, reason: str, message: str, kind: str = "Normal") -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    regarding = {"kind": "Pod", "name": about, "namespace": "default"}
    times = {"firstTimestamp": now, "lastTimestamp": now, "count": 1}
    body = {"metadata": {"name": name}, "involvedObject": regarding, "reason": reason, "message": message}
    api.ok("POST", "/api/v1/namespaces/default/events", {**body, "type": kind, **times})


async def test_page_displays_changes_of_nodes_pods_and_events(server: Server, api: Api, tmp_path: Path) -> None:
    url, token = server.ready["url"], server.ready["token"]
    async with browsing(tmp_path / "browser") as page:
        await page.open(f"{url}/")
        await page.sign_in("nobody-s")
        await page.until("!document.getElementById('sign-in-error').hidden")
        await page.sign_in(token)
        await page.until(f"{TEXT}.includes('No nodes.') && {TEXT}.includes('No pods.')")
        await page.screenshot(tmp_path / "empty.png")

        api.ok("POST", "/api/v1/nodes", node("node-1", "10.0.0.11"))
        api.ok("POST", "/api/v1/nodes", node("node-2", "10.0.0.12"))
        for number in range(3):
            put_pod(api, f"web-{number}", f"node-{number % 2 + 1}")
        put_pod(api, "api-0", "node-2", "Pending", "ImagePullBackOff")
        event(api, "e1", "web-0", "Started", "Started container main")
        event(api, "e2", "api-0", "Failed", 'Back-off pulling image "registry.example/api:v2"', "Warning")

        await page.until(
            f"{TEXT}.includes('node-2') && {TEXT}.includes('ImagePullBackOff') && {TEXT}.includes('Failed')"
        )
        await page.until("document.getElementById('live').textContent === 'Live'")
        await page.until("document.querySelectorAll('#pods tr').length === 4")
        await page.screenshot(tmp_path / "cluster-page.png")
        long = "pulling from host registry.example failed with status code [manifests v2]: 401 Unauthorized; " * 3
        event(api, "e4", "notready", "Failed", long, "Warning")
        await page.until(f"{TEXT}.includes('401 Unauthorized')")
        lines = "[...document.querySelectorAll('#events td.name div')].map(each => each.offsetHeight)"
        assert max(await page.run(lines)) < 30  # a name is not wrapped next to a long message
        not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        path = "/api/v1/namespaces/default/pods/web-2/status"
        api.ok("PATCH", path, not_ready, content_type="application/merge-patch+json")
        marked = "[...document.querySelectorAll('#pods .badge.warn')].map(each => each.textContent)"
        await page.until(f"({marked}).includes('Running')")  # running, but not Ready
        event(api, "e3", "web-1", "Odd", "<img src=x onerror=alert(1)>")
        await page.until(f"{TEXT}.includes('<img')")  # text, not markup
        await page.run("document.getElementById('filter').value = 'backoff'")
        await page.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
        await page.until("document.querySelectorAll('#pods tr').length === 1")
        api.ok("DELETE", "/api/v1/namespaces/default/pods/api-0?gracePeriodSeconds=0")
        await page.until(f"{TEXT}.includes('No matching pods.')")

        assert await page.run("document.querySelectorAll('#events img').length") == 0
        assert page.errors == []


def test_page_is_served_only_to_browsers(server: Server, api: Api) -> None:
    anonymous = server.api(None)
    code, headers, body = anonymous.raw("GET", "/", headers={"Accept": "text/html,*/*"})
    assert (code, b"<title>" in body) == (200, True)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert anonymous.raw("GET", "/ui/app.js")[1]["content-type"].startswith("text/javascript")
    assert "paths" in api.ok("GET", "/")
    assert anonymous.call("GET", "/")[0] == 403
    assert anonymous.call("GET", "/ui/../certs/ca.key")[0] in (403, 404)
    assert anonymous.raw("POST", "/", b"", headers={"Accept": "text/html"})[0] == 403
