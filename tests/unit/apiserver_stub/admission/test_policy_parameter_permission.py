"""Tests for the permission to read the parameters of admission policies."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.policy_parameter_permission import PolicyParameterPermission
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds import config
from apiserver_stub.kinds.admission import resources
from apiserver_stub.kinds.registry import Registry
from apiserver_stub.options import parse
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

OPTIONS = parse(["--feature-gates=ValidatingAdmissionPolicy=true"])
REGISTRY = Registry([*resources(OPTIONS), *config.resources(OPTIONS)])
GROUP = "admissionregistration.k8s.io"
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


class Policies:
    """Lister of one policy, with config maps as parameters."""

    def find(self, collection: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        return (
            {"spec": {"paramKind": KIND}}
            if (collection, name) == (f"{GROUP}/validatingadmissionpolicies", "p")
            else None
        )


async def checked(plural: str, new: dict[str, Any], old: dict[str, Any] | None = None, *, user: str = "jane") -> Any:
    """Return the authorization check and the error, or ``None`` without a check."""
    checks: list[RequestInfo] = []

    async def decide(user: User, info: RequestInfo) -> tuple[bool, str]:
        checks.append(info)
        return False, ""

    plugin = PolicyParameterPermission(Policies(), REGISTRY, decide, Identity())  # type: ignore[arg-type]
    before = None if old is None else {"metadata": {"name": "x"}, "spec": old}
    resource = REGISTRY.find(GROUP, "v1beta1", plural)
    assert resource is not None
    call = make_call({"metadata": {"name": "x"}, "spec": new}, before, resource=resource, user=user)
    try:
        await plugin.validate(call)
    except ApiError as error:
        return checks[0], (error.details or {})["causes"][0]
    return None


@pytest.mark.parametrize(
    ("kind", "info"),
    [
        (KIND, RequestInfo("get", "", "", "v1", "configmaps", "", "*", "*")),
        ({"apiVersion": "a/v1", "kind": "B"}, RequestInfo("get", "", "a", "v1", "*", "", "*", "*")),
    ],
)
async def test_policy_requires_permission_to_read_all_parameters(kind: dict[str, str], info: RequestInfo) -> None:
    check, cause = await checked("validatingadmissionpolicies", {"paramKind": kind})

    assert check == info
    assert cause["field"] == "spec.paramKind"
    assert cause["message"] == (
        'Forbidden: user &{jane  [] map[]} must have "get" permission on all objects of the referenced paramKind '
        f"(kind={kind['kind']}, apiVersion={kind['apiVersion']})"
    )


@pytest.mark.parametrize(
    ("spec", "info"),
    [
        (
            {"policyName": "p", "paramRef": {"name": "a", "namespace": "n"}},
            RequestInfo("get", "", "", "v1", "configmaps", "", "n", "a"),
        ),
        ({"policyName": "q", "paramRef": {"selector": {}}}, RequestInfo("list", "", "*", "*", "*")),
    ],
)
async def test_binding_requires_permission_to_read_its_parameters(spec: dict[str, Any], info: RequestInfo) -> None:
    check, cause = await checked("validatingadmissionpolicybindings", spec)

    assert check == info
    assert cause["field"] == "spec.paramRef"


async def test_unchanged_references_require_no_permission() -> None:
    binding = {"policyName": "p", "paramRef": {"name": "a"}}

    assert await checked("validatingadmissionpolicies", {}) is None
    assert await checked("validatingadmissionpolicies", {"paramKind": KIND}, {"paramKind": KIND}) is None
    assert await checked("validatingadmissionpolicybindings", {"policyName": "p"}) is None
    assert await checked("validatingadmissionpolicybindings", binding, binding) is None
    assert await checked("validatingadmissionpolicybindings", binding, {**binding, "policyName": "q"}) is not None
