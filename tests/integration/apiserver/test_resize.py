"""Tests for the subresource ``resize`` of pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.apiserver.conftest import Api, Server
from tests.integration.apiserver.test_admission import rejection

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("resize"), "--feature-gates=InPlacePodVerticalScaling=true")
    yield found
    assert found.stop() == 0


def sized(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}, **fields}]}


def create(api: Api, namespace: str, cpu: str = "1") -> str:
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.ok("POST", path, {"metadata": {"name": "web"}, "spec": sized(cpu, image="web:1")})
    return f"{path}/web"


def test_resize_changes_resources_only(api: Api, namespace: str) -> None:
    path = create(api, namespace)
    change = {"metadata": {"labels": {"a": "b"}}, "spec": sized("2", image="other:1")}

    resized = api.ok("PATCH", f"{path}/resize", change, content_type=STRATEGIC)

    (container,) = resized["spec"]["containers"]
    assert (container["resources"], container["image"]) == ({"requests": {"cpu": "2"}}, "web:1")
    assert "labels" not in resized["metadata"]
    resized["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    replaced = api.ok("PUT", f"{path}/resize", resized)
    assert replaced["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "3"}
    assert api.ok("GET", f"{path}/resize")["metadata"]["name"] == "web"


def test_changes_of_the_spec_and_deletion_increment_the_generation(api: Api, namespace: str) -> None:
    path = create(api, namespace)
    generations = [api.ok("GET", path)["metadata"]["generation"]]

    for target, change in (
        (f"{path}/resize", {"spec": sized("2")}),
        (f"{path}/resize", {"spec": sized("2")}),
        (path, {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}),
        (f"{path}/status", {"status": {"phase": "Running"}}),
        (path, {"metadata": {"labels": {"a": "b"}}}),
    ):
        generations.append(api.ok("PATCH", target, change, content_type=STRATEGIC)["metadata"]["generation"])

    assert generations == [1, 2, 2, 3, 3, 3]


def test_limit_ranges_and_quotas_apply_to_resizes(api: Api, namespace: str) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    path = create(api, namespace)
    limit = {"type": "Container", "min": {"cpu": "500m"}}
    api.ok("POST", f"{base}/limitranges", {"metadata": {"name": "least"}, "spec": {"limits": [limit]}})
    api.ok("POST", f"{base}/resourcequotas", {"metadata": {"name": "all"}, "spec": {"hard": {"requests.cpu": "4"}}})

    beyond_quota = rejection(api, "PATCH", f"{path}/resize", {"spec": sized("6")}, content_type=STRATEGIC)

    assert (
        "exceeded quota: all, requested: requests.cpu=5, used: requests.cpu=1, limited: requests.cpu=4" in beyond_quota
    )
    below_range = rejection(api, "PATCH", f"{path}/resize", {"spec": sized("200m")}, content_type=STRATEGIC)
    assert "minimum cpu usage per Container is 500m, but request is 200m" in below_range


def test_invalid_resize_is_rejected(api: Api, namespace: str) -> None:
    path = create(api, namespace)
    status = {"phase": "Running", "containerStatuses": [{"name": "web", "state": {"running": {}}, "image": "web:1",
              "imageID": "", "lastState": {}, "ready": True, "restartCount": 0}]}  # fmt: skip
    api.ok("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)

    unsupported = rejection(api, "PATCH", f"{path}/resize", {"spec": sized("2")}, code=422, content_type=STRATEGIC)

    assert "Pod running on node without support for resize" in unsupported


def test_resize_is_listed_as_a_subresource(api: Api) -> None:
    listed = {item["name"]: item for item in api.ok("GET", "/api/v1")["resources"]}

    assert listed["pods/resize"]["kind"] == "Pod"
    assert set(listed["pods/resize"]["verbs"]) == {"get", "patch", "update"}
