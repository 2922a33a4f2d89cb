"""Tests for the filters by the claims of a pod, and the bindings that they plan."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.scheduling.model import NodeInfo, NodeTaintKeys, PodInfo
from apiserver_stub.scheduling.volume_binding import PodVolumes, VolumeState
from apiserver_stub.scheduling.volume_names import VolumeNames
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.scheduling.test_volume_matching import claim, volume

COMPLETED, SELECTED = "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node"
DELAYED = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "p.example.com"}
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
ZONE = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
IN_ZONE = {"required": {"nodeSelectorTerms": ZONE}}


def node(zone: str = "a") -> NodeInfo:
    obj = {"metadata": {"name": f"n-{zone}", "labels": {"zone": zone}}}
    return NodeInfo(obj, NodeTaintKeys.of(Identity()), ready=True)


def named(of: Object, name: str, **metadata: Any) -> Object:
    of["metadata"] |= {"name": name, **metadata}
    return of


def bound(name: str = "c", to: str = "v", **spec: Any) -> Object:
    return named(claim(volumeName=to, annotations={COMPLETED: "yes"}, **spec), name)


def volumes_of(
    claims: list[Object],
    *volumes: Object,
    classes: Object | None = None,
    owned: bool = False,
    others: dict[str, PodInfo] | None = None,
    names: list[str] | None = None,
) -> PodVolumes:
    state = VolumeState(
        VolumeNames.of(Identity()),
        "kubernetes.io",
        {f"default/{item['metadata']['name']}": item for item in claims},
        {item["metadata"]["name"]: item for item in volumes},
        {"fast": DELAYED if classes is None else classes},
    )
    used = names or [item["metadata"]["name"] for item in claims]
    return PodVolumes(
        state, PodInfo("default", "pod", uid="pod-uid", claims=tuple((name, owned) for name in used)), others or {}
    )


def check(found: PodVolumes, zone: str = "a") -> tuple[str, ...]:
    """Return the reasons why a node in *zone* is rejected."""
    rejection = found.check(PodInfo("default", "pod"), node(zone))
    return rejection.reasons if rejection is not None else ()


def test_claims_that_no_pod_can_use_are_a_conflict() -> None:
    lost = named(claim(volumeName="v"), "c")
    lost["status"] = {"phase": "Lost"}
    deleted = named(claim(), "c", deletionTimestamp="2026-01-01T00:00:00Z")
    mine = [{"controller": True, "uid": "pod-uid"}]
    for title, claims, owned, expected in (
        ("missing", [], False, 'persistentvolumeclaim "c" not found'),
        (
            "not created",
            [],
            True,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "c"',
        ),
        ("lost", [lost], False, 'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
        ("deleted", [deleted], False, 'persistentvolumeclaim "c" is being deleted'),
        (
            "of another pod",
            [named(claim(), "c", ownerReferences=[{"controller": True, "uid": "x"}, {"uid": "pod-uid"}])],
            True,
            "PVC default/c was not created for pod default/pod (pod is not owner)",
        ),
        ("of this pod", [named(claim(), "c", ownerReferences=mine)], True, None),
        ("shared", [claim()], False, None),
        ("being bound", [claim(volumeName="v")], False, "pod has unbound immediate PersistentVolumeClaims"),
        (
            "of a missing class",
            [claim(storageClassName="x")],
            False,
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        ("bound", [bound()], False, None),
    ):
        conflict = volumes_of(claims, names=["c"], owned=owned).conflict
        assert (conflict.reasons[0] if conflict else None) == expected, title


def test_claim_for_one_pod_is_not_shared() -> None:
    exclusive, shared = ("ReadWriteOncePod",), ("ReadWriteOnce",)
    for title, modes, namespace, name, conflicts in (
        ("same claim", exclusive, "default", "c", True),
        ("another claim", exclusive, "default", "d", False),
        ("another namespace", exclusive, "other", "c", False),
        ("another mode", shared, "default", "c", False),
    ):
        others = {"x": PodInfo(namespace, "x", claims=((name, False),))}
        for of in (bound(modes=modes), claim(modes=modes)):
            conflict = volumes_of([of], others=others).conflict
            assert (conflict is not None and conflict.resolvable) is conflicts, title


def test_bound_volumes_must_exist_and_be_accessible() -> None:
    local = volume("local", nodeAffinity=IN_ZONE)
    conflict = "node(s) had volume node affinity conflict"
    missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    for title, claims, volumes, zone, expected in (
        ("anywhere", [bound()], [volume()], "b", ()),
        ("in the zone", [bound(to="local")], [local], "a", ()),
        ("in another zone", [bound("c", "local"), bound("d", "local")], [local], "b", (conflict,)),
        ("missing", [bound()], [], "a", (missing,)),
        ("both", [bound(), bound("d", "local")], [local], "b", (conflict, missing)),
    ):
        assert check(volumes_of(claims, *volumes), zone) == expected, title


def test_delayed_claims_are_bound_or_provisioned_on_the_node() -> None:
    local = volume("local", nodeAffinity=IN_ZONE)
    two = [named(claim(), "c"), named(claim(), "d")]
    manual = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "kubernetes.io/no-provisioner"}
    no_provisioner = {"volumeBindingMode": "WaitForFirstConsumer"}
    limited = {**DELAYED, "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]}
    for title, claims, volumes, classes, zone, expected in (
        ("a volume matches", [claim()], [local], None, "a", (["local"], [])),
        ("a volume is elsewhere", [claim()], [local], None, "b", ([], ["c"])),
        ("one volume for two claims", two, [local], None, "a", (["local"], ["d"])),
        ("two volumes", two, [volume("v1"), volume("v2")], None, "a", (["v1", "v2"], [])),
        ("no provisioner", [claim()], [local], manual, "b", None),
        ("provisioner is not specified", [claim()], [], no_provisioner, "b", None),
        ("allowed topology", [claim()], [], limited, "a", ([], ["c"])),
        ("other topology", [claim()], [], limited, "b", None),
        ("provisioning on this node", [claim(annotations={SELECTED: "n-a"})], [local], None, "a", ([], ["c"])),
        ("provisioning on another node", [claim(annotations={SELECTED: "n-b"})], [local], None, "a", None),
        ("nothing to do", [bound()], [volume()], None, "a", ([], [])),
    ):
        found = volumes_of(claims, *volumes, classes=classes)
        reasons = check(found, zone)
        assert reasons == (() if expected else (NO_VOLUME,)), title
        plan = found.plan(f"n-{zone}")
        assert bool(plan) is bool(expected and (expected[0] or expected[1])), title
        if expected:
            static, provision = [item[0]["metadata"]["name"] for item in plan.static], plan.provision
            assert (static, [item["metadata"]["name"] for item in provision]) == expected, title
