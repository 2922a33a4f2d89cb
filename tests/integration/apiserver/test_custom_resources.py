"""Tests for custom resources with kubectl and over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apiserver.provider import Provider

from .conftest import Api, Server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Size of the widget."},
                "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                "port": {"x-kubernetes-int-or-string": True},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def definition(group: str, **version: Any) -> dict[str, Any]:
    """Return the definition of widgets in *group*."""
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": deepcopy(SCHEMA)}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [v1]},
    }


def install(api: Api, new: dict[str, Any]) -> None:
    """Create a definition and wait until it is established."""
    api.ok("POST", DEFINITIONS, new)
    name = new["metadata"]["name"]
    with api.watch(f"{DEFINITIONS}?watch=1&fieldSelector=metadata.name={name}") as events:
        for event in events:
            conditions = event["object"]["status"]["conditions"] or ()
            if any((item["type"], item["status"]) == ("Established", "True") for item in conditions):
                return


def widget(group: str, name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3, **spec}}


@pytest.fixture(scope="module")
def group(server: Server) -> Iterator[str]:
    """API group with widgets, shared by the tests of this module."""
    api = server.api()
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    install(api, definition("example.com", subresources={"status": {}}, additionalPrinterColumns=columns))
    yield "example.com"
    api.close()


@pytest.fixture
def widgets(group: str, namespace: str) -> str:
    """Path of the widgets in the namespace of the test."""
    return f"/apis/{group}/v1/namespaces/{namespace}/widgets"


def test_kubectl_uses_custom_resources_as_built_in_ones(server: Server, group: str, namespace: str) -> None:
    new = json.dumps(widget(group, parts=[{"name": "a", "count": 1}]))

    assert server.kubectl("apply", "-n", namespace, "-f", "-", stdin=new) == "widget.example.com/one created\n"
    assert server.kubectl("apply", "-n", namespace, "-f", "-", stdin=new) == "widget.example.com/one unchanged\n"
    header, row = server.kubectl("get", "wd", "-n", namespace).splitlines()
    assert (header.split(), row.split()[:2]) == (["NAME", "SIZE", "AGE"], ["one", "3"])
    assert "widget.example.com/one" in server.kubectl("get", "all", "-n", namespace)
    path = "jsonpath={.spec.color} {.metadata.generation}"
    assert server.kubectl("get", "wd", "one", "-n", namespace, "-o", path) == "red 1"
    server.kubectl("patch", "wd", "one", "-n", namespace, "--type=merge", "-p", '{"spec":{"size":4}}')
    assert server.kubectl("get", "wd", "one", "-n", namespace, "-o", path) == "red 2"
    assert "widgets" in server.kubectl("api-resources", "--api-group", group)
    assert "True" in server.kubectl("get", "apiservices", f"v1.{group}")
    assert "deleted" in server.kubectl("delete", "wd", "one", "-n", namespace)


def test_invalid_custom_resource_is_rejected_with_all_errors(api: Api, group: str, widgets: str) -> None:
    parts = [{"name": "a"}, {"name": "a"}]

    code, status = api.call("POST", widgets, widget(group, size=11, color="green", port=True, parts=parts))

    assert (code, status["reason"]) == (422, "Invalid")
    found = {(cause["field"], cause["reason"]) for cause in status["details"]["causes"]}
    assert found == {
        ("spec.size", "FieldValueInvalid"),
        ("spec.color", "FieldValueNotSupported"),
        ("spec.port", "FieldValueTypeInvalid"),
        ("spec.parts[1]", "FieldValueDuplicate"),
    }


@pytest.mark.parametrize(("validation", "code"), [("Strict", 400), ("Warn", 201), ("Ignore", 201)])
def test_unknown_fields_are_pruned_or_rejected(api: Api, group: str, widgets: str, validation: str, code: int) -> None:
    new = widget(group, unknown=1)

    found, headers, body = api.raw("POST", f"{widgets}?fieldValidation={validation}", new)

    assert found == code
    assert ('unknown field \\"spec.unknown\\"' in headers.get("warning", "")) is (validation == "Warn")
    if code == 201:
        assert json.loads(body)["spec"] == {"size": 3, "color": "red"}
    else:
        assert 'strict decoding error: unknown field \\"spec.unknown\\"' in body.decode()


def test_watch_and_list_and_status(api: Api, group: str, widgets: str) -> None:
    with api.watch(f"{widgets}?watch=1") as events:
        api.ok("POST", widgets, widget(group))
        created = next(events)
        new = created["object"] | {"spec": {"size": 9}, "status": {"phase": "Ready"}}
        api.ok("PUT", f"{widgets}/one/status", new)
        changed = next(events)
        api.ok("DELETE", f"{widgets}/one")
        deleted = next(events)

    assert [event["type"] for event in (created, changed, deleted)] == ["ADDED", "MODIFIED", "DELETED"]
    assert changed["object"]["spec"] == {"size": 3, "color": "red"}
    assert changed["object"]["status"] == {"phase": "Ready"}
    listed = api.ok("GET", widgets)
    assert (listed["kind"], listed["items"]) == ("WidgetList", [])


def test_kind_is_checked_except_in_updates_of_the_status(api: Api, group: str, widgets: str) -> None:
    created = api.ok("POST", widgets, widget(group))

    code, status = api.call("POST", widgets, widget(group) | {"kind": 5})
    other = created | {"kind": "Gadget", "status": {"phase": "Ready"}}
    rejected, _ = api.call("PUT", f"{widgets}/one", other)
    updated = api.ok("PUT", f"{widgets}/one/status", other)

    assert (code, rejected) == (400, 422)
    assert "cannot unmarshal number into Go struct field .kind of type string" in status["message"]
    assert (updated["kind"], updated["status"]) == ("Widget", {"phase": "Ready"})


def test_nulls_are_invalid_in_applied_and_dropped_in_created_resources(api: Api, group: str, widgets: str) -> None:
    created = api.ok("POST", widgets, widget(group, parts=None))

    path, new = f"{widgets}/one?fieldManager=a&force=true", widget(group, parts=None)
    code, status = api.call("PATCH", path, new, content_type="application/apply-patch+yaml")

    assert created["spec"] == {"size": 3, "color": "red"}
    assert (code, [cause["field"] for cause in status["details"]["causes"]]) == (422, ["spec.parts"])
    assert 'spec.parts in body must be of type array: "null"' in status["message"]


def test_zero_deletion_time_is_ignored(api: Api, group: str, widgets: str) -> None:
    api.ok("POST", widgets, widget(group))

    patch = {"metadata": {"deletionTimestamp": "0001-01-01T00:00:00Z"}}
    code, found = api.call("PATCH", f"{widgets}/one", patch, content_type="application/merge-patch+json")

    assert code == 200
    assert "deletionTimestamp" not in found["metadata"]


def test_strategic_merge_patch_is_not_supported(api: Api, group: str, widgets: str) -> None:
    api.ok("POST", widgets, widget(group))

    code, status = api.call("PATCH", f"{widgets}/one", {}, content_type="application/strategic-merge-patch+json")

    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    assert status["message"].endswith(
        "accepted media types include: application/json-patch+json, application/merge-patch+json, "
        "application/apply-patch+yaml"
    )


def test_applied_fields_have_owners_and_list_items_merge(api: Api, group: str, widgets: str) -> None:
    def apply(manager: str, new: dict[str, Any]) -> tuple[int, Any]:
        path = f"{widgets}/one?fieldManager={manager}"
        return api.call("PATCH", path, new, content_type="application/apply-patch+yaml")

    assert apply("one", widget(group, parts=[{"name": "a", "count": 1}]))[0] == 201
    other = widget(group, parts=[{"name": "b"}])
    del other["spec"]["size"]
    code, merged = apply("two", other)
    assert code == 200
    assert [part["name"] for part in merged["spec"]["parts"]] == ["a", "b"]

    code, status = apply("two", widget(group, size=5))
    assert code == 409
    assert status["details"]["causes"][0]["field"] == ".spec.size"


def test_namespace_deletion_and_garbage_collection_cover_custom_resources(api: Api, group: str) -> None:
    created = api.ok("POST", "/api/v1/namespaces", {"metadata": {"generateName": "custom-"}})
    path = f"/apis/{group}/v1/namespaces/{created['metadata']['name']}/widgets"
    owner = api.ok("POST", path, widget(group))
    reference = {"apiVersion": f"{group}/v1", "kind": "Widget", "name": "one", "uid": owner["metadata"]["uid"]}
    dependent = widget(group, "two")
    dependent["metadata"]["ownerReferences"] = [reference]
    api.ok("POST", path, dependent)
    api.ok("POST", path, widget(group, "three"))

    with api.watch(f"{path}?watch=1&fieldSelector=metadata.name=two") as events:
        assert next(events)["type"] == "ADDED"
        api.ok("DELETE", f"{path}/one")
        assert next(events)["type"] == "DELETED"
    with api.watch(f"{path}?watch=1&fieldSelector=metadata.name=three") as events:
        assert next(events)["type"] == "ADDED"
        api.ok("DELETE", f"/api/v1/namespaces/{created['metadata']['name']}")
        assert next(events)["type"] == "DELETED"


def test_quota_limits_the_number_of_custom_resources(api: Api, group: str, namespace: str, widgets: str) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {f"count/widgets.{group}": "1"}}}
    api.ok("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    api.ok("POST", widgets, widget(group))

    code, status = api.call("POST", widgets, widget(group, "two"))

    assert (code, status["reason"]) == (403, "Forbidden")
    assert f"exceeded quota: few, requested: count/widgets.{group}=1" in status["message"]


def test_deleted_definition_takes_its_resources_and_paths_along(api: Api, namespace: str) -> None:
    install(api, definition("other.example.com"))
    path = f"/apis/other.example.com/v1/namespaces/{namespace}/widgets"
    api.ok("POST", path, widget("other.example.com"))

    with api.watch(f"{DEFINITIONS}?watch=1&fieldSelector=metadata.name=widgets.other.example.com") as events:
        next(events)
        deleted = api.ok("DELETE", f"{DEFINITIONS}/widgets.other.example.com")
        assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert next(event for event in events if event["type"] == "DELETED")

    assert api.call("GET", path)[0] == 404
    install(api, definition("other.example.com"))
    assert api.ok("GET", path)["items"] == []
    api.ok("DELETE", f"{DEFINITIONS}/widgets.other.example.com")


def test_custom_resources_survive_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    path = "/apis/example.com/v1/namespaces/default/widgets"
    install(server.api(), definition("example.com"))
    server.api().ok("POST", path, widget("example.com"))

    assert server.stop() == 0
    server.start()

    assert server.api().ok("GET", f"{path}/one")["spec"]["size"] == 3
    assert server.stop() == 0


def test_kubectl_scales_explains_and_lists_custom_resources(server: Server, namespace: str) -> None:
    api, group = server.api(), "scale.example.com"
    paths = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    new = definition(group, subresources={"status": {}, "scale": paths})
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] = {
        "size": {"type": "integer"},
        "selector": {"type": "string"},
    }
    install(api, new)
    root = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    api.ok("POST", root, widget(group))
    status = {"size": 2, "selector": "a=b"}
    api.ok("PATCH", f"{root}/one/status", {"status": status}, content_type="application/merge-patch+json")

    server.kubectl("scale", f"widgets.{group}/one", "-n", namespace, "--replicas=5")

    scale = api.ok("GET", f"{root}/one/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 5}, {"replicas": 2, "selector": "a=b"})
    assert [item["kind"] for item in api.ok("GET", root)["items"]] == ["Widget"]
    explained = server.kubectl("explain", "widgets.spec.size", "--api-version", f"{group}/v1")
    assert ("FIELD: size <integer>" in explained, "Size of the widget." in explained) == (True, True)
    api.close()


def test_scale_without_number_of_replicas_can_only_be_set(api: Api, namespace: str) -> None:
    group, merge = "unscaled.example.com", "application/merge-patch+json"
    paths = {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}
    new = definition(group, subresources={"scale": paths})
    fields = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["count"] = {"type": "integer"}
    install(api, new)
    root = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    api.ok("POST", root, widget(group))

    code, status = api.call("GET", f"{root}/one/scale")
    message = 'Internal error occurred: the spec replicas field ".spec.count" does not exist'
    assert (code, status["reason"], status["message"]) == (500, "InternalError", message)

    code, status = api.call("PATCH", f"{root}/one/scale", {"metadata": {"labels": {"a": "b"}}}, content_type=merge)
    assert (code, status["message"]) == (400, 'the spec replicas field ".spec.count" cannot be empty')

    api.ok("PATCH", f"{root}/one/scale", {"spec": {"replicas": 2}}, content_type=merge)
    assert api.ok("GET", f"{root}/one/scale")["spec"] == {"replicas": 2}


def test_rules_of_the_schema_apply_to_new_and_changed_resources(api: Api, server: Server, namespace: str) -> None:
    group = "rules.example.com"
    new = definition(group)
    spec = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [
        {"rule": "self.size % 2 == 1", "messageExpression": "'%d is even'.format([self.size])", "fieldPath": ".size"},
        {"rule": "self.size >= oldSelf.size", "message": "size cannot decrease"},
    ]
    invalid = json.loads(json.dumps(new).replace("self.size % 2", "self.sizes % 2"))
    code, status = api.call("POST", DEFINITIONS, invalid)
    assert (code, "undefined field 'sizes'" in status["message"]) == (422, True)
    install(api, new)

    sent = json.dumps(widget(group, size=4))
    output = server.kubectl("apply", "-n", namespace, "-f", "-", stdin=sent, code=1)
    assert 'The Widget "one" is invalid: spec.size: Invalid value: "object": 4 is even' in output
    root = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    api.ok("POST", root, widget(group, size=5))
    patch = {"spec": {"size": 3}}
    code, status = api.call("PATCH", f"{root}/one", patch, content_type="application/merge-patch+json")
    assert (code, status["details"]["causes"][0]["message"]) == (422, 'Invalid value: "object": size cannot decrease')


def test_webhooks_convert_between_versions(api: Api, namespace: str, tmp_path: Path) -> None:
    group, provider = "converted.example.com", Provider(tmp_path)
    batches = []

    def convert(review: Any) -> tuple[int, Any]:
        request, converted = review["request"], deepcopy(review["request"]["objects"])
        batches.append(len(converted))
        for obj in converted:
            old, new = ("size", "width") if request["desiredAPIVersion"].endswith("/v2") else ("width", "size")
            obj["apiVersion"], obj["spec"][new] = request["desiredAPIVersion"], obj["spec"].pop(old)
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        return 200, {**review, "request": None, "response": response}

    provider.paths["/convert"] = convert
    bundle = base64.b64encode(provider.ca_file.read_bytes()).decode()
    client = {"url": f"{provider.url}/convert", "caBundle": bundle}
    new = definition(group)
    (v1,) = new["spec"]["versions"]
    v2 = json.loads(json.dumps({**v1, "name": "v2", "storage": False}).replace('"size"', '"width"'))
    new["spec"]["versions"].append(v2)
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    new["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    install(api, new)
    old_root, root = (f"/apis/{group}/{version}/namespaces/{namespace}/widgets" for version in ("v1", "v2"))

    sent = widget(group) | {"apiVersion": f"{group}/v2", "spec": {"width": 4}}
    assert api.ok("POST", root, sent)["spec"] == {"width": 4, "color": "red"}
    api.ok("POST", old_root, widget(group, "two"))
    assert api.ok("GET", f"{old_root}/one")["spec"] == {"size": 4, "color": "red"}
    batches.clear()
    assert [item["spec"]["width"] for item in api.ok("GET", root)["items"]] == [4, 3]
    assert batches == [2]
    patch = {"spec": {"width": 5}}
    patched = api.ok("PATCH", f"{root}/two", patch, content_type="application/merge-patch+json")
    assert (patched["spec"]["width"], api.ok("GET", f"{old_root}/two")["spec"]["size"]) == (5, 5)
    with api.watch(f"{root}?watch=1") as events:
        first = [next(events)["object"]["spec"]["width"] for _ in range(2)]
        api.ok("PUT", f"{old_root}/one", {**api.ok("GET", f"{old_root}/one"), "spec": {"size": 7}})
        event = next(events)
    assert (first, event["type"], event["object"]["spec"]["width"]) == ([4, 5], "MODIFIED", 7)

    seen = []

    def check(review: Any) -> tuple[int, Any]:
        seen.append(review["request"]["object"]["spec"]["size"])
        patch = base64.b64encode(b'[{"op": "replace", "path": "/spec/size", "value": 9}]').decode()
        response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
        return 200, {**review, "request": None, "response": response}

    provider.paths["/check"] = check
    hook = {
        "name": "check.example.com",
        "clientConfig": {**client, "url": f"{provider.url}/check"},
        "rules": [{"operations": ["UPDATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": ["widgets"]}],
        "matchConditions": [{"name": "size", "expression": "object.spec.size == 8"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    api.ok("POST", hooks, {"metadata": {"name": "converted"}, "webhooks": [hook]})
    patched = api.ok("PATCH", f"{root}/one", {"spec": {"width": 8}}, content_type="application/merge-patch+json")
    assert (seen, patched["spec"]["width"]) == ([8], 9)
    api.ok("DELETE", f"{hooks}/converted")

    provider.paths["/convert"] = lambda _: (500, {})
    code, status = api.call("GET", f"{root}/one")
    assert (code, f"conversion webhook for {group}/v1, Kind=Widget failed: " in status["message"]) == (500, True)
    api.ok("DELETE", f"{old_root}/one")
    provider.paths["/convert"] = convert
    api.ok("DELETE", f"{root}/two")
    assert api.ok("GET", root)["items"] == []
    provider.close()


def test_kind_is_only_served_at_paths_of_its_scope(server: Server, group: str, namespace: str) -> None:
    api = server.api()
    global_kind = definition("global.example.com")
    global_kind["spec"]["scope"] = "Cluster"
    install(api, global_kind)
    api.ok("POST", "/apis/global.example.com/v1/widgets", widget("global.example.com"))
    api.ok("POST", f"/apis/{group}/v1/namespaces/{namespace}/widgets", widget(group, "scoped"))

    within = f"/apis/global.example.com/v1/namespaces/{namespace}/widgets"
    for method, path, body in (
        ("GET", f"{within}/one", None),
        ("GET", within, None),
        ("GET", f"{within}?watch=1&timeoutSeconds=1", None),
        ("POST", within, widget("global.example.com", "two")),
        ("DELETE", f"{within}/one", None),
        ("GET", f"/apis/{group}/v1/widgets/scoped", None),
    ):
        code, reply = api.call(method, path, body)
        assert (code, reply["kind"]) in ((404, "Status"), (405, "Status")), path
    assert api.ok("GET", "/apis/global.example.com/v1/widgets/one")
    api.ok("DELETE", f"{DEFINITIONS}/widgets.global.example.com")


@pytest.mark.parametrize(
    "path",
    [
        "widgets%2f..%2fgadgets",
        "widgets/..%2fgadgets%2fhidden",
        "widgets/../gadgets/hidden",
        "namespaces/..%2f..%2fgadgets/widgets",
        "namespaces/..%2fgadgets/widgets/hidden",
        "namespaces/%2e%2e/widgets/hidden",
    ],
)
def test_path_leads_to_no_other_kind_of_the_group(server: Server, group: str, namespace: str, path: str) -> None:
    api = server.api()
    other = definition(group)
    other["metadata"]["name"] = f"gadgets.{group}"
    other["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    install(api, other)
    gadget = {**widget(group, "hidden"), "kind": "Gadget"}
    api.ok("POST", f"/apis/{group}/v1/namespaces/{namespace}/gadgets", gadget)

    code, _, text = api.raw("GET", f"/apis/{group}/v1/{path}")

    api.ok("DELETE", f"{DEFINITIONS}/gadgets.{group}")
    assert code in (400, 404, 405) or json.loads(text)["items"] == []
    assert b"Gadget" not in text
