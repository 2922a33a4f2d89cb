"""Tests for providers with service account tokens: agent, containerd, API server and a registry with authentication."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.credential_exec.conftest import USERS
from tests.integration.credential_exec.providers import Providers
from tests.integration.credential_exec.registry import Registry
from tests.integration.credential_exec.test_registry import open_plain, private_pod, waiting
from tests.integration.programs import ApiServer, NodeAgent, wait_until

ROLE = "example.com/role"
RELEASE = "--compatibility-version=1.34"


@pytest.fixture(scope="module")
def configured(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Providers:
    made = Providers(tmp_path_factory.mktemp("account-providers"))
    made.python("accounts")
    made.enable(
        "accounts",
        registry.host,
        login=next(iter(USERS.items())),
        tokenAttributes={
            "serviceAccountTokenAudience": "registry.test",
            "cacheType": "ServiceAccount",
            "requireServiceAccount": True,
            "requiredServiceAccountAnnotationKeys": [ROLE],
        },
    )
    return made


@pytest.fixture(scope="module")
def node(containerd: Containerd, configured: Providers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("account-node")
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    agent.arguments = [*configured.flags, RELEASE]
    try:
        api.start(RELEASE)
        agent.start()
        wait_until(lambda: api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is registered")
        for name, annotations in (("puller", {ROLE: "reader"}), ("guest", {})):
            metadata = {"name": name, "annotations": annotations}
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            api.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def account_pod(name: str, image: str, account: str) -> dict[str, Any]:
    pod = private_pod(name, image)
    pod["spec"]["serviceAccountName"] = account
    return pod


def claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return decoded


def test_provider_receives_a_token_bound_to_the_pod(node: Node, registry: Registry, configured: Providers) -> None:
    open_plain(node.runtime, registry)
    image = registry.push("accounts/app", "pulled for a service account\n")
    node.api.create_pod(account_pod("member", image, "puller"))

    pod = node.phase("member", "Running", 60)

    request = json.loads(configured.request_file("accounts").read_text())
    token = claims(request["serviceAccountToken"])
    assert request["serviceAccountAnnotations"] == {ROLE: "reader"}
    assert token["aud"] == ["registry.test"]
    assert token["kubernetes.io"]["pod"] == {"name": "member", "uid": pod["metadata"]["uid"]}
    assert request["serviceAccountToken"] not in node.agent.log.read_text()


def test_pod_of_an_account_without_the_annotation_cannot_pull(node: Node, registry: Registry) -> None:
    open_plain(node.runtime, registry)
    image = registry.push("accounts/other", "not for guests\n")
    node.api.create_pod(account_pod("guest", image, "guest"))

    node.until("guest", lambda pod: waiting(pod) in ("ErrImagePull", "ImagePullBackOff"), "the registry refuses")
    assert "CredentialProviderFailed" not in node.reasons("guest")
    node.remove("guest")


def test_command_shows_the_request_for_a_pod(node: Node, configured: Providers, registry: Registry) -> None:
    kubeconfig = Path(node.api.facts["nodeKubeconfig"])
    words = ["--pod", "default/member", f"--kubeconfig={kubeconfig}", RELEASE, "-o", "json"]
    command = [sys.executable, "-m", "nodeagent", "creds", "test", f"{registry.host}/accounts/app:1"]
    done = subprocess.run([*command, *configured.flags, *words], check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    (provider,) = json.loads(done.stdout)["providers"]
    assert provider["request"]["serviceAccountToken"] == "***"
    assert provider["request"]["serviceAccountAnnotations"] == {ROLE: "reader"}
    node.remove("member")
