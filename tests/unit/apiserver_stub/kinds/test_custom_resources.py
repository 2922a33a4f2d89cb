"""Tests for the kinds that CustomResourceDefinitions declare, and for the definitions."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.custom_resource_definitions import resources, set_condition
from apiserver_stub.kinds.custom_resources import resources_of
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.kinds.tables import row
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings
from apiserver_stub.storage import Record

(DEFINITIONS,) = resources(kind_settings(parse([])))
NAMES = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "widgets.example.com", "uid": "1"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": dict(NAMES),
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def established(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    found = definition(*versions, **spec)
    found["status"] = {"acceptedNames": found["spec"]["names"]}
    set_condition(found, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
    return found


def widget(spec: Any = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": "x", "generation": 1, **more.pop("metadata", {})}
    return {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": metadata, "spec": spec or {}, **more}


def only(found: list[Resource]) -> Resource:
    (resource,) = found
    return resource


# Definitions


def test_selectable_fields_need_the_gate() -> None:
    new = definition(version(selectableFields=[{"jsonPath": ".spec.color"}]))
    (enabled,) = resources(kind_settings(parse(["--compatibility-version=1.31"])))

    enabled.strategy.prepare_create(new)
    assert "selectableFields" in new["spec"]["versions"][0]
    DEFINITIONS.strategy.prepare_create(new)
    assert "selectableFields" not in new["spec"]["versions"][0]


def test_selectable_fields_are_field_labels() -> None:
    resource = only(resources_of(established(version(selectableFields=[{"jsonPath": ".spec.color"}]))))

    assert resource.field_value(widget({"color": "red"}), "spec.color") == "red"
    assert resource.field_value(widget(), "spec.color") == ""
    with pytest.raises(KeyError):
        resource.field_path("spec.size")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "Required value"),
        (".spec.nope", "is an invalid path: does not refer to a valid field"),
        (".spec", "must point to a field of type string, boolean or integer."),
        (".metadata", "must not point to fields in metadata"),
        (".spec.size", "Duplicate value"),
    ],
)
def test_invalid_selectable_field(path: str, text: str) -> None:
    new = definition(version(selectableFields=[{"jsonPath": ".spec.size"}, {"jsonPath": path}]))
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] = {"type": "object"}

    field = "spec.selectableFields[1].jsonPath"
    found = [cause.message for cause in DEFINITIONS.strategy.validate(new) if cause.field == field]
    assert text in str(found)


def test_optional_stored_values_of_rules_need_the_gate() -> None:
    new = definition()
    schema = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "true", "optionalOldSelf": True}]

    DEFINITIONS.strategy.prepare_create(new)

    assert schema["x-kubernetes-validations"] == [{"rule": "true"}]


def test_new_definition_has_default_names_and_its_storage_version() -> None:
    new = definition(names={"plural": "widgets", "kind": "Widget"})
    strategy = DEFINITIONS.strategy

    strategy.default(new)
    strategy.prepare_create(new)

    assert new["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert new["spec"]["conversion"] == {"strategy": "None"}
    assert new["status"]["storedVersions"] == ["v1"]
    assert strategy.validate(new) == []


@pytest.mark.parametrize(("webhook", "kept"), [({}, False), ({"conversionReviewVersions": ["v1"]}, True)])
def test_empty_webhook_of_a_conversion_is_dropped(webhook: dict[str, Any], kept: bool) -> None:
    new = definition(conversion={"strategy": "None", "webhook": webhook})

    DEFINITIONS.strategy.default(new)

    assert ("webhook" in new["spec"]["conversion"]) is kept


def test_status_keeps_a_stored_version() -> None:
    new = established()

    DEFINITIONS.strategy.default_status(new)

    assert new["status"]["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("release", "schema", "expected"),
    [
        ("1.33", {"type": "string", "format": "abc"}, []),
        ("1.34", {"type": "string", "format": "abc"}, ['unrecognized format "abc"']),
        ("1.34", {"type": "string", "format": "date-time"}, []),
        ("1.34", {"type": "string", "format": "k8s-short-name"}, []),
        ("1.34", {"type": "integer", "format": "int64"}, []),
        ("1.34", {"type": "integer", "format": "date"}, ['unrecognized format "date"']),
        ("1.34", {"type": "object", "format": "date"}, ['unrecognized format "date"']),
    ],
)
def test_unrecognized_formats_cause_a_warning(release: str, schema: Any, expected: list[str]) -> None:
    (found,) = resources(kind_settings(parse([f"--compatibility-version={release}"])))
    new = definition()
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"] = schema

    assert found.strategy.warnings(new, None) == expected
    assert found.strategy.warnings(new, definition()) == expected
    assert found.strategy.warnings(new, new) == []


def test_storage_version_is_added_to_the_stored_ones() -> None:
    old = established(version("v1"), version("v2", storage=False))
    old["status"]["storedVersions"] = ["v1"]
    new = deepcopy(old)
    new["spec"]["versions"][0]["storage"], new["spec"]["versions"][1]["storage"] = False, True

    DEFINITIONS.strategy.prepare_update(new, old, "")

    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert old["status"]["storedVersions"] == ["v1"]


def test_deleted_definition_is_kept_for_the_cleanup() -> None:
    obj = established()
    assert DEFINITIONS.strategy.lingers(obj)

    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    DEFINITIONS.strategy.prepare_delete(obj)

    assert obj["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert not DEFINITIONS.strategy.lingers(obj)
    assert obj["status"]["conditions"][-1]["reason"] == "InstanceDeletionPending"


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"group": "example"}, "spec.group", "should be a domain with at least one dot"),
        ({"scope": "Everywhere"}, "spec.scope", 'supported values: "Cluster", "Namespaced"'),
        ({"versions": []}, "spec.versions", "must have exactly one version marked as storage version"),
        ({"versions": [version(), version(storage=False)]}, "spec.versions", "must contain unique version names"),
        ({"names": {**NAMES, "kind": "WidgetList"}}, "spec.names.listKind", "kind and listKind may not be the same"),
        ({"names": {**NAMES, "singular": "Widget"}}, "spec.names.singular", "a DNS-1035 label must consist of"),
    ],
)
def test_invalid_definition_is_rejected(change: dict[str, Any], field: str, text: str) -> None:
    new = definition(**change)
    DEFINITIONS.strategy.prepare_create(new)

    found = {cause.field: cause.message for cause in DEFINITIONS.strategy.validate(new)}

    assert text in found[field]


def test_name_of_a_definition_is_its_plural_and_group() -> None:
    assert DEFINITIONS.name_rule(definition())("widgets.example.com") == []
    assert DEFINITIONS.name_rule(definition())("gadgets.example.com") == ['must be spec.names.plural+"."+spec.group']


def test_established_definition_keeps_its_kind_and_scope() -> None:
    old = established()
    set_condition(old, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    old["status"]["storedVersions"] = ["v1"]
    new = deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Gadget"

    found = DEFINITIONS.strategy.validate_update(new, old, "")

    assert [(cause.field, cause.message.rpartition(": ")[2]) for cause in found] == [
        ("spec.scope", "field is immutable"),
        ("spec.names.kind", "field is immutable"),
    ]


# Resources


def test_kind_is_served_once_its_names_are_accepted() -> None:
    assert resources_of({**definition(), "status": {}}) == []

    found = only(resources_of(established()))

    assert (found.group, found.version, found.kind, found.plural) == ("example.com", "v1", "Widget", "widgets")
    assert found.storage == "example.com/widgets"


def test_only_served_versions_have_resources() -> None:
    found = resources_of(established(version("v1"), version("v2", storage=False, served=False)))

    assert [item.version for item in found] == ["v1"]


def test_status_changes_through_its_subresource_only() -> None:
    resource = only(resources_of(established(version(subresources={"status": {}}))))
    strategy = resource.strategy
    old = widget({"size": 1}, status={"a": 1})

    created = widget({"size": 1}, status={"a": 2})
    strategy.prepare_create(created)
    assert "status" not in created

    new = widget({"size": 2}, status={"a": 2})
    strategy.prepare_update(new, old, "")
    assert new["status"] == {"a": 1}
    assert strategy.is_counted(new, old)

    new = widget({"size": 2}, status={"a": 2}, metadata={"labels": {"a": "b"}})
    strategy.prepare_update(new, old, "status")
    assert new == widget({"size": 1}, status={"a": 2})
    assert not strategy.is_counted(new, old)


@pytest.mark.parametrize(
    ("names_status", "ratchets", "before", "expected"),
    [
        (False, True, 1, ["a"]),
        (True, False, 1, ["status.a"]),
        (True, True, 1, []),
        (True, True, 2, ["status.a"]),
    ],
)
def test_errors_in_the_status_are_those_of_the_release(
    names_status: bool, ratchets: bool, before: Any, expected: list[str]
) -> None:
    served = version(subresources={"status": {}})
    served["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] = {"a": {"type": "string"}}
    found = only(resources_of(established(served), ratchets=ratchets, names_status=names_status))

    causes = found.strategy.validate_update(widget(status={"a": 1}), widget(status={"a": before}), "status")

    assert [cause.field for cause in causes] == expected


@pytest.mark.parametrize("name_formats", [False, True])
def test_formats_of_names_are_validated_by_releases_that_know_them(name_formats: bool) -> None:
    served = version(subresources={"status": {}})
    name = {"type": "string", "format": "k8s-short-name"}
    served["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] = {"name": name}
    strategy = only(resources_of(established(served), name_formats=name_formats)).strategy

    causes = strategy.validate_update(widget(status={"name": "A"}), widget(), "status")

    assert [cause.reason for cause in causes] == ["FieldValueTypeInvalid"] * name_formats


def test_resource_stored_in_a_removed_version_is_shown_in_the_only_one() -> None:
    resource = only(resources_of(established(version("v2"))))
    stored = b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"resourceVersion":"7","name":"a"}}'

    shown = json.loads(resource.render(Record("ns/a", 7, stored)))

    assert (shown["apiVersion"], shown["metadata"]) == (resource.api_version, {"resourceVersion": "7", "name": "a"})


def test_rules_are_not_evaluated_without_a_name() -> None:
    served = version()
    served["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{"rule": "self.metadata.name == 'y'"}]
    strategy = only(resources_of(established(served))).strategy
    nameless = widget()
    del nameless["metadata"]["name"]

    assert "failed rule" in strategy.validate(widget())[0].message
    assert "some validation rules were not checked" in strategy.validate(nameless)[0].message


def test_without_a_status_subresource_status_is_a_field() -> None:
    resource = only(resources_of(established()))
    old, new = widget(status={"a": 1}), widget(status={"a": 2})

    resource.strategy.prepare_update(new, old, "")

    assert new["status"] == {"a": 2}
    assert resource.strategy.is_counted(new, old)
    assert resource.subresource("status") is None


def test_terminating_kind_cannot_be_created() -> None:
    found = established()
    only(resources_of(found)).strategy.check_create()
    set_condition(found, "Terminating", "True", "InstanceDeletionInProgress", "")

    with pytest.raises(ApiError, match="create not allowed while custom resource definition is terminating") as error:
        only(resources_of(found)).strategy.check_create()
    assert error.value.code == 405


def test_columns_show_the_values_at_their_paths() -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.none"},
        {"name": "Object", "type": "string", "jsonPath": ".spec"},
    ]
    resource = only(resources_of(established(version(additionalPrinterColumns=columns))))
    obj = widget(
        {"size": 3}, status={"conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}]}
    )

    found = row(resource, obj, "None", "meta.k8s.io/v1")

    assert found["cells"] == ["x", 3, "True", None, '{"size":3}']
    assert [column.priority for column in resource.columns] == [0, 1, 0, 0, 0]


def test_cells_have_the_type_of_their_column() -> None:
    types = ("string", "integer", "number", "boolean", "date")
    columns = [{"name": name, "type": name, "jsonPath": ".spec.a"} for name in types]
    resource = only(resources_of(established(version(additionalPrinterColumns=columns))))
    cases: list[tuple[Any, list[Any]]] = [
        ("soon", ["soon", None, None, None, "<invalid>"]),
        (1.5, ["1.5", 1, 1.5, None, None]),
        (2, ["2", 2, 2.0, None, None]),
        (True, ["true", None, None, True, None]),
        (None, [None, None, None, None, None]),
    ]

    for value, expected in cases:
        found = row(resource, widget({"a": value}), "None", "meta.k8s.io/v1")["cells"]
        assert (found[1:], [type(cell) for cell in found[1:]]) == (expected, [type(cell) for cell in expected]), value


def test_default_columns_are_name_and_age() -> None:
    resource = only(resources_of(established()))

    assert [(column.name, column.type) for column in resource.columns] == [("Name", "string"), ("Age", "date")]


def test_deprecated_version_names_the_newer_ones() -> None:
    versions = [version("v1beta1", storage=False, deprecated=True), version("v1"), version("v2", storage=False)]
    old, new, newest = resources_of(established(*versions))

    assert old.deprecation_warning == "example.com/v1beta1 Widget is deprecated; use example.com/v2 Widget"
    assert new.deprecation_warning == newest.deprecation_warning == ""

    custom = established(version(deprecated=True, deprecationWarning="use gadgets"))
    assert only(resources_of(custom)).deprecation_warning == "use gadgets"


def test_unusual_finalizers_cause_warnings() -> None:
    strategy = only(resources_of(established())).strategy
    old = widget(metadata={"finalizers": ["kept"]})
    new = widget(metadata={"finalizers": ["kept", "short", "example.com/long"]})

    (warning,) = strategy.warnings(new, old)

    assert warning.startswith('metadata.finalizers: "short": prefer a domain-qualified finalizer name')


# Registry


def test_registry_serves_added_kinds_until_they_are_removed() -> None:
    registry, changes = Registry([DEFINITIONS]), []
    registry.listen(lambda: changes.append(1))

    registry.replace("widgets", resources_of(established(version("v1beta1", storage=False), version("v1"))))

    assert registry.find("example.com", "v1", "widgets") is not None
    assert registry.group_versions()[1:] == [("example.com", "v1"), ("example.com", "v1beta1")]

    registry.replace("widgets", [])
    registry.replace("others", [])

    assert registry.find("example.com", "v1", "widgets") is None
    assert registry.group_versions() == [("apiextensions.k8s.io", "v1")]
    assert len(changes) == 2


def test_declared_kinds_take_precedence_over_added_ones() -> None:
    registry = Registry([DEFINITIONS])
    other = Resource("apiextensions.k8s.io", "v1", "Other", "customresourcedefinitions")

    registry.replace("others", [other])

    assert registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") is DEFINITIONS


def test_stored_fields_of_disabled_features_are_kept() -> None:
    old = definition()
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [{"rule": "true", "optionalOldSelf": True}]
    new, without = deepcopy(old), definition()
    for obj in (new, old, without):
        obj["status"] = {}

    DEFINITIONS.strategy.prepare_update(new, without, "")
    assert "optionalOldSelf" not in str(new)
    new = deepcopy(old)
    DEFINITIONS.strategy.prepare_update(new, old, "")
    assert "optionalOldSelf" in str(new)


def test_time_of_a_condition_changes_with_its_status() -> None:
    found, earlier = definition(), "2026-01-01T00:00:00Z"
    found["status"] = {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": earlier}, {"type": "B"}]}

    set_condition(found, "A", "True", "R", "m")
    kept, other = found["status"]["conditions"]
    set_condition(found, "A", "False", "R", "m")

    assert kept == {"type": "A", "status": "True", "lastTransitionTime": earlier, "reason": "R", "message": "m"}
    assert other == {"type": "B"}
    assert found["status"]["conditions"][0]["lastTransitionTime"] != earlier
