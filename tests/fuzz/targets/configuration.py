"""Configuration files of both binaries, and manifests of static pods."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from apiserver_stub.admission import config as admission
from apiserver_stub.audit import policy as audit
from apiserver_stub.authn import config_file, jwt_config, token_file
from apiserver_stub.authz import abac
from apiserver_stub.authz import config as authorization
from apiserver_stub.egress import selector as egress
from apiserver_stub.storage.encryption import config as encryption
from apiserver_stub.telemetry import tracing
from nodeagent.base import yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.release import NEWEST, SelectedRelease
from nodeagent.config import convert, load
from nodeagent.config.codec import encode
from nodeagent.config.credentials import load_credential_providers
from nodeagent.config.flags import Flags, parse
from nodeagent.config.names import NATIVE_KIND, native_version
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import ConfigError
from nodeagent.model.pod import Pod
from nodeagent.model.static_pod import static_pod
from nodeagent.model.unknown_fields import unknown_fields
from nodeagent.model.wire import to_wire
from tests.fuzz.fields import changed
from tests.fuzz.files import written
from tests.fuzz.target import ROOT, target

IDENTITY = Identity()
NOW = datetime(2024, 1, 1, tzinfo=UTC)
LIMITS = yamlsafe.Limits(max_bytes=64 * 1024)
NODE = (
    b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
    b"evictionHard:\n",
    b"memory.available: ",
    b"100Mi",
    b"5%",
    b"featureGates: {",
    b"clusterDNS: [",
    b"logging: {",
    b"kubeReserved: {cpu: ",
    b"topologyManagerPolicy: ",
    b"shutdownGracePeriodByPodPriority: [",
    b"registerWithTaints: [",
    b"reservedMemory: [",
    b"-1",
    b"null",
    b"1h",
)
PROVIDERS = (
    b"providers:\n- name: ",
    b"matchImages: [",
    b"defaultCacheDuration: ",
    b"apiVersion: credentialprovider.kubelet.k8s.io/v1",
    b"tokenAttributes: {",
    b"*.*.registry.io:8080/path",
    b"args: [",
    b"env: [",
)


@target(ConfigError, tokens=NODE)
def node_configuration(data: bytes) -> None:
    """A valid file can be converted, and is then the same configuration."""
    path = str(written("config.yaml", data))
    loaded = load.load(_flags(path), release=SelectedRelease())
    load.masked(loaded.config)
    convert.convert(path)


@target(ConfigError)
def node_configuration_fields(data: bytes) -> None:
    """A configuration is valid or rejected, whatever the values of its fields."""
    node_configuration(msgspec.json.encode(changed([_defaults()], b"\x00" + data)))


@cache
def _defaults() -> Any:
    """Return a configuration with all fields."""
    kind = {"apiVersion": native_version(), "kind": NATIVE_KIND}
    return {**kind, **encode(NodeAgentConfiguration()), "containerRuntimeEndpoint": "unix:///runtime.sock"}


@cache
def _flags(path: str) -> Flags:
    return parse([f"--config={path}"])


@target(ConfigError, tokens=PROVIDERS)
def credential_provider_configuration(data: bytes) -> None:
    """A configuration has at least one provider."""
    assert load_credential_providers(str(written("providers.yaml", data))).config.providers


POD = (
    b"apiVersion: v1\nkind: Pod\n",
    b"metadata: {name: ",
    b"containers: [",
    b"image: ",
    b"resources: {limits: {cpu: ",
    b"volumes: [",
    b"securityContext: {",
    b"livenessProbe: {",
    b"hostPath: {path: /",
    b"ports: [{containerPort: ",
    b"env: [{name: ",
    b"valueFrom: {",
    b"initContainers: [",
    b"restartPolicy: Always",
    b"annotations: {",
    b"tolerations: [",
)


@target(ConfigError, yamlsafe.YamlError, tokens=POD)
def static_pod_manifest(data: bytes) -> None:
    """A valid pod has a name and a UID, and is written as it was read."""
    plain = yamlsafe.load(data, LIMITS)
    pod = static_pod(plain, node_name="node", source="file", origin="file:/a", seen_at=NOW, tolerate_everything=True)
    unknown_fields(plain)
    assert pod.name.endswith("-node")
    assert "/" not in pod.uid
    assert msgspec.convert(to_wire(pod), Pod) == pod


ISSUERS = config_file.ConfigRules(release=NEWEST, permits_anonymous=True)


@target(ConfigError)
def static_pod_fields(data: bytes) -> None:
    """A pod is valid or rejected, whatever the values of its fields."""
    static_pod_manifest(msgspec.json.encode(changed(_pods(), data)))


@cache
def _pods() -> list[Any]:
    files = sorted((ROOT / "tests/differential/objects").glob("*.yaml"))
    documents = (document for file in files for document in yaml.safe_load_all(file.read_text()))
    return [document for document in documents if isinstance(document, dict) and document.get("kind") == "Pod"]


Load = Callable[[Path], Any]
SERVER: tuple[tuple[Load, type[Exception]], ...] = (
    (lambda path: admission.load(path, IDENTITY), admission.AdmissionError),
    (lambda path: audit.load_policy(path, IDENTITY), audit.AuditError),
    (lambda path: config_file.load(path, IDENTITY, ISSUERS), jwt_config.JwtConfigError),
    (lambda path: authorization.load(path, IDENTITY), authorization.AuthorizationConfigError),
    (lambda path: encryption.load_config(path, IDENTITY), encryption.EncryptionError),
    (lambda path: egress.load(path, IDENTITY), egress.EgressError),
    (token_file.TokenFile, token_file.TokenFileError),
    (lambda path: abac.load_policies(path, IDENTITY), abac.PolicyError),
    (lambda path: tracing.load_config(path, IDENTITY), tracing.TracingError),
)
KINDS = (
    b"AdmissionConfiguration",
    b"Policy",
    b"AuthenticationConfiguration",
    b"AuthorizationConfiguration",
    b"EncryptionConfiguration",
    b"EgressSelectorConfiguration",
    b"TracingConfiguration",
)


@target(
    tokens=(
        *KINDS,
        b"apiVersion: apiserver.config.k8s.io/v1\nkind: ",
        b"apiVersion: audit.k8s.io/v1\nkind: ",
        b"resources:\n- resources: [",
        b"rules:\n- level: ",
        b"jwt:\n- issuer: {url: https://",
        b"authorizers: [{type: ",
        b"plugins: [{name: ",
        b"claimMappings: {",
        b"claimValidationRules: [",
        b"egressSelections: [",
        b"providers: [",
        b"aescbc: {keys: [",
        b"kms: {",
    )
)
def server_configuration(data: bytes) -> None:
    """A file of the API server, selected by the first character, is valid or rejected with its documented error."""
    if not data:
        return
    load_one, error = SERVER[data[0] % len(SERVER)]
    try:
        load_one(written("server.yaml", data[1:]))
    except error:
        return
