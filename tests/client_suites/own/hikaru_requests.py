"""Requests with hikaru: creation, reading, update and deletion of objects by their classes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from hikaru import set_default_release
from hikaru.model.rel_1_28.v1 import (
    ConfigMap,
    Container,
    Deployment,
    DeploymentList,
    DeploymentSpec,
    LabelSelector,
    Namespace,
    ObjectMeta,
    Pod,
    PodSpec,
    PodTemplateSpec,
    PolicyRule,
    Role,
)
from kubernetes import config
from kubernetes.client.exceptions import ApiException


@pytest.fixture
def namespace() -> Iterator[str]:
    set_default_release("rel_1_28")
    config.load_kube_config(config_file=os.environ["CLIENT_SUITES_KUBECONFIG"])
    name = f"suite-{uuid.uuid4().hex}"
    Namespace(metadata=ObjectMeta(name=name)).create()
    yield name
    Namespace.deleteNamespace(name)


def test_config_map_is_created_updated_and_deleted(namespace: str) -> None:
    found = ConfigMap(metadata=ObjectMeta(name="one", namespace=namespace), data={"key": "first"}).create()
    found.data["key"] = "second"
    found.update()

    assert ConfigMap().read(name="one", namespace=namespace).data == {"key": "second"}
    found.delete()
    with pytest.raises(ApiException) as missing:
        ConfigMap().read(name="one", namespace=namespace)
    assert missing.value.status == 404


def test_pod_gets_defaults(namespace: str) -> None:
    spec = PodSpec(containers=[Container(name="c", image="busybox")])
    found = Pod(metadata=ObjectMeta(name="one", namespace=namespace), spec=spec).create()

    assert found.spec.restartPolicy == "Always"
    found.delete()


def test_deployment_is_read_and_listed(namespace: str) -> None:
    pod = PodSpec(containers=[Container(name="c", image="busybox")])
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "web"}), spec=pod)
    spec = DeploymentSpec(selector=LabelSelector(matchLabels={"app": "web"}), template=template, replicas=0)
    found = Deployment(metadata=ObjectMeta(name="web", namespace=namespace), spec=spec).create()

    assert found.spec.revisionHistoryLimit == 10
    assert [item.metadata.name for item in DeploymentList.listNamespacedDeployment(namespace).obj.items] == ["web"]
    found.delete()


def test_role_is_created(namespace: str) -> None:
    rules = [PolicyRule(verbs=["get"], apiGroups=[""], resources=["pods"])]
    found = Role(metadata=ObjectMeta(name="reader", namespace=namespace), rules=rules).create()

    assert Role().read(name="reader", namespace=namespace).rules[0].verbs == ["get"]
    found.delete()
