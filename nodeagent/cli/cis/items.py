"""The items of the benchmark: numbers of version 1.11, and those of earlier versions that have been removed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from nodeagent.base.structs import Struct
from nodeagent.cli.cis import arguments, files
from nodeagent.cli.cis.installation import Installation


class Status(StrEnum):
    """Result of an item."""

    PASS = "PASS"  # noqa: S105
    FAIL = "FAIL"
    NOT_APPLICABLE = "not applicable"


class Item(Struct, frozen=True):
    """Item of the benchmark.

    :param check: returns the deviations; ``None`` if the item does not apply to the installation.
    """

    id: str
    title: str
    automated: bool
    remedy: str
    check: Callable[[Installation], Iterable[str] | None]


class Result(Struct, frozen=True):
    """Result of an item for an installation."""

    item: Item
    status: Status
    found: tuple[str, ...] = ()
    """Deviations."""


def evaluate(installation: Installation, items: Sequence[Item] | None = None) -> list[Result]:
    """Return the result of every item; reads files."""
    results = []
    for item in ITEMS if items is None else items:
        deviations = item.check(installation)
        if deviations is None:
            results.append(Result(item, Status.NOT_APPLICABLE))
        else:
            found = tuple(deviations)
            results.append(Result(item, Status.FAIL if found else Status.PASS, found))
    return results


def _set(field: str) -> str:
    return f"set {field} in the configuration file"


_MODE, _OWNER = "chmod {0:o} FILE", "chown root:root FILE"

ITEMS: tuple[Item, ...] = (
    Item("4.1.1", "mode of the unit files", True, _MODE.format(files.SECRET), files.unit_modes),
    Item("4.1.2", "owner of the unit files", True, _OWNER, files.unit_owners),
    Item("4.1.3", "mode of the kube-proxy kubeconfig", False, _MODE.format(files.SECRET), files.proxy_modes),
    Item("4.1.4", "owner of the kube-proxy kubeconfig", False, _OWNER, files.proxy_owners),
    Item("4.1.5", "mode of the kubeconfig", True, _MODE.format(files.SECRET), files.kubeconfig_modes),
    Item("4.1.6", "owner of the kubeconfig", True, _OWNER, files.kubeconfig_owners),
    Item("4.1.7", "mode of the client CA file", False, _MODE.format(files.PUBLIC), files.client_ca_modes),
    Item("4.1.8", "owner of the client CA file", False, _OWNER, files.client_ca_owners),
    Item("4.1.9", "mode of the configuration files", True, _MODE.format(files.SECRET), files.configuration_modes),
    Item("4.1.10", "owner of the configuration files", True, _OWNER, files.configuration_owners),
    Item("4.2.1", "no anonymous requests", True, _set("authentication.anonymous.enabled: false"), arguments.anonymous),
    Item("4.2.2", "authorization of requests", True, _set("authorization.mode: Webhook"), arguments.authorization),
    Item(
        "4.2.3",
        "CA of client certificates",
        True,
        "set authentication.x509.clientCAFile in the configuration file, or --client-ca-file",
        arguments.client_ca,
    ),
    Item("4.2.4", "no port without authentication", False, _set("readOnlyPort: 0"), arguments.read_only_port),
    Item(
        "4.2.5",
        "timeout of idle streams",
        False,
        _set("streamingConnectionIdleTimeout: 30m"),
        arguments.streaming_timeout,
    ),
    Item("4.2.6", "iptables chains", True, _set("makeIPTablesUtilChains: true"), arguments.iptables_chains),
    Item(
        "4.2.6 (1.8)",
        "kernel parameters",
        True,
        "set protectKernelDefaults: true in the configuration file, and the parameters in /etc/sysctl.d",
        arguments.kernel_defaults,
    ),
    Item("4.2.7", "node name is the host name", False, "remove --hostname-override", arguments.node_name),
    Item("4.2.8", "rate of events", False, _set("eventRecordQPS: 50"), arguments.event_rate),
    Item(
        "4.2.9",
        "serving certificate is issued by a CA",
        False,
        "set tlsCertFile and tlsPrivateKeyFile, or serverTLSBootstrap: true, in the configuration file",
        arguments.serving_certificate,
    ),
    Item(
        "4.2.10",
        "rotation of the client certificate",
        True,
        _set("rotateCertificates: true"),
        arguments.client_rotation,
    ),
    Item(
        "4.2.11",
        "rotation of the serving certificate",
        False,
        _set("featureGates: {RotateNodeAgentServerCertificate: true}"),
        arguments.server_rotation,
    ),
    Item(
        "4.2.12",
        "strong cipher suites",
        False,
        f"{_set('tlsCipherSuites')}, to a subset of: {', '.join(arguments.STRONG_CIPHERS)}",
        arguments.cipher_suites,
    ),
    Item("4.2.13", "limit of processes per pod", False, _set("podPidsLimit: 4096"), arguments.process_limit),
    Item("4.2.14", "default seccomp profile", False, _set("seccompDefault: true"), arguments.seccomp_default),
    Item(
        "4.2.15",
        "addresses with which the agent communicates",
        False,
        "set IPAddressDeny=any and IPAddressAllow= in a drop-in of the unit (`systemctl edit`)",
        files.addresses,
    ),
    Item(
        "4.3.1",
        "metrics of kube-proxy on the loopback interface",
        True,
        "set metricsBindAddress: 127.0.0.1:10249 in the configuration of kube-proxy",
        files.proxy_metrics,
    ),
)
