"""Private embedded runtime: its own process, directory and network."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.integration.containerd import Network

PLUGINS = Path(__file__).parents[3] / "plugins"
START_SECONDS = 30.0


class EmbeddedRuntime:
    """Runtime process with a private directory; ``close`` removes its pods and all files."""

    def __init__(self, *options: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="embedded-"))
        self.directory.chmod(0o755)
        self.socket = self.directory / "cri.sock"
        self.endpoint = f"unix://{self.socket}"
        self._network = Network()
        self.subnet, self.bridge = self._network.subnet, self._network.bridge
        self.cdi_specs = self.directory / "cdi"
        self.cdi_specs.mkdir()
        cdi = ["--cdi-spec-dir", str(self.cdi_specs)]
        self.options = [*options, *cdi, "--bridge", self.bridge, "--pod-cidr", self.subnet]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        return self.directory / "root"

    def start(self) -> None:
        """Start the process and wait until it serves."""
        words = [sys.executable, "-m", "nodeagent_plugins.embedded_runtime", "--root", str(self.root)]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*words, "--listen", self.endpoint, *self.options], cwd=PLUGINS, stdout=log, stderr=log
            )
        self.socket.unlink(missing_ok=True)
        deadline = time.monotonic() + START_SECONDS
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the runtime does not start:\n{self.log()}")
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the process; pods keep running."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait(20)

    def log(self) -> str:
        return (self.directory / "log").read_text()[-5000:]

    def close(self) -> None:
        """Stop it and remove all traces on the host."""
        self.stop()
        for point in reversed([line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]):
            if point.startswith(f"{self.directory}/"):
                subprocess.run(["umount", "--lazy", point], check=False)
        for kind in ("ip", "bridge"):
            command = ["nft", "delete", "table", kind, f"nodeagent_{self.bridge}"]
            subprocess.run(command, check=False, capture_output=True)
        self._network.close()
        shutil.rmtree(self.directory, ignore_errors=True)
