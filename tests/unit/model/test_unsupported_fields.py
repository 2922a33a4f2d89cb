"""Tests for unsupported pod fields, and that every field of the pod spec is classified."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from nodeagent.base import apiproto
from nodeagent.base.release import NEWEST
from nodeagent.config.features import build_gates
from nodeagent.model.pod import PodSpec, Volume
from nodeagent.model.unsupported_fields import UNSUPPORTED_FIELDS, unsupported_uses
from nodeagent.testing import make_container, make_pod

GATES = build_gates({})
ROOT = Path(__file__).parents[3]
MODEL = ("pod.py", "pod_defaults.py", "pod_validation.py", "container_validation.py", "volume_validation.py")

OTHER_COMPONENTS = {
    "PodSpec.schedulerName": "selects the scheduler",
    "PodSpec.schedulingGates": "the API server does not bind a gated pod to a node",
    "PodSpec.schedulingGroup": "read by the scheduler",
    "PodSpec.topologySpreadConstraints": "evaluated by the scheduler",
    "PodSpec.preemptionPolicy": "evaluated by the scheduler",
    "PodSpec.serviceAccount": "deprecated copy of serviceAccountName",
    "PodSpec.automountServiceAccountToken": "the API server adds the volume of the token",
    "PodSecurityContext.windowsOptions": "only for Windows",
    "SecurityContext.windowsOptions": "only for Windows",
    "PodSecurityContext.seLinuxChangePolicy": "volumes are always relabeled recursively; the policy only permits an "
    "optimization",
    "Container.resizePolicy": "effective only with an in-place resize, which the API server rejects for this node",
    "Toleration.tolerationSeconds": "the controller that evicts pods of a tainted node waits for it",
    "ObjectFieldSelector.apiVersion": "v1 is the only version",
}
"""Fields that the node does not evaluate, with the reason."""

PLAIN = {
    "PodSpec.affinity": "admission evaluates the required node affinity; the rest is for the scheduler",
}
"""Fields that the model has as plain data."""


@cache
def read_names() -> frozenset[str]:
    """Return the attributes and quoted names in agent and plugins apart from the model's modules."""
    paths = [*ROOT.glob("nodeagent/**/*.py"), *ROOT.glob("plugins/nodeagent_plugins/**/*.py")]
    texts = [path.read_text() for path in paths if not path.name.endswith("_pb2.py") and path.name not in MODEL]
    return frozenset(name for text in texts for names in re.findall(r"\.(\w+)|\"(\w+)(?=\")", text) for name in names)


def is_read(attribute: str) -> bool:
    return attribute in read_names()


def fields_of(message):
    """Yield the fields of the JSON form."""
    for field in message.fields:
        if field.name == "inline":
            yield from fields_of(field.message_type)
        else:
            yield field


def kinds_of(shape):
    """Return the types that *shape* allows, of a list those of its items."""
    return [getattr(kind, "item_type", kind) for kind in getattr(shape, "types", (shape,))]


def struct_of(shape):
    """Return the struct type in *shape*, ``None`` for plain data and scalars."""
    found = [kind.cls for kind in kinds_of(shape) if isinstance(kind, inspect.StructType)]
    return found[0] if found else None


def is_plain(shape) -> bool:
    return any(isinstance(kind, inspect.DictType) for kind in kinds_of(shape))


def unclassified(message, model, seen):
    """Yield the fields of *message* that are neither read nor listed."""
    known = {field.encode_name: field for field in inspect.type_info(model).fields}
    listed = {(each.owner, each.name) for each in UNSUPPORTED_FIELDS}
    for field in fields_of(message):
        label = f"{message.name.replace('EphemeralContainerCommon', 'Container')}.{field.name}"
        found = known.get(field.name)
        if label in OTHER_COMPONENTS or label in PLAIN or (found and (model, found.name) in listed):
            continue
        if found is None:
            yield f"{label} is not in the model"
            continue
        inner = struct_of(found.type)
        if model is Volume and (inner is None or inner.__name__.endswith("Volume")):
            if inner is not None and inner not in seen:
                seen.add(inner)
                yield from unclassified(field.message_type, inner, seen)
            continue  # A source that no plugin supports keeps the pod waiting with an event.
        if not is_read(found.name):
            yield f"{label} is in the model, but not read"
        opaque = field.message_type is not None and not field.message_type.GetOptions().map_entry
        if inner is not None:
            if inner not in seen:
                seen.add(inner)
                yield from unclassified(field.message_type, inner, seen)
        elif opaque and is_plain(found.type):
            yield f"{label} is plain data"


