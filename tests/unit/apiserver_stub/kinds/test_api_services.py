"""Tests for API services: names, validation, conditions and columns."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.api_services import order, priorities, resources
from apiserver_stub.kinds.runtime_config import errors
from apiserver_stub.options import parse
from apiserver_stub.schema.shapes import of
from apiserver_stub.server.kinds import kind_settings
from nodeagent.base.identity import Identity

(RESOURCE,) = resources(kind_settings(parse([])))
RULES, NAMES = RESOURCE.strategy, RESOURCE.object_name_problems
assert NAMES is not None
ELSEWHERE = {"namespace": "n", "name": "s", "port": 443}


def service(name: str = "v1.example.com", **spec: Any) -> dict[str, Any]:
    given = {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10}
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


def cells(obj: dict[str, Any]) -> list[Any]:
    return [column.cell(obj) for column in RESOURCE.columns[:3]]


def test_local_api_service_is_available_immediately() -> None:
    new = service()
    RULES.prepare_create(new)

    assert RULES.validate(new) == []
    (condition,) = new["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    assert cells(new) == ["v1.example.com", "Local", "True"]


@pytest.mark.parametrize(
    ("new", "field", "text"),
    [
        (service("v2.", group="", version="v2"), "spec.group", "only v1 may have an empty group"),
        (service("v1.A", group="A"), "spec.group", "a lowercase RFC 1123 subdomain must consist"),
        (service("1.example.com", version="1"), "spec.version", "a DNS-1035 label must consist"),
        (service(groupPriorityMinimum=0), "spec.groupPriorityMinimum", "must be positive and less than 20000"),
        (service(groupPriorityMinimum=20001), "spec.groupPriorityMinimum", "must be positive and less than 20000"),
        (service(versionPriority=1001), "spec.versionPriority", "must be positive and less than 1000"),
        (service(caBundle="YQ=="), "spec.caBundle", '"1 bytes": local APIServices may not have a caBundle'),
        (service(insecureSkipTLSVerify=True), "spec.insecureSkipTLSVerify", "local APIServices may not have"),
        (service(service={**ELSEWHERE, "name": ""}), "spec.service.name", "Required value"),
        (service(service={**ELSEWHERE, "namespace": ""}), "spec.service.namespace", "Required value"),
        (service(service={**ELSEWHERE, "port": 65536}), "spec.service.port", "must be between 1 and 65535, inclusive"),
        (
            service(service=ELSEWHERE, insecureSkipTLSVerify=True, caBundle="YQ=="),
            "spec.insecureSkipTLSVerify",
            "may not be true if caBundle is present",
        ),
    ],
)
def test_invalid_api_service_is_rejected(new: dict[str, Any], field: str, text: str) -> None:
    (cause,) = RULES.validate(new)
    assert cause.field == field
    assert text in cause.message


def test_name_is_that_of_the_group_version() -> None:
    assert NAMES("v1.example.com", service()) == []
    assert NAMES("other", service()) == ['must be `spec.version+"."+spec.group`: "v1.example.com"']
    assert NAMES("a/b", service()) == ["may not contain '/'"]


def test_core_group_has_no_name_and_may_have_a_service() -> None:
    assert RULES.validate(service("v1.", group="")) == []
    assert RULES.validate(service("v1.", group="", service=ELSEWHERE)) == []


def test_service_reference_is_mutable_with_default_port_443() -> None:
    old = service(service={"namespace": "n", "name": "s"})
    RULES.default(old)
    RULES.prepare_create(old)

    assert old["spec"]["service"]["port"] == 443
    assert old["status"] == {}
    assert RULES.validate(old) == []
    for new in (service(), service(service={**ELSEWHERE, "name": "other"})):
        assert RULES.validate_update(new, old, "") == []


def test_conditions_are_true_false_or_unknown() -> None:
    new = {**service(), "status": {"conditions": [{"type": "Available", "status": "Maybe"}]}}
    (cause,) = RULES.validate_update(new, service(), "status")
    assert cause.message == 'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"'


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([], "Unknown"),
        ([{"type": "Available", "status": "False", "reason": "ServiceNotFound"}], "False (ServiceNotFound)"),
        ([{"type": "Available", "status": "True", "reason": "Passed"}], "True"),
        ([{"type": "Available", "status": "False"}], "False"),
    ],
)
def test_columns(conditions: list[Any], shown: str) -> None:
    obj = {**service(service=ELSEWHERE), "status": {"conditions": conditions}}
    assert cells(obj) == ["v1.example.com", "n/s", shown]


def test_group_names_follow_the_api_domain() -> None:
    names = Identity(api_domain="example.org")
    assert priorities("events.example.org", "v1", names) == (17750, 15)
    assert priorities("events.k8s.io", "v1", names) == (1000, 100)
    assert priorities("policy", "v1", names) == (17100, 15)
    assert errors({"apiregistration.example.org/v1": "true"}, names) == []
    assert errors({"apiregistration.k8s.io/v1": "true"}, names) != []


def test_priorities_order_groups_and_their_versions() -> None:
    assert priorities("", "v1", Identity()) == (18000, 1)
    assert priorities("apiregistration.k8s.io", "v1", Identity()) is None
    assert (
        order("apiregistration.k8s.io", "v1", Identity())
        < order("", "v1", Identity())
        < order("apps", "v1", Identity())
        < order("node.k8s.io", "v1", Identity())
    )
    assert order("autoscaling", "v2", Identity()) < order("autoscaling", "v1", Identity())


def test_api_service_has_a_form_for_each_encoding() -> None:
    shape = of("apiregistration.k8s.io/v1", "APIService", "k8s.io")
    assert shape is not None
    assert shape.child("status").child("conditions").keys == ("type",)
