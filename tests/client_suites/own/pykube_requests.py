"""Requests with pykube-ng: objects of bundled and custom kinds, watches, scaling and patches."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator

import pykube
import pytest
import requests
from pykube.exceptions import HTTPError, ObjectDoesNotExist


@pytest.fixture
def api() -> pykube.HTTPClient:
    return pykube.HTTPClient(pykube.KubeConfig.from_file(os.environ["CLIENT_SUITES_KUBECONFIG"]))


@pytest.fixture
def namespace(api: pykube.HTTPClient) -> Iterator[str]:
    name = f"suite-{uuid.uuid4().hex}"
    created = pykube.Namespace(api, {"metadata": {"name": name}})
    created.create()
    yield name
    created.delete()


def _config_map(api: pykube.HTTPClient, namespace: str, name: str, **labels: str) -> pykube.ConfigMap:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return pykube.ConfigMap(api, {"metadata": metadata, "data": {"key": "first"}})


def test_objects_are_created_updated_and_deleted(api: pykube.HTTPClient, namespace: str) -> None:
    found = _config_map(api, namespace, "one")
    found.create()
    found.obj["data"]["key"] = "second"
    found.update()

    assert pykube.ConfigMap.objects(api, namespace=namespace).get_by_name("one").obj["data"] == {"key": "second"}
    found.delete()
    with pytest.raises(ObjectDoesNotExist):
        pykube.ConfigMap.objects(api, namespace=namespace).get_by_name("one")


def test_second_creation_conflicts(api: pykube.HTTPClient, namespace: str) -> None:
    _config_map(api, namespace, "one").create()

    with pytest.raises(HTTPError, match="already exists"):
        _config_map(api, namespace, "one").create()


def test_labels_select_objects(api: pykube.HTTPClient, namespace: str) -> None:
    _config_map(api, namespace, "one", tier="front").create()
    _config_map(api, namespace, "two", tier="back").create()

    query = pykube.ConfigMap.objects(api, namespace=namespace)
    assert [item.name for item in query.filter(selector={"tier": "front"})] == ["one"]
    assert {item.name for item in query.filter(selector={"tier__in": {"front", "back"}})} == {"one", "two"}
    assert [item.name for item in query.filter(field_selector={"metadata.name": "two"})] == ["two"]


def test_watch_receives_changes(api: pykube.HTTPClient, namespace: str) -> None:
    query = pykube.ConfigMap.objects(api, namespace=namespace).filter(selector={"watched": "yes"})
    found = _config_map(api, namespace, "one", watched="yes")
    found.create()
    found.patch({"data": {"key": "second"}})

    events = []
    for event in query.watch():
        events.append((event.type, event.object.obj["data"]["key"]))
        if event.object.obj["data"]["key"] == "second":
            break
    assert events[-1][1] == "second"


def test_deployment_is_scaled(api: pykube.HTTPClient, namespace: str) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    found = pykube.Deployment(api, {"metadata": {"name": "web", "namespace": namespace}, "spec": spec})
    found.create()
    found.reload()
    found.patch({"spec": {"replicas": 1}})

    assert found.replicas == 1
    found.delete()


def test_status_is_a_subresource(api: pykube.HTTPClient, namespace: str) -> None:
    spec = {"containers": [{"name": "c", "image": "busybox"}], "schedulingGates": [{"name": "example.com/wait"}]}
    pod = pykube.Pod(api, {"metadata": {"name": "one", "namespace": namespace}, "spec": spec})
    pod.create()
    pod.patch({"status": {"message": "from the status"}}, subresource="status")
    pod.reload()

    assert pod.obj["status"]["message"] == "from the status"
    pod.delete()


def test_custom_objects(api: pykube.HTTPClient, namespace: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "pipes", "singular": "pipe", "kind": "Pipe"}
    spec = {"group": "pykube.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = pykube.CustomResourceDefinition(api, {"metadata": {"name": "pipes.pykube.example.com"}, "spec": spec})
    definition.create()
    try:
        pipe = None
        for _ in range(100):  # The kind is served soon after its definition is created.
            try:
                pipe = pykube.object_factory(api, "pykube.example.com/v1", "Pipe")
                break
            except (ValueError, requests.HTTPError):
                time.sleep(0.1)
        assert pipe is not None
        metadata = {"name": "one", "namespace": namespace}
        given = {"apiVersion": "pykube.example.com/v1", "kind": "Pipe", "metadata": metadata, "spec": {"length": 3}}
        pipe(api, given).create()

        assert pipe.objects(api, namespace=namespace).get_by_name("one").obj["spec"] == {"length": 3}
    finally:
        definition.delete()
