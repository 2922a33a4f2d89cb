"""Selection of the demo's container runtime: a running one on this host, otherwise the embedded runtime."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.demo.processes import DemoError

EMBEDDED = "embedded"
"""Value of ``--endpoint`` for the embedded runtime."""
KNOWN = (
    ("containerd", Path("/run/containerd/containerd.sock")),
    ("CRI-O", Path("/run/crio/crio.sock")),
    ("cri-dockerd", Path("/run/cri-dockerd.sock")),
)
OTHER_PODS = Path("/var/lib/kubelet/pods")
_CONNECT_SECONDS = 1.0


class RuntimeSelection(Struct, frozen=True):
    """The selected runtime, with the reason.

    :ivar endpoint: its CRI endpoint; empty for the embedded runtime, which the demo starts.
    """

    endpoint: str
    reason: str


def select_runtime(
    requested: str,
    known: Sequence[tuple[str, Path]] = KNOWN,
    other_pods: Path = OTHER_PODS,
    problem_of: Callable[[Path], str] | None = None,
) -> RuntimeSelection:
    """Return the *requested* runtime; if it is empty, the first of *known* that is running, or the embedded one.

    A runtime on its default socket is not used while another agent has pods on this host: the demo would treat those
    pods as orphaned and terminate them.

    :param problem_of: returns the reason why a socket is unusable, or an empty string.
    :raises DemoError: the requested runtime is unusable.
    """
    problem_of = problem_of or connect_problem
    in_use = _has_entries(other_pods)
    if requested == EMBEDDED:
        return RuntimeSelection("", "as requested")
    if requested:
        path = Path(requested.removeprefix("unix://"))
        if problem := problem_of(path):
            raise DemoError(
                f"no container runtime at {requested}: {problem}; install and start one (apt install containerd), "
                "or omit --endpoint to use the embedded runtime"
            )
        if in_use and path in {default for _, default in known}:
            raise DemoError(
                f"another node agent has pods in {other_pods} on this host, which the demo would terminate; "
                "omit --endpoint to use the embedded runtime"
            )
        return RuntimeSelection(requested, "as requested")
    reasons = []
    for name, path in known:
        if problem := problem_of(path):
            reasons.append(f"{name}: {problem}")
        elif in_use:
            reasons.append(f"{name} is in use by the agent with pods in {other_pods}")
        else:
            return RuntimeSelection(f"unix://{path}", f"{name} is running")
    return RuntimeSelection("", f"no other runtime available ({'; '.join(reasons)})")


def connect_problem(path: Path) -> str:
    """Return the reason why a connection to the socket at *path* fails; empty if it succeeds."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return f"no socket {path}"
        except PermissionError:
            return f"permission denied for user {os.geteuid()}: {path}"
        except OSError as error:
            return f"failed to connect to {path}: {error}"
    return ""


def _has_entries(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except OSError:
        return False
