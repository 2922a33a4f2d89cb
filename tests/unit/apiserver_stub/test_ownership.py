"""Fields have owners: what writes take, what applying takes and leaves, who is in whose way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub import fieldsets, ownership, schema
from apiserver_stub.ownership import APPLY, UPDATE, Entry, Kind
from apiserver_stub.status import ApiError


def kind(version: str, name: str, **changes: Any) -> Kind:
    shape = schema.of(version, name)
    assert shape is not None
    blank: dict[str, Any] = {"metadata": {}, "spec": {"containers": None}, "status": {}}
    return Kind(shape, version, **{"member_names": {}, "blank": blank, **changes})


POD = kind("v1", "Pod", ignored=(("status",),))


def who(name: str, operation: str = UPDATE, time: str = "2026-11-21T00:00:00Z", version: str = "v1") -> Entry:
    return Entry(name, operation, version, "", time, {})


def test_fields_of_a_granular_reference_have_owners() -> None:
    volume = kind("v1", "PersistentVolume", blank={"metadata": {}, "spec": {}, "status": {}})
    config = {"metadata": {"name": "v"}, "spec": {"claimRef": {"name": "a"}}}

    _, (entry,) = ownership.applied(volume, volume.blank, config, [], who("a", APPLY), force=False)

    assert list(fieldsets.paths(entry.fields)) == [".spec.claimRef.name"]


def test_reset_fields_are_neither_owned_nor_in_conflict() -> None:
    reset = kind("v1", "Pod", ignored=(("status",), ("spec", "nodeName")))
    live = {**pod(), "spec": {"nodeName": "a", "hostname": "h"}, "status": {"phase": "Running"}}
    config = {**pod(), "spec": {"nodeName": "b", "subdomain": "s"}, "status": {"phase": "Failed"}}
    entries = [ownership.before_first_apply(reset, live)]

    _, found = ownership.applied(reset, live, config, entries, who("a", APPLY), force=False)

    assert found[-1].fields == {"f:spec": {"f:subdomain": fieldsets.LEAF}}


def pod(*containers: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": "p", "labels": labels} if labels else {"name": "p"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": list(containers)}}


def applied(
    live: dict[str, Any], config: dict[str, Any], entries: list[Entry], name: str, *, force: bool = False
) -> tuple[dict[str, Any], list[Entry]]:
    return ownership.applied(POD, live, config, entries, who(name, APPLY), force=force)


def fields(entries: list[Entry], name: str) -> Any:
    return fieldsets.encode(next(entry.fields for entry in entries if entry.manager == name))


def test_a_creator_owns_what_it_set() -> None:
    new = pod({"name": "c", "image": "i", "ports": [{"containerPort": 80}]}, app="web")
    new["status"] = {"phase": "Pending"}

    entries = ownership.updated(POD, POD.blank, new, [], who("creator"))

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


def test_a_change_moves_the_field_to_who_made_it() -> None:
    old, new = pod({"name": "c", "image": "1"}, a="1", b="1"), pod({"name": "c", "image": "2"}, a="1")
    before = ownership.updated(POD, POD.blank, old, [], who("one"))

    entries = ownership.updated(POD, old, new, before, who("two", time="2026-11-21T00:00:09Z"))

    assert fields(entries, "two") == {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:image": {}}}}}
    assert fields(entries, "one")["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}
    assert "f:image" not in fields(entries, "one")["f:spec"]["f:containers"]['k:{"name":"c"}']


def test_apply_without_effect_by_a_new_manager_has_no_time() -> None:
    live = pod(a="1")
    entries = [ownership.before_first_apply(POD, live)]

    _, found = applied(live, pod(a="1"), entries, "new")
    (mine,) = [entry for entry in found if entry.manager == "new"]

    assert mine.time == ""


def test_nothing_changed_is_nothing_owned() -> None:
    old = pod({"name": "c"})
    before = ownership.updated(POD, POD.blank, old, [], who("one"))

    assert ownership.updated(POD, old, old, before, who("two")) == before


def test_managers_without_fields_are_dropped_when_nothing_changes() -> None:
    old = pod({"name": "c"})

    assert ownership.updated(POD, old, old, [who("one")], who("two")) == []


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


def test_another_owner_is_in_the_way_until_forced() -> None:
    live, entries = applied(POD.blank, pod({"name": "c", "image": "1"}), [], "x")
    mine = pod({"name": "c", "image": "2"})

    with pytest.raises(ApiError) as raised:
        applied(live, mine, entries, "y")
    assert raised.value.code == 409
    assert raised.value.message == ('Apply failed with 1 conflict: conflict with "x": .spec.containers[name="c"].image')
    assert raised.value.details == {
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
    live, entries = pod(a="1", b="1"), []
    entries = ownership.updated(POD, POD.blank, live, entries, who("x"))

    with pytest.raises(ApiError) as raised:
        applied(live, pod(a="2", b="2"), entries, "y")

    assert raised.value.message == (
        'Apply failed with 2 conflicts: conflicts with "x" using v1:\n- .metadata.labels.a\n- .metadata.labels.b'
    )


def test_entries_of_the_other_version_keep_its_names() -> None:
    event = kind("events.k8s.io/v1", "Event", member_names={"message": "note"}, blank={"metadata": {}})
    live = {"metadata": {}, "note": "a", "reason": "r"}
    core = Entry("x", UPDATE, "v1", "", "", fieldsets.decode({"f:message": {}, "f:reason": {}}))

    with pytest.raises(ApiError) as raised:
        ownership.applied(
            event, live, {"metadata": {}, "note": "b"}, [core], who("y", APPLY, version="events.k8s.io/v1"), force=False
        )
    assert ".note" in raised.value.message
    entries = ownership.updated(event, live, {**live, "reason": "s"}, [core], who("z", version="events.k8s.io/v1"))
    assert fields(entries, "x") == {"f:message": {}}


def test_the_oldest_of_many_updaters_are_merged() -> None:
    entries: list[Entry] = []
    live = pod()
    for number in range(15):
        new = pod(**{f"l{index}": "v" for index in range(number + 1)})
        entries = ownership.updated(POD, live, new, entries, who(f"m{number}", time=f"2026-11-21T00:00:{number:02}Z"))
        live = new

    names = [entry["manager"] for entry in ownership.write(entries)]
    assert len(names) == ownership.MAX_UPDATERS
    assert names[0] == "ancient-changes"
    assert names[-1] == "m14"


@pytest.mark.parametrize("entries", [[{"manager": "x"}], [{"operation": "Apply", "fieldsV1": {"x": {}}}], ["x"], [{}]])
def test_entries_without_sense_are_as_none(entries: Any) -> None:
    assert ownership.read(entries) is None


def test_one_empty_entry_forgets_all() -> None:
    live = pod(a="1")
    live["metadata"]["managedFields"] = ownership.write(ownership.updated(POD, POD.blank, pod(a="1"), [], who("x")))

    assert ownership.current({"metadata": {"managedFields": [{}]}}, live, whole=True) == []
    assert [entry.manager for entry in ownership.current({"metadata": {}}, live, whole=True)] == ["x"]


_names = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"d"'])
_sets = st.recursive(
    st.just({}), lambda below: st.dictionaries(_names | st.just("."), below, max_size=3), max_leaves=8
).map(lambda wire: fieldsets.decode({name: value for name, value in wire.items() if name != "."}))


@given(_sets, _sets)
def test_sets_follow_the_laws_of_sets(one: Any, other: Any) -> None:
    encode = fieldsets.encode
    both, either = fieldsets.intersection(one, other), fieldsets.union(one, other)

    assert encode(fieldsets.union(other, one)) == encode(either)
    assert encode(fieldsets.union(fieldsets.difference(one, other), both)) == encode(one)
    assert fieldsets.difference(one, either) == {}
    assert encode(fieldsets.difference(either, other)) == encode(fieldsets.difference(one, other))
    assert encode(fieldsets.decode(encode(either))) == encode(either)


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
def test_what_is_applied_with_force_is_there_and_applying_it_again_changes_nothing(first: Any, second: Any) -> None:
    live = pod()
    live, entries = applied(live, first, [], "one")
    live, entries = applied(live, second, entries, "two", force=True)

    again, same = applied(live, second, entries, "two")

    assert again == live
    assert ownership.write(same) == ownership.write(entries)
    assert labels(live).items() >= labels(second).items()
    for name, wanted in containers(second).items():
        there = containers(live)[name]
        assert all(there[member] == wanted[member] for member in wanted if member != "ports")
        assert all(port in there["ports"] for port in wanted.get("ports", ()))


@given(_configs, _configs)
def test_a_lone_applier_gets_exactly_what_it_asks_for(first: Any, second: Any) -> None:
    live, entries = applied(pod(), first, [], "one")

    live, _ = applied(live, second, entries, "one")

    fresh, _ = applied(pod(), second, [], "one")
    assert labels(live) == labels(fresh)
    assert containers(live) == containers(fresh)


@given(_configs, _configs)
def test_appliers_are_in_each_others_way_only_where_they_differ(first: Any, second: Any) -> None:
    live, entries = applied(pod(), first, [], "one")

    try:
        after, _ = applied(live, second, entries, "two")
    except ApiError as error:
        assert error.code == 409
        assert error.details["causes"]
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
