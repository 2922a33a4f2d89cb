"""User namespace for rootless operation, which a sleeping process holds across restarts."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from pathlib import Path

from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.helpers.oci_root import is_chroot
from nodeagent_plugins.embedded_runtime.helpers.pause import SLEEP
from nodeagent_plugins.embedded_runtime.host import find_executable
from nodeagent_plugins.embedded_runtime.processes import Process

KEEPER = "keeper.json"


def become_root(root: Path) -> None:
    """Join or create the user namespace of the runtime on *root*; does nothing for root.

    The process must be single-threaded. With ``newuidmap`` and a range in ``/etc/subuid`` containers can use that many
    users; otherwise only root.

    :raises OSError: the host does not allow unprivileged user namespaces.
    """
    if os.geteuid() == 0:
        return
    keeper = _find_keeper(root / KEEPER)
    if keeper is None:
        keeper = _make_keeper()
        (root / KEEPER).write_text(json.dumps({"pid": keeper.pid, "started": keeper.started, "boot": keeper.boot}))
    syscalls.join(f"/proc/{keeper.pid}/ns/user")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    syscalls.join(f"/proc/{keeper.pid}/ns/mnt")


def release(root: Path) -> None:
    """Terminate the process that holds the user namespace of the runtime on *root*; there must be no pods."""
    keeper = _find_keeper(root / KEEPER)
    if keeper is not None:
        (root / KEEPER).unlink(missing_ok=True)
        keeper.send(signal.SIGKILL)


def _find_keeper(path: Path) -> Process | None:
    try:
        keeper = Process(**json.loads(path.read_text(encoding="ascii")))
    except (OSError, ValueError, TypeError):
        return None
    return keeper if keeper.alive else None


def _make_keeper() -> Process:
    made_reader, made_writer = os.pipe()
    go_reader, go_writer = os.pipe()
    pid = os.fork()
    if not pid:
        _keep(made_writer, go_reader)
    os.close(made_writer)
    os.close(go_reader)
    with os.fdopen(made_reader, "rb") as made:
        failure = made.read(4096)
        if failure != b"ok":
            raise OSError(f"failed to create user namespace: {failure.decode(errors='replace')}")
    _map_users(pid)
    os.write(go_writer, b"g")
    os.close(go_writer)
    keeper = Process.of(pid)
    if keeper is None:
        raise OSError("the process that holds the user namespace exited immediately")
    return keeper


def _keep(made_writer: int, go_reader: int) -> None:
    """Hold the namespaces; never returns."""
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        os.write(made_writer, b"ok")
    except OSError as error:
        where = " (not allowed in a chroot)" if is_chroot() else ""
        os.write(made_writer, f"{error.strerror}{where}".encode())
        os._exit(1)
    os.close(made_writer)
    if os.read(go_reader, 1):
        os.setsid()
        os.chdir("/")
        nothing = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        syscalls.mount("", "/", flags=syscalls.MS_SLAVE | syscalls.MS_REC)
        os.execv(SLEEP[0], SLEEP)  # noqa: S606
    os._exit(1)


def _map_users(pid: int) -> None:
    """Map the users of the namespace: the caller as root, and the subordinate IDs of the caller."""
    for kind, own in (("uid", os.getuid()), ("gid", os.getgid())):
        granted = _granted(Path(f"/etc/sub{kind}"))
        executable = find_executable(f"new{kind}map")
        if granted and executable:
            words = [executable, str(pid), "0", str(own), "1", "1", *map(str, granted)]
            done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=10)
            if done.returncode == 0:
                continue
        if kind == "gid":
            Path(f"/proc/{pid}/setgroups").write_text("deny")
        Path(f"/proc/{pid}/{kind}_map").write_text(f"0 {own} 1")


def _granted(path: Path) -> tuple[int, int] | None:
    """Return the first range of subordinate IDs of the caller."""
    try:
        names = {str(os.getuid()), pwd.getpwuid(os.getuid()).pw_name}
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, KeyError):
        return None
    for line in lines:
        name, _, numbers = line.partition(":")
        if name in names:
            first, _, count = numbers.partition(":")
            return int(first), int(count)
    return None
