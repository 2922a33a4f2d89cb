"""Tests for the command ``kubelet`` with the files that kubeadm writes, and for the checks of kubeadm."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeagent.base.tls import KeyPair, issue
from tests.integration.agent.test_certificates import allow_nodes_to_join
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, Program, free_port, simple_pod, wait_until

DROP_IN = Path(__file__).parents[3] / "systemd/kubelet/kubelet.service.d/10-kubeadm.conf"
TOKEN = "abcdef.0123456789abcdef"

ZERO_DURATIONS = (
    "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "runtimeRequestTimeout",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "streamingConnectionIdleTimeout",
    "syncFrequency",
    "volumeStatsAggPeriod",
)
"""Durations that kubeadm writes although they are unset."""


class Kubelet(Program):
    """Command line of the unit, with the directories of kubeadm below *directory*."""

    def __init__(self, directory: Path) -> None:
        super().__init__("kubelet", directory)
        self.kubernetes, self.root = directory / "kubernetes", directory / "kubelet"
        self.port, self.health_port = free_port(), free_port()
        self.manifests = self.kubernetes / "manifests"
        for path in (self.manifests, self.kubernetes / "pki", self.root):
            path.mkdir(parents=True)

    def write_config(self, endpoint: str, **fields: Any) -> None:
        """Write ``config.yaml`` as kubeadm 1.36 does."""
        authority = {"clientCAFile": str(self.kubernetes / "pki/ca.crt")}
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"cacheTTL": "0s", "enabled": True},
                "x509": authority,
            },
            "authorization": {
                "mode": "Webhook",
                "webhook": {"cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s"},
            },
            "cgroupDriver": "cgroupfs",
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": endpoint,
            "crashLoopBackOff": {},
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": self.health_port,
            "logging": {
                "flushFrequency": 0,
                "options": {"json": {"infoBufferSize": "0"}, "text": {"infoBufferSize": "0"}},
                "verbosity": 0,
            },
            "memorySwap": {},
            "rotateCertificates": True,
            "staticPodPath": str(self.manifests),
            **dict.fromkeys(ZERO_DURATIONS, "0s"),
            "failSwapOn": False,  # The host may have swap.
            "port": self.port,
            **fields,
        }
        (self.root / "config.yaml").write_text(yaml.safe_dump(document))

    def write_flags(self, *flags: str) -> None:
        """Write the file that kubeadm updates with each command."""
        (self.root / "kubeadm-flags.env").write_text(f'KUBELET_KUBEADM_ARGS="{" ".join(flags)}"\n')

    def write_kubeconfig(self, name: str, api: ApiServer, user: dict[str, str]) -> None:
        document = yaml.safe_load(Path(api.facts["kubeconfig"]).read_text())
        cluster = document["clusters"][0]["cluster"]
        if file := cluster.pop("certificate-authority", None):
            cluster["certificate-authority-data"] = base64.b64encode(Path(file).read_bytes()).decode()
        document["users"][0]["user"] = user
        (self.kubernetes / name).write_text(json.dumps(document))

    def start(self) -> None:
        """Start the command of the unit without waiting."""
        flags = ("--node-ip=127.0.0.1", f"--root-dir={self.root}", f"--cert-dir={self.root / 'pki'}")
        with (self.directory / "default").open("w") as file:
            file.write(f'KUBELET_EXTRA_ARGS="{" ".join(flags)} --disable-plugin=kernel_tunables"\n')
        with self.log.open("ab") as output:
            command = [sys.executable, "-m", "nodeagent.cli.kubelet", *self._arguments()]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def healthy(self) -> bool:
        """Return whether the endpoint that kubeadm queries responds with 200."""
        assert self.alive(), self.tail()
        agent = NodeAgent.__new__(NodeAgent)
        agent.health_port = self.health_port
        try:
            return agent.healthz()[0] == 200
        except OSError:
            return False

    def _arguments(self) -> list[str]:
        """Return the flags that systemd would pass."""
        locations = {"/etc/kubernetes": self.kubernetes, "/var/lib/kubelet": self.root}
        text = DROP_IN.read_text().replace("/etc/default/kubelet", str(self.directory / "default"))
        for path, replacement in locations.items():
            text = text.replace(path, str(replacement))
        variables: dict[str, str] = {}
        command = ""
        for line in text.splitlines():
            name, _, value = line.partition("=")
            if name == "Environment":
                variable, _, content = shlex.split(value)[0].partition("=")
                variables[variable] = content
            elif name == "EnvironmentFile" and (file := Path(value.removeprefix("-"))).exists():
                variables |= dict(re.findall(r'^(\w+)="(.*)"$', file.read_text(), re.MULTILINE))
            elif name == "ExecStart":
                command = value
        words = (variables.get(word[1:], "").split() if word.startswith("$") else [word] for word in command.split())
        return [argument for expanded in words for argument in expanded][1:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """API server that accepts bootstrap tokens and client certificates, as in a cluster of kubeadm."""
    api = ApiServer(tmp_path_factory.mktemp("cluster"))
    api.start("--enable-bootstrap-token-auth", f"--client-ca-file={api.data / 'certs/ca.crt'}", "--node-name=another")
    identifier, _, value = TOKEN.partition(".")
    data = {"token-id": identifier, "token-secret": value, "usage-bootstrap-authentication": "true"}
    secret = {
        "metadata": {"name": f"bootstrap-token-{identifier}"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    }
    assert api.request("POST", "/api/v1/namespaces/kube-system/secrets", secret)["kind"] == "Secret"
    allow_nodes_to_join(api)
    yield api
    api.stop()


@pytest.fixture
def kubelet(tmp_path: Path, cluster: ApiServer, containerd: Containerd) -> Iterator[Kubelet]:
    program = Kubelet(tmp_path)
    (program.kubernetes / "pki/ca.crt").write_bytes((cluster.data / "certs/ca.crt").read_bytes())
    yield program
    program.stop()
    containerd.remove_pods()


def node_of(api: ApiServer, name: str) -> dict[str, Any]:
    return dict(api.get(f"/api/v1/nodes/{name}"))


def is_ready(api: ApiServer, name: str) -> bool:
    node = node_of(api, name)
    conditions = node["status"].get("conditions", []) if node["kind"] == "Node" else []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def test_command_exits_with_1_until_kubeadm_has_run(kubelet: Kubelet) -> None:
    kubelet.start()

    assert kubelet.process is not None
    assert kubelet.process.wait(30) == 1
    assert "config.yaml: cannot be read" in kubelet.tail()


def test_node_joins_with_the_files_of_kubeadm_join(
    kubelet: Kubelet, cluster: ApiServer, containerd: Containerd
) -> None:
    kubelet.write_config(containerd.endpoint)
    taint = "--register-with-taints=example.com/new=:NoSchedule"
    kubelet.write_flags("--hostname-override=joined", "--pod-infra-container-image=registry.k8s.io/pause:3.9", taint)
    kubelet.write_kubeconfig("bootstrap-kubelet.conf", cluster, {"token": TOKEN})

    kubelet.start()

    wait_until(kubelet.healthy, f"the kubelet is healthy\n{kubelet.tail()}")
    wait_until(lambda: is_ready(cluster, "joined"), f"the node is ready\n{kubelet.tail()}")
    current = kubelet.root / "pki/kubelet-client-current.pem"
    user = yaml.safe_load((kubelet.kubernetes / "kubelet.conf").read_text())["users"][0]["user"]
    assert user == {"client-certificate": str(current), "client-key": str(current)}
    assert current.is_symlink()
    node = node_of(cluster, "joined")
    assert {"key": "example.com/new", "effect": "NoSchedule"} in node["spec"]["taints"]
    version = subprocess.run(
        [sys.executable, "-m", "nodeagent.cli.kubelet", "--version", f"--root-dir={kubelet.root}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout == f"Kubernetes {node['status']['nodeInfo']['kubeletVersion']}\n"

    # kubeadm join deletes the bootstrap kubeconfig and annotates the node; the unit may be restarted afterwards.
    (kubelet.kubernetes / "bootstrap-kubelet.conf").unlink()
    socket = {"metadata": {"annotations": {"kubeadm.alpha.kubernetes.io/cri-socket": containerd.endpoint}}}
    patched = cluster.request("PATCH", "/api/v1/nodes/joined", socket, "application/strategic-merge-patch+json")
    assert patched["kind"] == "Node", patched
    kubelet.stop()
    kubelet.start()

    wait_until(kubelet.healthy, f"the kubelet is healthy again\n{kubelet.tail()}")
    wait_until(lambda: "Node was previously registered" in kubelet.tail(200), "the node is registered again")
    annotations = node_of(cluster, "joined")["metadata"]["annotations"]
    assert annotations["kubeadm.alpha.kubernetes.io/cri-socket"] == containerd.endpoint


def test_control_plane_node_runs_with_the_files_of_kubeadm_init(
    kubelet: Kubelet, cluster: ApiServer, containerd: Containerd
) -> None:
    certificates = cluster.data / "certs"
    authority = KeyPair((certificates / "ca.crt").read_bytes(), (certificates / "ca.key").read_bytes())
    pair = issue(authority, "system:node:first", organizations=["system:nodes"], client=True)
    embedded = {"client-certificate-data": pair.certificate, "client-key-data": pair.key}
    user = {name: base64.b64encode(content).decode() for name, content in embedded.items()}
    kubelet.write_config(containerd.endpoint)
    kubelet.write_flags("--hostname-override=first")
    kubelet.write_kubeconfig("kubelet.conf", cluster, user)
    pod = simple_pod("component", metadata={"namespace": "kube-system"}, hostNetwork=True)
    manifest = kubelet.manifests / "component.yaml"
    manifest.write_text(yaml.safe_dump(pod))

    kubelet.start()

    wait_until(kubelet.healthy, f"the kubelet is healthy\n{kubelet.tail()}")
    wait_until(lambda: is_ready(cluster, "first"), f"the node is ready\n{kubelet.tail()}")
    # "kubeadm init phase kubelet-finalize" replaces the embedded certificate by this file.
    wait_until((kubelet.root / "pki/kubelet-client-current.pem").exists, "the certificate is stored")

    def config_hash() -> str:
        mirror: dict[str, Any] = cluster.get("/api/v1/namespaces/kube-system/pods/component-first")
        return str(mirror.get("metadata", {}).get("annotations", {}).get("kubernetes.io/config.hash", ""))

    wait_until(config_hash, f"the mirror pod exists\n{kubelet.tail()}")
    before = config_hash()
    pod["metadata"]["annotations"] = {"example.com/release": "next"}
    (kubelet.directory / "upgraded.yaml").write_text(yaml.safe_dump(pod))
    os.replace(kubelet.directory / "upgraded.yaml", manifest)

    # "kubeadm upgrade" waits for this change.
    wait_until(lambda: config_hash() not in ("", before), f"the hash of the mirror pod changes\n{kubelet.tail()}")
