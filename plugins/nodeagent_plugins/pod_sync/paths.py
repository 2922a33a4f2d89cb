"""Paths of a pod's files."""

from __future__ import annotations

import re
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import DEFAULT_POD_LOGS_DIR, NodeAgentConfiguration

DEFAULT_LOG_ROOT = "/var/log"
_MAX_FILE_NAME = 255
_LOG_NUMBER = re.compile(r"(\d{1,9})\.log")


class PodPaths(Struct, frozen=True):
    """All paths of one pod.

    :ivar root: ``<root>/pods/<uid>``.
    :ivar log_root: contains the older ``containers/``.
    :ivar pod_logs: contains the log directories of pods.
    """

    root: Path
    log_root: Path
    pod_logs: Path
    namespace: str
    name: str
    uid: str

    @property
    def logs(self) -> Path:
        """Log directory in the sandbox configuration."""
        return self.pod_logs / f"{self.namespace}_{self.name}_{self.uid}"

    @property
    def hosts(self) -> Path:
        return self.root / "etc-hosts"

    @property
    def subpaths(self) -> Path:
        return self.root / "volume-subpaths"

    def messages(self, container: str) -> Path:
        """Directory of the termination messages of one container."""
        return self.root / "containers" / container

    def log(self, container: str, attempt: int) -> Path:
        return self.logs / log_path(container, attempt)

    def legacy_link(self, container: str, container_id: str) -> Path:
        """Link by which log collectors find the log of one container."""
        stem = f"{self.name}_{self.namespace}_{container}-{container_id}"
        return self.log_root / "containers" / f"{stem[: _MAX_FILE_NAME - len('.log')]}.log"


def pod_logs_directory(config: NodeAgentConfiguration, log_root: Path) -> Path:
    """Return ``podLogsDir``; by default ``pods`` below *log_root*."""
    configured = config.pod_logs_dir
    return log_root / "pods" if configured == DEFAULT_POD_LOGS_DIR else Path(configured)


def log_path(container: str, attempt: int) -> str:
    """Return the log's path relative to the sandbox's log directory."""
    return f"{container}/{attempt}.log"


def next_attempt(directory: Path) -> int:
    """Return the number after the highest log file in *directory*; 0 if there is none."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except FileNotFoundError:
        return 0
    return max((int(match[1]) for name in names if (match := _LOG_NUMBER.match(name))), default=-1) + 1
