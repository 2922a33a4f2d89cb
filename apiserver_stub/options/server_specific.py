"""What only this server has."""

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
    """Return where the machine keeps state of services, for everyone but root where a user does."""
    if os.geteuid() == 0:
        return Path("/var/lib") / _NAME
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / _NAME


@dataclass(frozen=True)
class ServerOptions:
    data_dir_given: Path | None = None
    node_name: str = field(default_factory=lambda: socket.gethostname().lower())
    bind_pods_to_single_node: bool = True
    serve_page: bool = True
    sign_node_certificates: bool = True
    node_certificate_seconds: float = 365 * 86400.0

    @property
    def data_dir(self) -> Path:
        return self.data_dir_given or _default_data_dir()

    @property
    def authorities(self) -> Path:
        """The directory of what this server made to be known and believed by, which others keep copies of."""
        return self.data_dir / "certs"


def declare(group: Group) -> None:
    text = "Database, keys and kubeconfig files. Default /var/lib/nodeagent-apiserver, for users other than root "
    group.add("data-dir", Path, text + "~/.local/state/nodeagent-apiserver.", dest="data_dir_given")
    group.add("node-name", str, "Node whose identity the written node kubeconfig has. Default: the host name.")
    group.add(
        "bind-pods-to-single-node",
        values.boolean,
        "Give a pod without a node to the one ready node, as long as there is exactly one. Default true.",
    )
    group.add("serve-page", values.boolean, "Show browsers a page of nodes, pods and events at /. Default true.")
    group.add(
        "sign-node-certificates",
        values.boolean,
        "Approve and sign certificates that nodes ask for themselves, with the authority that this server made; those "
        "of clients only where --client-ca-file holds it. Default true.",
    )
    group.add(
        "node-certificate-duration",
        values.duration,
        "Life of such certificates where the request names none. Default 8760h.",
        dest="node_certificate_seconds",
    )


def check(options: ServerOptions) -> Iterator[str]:
    if options.node_certificate_seconds < 1:
        yield "node-certificate-duration must be at least 1s"
