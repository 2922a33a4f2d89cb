"""What only this server has."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "This server"
_DEFAULT_DATA_DIR = Path("/var/lib/nodeagent-apiserver")


@dataclass(frozen=True)
class ServerOptions:
    data_dir: Path = _DEFAULT_DATA_DIR
    node_name: str = field(default_factory=lambda: socket.gethostname().lower())
    bind_pods_to_single_node: bool = True


def declare(group: Group) -> None:
    group.add("data-dir", Path, f"Database, keys and kubeconfig files. Default {_DEFAULT_DATA_DIR}.")
    group.add("node-name", str, "Node whose identity the written node kubeconfig has. Default: the host name.")
    group.add(
        "bind-pods-to-single-node",
        values.boolean,
        "Give a pod without a node to the one ready node, as long as there is exactly one. Default true.",
    )
