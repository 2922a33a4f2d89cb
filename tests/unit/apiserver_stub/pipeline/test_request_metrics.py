"""Tests for request metrics: labels and durations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, RequestInfo, parse_path
from apiserver_stub.pipeline.request_metrics import RequestMetrics, Requests, labels_of, method_of
from apiserver_stub.telemetry.exposition import Choice, Page

PATCH = RequestInfo("patch", "/api/v1/namespaces/web/pods/a", "", "v1", "pods", "", "web", "a")
RESOURCE: Any = SimpleNamespace(group="", plural="pods", subresource=lambda name: None)


@pytest.mark.parametrize(
    ("method", "content_type", "verb"),
    [
        ("PATCH", "application/apply-patch+yaml", "APPLY"),
        ("PATCH", "application/merge-patch+json", "PATCH"),
        ("POST", "application/apply-patch+yaml", "POST"),
    ],
)
def test_apply_has_its_own_verb_label(method: str, content_type: str, verb: str) -> None:
    request: Any = SimpleNamespace(method=method, headers={"Content-Type": content_type})

    assert method_of(request) == verb


def test_apply_verb_is_used_for_local_and_aggregated_kinds() -> None:
    assert labels_of(PATCH, "APPLY", RESOURCE)[0] == "APPLY"
    assert labels_of(PATCH, "PATCH", RESOURCE)[0] == "PATCH"
    assert labels_of(PATCH, "APPLY", None)[0] == "APPLY"


def test_clients_cannot_create_labels() -> None:
    infos = [parse_path(method, f"/{'made-up' * number}/{number}", Query("")) for number, method in enumerate("ABCD")]
    infos += [parse_path("GET", f"/apis/group{number}/v1/kinds/name{number}", Query("")) for number in range(4)]

    found = {labels_of(info, method, None) for info in infos for method in ("ABC", "GETX", "PROPFIND")}

    assert found == {("other", "", "", "", path, "", "") for path in ("", "/apis")}


def test_metrics_of_removed_resources_are_dropped() -> None:
    metrics, pods = RequestMetrics(), RESOURCE
    for number in range(50):
        custom: Any = SimpleNamespace(group="example.com", plural=f"things{number}", subresource=lambda name: None)
        info = parse_path("GET", f"/apis/example.com/v1/{custom.plural}", Query(""))
        for resource, found in ((custom, info), (pods, PATCH), (None, info)):
            metrics.count(found, "GET", resource, 200, 0.1, 10, "")
            metrics.terminated(found, "GET", resource, 504)
            metrics.aborted(found, "GET", resource)
        metrics.retain([pods])

    page = Page(Choice())
    metrics.show_on(page)
    text = page.text()[0].decode()
    assert "example.com" not in text
    assert 'resource="pods"' in text
    assert 'code="504"' in text


def test_service_level_durations_start_with_a_higher_bound() -> None:
    found = Requests()
    for seconds in (0.001, 0.02, 0.04, 0.07, 90):
        found.seconds.observe(seconds)

    durations = found.sli_seconds
    assert durations.bounds[:2] == (0.05, 0.1)
    assert durations.counts == [3, 1, *[0] * (len(durations.bounds) - 2), 1]
    assert durations.total == found.seconds.total


@pytest.mark.parametrize(
    ("method", "target", "verb", "subresource", "scope"),
    [
        ("GET", "/api/v1/pods", "LIST", "", "cluster"),
        ("GET", "/api/v1/namespaces/a/pods", "LIST", "", "namespace"),
        ("POST", "/api/v1/namespaces/a/pods", "POST", "", "resource"),
        ("DELETE", "/api/v1/namespaces/a/pods", "DELETECOLLECTION", "", "namespace"),
        ("GET", "/api/v1/namespaces/a/pods/p", "GET", "", "resource"),
        ("PUT", "/api/v1/namespaces/a/pods/p/status", "PUT", "status", "resource"),
        ("GET", "/api/v1/namespaces/a/pods/p/made-up", "GET", "", "resource"),
        ("PROPFIND", "/api/v1/namespaces/a/pods/p", "other", "", "resource"),
    ],
)
def test_labels_of_a_resource(method: str, target: str, verb: str, subresource: str, scope: str) -> None:
    resource: Any = SimpleNamespace(
        group="", plural="pods", subresource=lambda name: object() if name == "status" else None
    )

    found = labels_of(parse_path(method, target, Query("")), method, resource)

    assert found == (verb, "", "v1", "pods", subresource, scope, "apiserver")


def test_streams_are_long_running_until_they_end() -> None:
    metrics, watch = RequestMetrics(), parse_path("GET", "/api/v1/pods", Query("watch=1"))
    metrics.watch_started(watch, RESOURCE)
    metrics.watch_started(watch, RESOURCE)
    metrics.watch_ended(watch, RESOURCE)
    one = exposed(metrics)
    metrics.watch_ended(watch, RESOURCE)

    assert 'apiserver_longrunning_requests{verb="WATCH",' in one
    assert (metrics.watches, "apiserver_longrunning_requests{" in exposed(metrics)) == (0, False)


@pytest.mark.parametrize(("target", "is_long"), [("/api/v1/pods?watch=1", True), ("/api/v1/pods", False)])
def test_watches_have_no_service_level(target: str, *, is_long: bool) -> None:
    metrics = RequestMetrics()
    path, _, query = target.partition("?")
    metrics.count(parse_path("GET", path, Query(query)), "GET", RESOURCE, 200, 0.1, 10, "")

    text = exposed(metrics)

    assert "apiserver_request_duration_seconds_count{" in text
    assert ("apiserver_request_sli_duration_seconds_count{" not in text) is is_long
    assert ("apiserver_response_sizes_count{" not in text) is is_long


def exposed(metrics: RequestMetrics) -> str:
    page = Page(Choice())
    metrics.show_on(page)
    return page.text()[0].decode()
