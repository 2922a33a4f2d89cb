"""Tests for an unmodified kubectl: common commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kubectl import KUBECTLS, kubectl_of

from .conftest import Api, Server

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: %s}}
spec:
  containers:
  - {name: c, image: busybox, ports: [{containerPort: 80}]}
"""


@pytest.fixture(autouse=True, scope="module", params=KUBECTLS)
def minor(request: pytest.FixtureRequest) -> Iterator[int]:
    """Minor version of kubectl."""
    with kubectl_of(request.param) as found:
        yield found


def test_apply_get_describe_delete(server: Server) -> None:
    assert server.kubectl("apply", "-f", "-", stdin=POD % "one") == "pod/web created\n"
    assert server.kubectl("apply", "-f", "-", stdin=POD % "two") == "pod/web configured\n"
    assert server.kubectl("apply", "-f", "-", stdin=POD % "two") == "pod/web unchanged\n"
    header, row = server.kubectl("get", "pods", "-l", "app=two").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["web", "0/1", "Pending", "0"]
    assert "QoS Class:" in server.kubectl("describe", "pod", "web")
    assert server.kubectl("get", "pods", "-o", "name", "-A") == "pod/web\n"
    assert "deleted" in server.kubectl("delete", "pod", "web")
    assert server.kubectl("get", "pods", "--ignore-not-found") == ""


def test_generators_and_commands(server: Server, api: Api, minor: int) -> None:
    server.kubectl("create", "namespace", "team")
    server.kubectl("-n", "team", "create", "configmap", "settings", "--from-literal=a=b")
    server.kubectl("-n", "team", "create", "secret", "generic", "token", "--from-literal=k=v")
    server.kubectl("-n", "team", "create", "serviceaccount", "robot")
    assert server.kubectl("-n", "team", "get", "secret", "token", "-o", "jsonpath={.data.k}") == "dg=="
    assert server.kubectl("auth", "can-i", "get", "pods") == "yes\n"
    if minor >= 28:  # not available in older versions
        assert server.kubectl("-n", "team", "create", "token", "robot").count(".") == 2
        assert "admin" in server.kubectl("auth", "whoami")
    server.kubectl("-n", "team", "label", "configmap", "settings", "a=b")
    patched = server.kubectl("-n", "team", "patch", "cm", "settings", "-p", '{"data":{"c":"d"}}', "-o", "json")
    assert json.loads(patched)["data"] == {"a": "b", "c": "d"}
    server.kubectl("delete", "namespace", "team")
    assert api.call("GET", "/api/v1/namespaces/team")[0] == 404


def test_get_and_describe_nodes(server: Server, api: Api) -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.29.1"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})

    server.kubectl("cordon", "n1")
    server.kubectl("taint", "node", "n1", "k=v:NoSchedule")
    row = server.kubectl("get", "nodes", "-o", "wide").splitlines()[1].split()
    assert row[:3] == ["n1", "Ready,SchedulingDisabled", "<none>"]
    assert row[5] == "10.0.0.1"
    described = server.kubectl("describe", "node", "n1")
    assert "k=v:NoSchedule" in described
    server.kubectl("delete", "node", "n1")


