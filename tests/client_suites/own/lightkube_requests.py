"""Requests with lightkube: objects of bundled and custom kinds, watches, server-side apply and subresources."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apiextensions_v1 import (
    CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceValidation,
    JSONSchemaProps,
)
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace, Node
from lightkube.types import PatchType


@pytest.fixture
def namespace() -> Iterator[str]:
    client, name = Client(), f"suite-{uuid.uuid4().hex}"
    client.create(Namespace(metadata=ObjectMeta(name=name)))
    yield name
    client.delete(Namespace, name)


@pytest.fixture
def client(namespace: str) -> Client:
    return Client(namespace=namespace, field_manager="suite")


def _config_map(name: str, **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels=labels), data={"key": "first"})


def test_objects_are_created_replaced_and_deleted(client: Client) -> None:
    created = client.create(_config_map("one"))
    created.data["key"] = "second"
    client.replace(created)

    assert client.get(ConfigMap, "one").data == {"key": "second"}
    client.delete(ConfigMap, "one")
    with pytest.raises(ApiError) as missing:
        client.get(ConfigMap, "one")
    assert missing.value.status.code == 404


def test_labels_select_objects(client: Client) -> None:
    client.create(_config_map("one", tier="front"))
    client.create(_config_map("two", tier="back"))

    assert [item.metadata.name for item in client.list(ConfigMap, labels={"tier": "front"})] == ["one"]
    assert [item.metadata.name for item in client.list(ConfigMap, fields={"metadata.name": "two"})] == ["two"]
    client.deletecollection(ConfigMap)
    assert [item for item in client.list(ConfigMap) if item.metadata.name in ("one", "two")] == []


def test_watch_receives_changes(client: Client) -> None:
    found = client.list(ConfigMap)
    list(found)
    client.create(_config_map("one", watched="yes"))
    client.patch(ConfigMap, "one", {"data": {"key": "second"}}, patch_type=PatchType.MERGE)

    watched = client.watch(ConfigMap, labels={"watched": "yes"}, resource_version=found.resourceVersion)
    assert [next(watched)[0] for _ in range(2)] == ["ADDED", "MODIFIED"]


def test_apply_conflicts_and_is_forced(client: Client, namespace: str) -> None:
    found = _config_map("one")
    found.apiVersion, found.kind = "v1", "ConfigMap"
    client.apply(found)
    found.data["key"] = "second"
    with pytest.raises(ApiError) as conflict:
        client.apply(found, field_manager="other")
    assert conflict.value.status.code == 409

    assert client.apply(found, field_manager="other", force=True).data == {"key": "second"}


def test_deployment_is_scaled(client: Client) -> None:
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "web"}), spec=PodSpec(containers=[Container(name="c", image="busybox")])
    )
    spec = DeploymentSpec(replicas=0, selector=LabelSelector(matchLabels={"app": "web"}), template=template)
    client.create(Deployment(metadata=ObjectMeta(name="web"), spec=spec))
    client.replace(Deployment.Scale(metadata=ObjectMeta(name="web"), spec=ScaleSpec(replicas=1)), "web")

    assert client.get(Deployment, "web").spec.replicas == 1


def test_nodes_are_cluster_scoped(client: Client) -> None:
    assert len(list(client.list(Node))) == 1


def test_custom_objects(client: Client) -> None:
    schema = JSONSchemaProps(type="object", x_kubernetes_preserve_unknown_fields=True)
    version = CustomResourceDefinitionVersion(
        name="v1", served=True, storage=True, schema=CustomResourceValidation(openAPIV3Schema=schema)
    )
    names = CustomResourceDefinitionNames(kind="Pipe", plural="pipes")
    spec = CustomResourceDefinitionSpec(
        group="lightkube.example.com", names=names, scope="Namespaced", versions=[version]
    )
    name = "pipes.lightkube.example.com"
    client.create(CustomResourceDefinition(metadata=ObjectMeta(name=name), spec=spec))
    try:
        client.wait(CustomResourceDefinition, name, for_conditions=["Established"])
        pipe = create_namespaced_resource("lightkube.example.com", "v1", "Pipe", "pipes")
        client.create(pipe(metadata=ObjectMeta(name="one"), spec={"length": 3}))

        assert client.get(pipe, "one").spec == {"length": 3}
    finally:
        client.delete(CustomResourceDefinition, name)
