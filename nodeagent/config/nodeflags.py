"""Flags without a configuration field, and their conversion to :class:`NodeSettings`."""

from __future__ import annotations

import dataclasses
import os.path
import socket
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from nodeagent.base import identity
from nodeagent.base.duration import Duration
from nodeagent.base.names import label_value_problems, qualified_name_problems, subdomain_problems
from nodeagent.base.release import NEWEST, OLDEST, Release
from nodeagent.base.structs import Struct
from nodeagent.config import flagvalues
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import Problem


class NodeFlag(Struct, frozen=True):
    """Flag that sets *attribute* of the settings, or of the identity."""

    name: str
    attribute: str
    doc: str
    read: Callable[[Sequence[str]], Any] = flagvalues.last
    boolean: bool = False


def _duration(texts: Sequence[str]) -> Duration:
    return Duration.parse(texts[-1])


def _node_ips(texts: Sequence[str]) -> tuple[str, ...]:
    addresses = flagvalues.strings([texts[-1]])
    try:
        parsed = [ip_address(text) for text in addresses]
    except ValueError:
        raise ValueError("must be an IP address, or one per family joined by a comma") from None
    if len(parsed) > 2 or len({address.version for address in parsed}) != len(parsed):
        raise ValueError("must be one IP address, or one per family")
    if any(address.is_multicast for address in parsed):
        raise ValueError("must not be a multicast address")
    if len(parsed) == 2 and any(address.is_unspecified for address in parsed):
        raise ValueError("must not be unspecified if there are two")
    return tuple(str(address) for address in parsed)


def _cloud_provider(texts: Sequence[str]) -> str:
    if texts[-1] not in ("", "external"):
        raise ValueError("must be empty or external")
    return texts[-1]


def _release(texts: Sequence[str]) -> Release | None:
    if not texts[-1]:
        return None
    release = Release.parse(texts[-1])
    if not OLDEST <= release <= NEWEST:
        raise ValueError(f"must be a release from {OLDEST} to {NEWEST}")
    return release


def _directory(texts: Sequence[str]) -> str:
    path = texts[-1]
    if not path.startswith("/") or os.path.normpath(path) != path:
        raise ValueError("must be an absolute path in canonical form")
    return path


NODE_FLAGS = (
    NodeFlag("config", "config", "configuration file"),
    NodeFlag("config-dir", "config_dir", "directory of drop-ins (*.conf), merged over the file in name order"),
    NodeFlag("plugin-config", "plugin_config", "file with the settings of plugins"),
    NodeFlag(
        "disable-plugin",
        "disabled_plugins",
        "name of a plugin to disable; may be repeated",
        lambda texts: tuple(flagvalues.strings(texts)),
    ),
    NodeFlag(
        "compatibility-version",
        "compatibility_version",
        "Kubernetes release that determines feature gates, defaults and the reported version, such as 1.36; "
        f"if unset, that of the API server, and {OLDEST} without one",
        _release,
    ),
    NodeFlag("kubeconfig", "kubeconfig", "access to the API server; without it the node is standalone"),
    NodeFlag("bootstrap-kubeconfig", "bootstrap_kubeconfig", "credentials for requesting a client certificate"),
    NodeFlag("hostname-override", "node_name", "name of the node instead of the host name"),
    NodeFlag("node-ip", "node_ips", "address of the node, or one per family", _node_ips),
    NodeFlag("node-labels", "node_labels", "labels of the node at registration: k=v,…", flagvalues.pairs),
    NodeFlag("root-dir", "root_dir", "directory of pods and checkpoints", _directory),
    NodeFlag("cert-dir", "cert_dir", "directory of generated certificates"),
    NodeFlag(
        "image-credential-provider-config",
        "image_credential_provider_config",
        "file that lists credential providers, or directory of such files (*.json, *.yaml, *.yml)",
    ),
    NodeFlag(
        "image-credential-provider-bin-dir",
        "image_credential_provider_bin_dir",
        "directory of the credential providers' executables",
    ),
    NodeFlag("runtime-cgroups", "runtime_cgroups", "cgroup of the container runtime"),
    NodeFlag("pod-infra-container-image", "pod_infra_container_image", "sandbox image exempt from garbage collection"),
    NodeFlag("cloud-provider", "cloud_provider", "empty or external", _cloud_provider),
    NodeFlag(
        "register-schedulable",
        "register_schedulable",
        "false registers the node as unschedulable",
        flagvalues.boolean,
        boolean=True,
    ),
    NodeFlag("lock-file", "lock_file", "file that only one agent can lock"),
    NodeFlag(
        "exit-on-lock-contention",
        "exit_on_lock_contention",
        "exit when another opens --lock-file",
        flagvalues.boolean,
        boolean=True,
    ),
    NodeFlag(
        "minimum-container-ttl-duration",
        "minimum_container_ttl_duration",
        "minimum age of a dead container before it is removed",
        _duration,
    ),
    NodeFlag(
        "maximum-dead-containers-per-container",
        "maximum_dead_containers_per_container",
        "dead instances to retain per container",
        flagvalues.integer,
    ),
    NodeFlag(
        "maximum-dead-containers",
        "maximum_dead_containers",
        "dead containers to retain on the node; negative disables the limit",
        flagvalues.integer,
    ),
)

