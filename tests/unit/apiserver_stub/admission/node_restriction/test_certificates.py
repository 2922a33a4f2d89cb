"""Tests for the checks of pod certificate requests of node agents: differences that may be races are not 403."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission.node_restriction.certificates import PodCertificateChecks, check_signing_request
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.admission.signing_requests import signing_request

STORED = {
    "core/nodes": {"metadata": {"uid": "n"}},
    "core/pods": {"metadata": {"uid": "p"}, "spec": {"nodeName": "n1", "serviceAccountName": "a"}},
    "core/serviceaccounts": {"metadata": {"uid": "s"}},
}
SPEC = {"nodeName": "n1", "nodeUID": "n", "podName": "web", "podUID": "p"}
SPEC |= {"serviceAccountName": "a", "serviceAccountUID": "s"}


@pytest.mark.parametrize(
    ("missing", "changes", "code"),
    [
        ("", {}, 0),
        ("", {"nodeName": "n2"}, 403),
        ("", {"nodeUID": "x"}, 500),
        ("", {"podUID": "x"}, 500),
        ("", {"serviceAccountName": "b"}, 403),
        ("", {"serviceAccountUID": "x"}, 500),
        ("core/nodes", {}, 500),
        ("core/pods", {}, 500),
        ("core/serviceaccounts", {}, 500),
    ],
)
def test_request_must_name_a_pod_of_the_node(missing: str, changes: dict[str, str], code: int) -> None:
    lister: Any = SimpleNamespace(find=lambda collection, *_: None if collection == missing else STORED[collection])
    checks = PodCertificateChecks(lister, Identity(), is_enabled=True)
    found = 0

    try:
        checks.check(make_call({"metadata": {"name": "r"}, "spec": {**SPEC, **changes}}), "n1")
    except ApiError as error:
        found = error.code

    assert found == code


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"podUID": "x"}, 'PodCertificateRequest for pod "default/web" contains pod UID ("x") which differs from'),
        ({"podName": None, "podUID": "x"}, 'PodCertificateRequest for pod "default/" contains pod UID ("x")'),
        ({"podName": None}, 'while retrieving pod "default/" named in the PodCertificateRequest: pod "" not found'),
        ({"nodeUID": None}, 'PodCertificateRequest for pod "default/web" names node UID "", inconsistent with'),
        ({"nodeName": None}, 'PodCertificateRequest.Spec.NodeName="", which is not the requesting node "n1"'),
        ({"serviceAccountName": None}, 'contains serviceAccountName ("") that differs from running pod ("a")'),
        ({"serviceAccountUID": None}, 'names service account UID "", which differs from the running service account'),
        ({"podUID": None}, 'contains pod UID ("") which differs from running pod "p"'),
    ],
)
def test_error_names_the_requested_objects(changes: dict[str, Any], message: str) -> None:
    def find(collection: str, name: str, namespace: str = "") -> Any:
        missing = collection == "core/pods" and not name and "podUID" not in changes
        return None if missing else STORED[collection]

    checks = PodCertificateChecks(SimpleNamespace(find=find), Identity(), is_enabled=True)  # type: ignore[arg-type]

    with pytest.raises(ApiError) as error:
        checks.check(make_call({"metadata": {"name": "r"}, "spec": {**SPEC, **changes}}), "n1")

    assert message in error.value.message


@pytest.mark.parametrize(
    ("signer", "name", "operation", "problem"),
    [
        ("kubernetes.io/kubelet-serving", "system:node:n1", "CREATE", ""),
        ("kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1", "CREATE", ""),
        ("kubernetes.io/kubelet-serving", "system:node:n2", "CREATE", "can only create a node CSR with CN=system:node"),
        ("kubernetes.io/kube-apiserver-client", "system:node:n2", "CREATE", ""),
        ("kubernetes.io/kubelet-serving", "system:node:n2", "UPDATE", ""),
        ("kubernetes.io/kubelet-serving", None, "CREATE", "unable to parse csr: "),
    ],
)
def test_node_requests_certificates_only_for_itself(
    signer: str, name: str | None, operation: str, problem: str
) -> None:
    spec = {"signerName": signer, "request": signing_request(name) if name else None}
    found = ""

    try:
        call = make_call({"metadata": {"name": "r"}, "spec": spec}, operation=operation)
        check_signing_request(call, "n1", Identity())
    except ApiError as error:
        found = error.message

    assert problem in found
    assert bool(found) == bool(problem)
