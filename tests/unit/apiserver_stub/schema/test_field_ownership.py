"""Tests for the ownership of fields after updates and applied configurations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.schema import field_ownership, field_sets, managed_fields, shapes
from apiserver_stub.schema.field_ownership import Conflicts, Kind
from apiserver_stub.schema.managed_fields import APPLY, UPDATE, ManagedFieldsEntry


def kind(version: str, name: str, **changes: Any) -> Kind:
    shape = shapes.of(version, name, "k8s.io")
    assert shape is not None
    blank: dict[str, Any] = {"metadata": {}, "spec": {"containers": None}, "status": {}}
    return Kind(shape, version, **{"renamed": {}, "blank": blank, "reset": {}, **changes})


POD = kind("v1", "Pod", reset={"f:status": field_sets.LEAF})


def who(
    name: str, operation: str = UPDATE, time: str = "2026-11-21T00:00:00Z", version: str = "v1"
) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(name, operation, version, "", time, {})


def test_fields_of_a_granular_reference_have_owners() -> None:
    volume = kind("v1", "PersistentVolume", blank={"metadata": {}, "spec": {}, "status": {}})
    config = {"metadata": {"name": "v"}, "spec": {"claimRef": {"name": "a"}}}

    _, (entry,) = field_ownership.applied(volume, volume.blank, config, [], who("a", APPLY), force=False)

    assert list(field_sets.paths(entry.fields)) == [".spec.claimRef.name"]


def test_reset_fields_are_neither_owned_nor_in_conflict() -> None:
    reset = kind("v1", "Pod", reset={"f:status": field_sets.LEAF, "f:spec": {"f:nodeName": field_sets.LEAF}})
    live = {**pod(), "spec": {"nodeName": "a", "hostname": "h"}, "status": {"phase": "Running"}}
    config = {**pod(), "spec": {"nodeName": "b", "subdomain": "s"}, "status": {"phase": "Failed"}}
    entries = [field_ownership.before_first_apply(reset, live)]

    _, found = field_ownership.applied(reset, live, config, entries, who("a", APPLY), force=False)

    assert found[-1].fields == {"f:spec": {"f:subdomain": field_sets.LEAF}}


def pod(*containers: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": "p", "labels": labels} if labels else {"name": "p"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": list(containers)}}


def applied(
    live: dict[str, Any], config: dict[str, Any], entries: list[ManagedFieldsEntry], name: str, *, force: bool = False
) -> tuple[dict[str, Any], list[ManagedFieldsEntry]]:
    return field_ownership.applied(POD, live, config, entries, who(name, APPLY), force=force)


def fields(entries: list[ManagedFieldsEntry], name: str) -> Any:
    return field_sets.encode(next(entry.fields for entry in entries if entry.manager == name))


def test_creator_owns_the_fields_it_set() -> None:
    new = pod({"name": "c", "image": "i", "ports": [{"containerPort": 80}]}, app="web")
    new["status"] = {"phase": "Pending"}

    entries = field_ownership.updated(POD, POD.blank, new, [], who("creator"))

    assert fields(entries, "creator") == {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:image": {},
                    "f:name": {},
                    "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                }
            }
        },
    }


def test_changed_field_moves_to_the_updating_manager() -> None:
    old, new = pod({"name": "c", "image": "1"}, a="1", b="1"), pod({"name": "c", "image": "2"}, a="1")
    before = field_ownership.updated(POD, POD.blank, old, [], who("one"))

    entries = field_ownership.updated(POD, old, new, before, who("two", time="2026-11-21T00:00:09Z"))

    assert fields(entries, "two") == {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:image": {}}}}}
    assert fields(entries, "one")["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}
    assert "f:image" not in fields(entries, "one")["f:spec"]["f:containers"]['k:{"name":"c"}']


def test_apply_without_effect_by_a_new_manager_has_no_time() -> None:
    live = pod(a="1")
    entries = [field_ownership.before_first_apply(POD, live)]

    _, found = applied(live, pod(a="1"), entries, "new")
    (mine,) = [entry for entry in found if entry.manager == "new"]

    assert mine.time == ""


def test_unchanged_fields_get_no_owner() -> None:
    old = pod({"name": "c"})
    before = field_ownership.updated(POD, POD.blank, old, [], who("one"))

    assert field_ownership.updated(POD, old, old, before, who("two")) == before


def test_managers_without_fields_are_dropped_when_nothing_changes() -> None:
    old = pod({"name": "c"})

    assert field_ownership.updated(POD, old, old, [who("one")], who("two")) == []


def test_applying_again_without_a_field_removes_it() -> None:
    first, entries = applied(POD.blank, pod({"name": "c", "image": "i", "tty": True}, a="1", b="1"), [], "a")
    second, entries = applied(first, pod({"name": "c", "image": "i"}, a="1"), entries, "a")

    assert second["metadata"]["labels"] == {"a": "1"}
    assert second["spec"]["containers"] == [{"name": "c", "image": "i"}]
    assert fields(entries, "a")["f:metadata"] == {"f:labels": {"f:a": {}}}


def test_items_of_lists_merge_by_their_keys() -> None:
    live, entries = applied(POD.blank, pod({"name": "a", "image": "1"}), [], "x")

    live, entries = applied(live, pod({"name": "b", "image": "2"}), entries, "y")
    assert [item["name"] for item in live["spec"]["containers"]] == ["a", "b"]

    live, entries = applied(live, pod(), entries, "x")
    assert [item["name"] for item in live["spec"]["containers"]] == ["b"]


def test_field_of_another_owner_conflicts_unless_forced() -> None:
    live, entries = applied(POD.blank, pod({"name": "c", "image": "1"}), [], "x")
    mine = pod({"name": "c", "image": "2"})

    with pytest.raises(Conflicts) as raised:
        applied(live, mine, entries, "y")
    assert raised.value.error().code == 409
    assert raised.value.error().message == (
        'Apply failed with 1 conflict: conflict with "x": .spec.containers[name="c"].image'
    )
    assert raised.value.error().details == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "x"',
                "field": '.spec.containers[name="c"].image',
            }
        ]
    }

    live, entries = applied(live, mine, entries, "y", force=True)
    assert live["spec"]["containers"] == [{"name": "c", "image": "2"}]
    assert "f:image" not in fields(entries, "x")["f:spec"]["f:containers"]['k:{"name":"c"}']


def test_equal_values_are_shared_without_conflict() -> None:
    live, entries = applied(POD.blank, pod(a="1"), [], "x")
    live, entries = applied(live, pod(a="1"), entries, "y")
    live, entries = applied(live, pod(), entries, "x")

    assert live["metadata"]["labels"] == {"a": "1"}


def test_several_conflicts_are_listed_by_manager() -> None:
    live = pod(a="1", b="1")
    entries = field_ownership.updated(POD, POD.blank, live, [], who("x"))

    with pytest.raises(Conflicts) as raised:
        applied(live, pod(a="2", b="2"), entries, "y")

    assert raised.value.error().message == (
        'Apply failed with 2 conflicts: conflicts with "x" using v1:\n- .metadata.labels.a\n- .metadata.labels.b'
    )


def test_entries_of_the_other_version_keep_its_names() -> None:
    event = kind("events.k8s.io/v1", "Event", renamed={"v1": {"message": "note"}}, blank={"metadata": {}})
    live = {"metadata": {}, "note": "a", "reason": "r"}
    core = ManagedFieldsEntry("x", UPDATE, "v1", "", "", field_sets.decode({"f:message": {}, "f:reason": {}}))

    with pytest.raises(Conflicts) as raised:
        field_ownership.applied(
            event, live, {"metadata": {}, "note": "b"}, [core], who("y", APPLY, version="events.k8s.io/v1"), force=False
        )
    assert ".note" in raised.value.error().message
    entries = field_ownership.updated(
        event, live, {**live, "reason": "s"}, [core], who("z", version="events.k8s.io/v1")
    )
    assert fields(entries, "x") == {"f:message": {}}


_containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab")},
        optional={
            "image": st.sampled_from(["1", "2"]),
            "command": st.lists(st.sampled_from("xy"), max_size=2),
            "ports": st.lists(
                st.fixed_dictionaries({"containerPort": st.sampled_from([80, 81])}), min_size=1, max_size=1
            ),
        },
    ),
    max_size=2,
    unique_by=lambda item: item["name"],
)
_configs = st.builds(
    lambda items, labels: pod(*items, **labels),
    _containers,
    st.dictionaries(st.sampled_from("lm"), st.sampled_from(["1", "2"])),
)


def labels(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def containers(obj: dict[str, Any]) -> dict[str, Any]:
    return {item["name"]: item for item in obj.get("spec", {}).get("containers") or ()}


@given(_configs, _configs)
def test_forced_apply_is_complete_and_idempotent(first: Any, second: Any) -> None:
    live = pod()
    live, entries = applied(live, first, [], "one")
    live, entries = applied(live, second, entries, "two", force=True)

    again, same = applied(live, second, entries, "two")

    assert again == live
    assert managed_fields.write(same) == managed_fields.write(entries)
    assert labels(live).items() >= labels(second).items()
    for name, expected in containers(second).items():
        there = containers(live)[name]
        assert all(there[member] == expected[member] for member in expected if member != "ports")
        assert all(port in there["ports"] for port in expected.get("ports", ()))


@given(_configs, _configs)
def test_single_applier_gets_exactly_its_configuration(first: Any, second: Any) -> None:
    live, entries = applied(pod(), first, [], "one")

    live, _ = applied(live, second, entries, "one")

    fresh, _ = applied(pod(), second, [], "one")
    assert labels(live) == labels(fresh)
    assert containers(live) == containers(fresh)


@given(_configs, _configs)
def test_appliers_conflict_only_on_different_values(first: Any, second: Any) -> None:
    live, entries = applied(pod(), first, [], "one")

    try:
        after, _ = applied(live, second, entries, "two")
    except Conflicts as conflicts:
        assert (conflicts.error().details or {})["causes"]
    else:
        assert labels(after).items() >= labels(first).items()


def test_applied_null_removes_values_and_leaves_containers() -> None:
    live = pod({"name": "c", "image": "i"}, app="web")
    live["spec"]["hostname"] = "h"
    config = {**pod(), "metadata": {"name": "p", "labels": None}, "spec": {"containers": None, "hostname": None}}

    merged, entries = applied(live, config, [], "applier")

    assert merged["metadata"]["labels"] == {"app": "web"}
    assert merged["spec"] == {"containers": [{"name": "c", "image": "i"}], "hostname": None}
    assert fields(entries, "applier") == {
        "f:metadata": {"f:labels": {}},
        "f:spec": {"f:containers": {}, "f:hostname": {}},
    }


def test_missing_key_of_an_item_is_its_zero_value() -> None:
    config = {**pod(), "metadata": {"name": "p", "ownerReferences": [{"kind": "Node"}]}}

    _, entries = applied(pod(), config, [], "applier")

    assert fields(entries, "applier")["f:metadata"] == {"f:ownerReferences": {'k:{"uid":""}': {}}}


def test_apply_without_change_sets_no_time() -> None:
    live = pod(a="1")

    _, first = applied(live, pod(a="1"), [], "one")
    _, second = applied(live, pod(a="1"), [replace(first[0], time="2020-01-01T00:00:00Z")], "one")
    _, third = applied(live, pod(a="2"), second, "one")

    assert [entries[0].time for entries in (first, second, third)] == [
        "",
        "2020-01-01T00:00:00Z",
        "2026-11-21T00:00:00Z",
    ]


def test_update_of_own_field_renews_the_time() -> None:
    old, new = pod(a="1", b="1"), pod(a="2", b="1")
    before = field_ownership.updated(POD, POD.blank, old, [], who("one", time="2020-01-01T00:00:00Z"))

    entries = field_ownership.updated(POD, old, new, before, who("one"))
    removed = field_ownership.updated(POD, new, pod(a="2"), entries, who("one", time="2030-01-01T00:00:00Z"))

    assert [entry.time for entry in entries] == ["2026-11-21T00:00:00Z"]
    assert [entry.time for entry in removed] == ["2026-11-21T00:00:00Z"]
    assert fields(removed, "one")["f:metadata"]["f:labels"] == {".": {}, "f:a": {}}


def test_entries_of_unserved_versions_are_dropped() -> None:
    entries = [replace(who("old", version="v1beta1"), fields={"f:spec": {"f:hostname": field_sets.LEAF}})]

    assert field_ownership.updated(POD, pod(), pod(), entries, who("one")) == []
    _, found = applied(pod(), pod(a="1"), entries, "one")
    assert [entry.manager for entry in found] == ["one"]


def test_fields_in_a_removed_struct_stay_for_their_owner() -> None:
    first = {**pod(), "spec": {"containers": [], "securityContext": {"runAsUser": 1}}}
    second = {**pod(), "spec": {"containers": [], "securityContext": {"runAsGroup": 2}}}
    live, entries = applied(POD.blank, first, [], "one")
    live, entries = applied(live, second, entries, "two")

    live, entries = applied(live, pod(), entries, "one")

    assert live["spec"]["securityContext"] == {"runAsGroup": 2}


def test_removed_annotations_leave_the_name() -> None:
    config = pod()
    config["metadata"] = {"name": "p", "annotations": {}}
    live, entries = applied({**pod(), "metadata": {"name": "p", "uid": "u"}}, config, [], "one")

    live, _ = applied(live, pod(), entries, "one")

    assert live["metadata"] == {"name": "p", "uid": "u"}


def test_conflicts_without_allowed_fields_are_the_others() -> None:
    entries = field_ownership.updated(POD, POD.blank, pod(a="1", b="1"), [], who("x"))
    with pytest.raises(Conflicts) as raised:
        applied(pod(a="1", b="1"), pod(a="2", b="2"), entries, "y")

    def labels_of(*names: str) -> field_sets.FieldSet:
        return {"f:metadata": {"f:labels": {f"f:{name}": field_sets.LEAF for name in names}}}

    left = raised.value.without(labels_of("a"))

    assert left is not None
    assert left.error().message == 'Apply failed with 1 conflict: conflict with "x" using v1: .metadata.labels.b'
    assert raised.value.without(labels_of("a", "b")) is None


def test_item_without_an_owner_is_removed_with_fields_of_others() -> None:
    _, entries = applied(POD.blank, pod({"name": "c", "image": "i"}), [], "one")
    live = pod({"name": "c", "image": "other"})
    entries = field_ownership.updated(POD, pod({"name": "c", "image": "i"}), live, entries, who("two"))

    merged, entries = applied(live, pod(), entries, "one", force=True)

    assert not merged.get("spec", {}).get("containers")


def test_duplicate_item_is_owned_as_one_field() -> None:
    new = pod()
    new["metadata"]["finalizers"] = ["example.com/a", "example.com/a"]

    entries = field_ownership.updated(POD, POD.blank, new, [], who("one"))

    assert fields(entries, "one")["f:metadata"] == {"f:finalizers": {".": {}, 'v:"example.com/a"': {}}}


def test_oldest_updaters_of_the_same_second_are_merged_by_name() -> None:
    entries = [replace(who(f"m{number}"), fields={"f:spec": {f"f:{number}": {}}}) for number in range(12)]

    found = field_ownership.updated(POD, pod(), pod(app="web"), entries, who("z"))

    assert fields(found, "ancient-changes") == {"f:spec": {"f:0": {}, "f:1": {}, "f:10": {}, "f:11": {}}}
