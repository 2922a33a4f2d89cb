"""Tests for the SecurityContextDeny admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.plugins.security_context_deny import SecurityContextDeny
from apiserver_stub.apimachinery.status import ApiError
from tests.unit.apiserver_stub.admission.conftest import make_call


@pytest.mark.parametrize(
    ("pod", "container", "problem"),
    [
        (None, None, ""),
        ({"runAsNonRoot": True}, {"privileged": True}, ""),
        ({"supplementalGroups": []}, None, "pod.Spec.SecurityContext.SupplementalGroups is forbidden"),
        ({"seLinuxOptions": {}}, None, "pod.Spec.SecurityContext.SELinuxOptions is forbidden"),
        ({"runAsUser": 0}, None, "pod.Spec.SecurityContext.RunAsUser is forbidden"),
        ({"fsGroup": 1}, None, "pod.Spec.SecurityContext.FSGroup is forbidden"),
        (None, {"seLinuxOptions": {}}, "SecurityContext.SELinuxOptions is forbidden"),
        (None, {"runAsUser": 1}, "SecurityContext.RunAsUser is forbidden"),
    ],
)
@pytest.mark.row("admission.SecurityContextDeny")
async def test_users_groups_and_labels_are_rejected(pod: Any, container: Any, problem: str) -> None:
    spec = {"securityContext": pod, "containers": [{"name": "c", "securityContext": container}]}
    found = ""

    try:
        await SecurityContextDeny().validate(make_call({"metadata": {"name": "p"}, "spec": spec}))
    except ApiError as error:
        found = error.message.partition("is forbidden: ")[2]

    assert found == problem
