"""Aliases of options: the flag names of kube-apiserver."""

from __future__ import annotations

from collections.abc import Sequence

_OF_STORE = (
    "cafile",
    "certfile",
    "compaction-interval",
    "count-metric-poll-period",
    "db-metric-poll-interval",
    "healthcheck-timeout",
    "keyfile",
    "prefix",
    "readycheck-timeout",
    "servers",
    "servers-overrides",
)
_OF_AGENTS = ("certificate-authority", "client-certificate", "client-key", "preferred-address-types", "timeout")
_ALIASES = {
    "azure-container-registry-config": "cloudvendor-container-registry-config",
    "cloud-provider-gce-l7lb-src-cidrs": "cloud-provider-cloudvendor-l7lb-src-cidrs",
    "kubernetes-service-node-port": "platform-service-node-port",
    **{f"etcd-{word}": f"store-{word}" for word in _OF_STORE},
    **{f"kubelet-{word}": f"nodeagent-{word}" for word in _OF_AGENTS},
}


def resolve_aliases(arguments: Sequence[str]) -> list[str]:
    """Return *arguments* with aliases replaced by the names of this server's options."""
    return [_resolve_alias(argument) if argument.startswith("--") else argument for argument in arguments]


def _resolve_alias(argument: str) -> str:
    name, equals, value = argument[2:].partition("=")
    return f"--{_ALIASES.get(name, name)}{equals}{value}"
