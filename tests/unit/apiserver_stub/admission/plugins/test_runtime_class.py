"""Tests for the RuntimeClass admission plugin."""

from __future__ import annotations

from typing import Any

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins.runtime_class import RuntimeClass
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Object
from tests.unit.apiserver_stub.authz.conftest import Memory

FIXED, OVERHEAD = {"cpu": "250m"}, {"podFixed": {"cpu": "250m"}}
OTHER = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
WITHOUT = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


async def admitted(fields: Object, **spec: Any) -> Object | str:
    """Return the spec of a pod of the class r with *fields*, or the error."""
    store: Any = Memory()
    store.put("node.k8s.io/runtimeclasses", {"metadata": {"name": "r"}, **fields})
    pod = {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "r", **spec}}
    try:
        await AdmissionChain([RuntimeClass(Lister(store), Identity())]).check(make_call(pod))
    except ApiError as error:
        return error.message.partition("is forbidden: ")[2]
    found: Object = pod["spec"]
    return {name: value for name, value in found.items() if name != "runtimeClassName"}


async def test_overhead_is_that_of_the_class() -> None:
    for fields, spec, expected in (
        ({"overhead": OVERHEAD}, {}, {"overhead": FIXED}),
        ({"overhead": OVERHEAD}, {"overhead": {"cpu": "0.25"}}, {"overhead": FIXED}),
        ({"overhead": OVERHEAD}, {"overhead": {"cpu": "1"}}, OTHER),
        ({}, {}, {}),
        ({"overhead": {}}, {}, {}),
        ({}, {"overhead": FIXED}, WITHOUT),
        ({}, {"overhead": FIXED, "runtimeClassName": ""}, WITHOUT),
        ({}, {"runtimeClassName": "x"}, 'pod rejected: RuntimeClass "x" not found'),
    ):
        assert await admitted(fields, **spec) == expected, (fields, spec)


async def test_node_selector_and_tolerations_are_merged() -> None:
    exists, other = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}
    conflict = "conflict: runtimeClass.scheduling.nodeSelector[a] = 1; pod.spec.nodeSelector[a] = 2"
    for scheduling, spec, expected in (
        ({"nodeSelector": {"a": "1"}}, {}, {"nodeSelector": {"a": "1"}}),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "2"}}, {"nodeSelector": {"a": "1", "b": "2"}}),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": "1"}}),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": "2"}}, conflict),
        ({"tolerations": [exists]}, {}, {"tolerations": [exists]}),
        ({"tolerations": [exists]}, {"tolerations": [other]}, {"tolerations": [other, exists]}),
        ({}, {"tolerations": [other]}, {"tolerations": [other]}),
        ({}, {}, {}),
        (None, {}, {}),
    ):
        assert await admitted({"scheduling": scheduling}, **spec) == expected, (scheduling, spec)
