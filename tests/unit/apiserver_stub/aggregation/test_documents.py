"""Tests for the conversion of an extension API server's discovery."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.aggregation.documents import openapi_url, resources_of


def listing(*resources: Any) -> dict[str, Any]:
    return {"kind": "APIResourceList", "groupVersion": "g/v1", "resources": list(resources)}


def test_subresources_are_assigned_to_their_resources() -> None:
    main = {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": ["get"]}
    scale = {"name": "things/scale", "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]}

    (found,) = resources_of(listing({**main, "shortNames": ["tg"]}, scale))

    assert found == {
        "resource": "things",
        "scope": "Namespaced",
        "singularResource": "thing",
        "responseKind": {"group": "", "version": "", "kind": "Thing"},
        "verbs": ["get"],
        "shortNames": ["tg"],
        "subresources": [
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get"],
            }
        ],
    }


def test_subresource_may_precede_or_lack_its_resource() -> None:
    (found,) = resources_of(listing({"name": "things/status", "kind": "Thing", "verbs": ["get"]}))
    assert (found["resource"], found["verbs"]) == ("things", [])
    assert [item["subresource"] for item in found["subresources"]] == ["status"]


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"kind": "Status"}, {**listing(), "resources": 3}, listing("x"), listing({"kind": "Thing"})],
)
def test_invalid_resource_list_is_rejected(document: Any) -> None:
    with pytest.raises(ValueError, match="APIResourceList"):
        resources_of(document)


def test_openapi_index_yields_only_the_group_version_document() -> None:
    def index(url: Any) -> Any:
        return {"paths": {"apis/g/v1": {"serverRelativeURL": url}}}

    assert openapi_url(index("/openapi/v3/apis/g/v1?hash=1"), "/apis/g/v1") == "/openapi/v3/apis/g/v1?hash=1"
    for other in (index("https://elsewhere/"), index("/api/v1/secrets"), index(3), {"paths": []}, None, {}):
        assert openapi_url(other, "/apis/g/v1") == ""
