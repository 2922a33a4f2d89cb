"""Tests for the match of claims and persistent volumes."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.scheduling import volume_matching as matching
from apiserver_stub.scheduling.volume_names import VolumeNames
from nodeagent.base.identity import Identity

NAMES = VolumeNames.of(Identity())
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def volume(name: str = "v", size: Any = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Object:
    metadata = {"name": name, "labels": spec.pop("labels", None), "annotations": spec.pop("annotations", None)}
    status = {"phase": spec.pop("phase", "Available")}
    fields = {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": "fast", **spec}
    return {"metadata": metadata, "spec": fields, "status": status}


def claim(size: Any = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Object:
    metadata = {"name": "c", "namespace": "default", "uid": "u", "annotations": spec.pop("annotations", None)}
    fields = {"resources": {"requests": {"storage": size}}, "accessModes": list(modes), "storageClassName": "fast"}
    return {"metadata": metadata, "spec": {**fields, **spec}}


def reference(uid: str | None = "u", name: str = "c", namespace: str = "default") -> Object:
    return {"name": name, "namespace": namespace, "uid": uid}


def found(of: Object, *volumes: Object, **options: Any) -> str | None:
    result = matching.find_match(of, volumes, NAMES, **options)
    return None if result is None else result["metadata"]["name"]


def test_class_is_that_of_the_annotation_or_of_the_field() -> None:
    for given, field, expected in (
        (None, "fast", "fast"),
        ({CLASS_ANNOTATION: "slow"}, "fast", "slow"),
        ({CLASS_ANNOTATION: ""}, "fast", ""),
        ({}, None, ""),
        ("invalid", "fast", "fast"),
    ):
        of = claim(annotations=given, storageClassName=field)
        assert matching.class_of(of, NAMES) == expected, (given, field)


def test_sizes_are_bytes_and_invalid_ones_zero() -> None:
    for size, expected in (("1Ki", 1024), (5, 5), (None, 0), ("x", 0)):
        assert matching.requested_size(claim(size)) == expected
        assert matching.capacity(volume(size=size)) == expected


def test_volume_is_reserved_by_name_and_bound_by_uid() -> None:
    for ref, expected in (
        (None, False),
        (reference(), True),
        (reference(uid=""), True),
        (reference(uid=None), True),
        (reference(uid="other"), False),
        (reference(name="other"), False),
        (reference(namespace="other"), False),
    ):
        assert matching.is_bound_to(volume(claimRef=ref), claim()) is expected, ref


def test_binding_is_complete_with_volume_and_annotation() -> None:
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    for given, name, expected in ((done, "v", True), (done, "", False), (done, None, False), ({}, "v", False)):
        found = matching.is_fully_bound(claim(annotations=given, volumeName=name), NAMES)
        assert found is expected, (given, name)


def test_binding_is_delayed_by_the_storage_class() -> None:
    for mode, expected in (("WaitForFirstConsumer", True), ("Immediate", False), (None, False)):
        assert matching.delays_binding(claim(), {"fast": {"volumeBindingMode": mode}}, NAMES) is expected, mode
    assert not matching.delays_binding(claim(), {}, NAMES)


def test_mismatch_of_a_requested_volume_is_explained() -> None:
    deleted = volume()
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for candidate, of, expected in (
        (volume(), claim(), ""),
        (volume(size="2Gi"), claim(), ""),
        (deleted, claim(), 'the volume is marked for deletion "v"'),
        (volume(size="1Mi"), claim(), "requested PV is too small"),
        (volume(storageClassName=""), claim(), "storageClassName does not match"),
        (volume(volumeMode="Block"), claim(), "incompatible volumeMode"),
        (volume(volumeMode="Filesystem"), claim(), ""),
        (volume(), claim(modes=("ReadWriteMany",)), "incompatible accessMode"),
        (volume(modes=("ReadWriteOnce", "ReadWriteMany")), claim(modes=("ReadWriteMany",)), ""),
    ):
        assert matching.mismatch(candidate, of, NAMES) == expected, (candidate, of)


def test_best_volume_has_few_access_modes_then_is_small() -> None:
    more = ("ReadWriteOnce", "ReadWriteMany")
    for volumes, expected in (
        ([volume("big", "3Gi"), volume("small", "2Gi"), volume("large", "4Gi")], "small"),
        ([volume("many", "1Gi", more), volume("one", "9Gi")], "one"),
        ([volume("b"), volume("a")], "a"),
        ([volume("less", "1Mi")], None),
        ([volume("block", volumeMode="Block")], None),
        ([volume("class", storageClassName="slow")], None),
        ([volume("released", phase="Released")], None),
        ([volume("modes", modes=("ReadOnlyMany",))], None),
        ([volume("taken", claimRef=reference("other"))], None),
        ([volume("small"), volume("mine", "9Gi", claimRef=reference())], "mine"),
        ([volume("mine", phase="Bound", storageClassName="slow", claimRef=reference())], "mine"),
        ([volume("small"), volume("mine", modes=("ReadOnlyMany",), claimRef=reference())], "small"),
        ([volume("mine", "1Mi", claimRef=reference())], None),
    ):
        assert found(claim(), *volumes) == expected, volumes
    deleted = volume("deleted")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert found(claim(), deleted) is None
    assert found(claim(), volume("a"), volume("b"), excluded=["a"]) == "b"


def test_selector_of_the_claim_selects_labels() -> None:
    of = claim(selector={"matchLabels": {"tier": "gold"}})
    assert found(of, volume("a"), volume("b", labels={"tier": "gold"}), volume("c", labels={"tier": "tin"})) == "b"


def test_delayed_claims_get_only_reserved_volumes_until_a_node_is_chosen() -> None:
    mine = volume("mine", claimRef=reference())
    assert found(claim(), volume(), delayed=True) is None
    assert found(claim(), volume(), delayed=False) == "v"
    assert found(claim(), mine, delayed=True) == "mine"
    assert found(claim(), volume(), delayed=True, node=("n", {})) == "v"


def test_volume_must_be_accessible_from_the_node() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    local = volume("local", nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    mine = volume("mine", nodeAffinity={"required": {"nodeSelectorTerms": terms}}, claimRef=reference())
    for zone, expected in (("a", True), ("b", False)):
        labels = {"zone": zone}
        assert matching.accessible_from(local, labels, "n") is expected
        assert found(claim(), local, node=("n", labels)) == ("local" if expected else None)
        assert found(claim(), mine, volume("v"), node=("n", labels)) == ("mine" if expected else None)
    assert found(claim(), local) == "local"
    assert matching.accessible_from(volume(), {}, "n")
    nowhere = volume(nodeAffinity={"required": {"nodeSelectorTerms": None}})
    assert not matching.accessible_from(nowhere, {"zone": "a"}, "n")