IDENTITY_FLAGS = (
    NodeFlag("api-domain", "api_domain", "domain part of API groups"),
    NodeFlag("label-domain", "label_domain", "domain of labels and annotations"),
    NodeFlag("media-domain", "media_domain", "name in media types"),
    NodeFlag("platform-dir", "platform_dir", "name in file system paths"),
    NodeFlag("system-namespace", "system_namespace", "namespace of the system's objects"),
    NodeFlag("node-lease-namespace", "node_lease_namespace", "namespace of node leases"),
    NodeFlag("hint-chain", "hint_chain", "firewall chain that other components check for"),
    NodeFlag("component", "component", "name of the agent in events and requests"),
)

UNSUPPORTED_FLAGS = {
    "cloud-config": "is ignored: cloud providers run outside the node agent (--cloud-provider=external)",
    "experimental-mounter-path": "is ignored: volumes are mounted by the agent itself",
    "experimental-allocatable-ignore-eviction": "is ignored: eviction thresholds always apply",
    "keep-terminated-pod-volumes": "is ignored: volumes of terminated pods are always removed",
}
"""Flags of existing command lines that have no effect, with the reason."""


def read_settings(specified: Mapping[str, Sequence[str]], problems: list[Problem]) -> NodeSettings:
    """Return the settings for arguments by flag name; invalid ones are added to *problems* and omitted."""
    values = _read(NODE_FLAGS, specified, problems)
    names = _read(IDENTITY_FLAGS, specified, problems)
    for name in [name for name, text in names.items() if not text]:
        problems.append(Problem(f"--{name.replace('_', '-')}", "", names.pop(name), "must not be empty"))
    effective = dataclasses.replace(identity.current(), **names)
    settings = NodeSettings(**{**values, "identity": effective, "node_name": _node_name(values.get("node_name", ""))})
    problems += _check(settings, effective)
    return settings


def _read(flags: Sequence[NodeFlag], specified: Mapping[str, Sequence[str]], problems: list[Problem]) -> dict[str, Any]:
    values = {}
    for flag in flags:
        if flag.name in specified:
            try:
                values[flag.attribute] = flag.read(specified[flag.name])
            except ValueError as error:
                problems.append(Problem(f"--{flag.name}", "", specified[flag.name][-1], str(error)))
    return values


def _node_name(override: str) -> str:
    return (override or socket.gethostname()).strip().lower()


def _check(settings: NodeSettings, names: identity.Identity) -> list[Problem]:
    problems = []

    def wrong(flag: str, value: object, rule: str) -> None:
        problems.append(Problem(f"--{flag}", "", value, rule))

    if subdomain_problems(settings.node_name):
        wrong("hostname-override", settings.node_name, "must be a DNS name in lower case")
    for key, value in settings.node_labels.items():
        if qualified_name_problems(key):
            wrong("node-labels", key, "must have keys that are qualified names")
        elif label_value_problems(value):
            wrong("node-labels", value, f"must have a label value for {key}")
        elif not may_label_itself(key, names):
            wrong("node-labels", key, f"must not be set by a node below {names.label_domain} or {names.api_domain}")
    config, directory = settings.image_credential_provider_config, settings.image_credential_provider_bin_dir
    if config and not directory:
        wrong("image-credential-provider-config", config, "needs --image-credential-provider-bin-dir")
    if directory and not config:
        wrong("image-credential-provider-bin-dir", directory, "needs --image-credential-provider-config")
    if settings.exit_on_lock_contention and not settings.lock_file:
        wrong("exit-on-lock-contention", None, "needs --lock-file")
    return problems


def may_label_itself(key: str, names: identity.Identity) -> bool:
    """Return whether a node may set the label *key* on its object."""
    prefix, slash, name = key.rpartition("/")
    platform, api = names.label_domain, names.api_domain
    if not slash or not any(prefix == domain or prefix.endswith(f".{domain}") for domain in (platform, api)):
        return True
    for free in (f"{names.component}.{platform}", f"node.{platform}"):
        if prefix == free or prefix.endswith(f".{free}"):
            return True
    allowed = {
        platform: ("hostname", "os", "arch"),
        f"beta.{platform}": ("os", "arch", "instance-type"),
        f"topology.{platform}": ("zone", "region"),
        f"failure-domain.beta.{platform}": ("zone", "region"),
    }
    return name in allowed.get(prefix, ())
