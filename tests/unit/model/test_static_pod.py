"""Tests for the conversion of a manifest to a static pod."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodeagent.errors import ConfigError
from nodeagent.model.pod import Pod
from nodeagent.model.static_pod import static_pod

NOW = datetime(2026, 1, 2, tzinfo=UTC)
EVERYTHING = {"operator": "Exists", "effect": "NoExecute"}


def manifest(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers, **spec}}


def convert(plain: Any, *, tolerate: bool = True, node: str = "node-1", origin: str = "file:/etc/web.yaml") -> Pod:
    return static_pod(plain, node_name=node, source="file", origin=origin, seen_at=NOW, tolerate_everything=tolerate)


def rules(plain: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as raised:
        convert(plain)
    assert all(problem.source == "/etc/web.yaml" for problem in raised.value.problems)
    return [(problem.path, problem.rule) for problem in raised.value.problems]


def test_name_ends_in_the_node_and_namespace_is_default() -> None:
    pod = convert(manifest())
    assert (pod.full_name, pod.spec.node_name, pod.status.phase) == ("default/web-node-1", "node-1", "Pending")
    assert pod.status.qos_class == "BestEffort"
    plain = manifest()
    plain["metadata"] |= {"namespace": "kube-system", "deletionGracePeriodSeconds": 5, "resourceVersion": "7"}
    pod = convert(plain)
    assert (pod.namespace, pod.metadata.deletion_grace_period_seconds, pod.metadata.resource_version) == (
        "kube-system",
        None,
        "",
    )


def test_uid_depends_on_content_node_and_origin() -> None:
    pods = [
        convert(manifest()),
        convert(manifest()),
        convert(manifest(), node="node-2"),
        convert(manifest(), origin="file:/etc/other.yaml"),
        convert(manifest(hostNetwork=True)),
    ]
    assert pods[0].uid == pods[1].uid and len({pod.uid for pod in pods}) == 4
    plain = manifest()
    plain["metadata"]["uid"] = "own"
    pod = convert(plain)
    assert pod.uid == "own" and "own" in (pod.metadata.annotations or {}).values()


@pytest.mark.parametrize(
    ("given", "tolerate", "expected"),
    [
        (None, True, [EVERYTHING]),
        (None, False, None),
        ([EVERYTHING], True, [EVERYTHING]),
        ([{"key": "a", "operator": "Exists"}], True, [{"key": "a", "operator": "Exists"}, EVERYTHING]),
        ([{"key": "a", "operator": "Exists"}], False, [{"key": "a", "operator": "Exists"}]),
    ],
)
def test_all_taints_that_evict_are_tolerated_once(given: Any, tolerate: bool, expected: Any) -> None:
    tolerations = convert(manifest(tolerations=given), tolerate=tolerate).spec.tolerations
    found = [{"key": t.key, "operator": t.operator, "effect": t.effect} for t in tolerations or ()]
    assert found == [{"key": "", "effect": "", **each} for each in expected or ()]
    assert (tolerations is None) is (expected is None)


@pytest.mark.parametrize(
    ("plain", "found"),
    [
        ([manifest()], [("", "must be one Pod")]),
        (manifest() | {"kind": "PodList"}, [("kind", "must be exactly one v1 Pod")]),
        (manifest() | {"apiVersion": "v2"}, [("kind", "must be exactly one v1 Pod")]),
        (manifest(hostNetwork="yes"), [("spec.hostNetwork", "expected `bool`, got `str`")]),
    ],
)
def test_other_manifests_are_rejected(plain: Any, found: list[tuple[str, str]]) -> None:
    assert rules(plain) == found


def test_misspelled_field_is_reported_with_the_missing_one() -> None:
    plain = manifest()
    plain["spec"]["container"] = plain["spec"].pop("containers")
    assert rules(plain) == [
        ("spec.containers", "needs at least one container"),
        ("spec.container", "is an unknown field, did you mean containers?"),
    ]
    assert convert(manifest(novelty=1)).name == "web-node-1"


@pytest.mark.parametrize("uid", ["../x", "a" * 129, "-a"])
def test_uid_is_the_name_of_a_directory(uid: str) -> None:
    plain = manifest()
    plain["metadata"]["uid"] = uid
    assert ("metadata.uid", "must be letters, digits, '-', '_' or '.'") in rules(plain)


def test_missing_name_is_reported() -> None:
    plain = manifest()
    plain["metadata"].clear()
    assert rules(plain) == [("metadata.name", "is required")]


def test_references_to_objects_are_rejected_only_if_they_are_not_allowed() -> None:
    plain = manifest(serviceAccountName="a")
    assert convert(plain).spec.service_account_name == "a"
    with pytest.raises(ConfigError, match="must not be set: static pods may not reference"):
        static_pod(
            plain,
            node_name="n",
            source="file",
            origin="file:x",
            seen_at=NOW,
            tolerate_everything=True,
            references_allowed=False,
        )
