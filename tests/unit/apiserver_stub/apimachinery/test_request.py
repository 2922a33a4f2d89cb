"""Tests for the parsing of request paths and queries into request attributes."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import Query, RequestInfo, check_method, parse_path
from apiserver_stub.apimachinery.status import ApiError


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", "", RequestInfo("list", "", "", "v1", "pods")),
        ("GET", "/api/v1/pods", "watch=foo", RequestInfo("watch", "", "", "v1", "pods")),
        ("GET", "/api/v1/pods", "watch=False", RequestInfo("list", "", "", "v1", "pods")),
        ("GET", "/api/v1/watch/pods", "", RequestInfo("watch", "", "", "v1", "pods")),
        ("GET", "/api/v1/watch", "", RequestInfo("list", "", "", "v1", "watch")),
        ("GET", "/api/v1/namespaces", "", RequestInfo("list", "", "", "v1", "namespaces")),
        ("GET", "/api/v1", "", RequestInfo("get", "")),
        (
            "GET",
            "/apis/apps/v1/watch/deployments/d",
            "",
            RequestInfo("watch", "", "apps", "v1", "deployments", name="d"),
        ),
        ("PUT", "/api/v1/watch/pods", "", RequestInfo("watch", "", "", "v1", "pods")),
        ("GET", "/api/v1/namespaces/a/pods/", "", RequestInfo("list", "", "", "v1", "pods", "", "a")),
        ("DELETE", "/api/v1/namespaces/a/pods", "", RequestInfo("deletecollection", "", "", "v1", "pods", "", "a")),
        (
            "PATCH",
            "/api/v1/namespaces/a/pods/p/status",
            "",
            RequestInfo("patch", "", "", "v1", "pods", "status", "a", "p"),
        ),
        ("GET", "/api/v1/namespaces/a", "", RequestInfo("get", "", "", "v1", "namespaces", "", "a", "a")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            "",
            RequestInfo("update", "", "", "v1", "namespaces", "finalize", "a", "a"),
        ),
        (
            "GET",
            "/api/v1/nodes/n/proxy/logs/x",
            "",
            RequestInfo("get", "", "", "v1", "nodes", "proxy", "", "n", "logs/x"),
        ),
        (
            "POST",
            "/apis/events.k8s.io/v1/namespaces/a/events",
            "",
            RequestInfo("create", "", "events.k8s.io", "v1", "events", "", "a"),
        ),
        ("GET", "/api/v1/nodes/a%2fb", "", RequestInfo("get", "", "", "v1", "nodes", "", "", "a/b")),
        ("GET", "/apis/events.k8s.io/v1", "", RequestInfo("get", "")),
        ("POST", "/healthz", "", RequestInfo("post", "")),
    ],
)
def test_path_is_parsed_into_attributes(method: str, path: str, query: str, expected: RequestInfo) -> None:
    found = parse_path(method, path, Query(query))

    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name", "rest")
    assert [getattr(found, name) for name in names] == [getattr(expected, name) for name in names]
    assert found.is_resource == bool(expected.resource)


@pytest.mark.parametrize(
    ("written", "path"),
    [("/", "/"), ("//", "/"), ("/version", "/version"), ("/debug/pprof/", "/debug/pprof/"), ("//apis//", "/apis/")],
)
def test_non_resource_path_keeps_its_trailing_slash(written: str, path: str) -> None:
    assert parse_path("GET", written, Query("")).path == path


def test_dot_names_are_rejected() -> None:
    with pytest.raises(ApiError, match="may not be"):
        parse_path("GET", "/api/v1/nodes/..", Query(""))


def test_query_values() -> None:
    query = Query("limit=5&watch&dryRun=All&dryRun=x&timeoutSeconds=abc&pretty=0")

    assert query.integer("limit") == 5
    assert query.integer("missing") is None
    assert not query.flag("watch")
    assert not query.flag("pretty")
    assert query.all("dryRun") == ["All", "x"]
    with pytest.raises(ApiError, match='parsing "abc": invalid syntax'):
        query.integer("timeoutSeconds")


def test_methods_without_a_verb_are_not_allowed_except_for_proxies() -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        check_method(RequestInfo("get", "", "", "v1", "pods"), method)
    check_method(RequestInfo("get", "", "", "v1", "pods", "proxy"), "HEAD")
    for subresource, method in (("", "HEAD"), ("", "OPTIONS"), ("proxy", "TRACE")):
        with pytest.raises(ApiError) as error:
            check_method(RequestInfo("get", "", "", "v1", "pods", subresource), method)
        assert error.value.code == 405
