"""Tests for the PodTolerationRestriction admission plugin."""

from __future__ import annotations

import json

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.pod_toleration_restriction import PodTolerationRestriction
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity


class Plain:
    """Lister of a namespace without annotations."""

    def namespace(self, name):
        return {"metadata": {"name": name}}


class Annotated:
    """Lister of a namespace with annotations."""

    def __init__(self, **annotations):
        self.annotations = {f"scheduler.alpha.kubernetes.io/{name}": text for name, text in annotations.items()}

    def namespace(self, name):
        return {"metadata": {"name": name, "annotations": self.annotations}}


@pytest.mark.row("admission.PodTolerationRestriction")
async def test_tolerations_must_be_in_the_cluster_whitelist(call):
    head = {"apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    memory = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    admission = AdmissionChain([PodTolerationRestriction(Plain(), {**head, "whitelist": [memory]}, Identity())])
    burstable = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    plain = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    requesting = {"metadata": {"name": "p"}, "spec": {"containers": [burstable]}}
    eager = {"metadata": {"name": "p"}, "spec": {"containers": [burstable], "tolerations": [gpu]}}

    await admission.check(call(plain))
    await admission.check(call(requesting))
    with pytest.raises(ApiError) as error:
        await admission.check(call(eager))

    assert "tolerations" not in plain["spec"]
    assert requesting["spec"]["tolerations"] == [memory]
    assert error.value.code == 403
    assert error.value.message.endswith("conflict with its cluster whitelist")


HEAD = {"apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration"}
GPU, DISK = ({"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in ("gpu", "disk"))


@pytest.mark.parametrize(
    ("annotations", "operation", "given", "expected"),
    [
        ({}, "CREATE", None, [GPU]),
        ({}, "UPDATE", None, None),
        ({}, "CREATE", [DISK], [GPU, DISK]),
        ({"defaultTolerations": json.dumps([DISK])}, "CREATE", None, [DISK]),
        ({"defaultTolerations": ""}, "CREATE", None, None),
        ({"defaultTolerations": "[]"}, "CREATE", [GPU], [GPU]),
    ],
)
async def test_default_tolerations_are_those_of_the_namespace(call, annotations, operation, given, expected):
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}], **({"tolerations": given} if given else {})},
    }
    plugin = PodTolerationRestriction(Annotated(**annotations), {**HEAD, "default": [GPU]}, Identity())

    await plugin.admit(call(pod, pod, operation=operation))

    assert pod["spec"].get("tolerations") == expected


@pytest.mark.parametrize(
    ("annotations", "tolerations", "problem"),
    [
        ({"tolerationsWhitelist": json.dumps([DISK])}, [DISK], ""),
        ({"tolerationsWhitelist": json.dumps([DISK])}, [GPU], "conflict with its namespace whitelist"),
        ({"tolerationsWhitelist": ""}, [DISK], ""),
        ({}, [DISK], "conflict with its cluster whitelist"),
        ({}, [], ""),
        ({"tolerationsWhitelist": "{"}, [GPU], "Internal error occurred"),
    ],
)
async def test_whitelist_of_the_namespace_takes_precedence(call, annotations, tolerations, problem):
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [], "tolerations": tolerations}}
    plugin, found = PodTolerationRestriction(Annotated(**annotations), {**HEAD, "whitelist": [GPU]}, Identity()), ""

    try:
        await plugin.validate(call(pod))
    except ApiError as error:
        found = error.message

    assert problem in found
    assert bool(found) == bool(problem)
