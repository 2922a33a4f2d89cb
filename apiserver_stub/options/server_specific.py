"""Command-line options that kube-apiserver does not have."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "This server"
_NAME = "nodeagent-apiserver"


def _default_data_dir() -> Path:
    """Return the state directory of system services for root, the user's state directory otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib") / _NAME
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / _NAME


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class ServerOptions:
    """Values of the command-line options that kube-apiserver does not have."""

    data_dir_given: Path | None = None
    free_port: bool = False
    node_name: str = field(default_factory=lambda: socket.gethostname().lower())
    bind_pods_to_single_node: bool = True
    manage_volumes: bool = True
    local_path_storage_class: bool = True
    serve_page: bool = True
    sign_node_certificates: bool = True
    node_certificate_seconds: float = 365 * 86400.0

    @property
    def data_dir(self) -> Path:
        return self.data_dir_given or _default_data_dir()

    @property
    def authorities(self) -> Path:
        """Directory of the generated CAs and keys, on which clients rely."""
        return self.data_dir / "certs"


def declare(group: Group) -> None:
    text = "Database, keys and kubeconfig files. Default for root /var/lib/nodeagent-apiserver, for other users "
    group.add("data-dir", Path, text + "~/.local/state/nodeagent-apiserver.", dest="data_dir_given")
    group.add(
        "free-port",
        values.boolean,
        "Listen on any free port instead of --secure-port; clients find it in ready.json and the kubeconfig files. "
        "Default false.",
    )
    group.add("node-name", str, "Name of the node for which a node kubeconfig is generated. Default: the host name.")
    group.add(
        "bind-pods-to-single-node",
        values.boolean,
        "Bind pending pods to the only ready node while there is exactly one. Default true.",
    )
    group.add(
        "manage-volumes",
        values.boolean,
        "Bind claims to persistent volumes and create the claims of ephemeral volumes while no kube-controller-manager "
        "holds its lease, and create and delete volumes of local-path storage classes. Default true.",
    )
    group.add(
        "local-path-storage-class",
        values.boolean,
        "Create the default storage class local-path at the first start, unless the cluster has a storage class. "
        "Default true.",
    )
    group.add("serve-page", values.boolean, "Serve a page with nodes, pods and events at /. Default true.")
    group.add(
        "sign-node-certificates",
        values.boolean,
        "Approve and sign the certificate requests of nodes with the generated CA; client certificates only if "
        "--client-ca-file contains this CA. Default true.",
    )
    group.add(
        "node-certificate-duration",
        values.duration,
        "Validity of node certificates whose request specifies none. Default 8760h.",
        dest="node_certificate_seconds",
    )


def check(options: ServerOptions) -> Iterator[str]:
    if options.node_certificate_seconds < 1:
        yield "node-certificate-duration must be at least 1s"
