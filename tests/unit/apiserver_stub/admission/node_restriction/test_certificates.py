"""Tests for the checks of pod certificate requests of node agents: differences that may be races are not 403."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission.node_restriction.certificates import PodCertificateChecks
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

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
