"""The kubelet and kube-apiserver, measured in alternation with the agent and the API server.

Their executables are set by ``--kubelet`` and ``--kube-apiserver``, because Debian does not package them; without them
the results are compared with values recorded on another day.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.integration.programs import ApiServer, NodeAgent
from tests.integration.reference import ReferenceApiServer


class Kubelet(NodeAgent):
    """The kubelet with the configuration of the measured agent."""

    def __init__(self, executable: Path, directory: Path, endpoint: str, api: ApiServer | None) -> None:
        super().__init__(directory, endpoint, api)
        self._executable = executable

    def begin(self, **config: Any) -> None:
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": self.endpoint,
            "staticPodPath": str(self.manifests),
            "healthzPort": self.health_port,
            "address": "127.0.0.1",
            "port": self.port,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": self.api is not None}},
            "authorization": {"mode": "Webhook" if self.api is not None else "AlwaysAllow"},
            "failSwapOn": False,
            "failCgroupV1": False,
            **config,
        }
        file = self.directory / "kubelet.yaml"
        file.write_text(yaml.safe_dump(document))
        arguments = ["--config", str(file), "--root-dir", str(self.root), "--cert-dir", str(self.directory / "pki")]
        arguments += ["--hostname-override", self.node]
        if self.api is not None:
            arguments += ["--kubeconfig", self.api.facts["nodeKubeconfig"]]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(self._executable), *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )


__all__ = ["Kubelet", "ReferenceApiServer"]
