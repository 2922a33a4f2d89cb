"""Tests for the warnings about pods."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.pod_warnings import pod_warnings
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from tests.unit.apiserver_stub.validation.pods import container, pod


def warnings_of(made: dict[str, Any]) -> list[str]:
    return pod_warnings(made["metadata"], made["spec"], Identity())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ),
        (
            {"volumes": [{"name": "a", "storageos": {}}]},
            "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
        ),
        ({"hostAliases": [{"ip": "a"}, {"ip": "a"}]}, 'spec.hostAliases[1].ip: duplicate ip "a"'),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, 'spec.imagePullSecrets[1].name: duplicate name "a"'),
        ({"imagePullSecrets": [{}]}, 'spec.imagePullSecrets[0].name: invalid empty name ""'),
        (
            {"containers": [container(resources={"requests": {"memory": "1.5"}})]},
            'spec.containers[0].resources.requests[memory]: fractional byte value "1500m" is invalid, '
            "must be an integer",
        ),
        (
            {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])]},
            'spec.containers[0].env[1]: hides previous definition of "A"',
        ),
        ({"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}])]}, []),
        (
            {"containers": [container(ports=[{"containerPort": 80}, {"containerPort": 80}])]},
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ),
        (
            {"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 80}])]},
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
        ),
        (
            {"containers": [container(ports=[{"name": "a", "containerPort": 80, "hostIP": "10.0.0.1"}])]},
            "spec.containers[0].ports[0]: hostIP set without hostPort: "
            "{Name:a HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}",
        ),
    ],
)
def test_warnings_by_field(spec: dict[str, Any], expected: str | list[str]) -> None:
    assert warnings_of(pod(**spec)) == ([expected] if isinstance(expected, str) else expected)


def test_seccomp_annotation_without_field_is_warned_about() -> None:
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}

    assert warnings_of(pod(metadata={"annotations": annotations})) == [
        "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; "
        'use the "seccompProfile" field instead'
    ]
    assert (
        warnings_of(
            pod(metadata={"annotations": annotations}, securityContext={"seccompProfile": {"type": "Unconfined"}})
        )
        == []
    )


def test_fields_of_a_template_are_named_from_its_path() -> None:
    made = pod(imagePullSecrets=[{}])

    assert pod_warnings({}, made["spec"], Identity(), "template") == [
        'template.spec.imagePullSecrets[0].name: invalid empty name ""'
    ]


REPEATED = [{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]
GIT = {"name": "v", "gitRepo": {"repository": "x"}}
EMPTY = {"name": "v", "projected": {"sources": [{}]}}


@pytest.mark.parametrize(
    ("spec", "first", "expected"),
    [
        (
            {"containers": [{"name": "c", "image": "i", "env": REPEATED}]},
            32,
            'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        ),
        ({"volumes": [EMPTY]}, 32, 'volume "v" (Projected) has no sources provided'),
        ({"volumes": [GIT]}, 33, "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"),
    ],
)
def test_warnings_depend_on_the_release(spec: dict[str, Any], first: int, expected: str) -> None:
    warned = [minor for minor in range(29, 37) if expected in pod_warnings({}, spec, Identity(), "", Release(1, minor))]

    assert warned == list(range(first, 37))
