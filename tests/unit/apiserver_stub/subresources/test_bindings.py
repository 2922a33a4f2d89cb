"""Tests for bindings of pods to nodes."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver_stub.api import Api, Object

PODS = "/api/v1/namespaces/default/pods"


def binding(name: str = "p", node: str = "n", **fields: Any) -> Object:
    target = fields.pop("target", {"name": node})
    return {"metadata": {"name": name, **fields}, "target": target}


async def server(**fields: Any) -> Api:
    """Return a server with the pod p."""
    api = Api()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    created = await api.create(PODS, {"metadata": {"name": "p", "annotations": {"a": "1"}}, "spec": spec})
    for part, values in fields.items():
        created[part] |= values
    api.store.put("core/pods", created)
    return api


async def test_pod_is_assigned_to_the_node() -> None:
    for target in (f"{PODS}/p/binding", "/api/v1/namespaces/default/bindings"):
        api = await server()
        response = await api.request("POST", target, binding(annotations={"b": "2"}))
        pod = (await api.get(f"{PODS}/p")).obj
        assert (response.code, response.obj["status"], pod["spec"]["nodeName"]) == (201, "Success", "n"), target
        assert pod["metadata"]["annotations"] == {"a": "1", "b": "2"}, target
        assert pod["status"]["conditions"][0]["type"] == "PodScheduled", target


async def test_dry_run_changes_nothing() -> None:
    api = await server()
    assert (await api.request("POST", f"{PODS}/p/binding?dryRun=All", binding())).code == 201
    assert "nodeName" not in (await api.get(f"{PODS}/p")).obj["spec"]


async def test_unusable_bindings_are_rejected() -> None:
    kind = 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'
    for title, obj, fields, code, message in (
        ("another name", binding("q"), {}, 400, "name in URL does not match name in Binding object"),
        ("another kind", binding(target={"kind": "Pod", "name": "n"}), {}, 500, kind),
        ("no node", binding(node=""), {}, 500, "target.name: Required value"),
        ("both", binding(target={"kind": "Pod"}), {}, 500, f"[{kind}, target.name: Required value]"),
        ("node by kind", binding(target={"kind": "Node", "name": "n"}), {}, 201, ""),
        ("another UID", binding(uid="x"), {}, 409, "UID in precondition: x"),
        ("another version", binding(resourceVersion="9"), {}, 409, "ResourceVersion in precondition: 9"),
        ("same UID", binding(uid="u"), {"metadata": {"uid": "u"}}, 201, ""),
        ("deleted", binding(), {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 409, "is being deleted"),
        ("assigned", binding(), {"spec": {"nodeName": "m"}}, 409, 'pod p is already assigned to node "m"'),
        ("gated", binding(), {"spec": {"schedulingGates": [{"name": "g"}]}}, 409, "non-empty .spec.schedulingGates"),
    ):
        api = await server(**fields)
        response = await api.request("POST", f"{PODS}/p/binding", obj)
        assert (response.code, message in response.message) == (code, True), (title, response.body)
    api = Api()
    for target, obj, code in (
        (f"{PODS}/p/binding", binding(), 404),
        ("/api/v1/namespaces/default/bindings", {"metadata": {}, "target": {"name": "n"}}, 400),
    ):
        assert (await api.request("POST", target, obj)).code == code, target
