"""kube-apiserver as a replacement of the bundled API server, if a developer has its binary.

``NODEAGENT_REFERENCE_API_SERVER=/path/to/kube-apiserver make test`` runs the agent's tests with it and
Debian's etcd as its store. Without the variable, this module is unused: the tests do not require a binary that is not
packaged.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from nodeagent.base.atomic_file import write_private
from nodeagent.base.tls import generate_ca, issue
from tests.integration.programs import START_SECONDS, ApiServer, cpu_seconds, free_port, rss_mib, wait_until

VARIABLE = "NODEAGENT_REFERENCE_API_SERVER"
_NODE = "node-1"


def new_api_server(directory: Path) -> ApiServer:
    """Return the bundled server, or kube-apiserver if the variable is set."""
    executable = os.environ.get(VARIABLE)
    return ReferenceApiServer(directory, Path(executable)) if executable else ApiServer(directory)


class ReferenceApiServer(ApiServer):
    """kube-apiserver with authorization modes Node and RBAC, and the objects that controllers would create."""

    def __init__(self, directory: Path, executable: Path) -> None:
        super().__init__(directory)
        self._executable = executable
        self._etcd: subprocess.Popen[bytes] | None = None
        self._secure_port, self._store = free_port(), (free_port(), free_port())
        self.extra_options: tuple[str, ...] = ()
        """Options of kube-apiserver."""

    def start(self, *options: str) -> None:
        """Start kube-apiserver; *options* of the bundled server are ignored."""
        self.data.mkdir(exist_ok=True)
        if not self.facts:
            self._prepare()
        if self._etcd is None:
            self._start_etcd()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(self._executable), *self._options(), *self.extra_options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._ready, "reference API server serves", 2 * START_SECONDS)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        roots = {"ca.crt": (self.data / "ca.crt").read_text()}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": roots}
        self.request("POST", "/api/v1/namespaces/default/configmaps", config_map)

    def stop(self, with_signal: int = signal.SIGTERM, seconds: float = 90.0) -> int:
        code = super().stop(with_signal, seconds)
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
            self._etcd = None
        return code

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server and its store."""
        return super().cpu_seconds() + (cpu_seconds(self._etcd.pid) if self._etcd is not None else 0.0)

    def store_rss_mib(self) -> float:
        return rss_mib(self._etcd.pid) if self._etcd is not None else 0.0

    def create_pod(self, pod: Mapping[str, Any]) -> Any:
        """Create the pod with nodeName, because there is no scheduler."""
        return super().create_pod({**pod, "spec": {"nodeName": _NODE, **pod["spec"]}})

    def _prepare(self) -> None:
        authority = generate_ca("reference")
        pair = issue(authority, "kube-apiserver", names=["127.0.0.1", "localhost"], server=True)
        for name, content in (("ca.crt", authority.certificate), ("server.crt", pair.certificate)):
            (self.data / name).write_bytes(content)
        write_private(self.data / "server.key", pair.key)
        signing_key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        write_private(self.data / "accounts.key", signing_key)
        token, node_token = secrets.token_hex(16), secrets.token_hex(16)
        lines = f'{token},admin,admin,"system:masters"\n{node_token},system:node:{_NODE},{_NODE},"system:nodes"\n'
        write_private(self.data / "tokens.csv", lines.encode())
        url = f"https://127.0.0.1:{self._secure_port}"
        kubeconfigs = {"admin": token, "node": node_token}
        for user, secret in kubeconfigs.items():
            write_private(self._kubeconfig(user), yaml.safe_dump(self._access(url, user, secret)).encode())
        self.facts = {
            "url": url,
            "caFile": str(self.data / "ca.crt"),
            "token": token,
            "kubeconfig": str(self._kubeconfig("admin")),
            "nodeKubeconfig": str(self._kubeconfig("node")),
        }

    def _kubeconfig(self, user: str) -> Path:
        return self.data / f"{user}.kubeconfig"

    def _access(self, url: str, user: str, token: str) -> dict[str, Any]:
        cluster = {"server": url, "certificate-authority": str(self.data / "ca.crt")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "reference", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": user, "context": {"cluster": "reference", "user": user}}],
            "current-context": user,
        }

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._store)
        arguments = ["--data-dir", str(self.data / "etcd"), "--listen-client-urls", client]
        arguments += ["--advertise-client-urls", client, "--listen-peer-urls", peer]
        arguments += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        with (self.directory / "etcd.log").open("ab") as output:
            self._etcd = subprocess.Popen(["etcd", *arguments], stdout=output, stderr=subprocess.STDOUT)

    def _options(self) -> list[str]:
        data = self.data
        return [
            f"--etcd-servers=http://127.0.0.1:{self._store[0]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._secure_port}",
            f"--tls-cert-file={data / 'server.crt'}",
            f"--tls-private-key-file={data / 'server.key'}",
            f"--token-auth-file={data / 'tokens.csv'}",
            f"--service-account-key-file={data / 'accounts.key'}",
            f"--service-account-signing-key-file={data / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
        ]

    def _ready(self) -> bool:
        assert self.alive(), self.tail()
        try:
            return bool(self.request("GET", "/api/v1/namespaces/default").get("kind") == "Namespace")
        except (OSError, ValueError):
            return False
