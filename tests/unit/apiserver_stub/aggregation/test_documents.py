"""Discovery of an extension API server becomes a part of the one document of all groups."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.aggregation.documents import openapi_url, resources_of


def listing(*resources: Any) -> dict[str, Any]:
    return {"kind": "APIResourceList", "groupVersion": "g/v1", "resources": list(resources)}


def test_resources_have_their_subresources() -> None:
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


def test_a_subresource_may_come_before_or_without_its_resource() -> None:
    (found,) = resources_of(listing({"name": "things/status", "kind": "Thing", "verbs": ["get"]}))
    assert (found["resource"], found["verbs"]) == ("things", [])
    assert [item["subresource"] for item in found["subresources"]] == ["status"]


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"kind": "Status"}, {**listing(), "resources": 3}, listing("x"), listing({"kind": "Thing"})],
)
def test_what_is_no_list_of_resources_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match="APIResourceList"):
        resources_of(document)


def test_only_a_document_of_the_group_version_itself_is_taken_from_the_index() -> None:
    def index(url: Any) -> Any:
        return {"paths": {"apis/g/v1": {"serverRelativeURL": url}}}

    assert openapi_url(index("/openapi/v3/apis/g/v1?hash=1"), "/apis/g/v1") == "/openapi/v3/apis/g/v1?hash=1"
    for other in (index("https://elsewhere/"), index("/api/v1/secrets"), index(3), {"paths": []}, None, {}):
        assert openapi_url(other, "/apis/g/v1") == ""
