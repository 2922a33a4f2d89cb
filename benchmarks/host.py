"""Hardware and software of the host, recorded with the results."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

from tests.integration.kubectl import DEBIAN


def facts() -> dict[str, str]:
    """Return the properties of the host that affect the results."""
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{int(memory.split()[1]) / 2**20:.1f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "containerd": _version("containerd", "--version"),
        "runc": _version("runc", "--version"),
        "kubectl": _kubectl_version(),
    }


def kubectl() -> str:
    """Return the path of kubectl; Debian's is preferred, because others may be wrapper scripts."""
    debian = DEBIAN / "kubectl"
    return str(debian) if debian.exists() else "kubectl"


def _kubectl_version() -> str:
    try:
        done = subprocess.run([kubectl(), "version", "--client", "-o", "json"], check=True, capture_output=True)
        return str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.CalledProcessError):
        return "none"


def load() -> float:
    """Return the load average of the last minute; other load affects the results."""
    return os.getloadavg()[0]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(*command: str) -> str:
    """Return the version that *command* prints, or ``none`` if it is not installed."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return next((word for word in done.stdout.split() if word.lstrip("v")[:1].isdigit()), done.stdout.strip())
