"""Tests for pod-level resources: defaults, validation, quality of service and totals."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.quota.usage import not_given
from apiserver_stub.apimachinery.resource_lists import of_pod, write
from apiserver_stub.validation.pod import validate_pod
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_qos import qos_class
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import container, found, pod

_OPTIONS = PodOptions(is_pod=True, identity=Identity())


def sized(resources: dict[str, Any], *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod with pod-level *resources* and with containers of those in *containers*."""
    items = [container(name=f"c{index}", resources=each) for index, each in enumerate(containers or ({},))]
    return pod(resources=resources, containers=items, **spec)


def errors(built: dict[str, Any]) -> list[str]:
    return found(validate_pod(built, _OPTIONS))


def test_missing_requests_are_those_of_the_containers_or_the_limits() -> None:
    built = sized({"limits": {"cpu": "2", "memory": "1Gi"}}, {"requests": {"cpu": "500m"}}, {"limits": {"cpu": "1"}})

    assert built["spec"]["resources"]["requests"] == {"cpu": "1500m", "memory": "1Gi"}


def test_limits_of_huge_pages_are_those_of_the_containers() -> None:
    pages = {"limits": {"hugepages-2Mi": "4Mi", "memory": "64Mi"}}
    built = sized({"limits": {"memory": "1Gi"}}, pages, pages)

    assert built["spec"]["resources"] == {
        "limits": {"hugepages-2Mi": "8Mi", "memory": "1Gi"},
        "requests": {"hugepages-2Mi": "8Mi", "memory": "128Mi"},
    }


def test_requests_without_limits_stay_unchanged() -> None:
    built = sized({"requests": {"memory": "1Gi"}}, {"requests": {"cpu": "1"}})

    assert built["spec"]["resources"] == {"requests": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"cpu": "2", "memory": "1Gi"}}, []),
        ({"limits": {"ephemeral-storage": "1Gi"}}, ["NotSupported spec.resources.limits[ephemeral-storage]"] * 2),
        ({"requests": {"cpu": "500m"}}, ["Invalid spec.resources.requests[cpu]"]),
        ({"limits": {"cpu": "900m"}}, ["Invalid spec.resources.containers[0][cpu].limits"]),
        ({"claims": [{"name": "a"}]}, ["Forbidden spec.resources.claims", "NotFound spec.resources.claims[0]"]),
    ],
)
def test_pod_level_resources_are_validated(resources: dict[str, Any], expected: list[str]) -> None:
    built = sized(resources, {"limits": {"cpu": "1"}, "requests": {"cpu": "800m"}})

    problems = errors(built)

    assert set(expected) <= set(problems) if expected else problems == []


def test_windows_pod_cannot_have_pod_level_resources() -> None:
    built = sized({"limits": {"cpu": "2"}}, os={"name": "windows"})

    assert "Forbidden spec.resources" in errors(built)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"cpu": "2", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"memory": "1Gi"}}, "Burstable"),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_pod_level_resources_determine_the_qos_class(resources: dict[str, Any], expected: str) -> None:
    assert qos_class(sized(resources)["spec"]) == expected


def test_total_of_a_pod_is_its_pod_level_request() -> None:
    built = sized({"requests": {"memory": "1Gi"}}, {"requests": {"cpu": "1", "memory": "64Mi"}})

    assert write(of_pod(built["spec"], "requests")) == {"cpu": "1", "memory": "1Gi"}


def test_quota_requires_no_requests_of_the_containers_of_such_a_pod() -> None:
    assert not_given(sized({"requests": {"memory": "1Gi"}}), {"requests.memory"}, "kubernetes.io") == ""
    assert not_given(pod(), {"requests.memory"}, "kubernetes.io") == "must specify requests.memory for: web"


@pytest.mark.parametrize(("pages", "members"), [("4Mi", []), ("6Mi", ["requests", "limits"])])
def test_huge_pages_of_the_containers_are_within_those_of_the_pod(pages: str, members: list[str]) -> None:
    of_pod = {"limits": {"hugepages-2Mi": "8Mi", "memory": "1Gi"}}
    of_container = {"limits": {"hugepages-2Mi": pages, "memory": "64Mi"}}

    problems = errors(sized(of_pod, of_container, of_container))

    assert problems == [f"Invalid spec.resources.{member}[hugepages-2Mi]" for member in members]
