"""Tests for AdmissionReview messages and the rules of webhooks."""

from __future__ import annotations

import base64
import json
from typing import Any

from apiserver_stub.admission.webhooks.matching import is_exempt, matched_as, namespace_matches, object_matches
from apiserver_stub.admission.webhooks.review import WebhookCallError, denial, read_response, request_body
from apiserver_stub.apimachinery.request import User
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.selectors import parse_label_selector
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Object

REGISTRY = build_registry(parse([]))
V1 = "admission.k8s.io/v1"
POD = {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {}}
SCALE = {"metadata": {"name": "d"}}


def resource(plural: str, group: str = "", version: str = "v1") -> Any:
    return REGISTRY.find(group, version, plural)


def encoded(patch: Any) -> str:
    return base64.b64encode(json.dumps(patch).encode()).decode()


def test_request_describes_the_operation_and_the_user() -> None:
    user = User("u", "id", ("g",), {"k": ("v",)})
    call = make_call(POD, resource=resource("pods"), user=user)
    request = request_body(call, call.resource, "v1", POD, None)["request"]
    del request["uid"]
    assert request == {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "p",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "u", "uid": "id", "groups": ["g"], "extra": {"k": ["v"]}},
        "object": POD,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }


def test_kind_namespace_and_options_depend_on_the_request() -> None:
    def of(new: Object, plural: str, group: str = "", method: str = "POST", **fields: Any) -> Object:
        call = make_call(new, resource=resource(plural, group), **fields)
        call.request.method = method
        found: Object = request_body(call, call.resource, "v1", new, None)["request"]
        return found

    node, namespace = of(POD, "nodes"), of(POD, "namespaces")
    assert ("namespace" in node, namespace["namespace"]) == (False, "p")
    assert set(node["userInfo"]) == {"username", "groups"}
    scale = of(SCALE, "deployments", "apps", subresource="scale", operation="UPDATE")
    assert scale["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (scale["subResource"], scale["requestSubResource"]) == ("scale", "scale")
    connected = of({"kind": "PodExecOptions"}, "pods", subresource="exec", operation="CONNECT")
    assert connected["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    status = of(POD, "pods", subresource="status", operation="UPDATE")
    assert status["kind"]["kind"] == "Pod"
    for method, operation, dry_run, expected in (
        ("PUT", "UPDATE", False, "UpdateOptions"),
        ("PATCH", "UPDATE", False, "PatchOptions"),
        ("PATCH", "CREATE", False, "CreateOptions"),
        ("PATCH", "DELETE", True, "DeleteOptions"),
        ("DELETE", "DELETE", False, "DeleteOptions"),
        ("POST", "CONNECT", False, None),
    ):
        options = of(POD, "pods", method=method, operation=operation, dry_run=dry_run)["options"]
        assert (options and options["kind"]) == expected, (method, operation)
        assert (options or {}).get("dryRun") == (["All"] if dry_run else None), (method, operation)


def test_responses_are_checked() -> None:
    def read(response: Any, version: str = V1, *, may_patch: bool = True, **body: Any) -> str:
        content = {"kind": "AdmissionReview", "apiVersion": V1, "response": response, **body}
        try:
            read_response(content, version, "1", may_patch=may_patch)
        except WebhookCallError as error:
            return str(error)
        return ""

    beta, patch = "admission.k8s.io/v1beta1", encoded([{"op": "test"}])
    for title, found, expected in (
        ("allowed", read({"uid": "1", "allowed": True}), ""),
        ("absent", read(None), "webhook response was absent"),
        ("another version", read({"uid": "1"}, apiVersion=beta), f"expected webhook response of {V1}"),
        ("another kind", read({"uid": "1"}, kind="X"), f"got {V1}, Kind=X"),
        ("another UID", read({"uid": "2"}), 'expected response.uid="1", got "2"'),
        ("no UID", read({}), 'expected response.uid="1", got ""'),
        ("beta is not checked", read({}, beta, kind="X"), ""),
        ("patch", read({"uid": "1", "patch": patch, "patchType": "JSONPatch"}), ""),
        ("patch without type", read({"uid": "1", "patch": patch}), "not response.patchType"),
        ("beta patch without type", read({"patch": patch}, beta), ""),
        ("patch of a validating webhook", read({"uid": "1", "patch": patch}, may_patch=False), "may not return"),
        ("no list", read({"patch": encoded({})}, beta), "received invalid webhook response: Expected `array | null`"),
        ("no operations", read({"patch": encoded([7])}, beta), "received invalid webhook response: Expected `object`"),
        ("null as patch", read({"patch": encoded(None)}, beta), ""),
        ("no base64", read({"patch": "!"}, beta), "received invalid webhook response"),
        ("no object", read({"uid": "1", "status": 5}), "received invalid webhook response"),
        ("empty patch", read({"uid": "1", "patch": ""}, may_patch=False), ""),
        ("decision as text", read({"uid": "1", "allowed": "false"}), "allowed is of type string"),
        ("decision as number", read({"uid": "1", "allowed": 1}), "allowed is of type number"),
        ("no decision", read({"uid": "1", "allowed": None}), ""),
        ("UID as number", read({"uid": 1}, beta), "uid is of type number"),
        ("patch as list", read({"uid": "1", "patch": []}), "patch is of type array"),
        ("type of patch as list", read({"uid": "1", "patchType": []}), "patchType is of type array"),
        ("annotations as list", read({"uid": "1", "auditAnnotations": []}), "auditAnnotations is of type array"),
        ("annotation as number", read({"uid": "1", "auditAnnotations": {"a": 1}}), "is not a string"),
        ("warnings as text", read({"uid": "1", "warnings": "text"}), "warnings is of type string"),
        ("warning as number", read({"uid": "1", "warnings": [1]}), "is not a string"),
    ):
        assert (expected in found) if expected else not found, (title, found)


def test_decision_has_patch_annotations_and_warnings() -> None:
    patch = [{"op": "test"}]
    response = {
        "uid": "1",
        "allowed": True,
        "status": {"code": 1},
        "patch": encoded(patch),
        "patchType": "JSONPatch",
        "auditAnnotations": {"a": "b"},
        "warnings": ["x" * 300],
    }
    found = read_response({"kind": "AdmissionReview", "apiVersion": V1, "response": response}, V1, "1", may_patch=True)
    assert (found.allowed, found.status, found.patch) == (True, {"code": 1}, patch)
    assert (found.annotations, found.warnings) == ({"a": "b"}, ["x" * 256])


def test_denial_has_the_code_and_the_message_of_the_webhook() -> None:
    start = 'admission webhook "w" denied the request'
    for status, code, message, reason in (
        ({}, 400, f"{start} without explanation", ""),
        ({"message": "m", "reason": "R"}, 400, f"{start}: m", "R"),
        ({"reason": "R"}, 400, f"{start}: R", "R"),
        ({"code": 403}, 403, f"{start} without explanation", ""),
        ({"code": 400}, 400, f"{start} without explanation", ""),
        ({"code": 599}, 599, f"{start} without explanation", ""),
        ({"code": 600}, 400, f"{start} without explanation", ""),
        ({"code": 200}, 400, f"{start} without explanation", ""),
        ({"code": "403"}, 400, f"{start} without explanation", ""),
    ):
        error = denial("w", status)
        assert (error.code, error.message, error.reason) == (code, message, reason), status
    assert denial("w", {"details": {"a": "b"}}).details == {"a": "b"}
    assert denial("w", {"details": 5}).details is None


def test_rules_match_operation_resource_scope_and_name() -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    pods, nodes = resource("pods"), resource("nodes")
    for title, change, found, subresource, expected in (
        ("equal", {}, pods, "", True),
        ("everything", {name: ["*"] for name in rule}, pods, "", True),
        ("everything but subresources", {"resources": ["*"]}, pods, "status", False),
        ("everything with subresources", {"resources": ["*/*"]}, pods, "status", True),
        ("subresources of pods", {"resources": ["pods/*"]}, pods, "status", True),
        ("one subresource", {"resources": ["pods/status"]}, pods, "status", True),
        ("another subresource", {"resources": ["pods/exec"]}, pods, "status", False),
        ("a subresource only", {"resources": ["pods/status"]}, pods, "", False),
        ("another operation", {"operations": ["UPDATE"]}, pods, "", False),
        ("another group", {"apiGroups": ["apps"]}, pods, "", False),
        ("another version", {"apiVersions": ["v2"]}, pods, "", False),
        ("another resource", {"resources": ["services"]}, pods, "", False),
        ("no resources", {"resources": None}, pods, "", False),
        ("any scope", {"scope": "*"}, pods, "", True),
        ("in namespaces", {"scope": "Namespaced"}, pods, "", True),
        ("in the cluster", {"scope": "Cluster"}, pods, "", False),
        ("node in namespaces", {"scope": "Namespaced", "resources": ["nodes"]}, nodes, "", False),
        ("node in the cluster", {"scope": "Cluster", "resources": ["nodes"]}, nodes, "", True),
        ("name", {"resourceNames": ["p"]}, pods, "", True),
        ("another name", {"resourceNames": ["q"]}, pods, "", False),
        ("no names", {"resourceNames": []}, pods, "", True),
    ):
        call = make_call(POD, resource=found, subresource=subresource)
        matched = matched_as([{**rule, **change}], "Exact", call, REGISTRY)
        assert matched is (found if expected else None), title
    assert matched_as([], "Exact", make_call(POD, resource=pods), REGISTRY) is None


def test_equivalent_policy_matches_other_versions() -> None:
    rule = {"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["*"]}
    first, second = (resource("horizontalpodautoscalers", "autoscaling", version) for version in ("v1", "v2"))
    call = make_call(POD, resource=first)
    assert matched_as([rule], "Equivalent", call, REGISTRY) is second
    assert matched_as([rule], "Exact", call, REGISTRY) is None
    assert matched_as([{**rule, "apiVersions": ["v3"]}], "Equivalent", call, REGISTRY) is None
    assert matched_as([{**rule, "operations": ["DELETE"]}], "Equivalent", call, REGISTRY) is None


def test_equivalent_policy_matches_no_other_resources() -> None:
    rule = {"operations": ["CREATE"], "apiGroups": ["g"], "apiVersions": ["v2"], "resources": ["*"]}
    first = Resource("g", "v1", "A", "as", storage="g/as", convert=dict)
    same_storage = Resource("g", "v2", "B", "bs", storage="g/as")
    same_plural = Resource("g", "v2", "A", "as", storage="g/others")
    registry: Any = [first, same_storage, same_plural]
    assert first.has_versions
    assert matched_as([rule], "Equivalent", make_call(POD, resource=first), registry) is None


def test_selectors_match_namespaces_and_objects() -> None:
    web, everything = parse_label_selector("app=web"), parse_label_selector("")
    labeled, other = {"metadata": {"labels": {"app": "web"}}}, {"metadata": {"labels": {"app": "db"}}}
    for plural, new, old, namespace, expected in (
        ("pods", POD, None, labeled, True),
        ("pods", POD, None, other, False),
        ("nodes", POD, None, other, True),
        ("namespaces", labeled, None, other, True),
        ("namespaces", other, None, labeled, False),
        ("namespaces", None, labeled, other, True),
    ):
        call = make_call(new, old, resource=resource(plural))
        assert namespace_matches(web, call, namespace) is expected, (plural, new)
    for new, old, expected in (
        (labeled, None, True),
        (other, None, False),
        (other, labeled, True),
        (labeled, other, True),
        (None, other, False),
    ):
        assert object_matches(web, make_call(new, old)) is expected, (new, old)
    assert object_matches(everything, make_call(None, None))


def test_configurations_of_admission_are_exempt() -> None:
    group = "admissionregistration.k8s.io"
    assert is_exempt(resource("mutatingwebhookconfigurations", group), group)
    assert not is_exempt(resource("mutatingwebhookconfigurations", group), "example.com")
    assert not is_exempt(resource("pods"), "")