def test_get_events(server: Server, api: Api, minor: int) -> None:
    event = {
        "metadata": {"name": "e1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        "reason": "Started",
        "message": "Started container c",
        "type": "Normal",
        "lastTimestamp": "2026-11-21T00:00:00Z",
        "source": {"component": "kubelet", "host": "n1"},
    }
    api.ok("POST", "/api/v1/namespaces/default/events", event)

    assert "Started container c" in server.kubectl("get", "events")
    if minor >= 26:
        assert "pod/web" in server.kubectl("events").lower()
    server.kubectl("delete", "events", "--all")


def test_explain(server: Server, minor: int) -> None:
    described = server.kubectl("explain", "events", "--api-version=events.k8s.io/v1")
    assert "Event" in described
    assert "eventTime\t<string> -required-" in described
    if minor >= 27:  # read from OpenAPI v3
        assert "GROUP:      events.k8s.io" in described
    assert "containerPort\t<integer> -required-" in server.kubectl("explain", "pod.spec.containers.ports")
    assert "annotations\t<map[string]string>" in server.kubectl("explain", "nodes", "--recursive")
    assert "does not exist" in server.kubectl("explain", "pod.spec.nothing", code=1)


TWO = """
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  containers:
  - {name: a, image: "busybox:%s"}
%s"""
SECOND = "  - {name: b, image: busybox, ports: [{containerPort: 80}]}\n"


def test_diff_and_apply_merge_by_name(server: Server, api: Api) -> None:
    path = "/api/v1/namespaces/default/pods/two"
    server.kubectl("apply", "-f", "-", stdin=TWO % ("1", SECOND))
    api.ok("PATCH", path, {"metadata": {"labels": {"other": "x"}}}, content_type="application/merge-patch+json")

    changed = server.kubectl("diff", "-f", "-", stdin=TWO % ("2", SECOND), code=1)
    assert "-  - image: busybox:1" in changed
    assert "+  - image: busybox:2" in changed
    assert api.ok("GET", path)["spec"]["containers"][0]["image"] == "busybox:1"
    assert server.kubectl("diff", "-f", "-", stdin=TWO % ("1", SECOND)) == ""

    server.kubectl("apply", "-f", "-", stdin=TWO % ("2", SECOND))
    pod = api.ok("GET", path)
    assert [item["image"] for item in pod["spec"]["containers"]] == ["busybox:2", "busybox"]
    assert pod["metadata"]["labels"] == {"other": "x"}
    server.kubectl("delete", "pod", "two", "--force", "--grace-period=0")


def test_unknown_fields_are_rejected(server: Server, minor: int) -> None:
    wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\ndatum: {a: b}\n"

    assert 'unknown field "datum"' in server.kubectl("apply", "-f", "-", stdin=wrong, code=1)
    if minor >= 25:  # validated by the server; older versions use the OpenAPI document
        warned = server.kubectl("apply", "--validate=warn", "-f", "-", stdin=wrong)
        assert 'Warning: unknown field "datum"' in warned
    else:
        server.kubectl("apply", "--validate=false", "-f", "-", stdin=wrong)
    server.kubectl("delete", "configmap", "wrong")


def test_apply_on_the_server(server: Server, api: Api, minor: int) -> None:
    settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ours}\ndata: {a: '%s'}\n"
    apply = ("apply", "--server-side", "-f", "-")

    assert "serverside-applied" in server.kubectl(*apply, stdin=settings % 1)
    rejection = server.kubectl(*apply, "--field-manager=other", stdin=settings % 2, code=1)
    assert 'conflict with "kubectl": .data.a' in rejection
    server.kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=settings % 2)
    assert api.ok("GET", "/api/v1/namespaces/default/configmaps/ours")["data"] == {"a": "2"}
    shown = server.kubectl(
        "get", "configmap", "ours", "-o", "yaml", *(["--show-managed-fields"] if minor >= 21 else [])
    )
    assert "manager: other" in shown

    server.kubectl("apply", "-f", "-", stdin=settings.replace("ours", "moved") % 1)
    moving = (*apply, "--force-conflicts") if minor < 26 else apply  # newer versions migrate client-side apply
    assert "serverside-applied" in server.kubectl(*moving, stdin=settings.replace("ours", "moved") % 2)
    moved = api.ok("GET", "/api/v1/namespaces/default/configmaps/moved")
    owners = {(entry["manager"], entry["operation"]) for entry in moved["metadata"]["managedFields"]}
    assert ("kubectl", "Apply") in owners
    assert (("kubectl-last-applied", "Apply") in owners) == (minor >= 26)
    server.kubectl("delete", "configmap", "ours", "moved")


def test_common_commands(server: Server, api: Api) -> None:
    run = server.kubectl
    run("create", "namespace", "daily")
    team = ("-n", "daily")
    run(*team, "run", "web", "--image=busybox", "--port=80", "--labels=app=web")
    assert run(*team, "expose", "pod", "web", "--port=8080", "--target-port=80") == "service/web exposed\n"
    row = run(*team, "get", "service", "web").splitlines()[1].split()
    assert row[1:2] + row[4:5] == ["ClusterIP", "8080/TCP"]
    assert row[2].startswith("10.0.0.")
    assert row[2] in run(*team, "describe", "service", "web")

    run(*team, "create", "service", "nodeport", "outside", "--tcp=80:80")
    assert 30000 <= int(run(*team, "get", "svc", "outside", "-o", "jsonpath={.spec.ports[0].nodePort}")) < 32768
    run(*team, "create", "service", "externalname", "other", "--external-name=example.com")

    run(*team, "annotate", "pod", "web", "note=a", "--overwrite")
    run(*team, "label", "pod", "web", "tier=front")
    run(*team, "label", "pod", "web", "tier-")
    assert run(*team, "get", "pod", "web", "-o", "jsonpath={.metadata.labels}") == '{"app":"web"}'
    run(*team, "set", "image", "pod/web", "web=busybox:2")
    assert (
        run(*team, "get", "pods", "-o", "custom-columns=I:.spec.containers[0].image", "--no-headers") == "busybox:2\n"
    )
    assert "pod/web" in run(*team, "get", "all")
    assert "condition met" in _waited(server, api)

    run(*team, "create", "role", "reader", "--verb=get", "--resource=pods")
    run(*team, "create", "rolebinding", "readers", "--role=reader", "--user=jane")
    run(*team, "create", "quota", "small", "--hard=pods=5")
    assert run(*team, "auth", "can-i", "delete", "pods") == "yes\n"
    assert "pods" in run("api-resources")
    assert "v1\n" in run("api-versions")
    assert "Server Version" in run("version")
    run(*team, "delete", "pod,service", "--all", "--wait=false")
    run("delete", "namespace", "daily")


def _waited(server: Server, api: Api) -> str:
    path = "/api/v1/namespaces/daily/pods/web/status"
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    api.ok("PATCH", path, ready, content_type="application/merge-patch+json")
    return server.kubectl("-n", "daily", "wait", "--for=condition=Ready", "pod/web", "--timeout=5s")


def test_edit(server: Server, tmp_path: Path) -> None:
    server.kubectl("create", "configmap", "edited", "--from-literal=a=before")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/before/after/ "$1"\n')
    editor.chmod(0o755)
    assert "configmap/edited edited" in server.kubectl("edit", "configmap", "edited", env={"KUBE_EDITOR": str(editor)})
    assert server.kubectl("get", "configmap", "edited", "-o", "jsonpath={.data.a}") == "after"
    server.kubectl("delete", "configmap", "edited")
