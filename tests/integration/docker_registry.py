"""Real image registry with a password and one image."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path

USER, PASSWORD = "user", "secret"


class DockerRegistry:
    """Registry on the loopback interface.

    :ivar image: name of the image that :meth:`push` stores.
    """

    def __init__(self, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = probe.getsockname()
        self.host = f"127.0.0.1:{self._address[1]}"
        self.image = f"{self.host}/shop/tool:1"
        self.directory = directory
        secret = subprocess.run(["htpasswd", "-Bbn", USER, PASSWORD], check=True, capture_output=True).stdout
        (directory / "htpasswd").write_bytes(secret)
        configuration = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
            "http": {"addr": self.host},
            "auth": {"htpasswd": {"realm": "shop", "path": str(directory / "htpasswd")}},
        }
        (directory / "config.yml").write_text(json.dumps(configuration))

    def start(self) -> None:
        """Start the process and wait until it serves."""
        with (self.directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                ["docker-registry", "serve", str(self.directory / "config.yml")], stdout=log, stderr=log
            )
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(self._address):
                break
            time.sleep(0.05)

    def push(self, archive: Path, *, compressed: bool = False) -> None:
        """Store the only image of an OCI *archive*; its layers are *compressed* with gzip, or unchanged."""
        # The archive names its image twice, by tag and by digest; skopeo requires one of them.
        layout = self.directory / "layout"
        layout.mkdir(exist_ok=True)
        subprocess.run(["tar", "-xf", archive, "-C", layout], check=True)
        index = json.loads((layout / "index.json").read_text())
        index["manifests"] = [{**index["manifests"][0], "annotations": {}}]
        (layout / "index.json").write_text(json.dumps(index))
        options = ["--dest-tls-verify=false", "--dest-creds", f"{USER}:{PASSWORD}"]
        command = ["skopeo", "--insecure-policy", "copy", *options, f"oci:{layout}", f"docker://{self.image}"]
        layers = ["--dest-compress-format", "gzip"] if compressed else ["--preserve-digests"]
        subprocess.run([*command, *layers], check=True, capture_output=True)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