def test_every_field_of_the_pod_spec_is_read_or_listed():
    spec = apiproto.descriptor("v1", "Pod").fields_by_name["spec"].message_type

    assert list(unclassified(spec, PodSpec, {PodSpec})) == []


def test_unsupported_fields_exist_in_the_api():
    messages = apiproto.descriptor("v1", "Pod").file.message_types_by_name
    for each in UNSUPPORTED_FIELDS:
        wire = {field.name: field.encode_name for field in msgspec.structs.fields(each.owner)}[each.name]
        assert wire in {field.name for field in fields_of(messages[each.owner.__name__])}


def test_plain_pod_uses_no_unsupported_field():
    assert unsupported_uses(make_pod(volumes=[{"name": "v", "emptyDir": {}}]), GATES) == []


def mounting(**mount):
    mounts = [{"name": "v", "mountPath": "/v", "readOnly": True, **mount}]
    return {"containers": [make_container(volume_mounts=mounts)], "volumes": [{"name": "v", "emptyDir": {}}]}


@pytest.mark.parametrize(
    "spec",
    [
        {"host_users": False},
        {"security_context": {"supplementalGroupsPolicy": "Merge"}},
        {"resource_claims": []},
        {"init_containers": [make_container("side", restart_policy="Always")]},
        mounting(recursiveReadOnly="Enabled"),
    ],
)
def test_value_of_the_default_behavior_is_accepted(spec):
    assert unsupported_uses(make_pod(**spec), GATES) == []


@pytest.mark.parametrize(
    ("spec", "use"),
    [
        (
            {"resource_claims": [{"name": "gpu", "resourceClaimName": "x"}]},
            'spec.resourceClaims: [{"name":"gpu","resourceClaimName":"x"}] '
            "(feature gate DynamicResourceAllocation is disabled)",
        ),
    ],
)
def test_use_names_path_and_value(spec, use):
    assert [str(each) for each in unsupported_uses(make_pod(**spec), GATES)] == [use]


def test_long_value_is_truncated():
    (use,) = unsupported_uses(make_pod(hostname_override="a" * 200), GATES)

    assert len(str(use)) < 160


def test_gate_enables_an_implemented_field():
    source = {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}
    pod = make_pod(containers=[make_container(env=[{"name": "A", "valueFrom": source}])])

    assert [use.field.gate for use in unsupported_uses(pod, GATES)] == ["EnvFiles"]
    assert unsupported_uses(pod, build_gates({}, NEWEST)) == []


def test_gates_of_fields_exist():
    for each in UNSUPPORTED_FIELDS:
        assert not each.gate or build_gates({}, NEWEST).enabled(each.gate) is not None


def test_restart_policy_without_its_gate_is_supported_for_sidecars_only():
    always = {"restart_policy": "Always"}
    pod = make_pod(containers=[make_container(**always)], init_containers=[make_container("side", **always)])

    assert [use.path for use in unsupported_uses(pod, GATES)] == ["spec.containers[0].restartPolicy"]


def test_action_of_an_enabled_rule_is_checked():
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    pod = make_pod(containers=[make_container(restart_policy="Never", restart_policy_rules=[rule])])

    disabled = build_gates({"RestartAllContainersOnContainerExits": False}, NEWEST)
    uses = unsupported_uses(pod, disabled)

    assert [(use.path, use.field.reason) for use in uses] == [
        ("spec.containers[0].restartPolicyRules[0].action", "PodFeatureUnsupported")
    ]
    assert unsupported_uses(pod, build_gates({}, NEWEST)) == []
