"""Tests for the Priority admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.priority import Priority
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from nodeagent.base.identity import Identity

MIRROR = {"kubernetes.io/config.mirror": "x"}
CLASSES = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)


class Classes:
    """Lister of priority classes."""

    def __init__(self, *classes):
        self._classes = {item["metadata"]["name"]: item for item in classes}

    def find(self, collection, name):
        return self._classes.get(name)

    def every(self, collection):
        return list(self._classes.values())


def priority_class(name, value, **fields):
    return {"metadata": {"name": name}, "value": value, **fields}


HIGH, LOW = priority_class("high", 10, preemptionPolicy="Never"), priority_class("low", 1)


async def admitted(call, spec, *classes, annotations=None):
    """Return priority and policy of a new pod."""
    pod = {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": spec}
    await AdmissionChain([Priority(Classes(*classes), Identity())]).check(call(pod))
    return spec["priority"], spec["preemptionPolicy"]


@pytest.mark.parametrize(
    ("spec", "classes", "result"),
    [
        ({}, [HIGH], (0, "PreemptLowerPriority")),
        ({"priorityClassName": "high"}, [HIGH, LOW], (10, "Never")),
        ({"priorityClassName": "high", "priority": 10, "preemptionPolicy": "Never"}, [HIGH], (10, "Never")),
        ({"priorityClassName": "low"}, [HIGH, {**LOW, "globalDefault": True}], (1, "PreemptLowerPriority")),
        ({}, [{**HIGH, "globalDefault": True}, {**LOW, "globalDefault": True}], (1, "PreemptLowerPriority")),
    ],
    ids=["none", "named", "repeated", "not default", "default"],
)
async def test_new_pod_gets_the_priority_of_its_class(call, spec, classes, result):
    assert await admitted(call, spec, *classes) == result


async def test_name_of_the_default_class_is_set(call):
    spec = {}

    await admitted(call, spec, {**LOW, "globalDefault": True})

    assert spec["priorityClassName"] == "low"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none"),
        ({"priorityClassName": "high", "priority": 9}, "the integer value of priority"),
        ({"priority": 9}, "the integer value of priority"),
        ({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}, "the string value of"),
    ],
)
async def test_pod_with_other_values_than_its_class_is_rejected(call, spec, problem):
    with pytest.raises(ApiError, match=problem):
        await admitted(call, spec, HIGH)


async def test_values_of_a_mirror_pod_are_replaced(call):
    spec = {"priorityClassName": "high", "priority": 9, "preemptionPolicy": "PreemptLowerPriority"}

    assert await admitted(call, spec, HIGH, annotations=MIRROR) == (10, "Never")


@pytest.mark.parametrize(
    ("new", "rejected"),
    [
        (priority_class("other", 2, globalDefault=True), True),
        (priority_class("other", 2), False),
        (priority_class("low", 2, globalDefault=True), False),
    ],
)
async def test_only_one_class_is_the_default(call, new, rejected):
    plugin = Priority(Classes({**LOW, "globalDefault": True}), Identity())

    if rejected:
        with pytest.raises(ApiError, match="low is already marked as default"):
            await AdmissionChain([plugin]).check(call(new, resource=CLASSES))
    else:
        await AdmissionChain([plugin]).check(call(new, resource=CLASSES))


@pytest.mark.row("admission.Priority")
async def test_update_without_priority_keeps_the_priority(call):
    old = {"metadata": {"name": "p"}, "spec": {"priority": 7, "preemptionPolicy": "Never"}}
    new = {"metadata": {"name": "p"}, "spec": {}}

    await AdmissionChain([Priority(Classes(), Identity())]).check(call(new, old, operation="UPDATE"))

    assert new["spec"] == old["spec"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"priority": 7}, {"priority": 8}, {"priority": 8}),
        ({}, {}, {}),
        ({"priority": 0}, {}, {"priority": 0}),
    ],
)
async def test_update_changes_no_other_priority(call, old, new, expected):
    request = call(
        {"metadata": {"name": "p"}, "spec": new}, {"metadata": {"name": "p"}, "spec": old}, operation="UPDATE"
    )

    await Priority(Classes(), Identity()).admit(request)

    assert new == expected
