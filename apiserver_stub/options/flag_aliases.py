"""Names by which the field's own start scripts call options of this server."""

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
_SPELLINGS = {
    "azure-container-registry-config": "cloudvendor-container-registry-config",
    "cloud-provider-gce-l7lb-src-cidrs": "cloud-provider-cloudvendor-l7lb-src-cidrs",
    "kubernetes-service-node-port": "platform-service-node-port",
    **{f"etcd-{word}": f"store-{word}" for word in _OF_STORE},
    **{f"kubelet-{word}": f"nodeagent-{word}" for word in _OF_AGENTS},
}


def respelled(arguments: Sequence[str]) -> list[str]:
    """Return *arguments* with this server's own names for its options."""
    return [_respell(argument) if argument.startswith("--") else argument for argument in arguments]


def _respell(argument: str) -> str:
    name, equals, value = argument[2:].partition("=")
    return f"--{_SPELLINGS.get(name, name)}{equals}{value}"
