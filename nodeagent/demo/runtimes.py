"""Which container runtime the demo uses: one that serves on this machine, else the embedded one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodeagent.demo.programs import DemoError

EMBEDDED = "embedded"
"""What names the embedded runtime where an endpoint is asked for."""
KNOWN = (
    ("containerd", Path("/run/containerd/containerd.sock")),
    ("CRI-O", Path("/run/crio/crio.sock")),
    ("cri-dockerd", Path("/run/cri-dockerd.sock")),
)
OTHER_PODS = Path("/var/lib/kubelet/pods")
_CONNECT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A runtime, and why it is this one.

    :ivar endpoint: where it serves; empty is the embedded one, which is started.
    """

    endpoint: str
    why: str


def choose_runtime(
    asked: str,
    known: Sequence[tuple[str, Path]] = KNOWN,
    other_pods: Path = OTHER_PODS,
    problem_of: Callable[[Path], str] | None = None,
) -> Choice:
    """Return the runtime that *asked* names; without a name the first of *known* that serves, else the embedded one.

    A runtime at its usual place is left alone while another agent keeps pods on this machine: the demo would take
    those pods for leftovers and end them.

    :param problem_of: tells what keeps us from a socket; empty when nothing does.
    :raises DemoError: the one asked for cannot be used.
    """
    problem_of = problem_of or connect_problem
    taken = _has_entries(other_pods)
    if asked == EMBEDDED:
        return Choice("", "as asked")
    if asked:
        path = Path(asked.removeprefix("unix://"))
        if problem := problem_of(path):
            raise DemoError(
                f"no container runtime at {asked}: {problem}; install and start one (apt install containerd), "
                "or leave --endpoint out to use the embedded one"
            )
        if taken and path in {usual for _, usual in known}:
            raise DemoError(
                f"another node agent keeps pods in {other_pods} on this machine, and the demo would end them; "
                "leave --endpoint out to use the embedded runtime"
            )
        return Choice(asked, "as asked")
    reasons = []
    for name, path in known:
        if problem := problem_of(path):
            reasons.append(f"{name}: {problem}")
        elif taken:
            reasons.append(f"{name} belongs to the agent with pods in {other_pods}")
        else:
            return Choice(f"unix://{path}", f"{name} serves here")
    return Choice("", f"no other serves here ({'; '.join(reasons)})")


def connect_problem(path: Path) -> str:
    """Return what keeps us from speaking to the socket at *path*; empty when nothing does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return f"no socket {path}"
        except PermissionError:
            return f"user {os.geteuid()} may not use {path}"
        except OSError as error:
            return f"nobody answers at {path} ({error})"
    return ""


def _has_entries(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except OSError:
        return False
