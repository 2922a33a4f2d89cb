"""Tests for the availability of API services and the resolution of their endpoints."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.availability import Availability, log_change, missing, with_condition
from apiserver_stub.aggregation.remotes import Remote, Remotes
from apiserver_stub.aggregation.service_resolver import Unresolved, resolve
from apiserver_stub.endpoints.metrics import show_remotes
from apiserver_stub.telemetry.exposition import Choice, Page
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import Memory

REMOTE = Remote(
    "v1.g", "g", "v1", "s", "n", 443, "", insecure=False, available=False, group_priority=1, version_priority=1
)
SPEC = {"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"name": "api", "port": 443}]}


def store(spec: Any = SPEC, subsets: Any = None) -> Memory:
    found = Memory()
    metadata = {"namespace": "n", "name": "s"}
    if spec is not None:
        found.put("core/services", {"metadata": metadata, "spec": spec})
    if subsets is not None:
        found.put("core/endpoints", {"metadata": metadata, "subsets": subsets})
    return found


def behind(name: str = "api", ip: str = "10.1.1.1") -> list[Any]:
    return [{"addresses": [{"ip": ip}], "ports": [{"name": name, "port": 8443}]}]


def reason(kept: Memory, remote: Remote = REMOTE) -> str:
    problem = missing(kept, remote)
    return problem[1] if problem is not None else ""


def test_unavailability_has_a_reason() -> None:
    assert reason(store(None)) == "ServiceNotFound"
    assert reason(store(), replace(REMOTE, port=444)) == "ServicePortError"
    assert reason(store()) == "EndpointsNotFound"
    assert reason(store(subsets=[])) == "MissingEndpoints"
    assert reason(store(subsets=behind("other"))) == "MissingEndpoints"
    assert reason(store(subsets=[{"notReadyAddresses": [{"ip": "10.1.1.1"}], "ports": [{"name": "api"}]}]))
    assert reason(store(subsets=behind())) == ""
    assert reason(store({"type": "ExternalName", "externalName": "x.example.com"})) == ""


def test_transition_time_is_kept_while_status_is_unchanged() -> None:
    other = {"type": "Other", "status": "True"}
    before = {"type": "Available", "status": "False", "lastTransitionTime": "then", "reason": "A", "message": "a"}
    obj = {"spec": {"service": {}}, "status": {"conditions": [other, before]}}

    same = with_condition(obj, ("False", "B", "b"))["status"]["conditions"]
    assert same == [other, {**before, "reason": "B", "message": "b"}]
    changed = with_condition(obj, ("True", "Passed", "all"))["status"]["conditions"]
    assert changed[1]["lastTransitionTime"] != "then"
    assert obj["status"]["conditions"][1] is before  # type: ignore[index]
    assert with_condition({"spec": {}}, None)["status"]["conditions"][0]["reason"] == "Local"


def test_service_resolves_to_cluster_ip_or_endpoint() -> None:
    kept = store(subsets=behind())
    assert resolve(kept, "n", "s", 443, by_endpoint=False) == ("10.0.0.9", 443)
    assert resolve(kept, "n", "s", 443, by_endpoint=True) == ("10.1.1.1", 8443)
    headless = store({**SPEC, "clusterIP": "None"}, behind())
    assert resolve(headless, "n", "s", 443, by_endpoint=True) == ("10.1.1.1", 8443)
    named = store({"type": "ExternalName", "externalName": "x.example.com"})
    assert resolve(named, "n", "s", 8443, by_endpoint=False) == ("x.example.com", 8443)


@pytest.mark.parametrize(
    ("kept", "port", "by_endpoint", "problem"),
    [
        (store(None), 443, False, 'service "s" not found'),
        (store(), 444, False, 'no service port 444 found for service "s"'),
        (store(), 443, True, 'no endpoints available for service "s"'),
        (store({**SPEC, "clusterIP": "None"}), 443, False, 'cannot route to service with ClusterIP "None"'),
        (store({"type": "ExternalName"}), 443, True, 'unsupported service type "ExternalName"'),
    ],
)
def test_unresolvable_service_reports_the_reason(kept: Memory, port: int, by_endpoint: bool, problem: str) -> None:
    with pytest.raises(Unresolved) as reported:
        resolve(kept, "n", "s", port, by_endpoint=by_endpoint)
    assert str(reported.value) == problem


def test_lost_api_service_is_counted_once_with_its_reason() -> None:
    remotes = Remotes(Identity(), {("g", "v1"): REMOTE})
    registry = SimpleNamespace(find=lambda *_: None)
    availability = Availability(SimpleNamespace(), registry, remotes, SimpleNamespace())  # type: ignore[arg-type]

    remote, pages = REMOTE, []
    for condition in (
        ("False", "ServiceNotFound", "not yet"),
        ("True", "Passed", "all"),
        ("False", "MissingEndpoints", "none"),
        ("False", "MissingEndpoints", "none"),
    ):
        remote = availability.mark(remote, condition)
        page = Page(Choice())
        show_remotes(page, remotes)
        pages.append(page.text()[0].decode())

    for text, gone in zip(pages, (1, 0, 1, 1), strict=True):
        assert f'unavailable_apiservice{{name="v1.g"}} {gone}\n' in text
    assert "apiservice_total{" not in pages[1]
    assert 'unavailable_apiservice_total{name="v1.g",reason="MissingEndpoints"} 1\n' in pages[3]


def test_changed_availability_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    log_change("v1.g", "True", ("False", "MissingEndpoints", "no addresses"))
    log_change("v1.g", "False", ("False", "ServiceNotFound", "not present"))

    (record,) = caplog.records
    fields = vars(record)
    assert record.getMessage() == "changing APIService availability"
    assert (fields["apiService"], fields["oldStatus"], fields["newStatus"]) == ("v1.g", "True", "False")
    assert (fields["reason"], fields["note"]) == ("MissingEndpoints", "no addresses")


async def test_written_condition_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    stored = Memory()
    stored.put("g/apiservices", {"metadata": {"name": "v1.g"}, "spec": {"service": {}}})
    registry = SimpleNamespace(find=lambda *_: SimpleNamespace(storage="g/apiservices"))
    availability = Availability(stored, registry, Remotes(Identity(), {}), SimpleNamespace())  # type: ignore[arg-type]

    for _ in range(2):
        await availability.write_condition("v1.g", ("True", "Passed", "all checks passed"))

    assert caplog.messages == ["changing APIService availability"]
