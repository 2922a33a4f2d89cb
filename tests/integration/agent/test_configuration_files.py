"""Tests of an agent that starts with unchanged configuration files of kubeadm releases and distributions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.agent.conftest import _ready
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, wait_until
from tests.integration.reference import new_api_server

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]

FILES = Path(__file__).parents[2] / "unit/config"
NAMES = (
    *(f"kubeadm/kubeadm-{release}.yaml" for release in ("1.29", "1.30", "1.31", "1.32", "1.34", "1.36")),
    *(f"distributions/{name}" for name in ("eks-1.31.json", "gke-1.30.yaml", "k3s-1.33.yaml", "kind-1.36.yaml")),
)


PODS = {"kubeadm": "200", "eks-1.31.json": "29"}
"""Maximum number of pods in a drop-in of all kubeadm files or in a file; by default 110."""


class ConfiguredAgent(NodeAgent):
    """Agent with an unchanged *file*; flags replace what the host of the test has elsewhere."""

    file = Path()

    def begin(self, **config: object) -> None:
        """Start without waiting."""
        assert self.api is not None
        settings = self.directory / "plugins.yaml"
        settings.write_text(yaml.safe_dump({"plugins": {"pod_sync": {"log_root": str(self.logs)}}}))
        flags = {
            "config": self.file,
            "plugin-config": settings,
            "compatibility-version": self.file.stem.rpartition("-")[2],
            "root-dir": self.root,
            "cert-dir": self.directory / "pki",
            "kubeconfig": self.api.facts["nodeKubeconfig"],
            "hostname-override": self.node,
            "disable-plugin": "kernel_tunables",
            "address": "127.0.0.1",
            "port": self.port,
            "read-only-port": 0,
            "healthz-port": self.health_port,
            "container-runtime-endpoint": self.endpoint,
            "pod-manifest-path": self.manifests,
            "volume-plugin-dir": self.directory / "flexvolume",
            "client-ca-file": self.api.data / "certs/ca.crt",
            "tls-cert-file": "",
            "tls-private-key-file": "",
            "cgroup-driver": "cgroupfs",
            "cgroup-root": "/",
            "resolv-conf": "/etc/resolv.conf",
            "fail-swap-on": "false",
            "fail-cgroupv1": "false",
        }
        if self.file.parent.name == "kubeadm":
            flags["config-dir"] = self.file.parent
        self.launch("nodeagent", "run", *(f"--{name}={value}" for name, value in flags.items()))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    server = new_api_server(tmp_path_factory.mktemp("api"))
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("name", NAMES)
def test_node_is_ready_with_an_unchanged_file(
    api: ApiServer, containerd: Containerd, tmp_path: Path, name: str
) -> None:
    agent = ConfiguredAgent(tmp_path, containerd.endpoint, api)
    agent.file = FILES / name
    try:
        agent.start()
        wait_until(lambda: _ready(api), f"the node is Ready\n{agent.tail()}")
        node = api.get("/api/v1/nodes/node-1")
        output = agent.tail(200)
    finally:
        agent.stop()
        api.request("DELETE", "/api/v1/nodes/node-1")

    directory, _, file = name.partition("/")
    assert node["status"]["capacity"]["pods"] == PODS.get(directory, PODS.get(file, "110"))
    assert "is not a known field" not in output
    assert "not a feature gate of any known release" not in output
