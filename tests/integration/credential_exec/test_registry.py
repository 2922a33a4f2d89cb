"""Tests for private images with credential providers: agent, containerd and a registry with authentication."""

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
from tests.integration.credential_exec.providers import SHELL, V1, Providers
from tests.integration.credential_exec.registry import Registry, TokenService
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

WORKING = ("shell", "python", "compiled")
WRONG_PASSWORD = "not-the-password"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Registry with a token service."""
    directory = tmp_path_factory.mktemp("tokens")
    with (
        TokenService(directory, USERS) as service,
        Registry(directory / "registry", USERS, token_service=service) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def configured(registry: Registry, tokens: Registry, tmp_path_factory: pytest.TempPathFactory) -> Providers:
    """Three working providers for different images, one for the token service, and some that fail."""
    made = Providers(tmp_path_factory.mktemp("node-providers"))
    alice, bob = USERS.items()
    host = registry.host
    made.script("shell", SHELL)
    made.enable("shell", f"{host}/shell", login=alice, args=[f"{host}/shell"])
    made.python("python")
    made.enable("python", f"{host}/python", login=bob, version=V1.replace("/v1", "/v1beta1"))
    made.c("compiled")
    made.enable("compiled", f"{host}/compiled", login=alice, version=V1.replace("/v1", "/v1alpha1"), args=[host])
    made.python("tokens")
    made.enable("tokens", tokens.host, login=bob)
    made.script("wrong", SHELL)
    made.enable("wrong", f"{host}/wrong", login=("alice", WRONG_PASSWORD), args=[host])
    made.script("crashing", f"#!/bin/sh -x\n: {USERS['bob']}\nexit 7\n")
    made.enable("crashing", f"{host}/crashing")
    made.script("garbage", '#!/bin/sh\necho \'{"password": "' + USERS["bob"] + "\"'\n")
    made.enable("garbage", f"{host}/crashing")
    made.script("endless", "#!/bin/sh\nexec cat /dev/zero\n")
    made.enable("endless", f"{host}/endless")
    made.script("helpful", SHELL)
    made.enable("helpful", f"{host}/endless", login=alice, args=[f"{host}/endless"])
    return made


@pytest.fixture(scope="module")
def node(containerd: Containerd, configured: Providers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Node whose agent uses the providers, with maximum log verbosity."""
    directory = tmp_path_factory.mktemp("node")
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    agent.arguments = [*configured.flags, "--v=10"]
    try:
        api.start()
        agent.start()
        wait_until(lambda: api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is registered")
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def open_plain(containerd: Containerd, registry: Registry) -> None:
    """Configure the runtime to use *registry* without TLS."""
    directory = containerd.directory / "certs.d" / registry.host
    directory.mkdir(exist_ok=True)
    (directory / "hosts.toml").write_text(f'[host."http://{registry.host}"]\n  capabilities = ["pull", "resolve"]\n')


def private_pod(name: str, image: str) -> dict[str, Any]:
    return simple_pod(name, "cat /note; exec sleep 1000", container={"image": image}, nodeName="node-1")


def waiting(pod: Any) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return statuses[0].get("state", {}).get("waiting", {}).get("reason", "")


@pytest.mark.row(
    "card.credential-executables",
    "credential.providers",
    "credential.name",
    "credential.matchImages",
    "credential.apiVersion",
    "credential.args",
    "credential.env",
    "type.ExecEnvVar.name",
    "type.ExecEnvVar.value",
    "flag.image-credential-provider-config",
    "flag.image-credential-provider-bin-dir",
)
@pytest.mark.parametrize("language", WORKING)
def test_pod_runs_a_private_image(node: Node, registry: Registry, configured: Providers, language: str) -> None:
    open_plain(node.runtime, registry)
    image = registry.push(f"{language}/app", f"pulled through {language}\n")
    node.api.create_pod(private_pod(language, image))

    pod = node.phase(language, "Running", 60)

    wait_until(lambda: node.log(pod) == f"pulled through {language}", "the private image's file is read")
    request = json.loads(configured.request_file(language).read_text())
    assert request["kind"] == "CredentialProviderRequest"
    assert request["image"] == f"{registry.host}/{language}/app"
    node.remove(language)


def test_pod_runs_an_image_of_a_registry_with_a_token_service(node: Node, tokens: Registry) -> None:
    open_plain(node.runtime, tokens)
    node.api.create_pod(private_pod("tokens", tokens.push("team/app", "for a token\n")))

    pod = node.phase("tokens", "Running", 60)

    wait_until(lambda: node.log(pod) == "for a token", "the private image's file is read")
    node.remove("tokens")


def test_wrong_password_causes_err_image_pull(node: Node, registry: Registry) -> None:
    open_plain(node.runtime, registry)
    node.api.create_pod(private_pod("wrong", registry.push("wrong/app", "never seen\n")))

    node.until("wrong", lambda pod: waiting(pod) == "ErrImagePull", "the pull fails")

    node.until("wrong", lambda pod: waiting(pod) == "ImagePullBackOff", "it is tried again later")
    wait_until(lambda: "Failed" in node.reasons("wrong"), "the failure is told")
    assert "CredentialProviderFailed" not in node.reasons("wrong")
    node.remove("wrong")


def test_failing_providers_are_named_in_the_events_of_the_pod(node: Node, registry: Registry) -> None:
    open_plain(node.runtime, registry)
    node.api.create_pod(private_pod("crashing", registry.push("crashing/app", "never seen\n")))

    def notes() -> list[str]:
        events = node.api.events("crashing")
        return sorted(event["note"] for event in events if event["reason"] == "CredentialProviderFailed")

    wait_until(lambda: len(notes()) >= 2, "both are named")
    assert notes()[0].startswith('Credential provider "crashing" exited with code 7; ')
    assert notes()[1].startswith('Credential provider "garbage" wrote an invalid Credential')
    node.until("crashing", lambda pod: waiting(pod) in ("ErrImagePull", "ImagePullBackOff"), "the pull fails")
    node.remove("crashing")


def test_provider_with_endless_output_is_named_and_another_is_used(node: Node, registry: Registry) -> None:
    open_plain(node.runtime, registry)
    node.api.create_pod(private_pod("endless", registry.push("endless/app", "pulled all the same\n")))

    pod = node.phase("endless", "Running", 60)

    wait_until(lambda: node.log(pod) == "pulled all the same", "the private image's file is read")
    wait_until(lambda: "CredentialProviderFailed" in node.reasons("endless"), "the provider is named")
    (note,) = {e["note"] for e in node.api.events("endless") if e["reason"] == "CredentialProviderFailed"}
    assert note.startswith('Credential provider "endless" printed more than 1024 KiB and was killed; ')
    assert node.agent.rss_mib() < 200, "what it printed is not kept"
    node.remove("endless")


def pull_secret(host: str, login: tuple[str, str]) -> dict[str, Any]:
    auths = {"auths": {host: {"username": login[0], "password": login[1]}}}
    data = base64.b64encode(json.dumps(auths).encode()).decode()
    kind = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "opens"}}
    return {**kind, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": data}}


def test_private_image_on_the_node_requires_credentials(node: Node, registry: Registry) -> None:
    open_plain(node.runtime, registry)
    node.agent.stop()
    flags = node.agent.arguments
    node.agent.arguments = [*flags, "--compatibility-version=1.34"]
    node.agent.start(featureGates={"NodeAgentEnsureSecretPulledImages": True})
    image = registry.push("private/app", "for those who know\n")
    secrets = "/api/v1/namespaces/default/secrets"
    node.api.request("POST", secrets, pull_secret(registry.host, next(iter(USERS.items()))))
    pull_secrets = {"imagePullSecrets": [{"name": "opens"}]}
    node.api.create_pod(private_pod("opener", image) | {"spec": private_pod("opener", image)["spec"] | pull_secrets})
    node.phase("opener", "Running", 60)

    node.api.create_pod(private_pod("stranger", image))

    node.until("stranger", lambda pod: waiting(pod) in ("ErrImagePull", "ImagePullBackOff"), "the registry refuses")
    records = [json.loads(file.read_text()) for file in (node.agent.root / "image_manager" / "pulled").iterdir()]
    (secret,) = next(iter(records[0]["credentialMapping"].values()))["kubernetesSecrets"]
    assert (secret["namespace"], secret["name"]) == ("default", "opens")
    node.agent.kill()
    node.agent.arguments = flags
    node.agent.start(featureGates={})
    node.phase("stranger", "Running", 60)
    node.remove("opener", "stranger")


def test_secrets_are_absent_from_log_and_events(node: Node) -> None:
    everything = node.agent.log.read_text() + json.dumps(node.api.events())

    assert "Failed getting credential from external registry credential provider" in everything
    for secret in (*USERS.values(), WRONG_PASSWORD):
        assert secret not in everything


def test_agent_does_not_start_without_an_executable(
    containerd: Containerd, providers: Providers, tmp_path: Path
) -> None:
    providers.enable("absent", "reg.io")
    agent = NodeAgent(tmp_path, containerd.endpoint)
    agent.arguments = providers.flags
    agent.begin()

    assert agent.process is not None
    assert agent.process.wait(30) == 2
    assert f"{providers.directory}/absent" in agent.tail()


def creds_test(image: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nodeagent", "creds", "test", image, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_creds_test_runs_the_executables(configured: Providers, registry: Registry) -> None:
    done = creds_test(f"{registry.host}/compiled/app:1", *configured.flags, "-o", "json")

    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert [entry["name"] for entry in report["providers"] if entry["matches"]] == ["compiled"]
    assert report["credentials"] == [{"provider": "compiled", "username": "alice", "password": "***"}]

    failed = creds_test(f"{registry.host}/crashing/app", *configured.flags)

    assert failed.returncode == 1
    assert "failure   exited with code 7" in failed.stdout
    assert creds_test("busybox", "--image-credential-provider-config=/nowhere", configured.flags[1]).returncode == 2
    for secret in USERS.values():
        assert secret not in done.stdout
