"""Cluster of the server under test, whose kubeconfig is in ``CLIENT_SUITES_KUBECONFIG``."""

import os
import subprocess
from pathlib import Path


class KindCluster:
    def __init__(self, name: str, image: str | None = None) -> None:
        self.name = name
        self.kubeconfig_path = Path(os.environ["CLIENT_SUITES_KUBECONFIG"])

    def create(self) -> None:
        """Do nothing: the server runs."""

    def delete(self) -> None:
        """Do nothing: the server is stopped after the suite."""

    def kubectl(self, *arguments: str, **options: str) -> str:
        """Run kubectl and return its output."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        return subprocess.check_output(["kubectl", *arguments], env=environment, text=True, encoding="utf-8")
