"""kube-controller-manager next to kube-apiserver, as the bundled server includes controllers."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.integration.programs import ApiServer, free_port

_STOP_SECONDS = 20.0


@contextlib.contextmanager
def upstream_controllers(executable: Path, server: ApiServer) -> Iterator[None]:
    """Run kube-controller-manager for *server* while the context is active, if *executable* exists."""
    if not executable.exists():
        yield
        return
    with (server.directory / "controllers.log").open("wb") as output:
        process = subprocess.Popen(
            [
                str(executable),
                f"--kubeconfig={server.facts['kubeconfig']}",
                f"--root-ca-file={server.facts['caFile']}",
                f"--service-account-private-key-file={server.data / 'accounts.key'}",
                f"--secure-port={free_port()}",
                "--bind-address=127.0.0.1",
                "--leader-elect=false",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
