"""Files for clients: kubeconfig files, and the description of a ready server."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from apiserver_stub.options import Options
from apiserver_stub.server.credentials import read_tokens, write_kubeconfig
from apiserver_stub.server.running_server import RunningServer
from nodeagent.base.atomic_file import write_private
from nodeagent.base.structs import Struct


class ClientFiles(Struct, frozen=True):
    """Kubeconfig files of the administrator and of the node, and the token of the administrator."""

    token: str
    kubeconfig: Path
    node_kubeconfig: Path


def write_client_files(options: Options, url: str, authority: Path, tokens_file: Path) -> ClientFiles:
    """Write kubeconfig files for the server at *url* with the tokens in *tokens_file*."""
    token, node_token = read_tokens(tokens_file)
    files = ClientFiles(token, options.data_dir / "admin.kubeconfig", options.data_dir / "node.kubeconfig")
    write_kubeconfig(files.kubeconfig, url, authority, "admin", token)
    write_kubeconfig(files.node_kubeconfig, url, authority, f"system:node:{options.node_name}", node_token)
    return files


def write_ready_file(path: Path, running: RunningServer) -> None:
    """Write the URL, the credentials and the process ID of a ready server."""
    authority = running.client_ca_file
    body = {
        "url": running.url,
        "caFile": str(running.ca_file.absolute()),
        "token": running.token,
        "kubeconfig": str(running.kubeconfig.absolute()),
        "nodeKubeconfig": str(running.node_kubeconfig.absolute()),
        "clientCaFile": str(authority.absolute()) if authority is not None else "",
        "pid": os.getpid(),
    }
    write_private(path, msgspec.json.encode(body))
