"""Tests for the secrets that the ServiceAccount admission plugin permits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.service_account import ServiceAccount
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity

ACCOUNT = {
    "metadata": {"name": "robot", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
    "secrets": [{"name": "own"}],
}
VARIABLE = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]}
SOURCE = {"envFrom": [{"secretRef": {"name": "other"}}]}
OWN = {"envFrom": [{"secretRef": {"name": "own"}}]}


def pod(kind: str, *references: dict[str, Any]) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": "i", **each} for number, each in enumerate(references)]
    return {"metadata": {"name": "web"}, "spec": {"serviceAccountName": "robot", kind: containers}}


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("reference", [VARIABLE, SOURCE], ids=["env", "envFrom"])
async def test_other_secret_is_rejected_in_each_kind_of_container(
    call: Any, kind: str, reference: dict[str, Any]
) -> None:
    admission = AdmissionChain([ServiceAccount(SimpleNamespace(find=lambda *_: ACCOUNT), Identity())])  # type: ignore[arg-type]
    options: dict[str, Any] = {}
    if kind == "ephemeralContainers":
        options = {"operation": "UPDATE", "subresource": "ephemeralcontainers"}

    await admission.check(call(pod(kind, OWN), pod(kind), **options))
    with pytest.raises(ApiError, match=r"referencing secret\.secretName=\"other\" is not allowed"):
        await admission.check(call(pod(kind, OWN, reference), pod(kind), **options))
