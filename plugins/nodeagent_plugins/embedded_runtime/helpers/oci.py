"""Built-in OCI runtime, with the command line and configuration file of other OCI runtimes.

``oci.py --root STATE [--log FILE]``, and one of ``run --detach --bundle DIR --pid-file FILE [--console-socket PATH]``,
``exec --process FILE --pid-file FILE``, ``update --resources -`` and ``delete --force``, each with the container's ID.
Supports the configuration that this runtime writes; seccomp profiles are rejected.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable

from nodeagent_plugins.embedded_runtime.helpers import oci_cgroups, oci_process, oci_root, syscalls

_KINDS = {"network": syscalls.CLONE_NEWNET, "ipc": syscalls.CLONE_NEWIPC, "uts": syscalls.CLONE_NEWUTS}
_VALUED = ("--root", "--log", "--log-format", "--bundle", "--pid-file", "--console-socket", "--process", "--resources")


def main() -> None:
    for descriptor in os.listdir("/proc/self/fd"):  # uvloop passes on those of the standard streams.
        if int(descriptor) > 2:
            with contextlib.suppress(OSError):
                os.close(int(descriptor))
    options, words = _parse(sys.argv[1:])
    commands = {"run": run, "exec": execute, "update": update, "delete": delete}
    try:
        code = commands[words[0]](options, words[1])
    except Exception as error:
        text = str(getattr(error, "strerror", None) or error)
        if "--log" in options:
            with open(options["--log"], "a") as log:
                log.write(json.dumps({"level": "error", "msg": text, "time": time.time()}) + "\n")
        print(text, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    os._exit(code)


def run(options: dict[str, str], container_id: str) -> int:
    """Start a container."""
    bundle = options["--bundle"]
    with open(f"{bundle}/config.json") as file:
        spec = json.load(file)
    if "seccomp" in spec["linux"]:
        raise OSError("seccomp profiles require crun or runc")
    console = _connect(options["--console-socket"]) if "--console-socket" in options else None
    resources = spec["linux"]["resources"]
    path = spec["linux"].get("cgroupsPath", "")
    groups = oci_cgroups.make(path, resources)
    try:
        own_users = any(namespace["type"] == "user" for namespace in spec["linux"]["namespaces"])
        fresh = _enter_namespaces(spec["linux"]["namespaces"])

        def start() -> None:
            os.setsid()
            if own_users:
                oci_process.become_mapped_root(spec["process"])
            in_own_group = syscalls.CLONE_NEWCGROUP if "cgroup" in fresh else 0
            syscalls.unshare(syscalls.CLONE_NEWNS | in_own_group)
            if "uts" in fresh and spec.get("hostname"):
                syscalls.set_hostname(spec["hostname"])
            master = oci_root.enter(os.path.join(bundle, spec["root"]["path"]), spec, groups)
            if console is not None:
                socket.send_fds(console, [b"terminal"], [master])
                os.close(master)
                oci_process.take_terminal(os.open("/dev/console", os.O_RDWR))
            oci_process.become(spec["process"])

        pid = _fork(start, lambda pid: oci_cgroups.join(groups, pid))
    except BaseException:
        oci_cgroups.remove(groups)
        raise
    os.makedirs(options["--root"], exist_ok=True)
    with open(_state(options, container_id), "w") as file:
        json.dump({"pid": pid, "groups": groups}, file)
    _write_pid(options, pid)
    return 0


def execute(options: dict[str, str], container_id: str) -> int:
    """Execute a command in a container and return its exit code."""
    with open(options["--process"]) as file:
        process = json.load(file)
    with open(_state(options, container_id)) as file:
        state = json.load(file)
    pid, terminal = state["pid"], bool(process.get("terminal"))
    oci_cgroups.join(state["groups"], os.getpid())
    # This process keeps the mount namespace of the node; only the child enters that of the container.
    for kind in ("user", "ipc", "uts", "net", "pid"):
        _share(pid, kind)

    def start() -> None:
        os.setsid()
        for kind in ("cgroup", "mnt"):
            _share(pid, kind)
        if terminal:
            oci_process.take_terminal(0)
        oci_process.become(process)

    child = _fork(start, lambda pid: _write_pid(options, pid))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def update(options: dict[str, str], container_id: str) -> int:
    """Update the limits of a container to those on standard input."""
    with open(_state(options, container_id)) as file:
        state = json.load(file)
    oci_cgroups.limit(state["groups"], json.load(sys.stdin))
    return 0


def delete(options: dict[str, str], container_id: str) -> int:
    """Kill the remaining processes of a container and delete it."""
    try:
        with open(_state(options, container_id)) as file:
            state = json.load(file)
    except FileNotFoundError:
        return 0
    oci_cgroups.remove(state["groups"])
    os.unlink(_state(options, container_id))
    return 0


def _share(pid: int, kind: str) -> None:
    """Join a namespace of another process unless it is the current one, because joining it again may be forbidden."""
    path = f"/proc/{pid}/ns/{kind}"
    if os.readlink(path) != os.readlink(f"/proc/self/ns/{kind}"):
        syscalls.join(path)


def _enter_namespaces(requested: list[dict[str, str]]) -> set[str]:
    """Join existing namespaces, create new ones, and return the kinds that the container's process must create.

    New ones belong to the user namespace, so that is joined first.
    """
    left = set()
    new = 0
    for namespace in sorted(requested, key=lambda one: one["type"] != "user"):
        kind, path = namespace["type"], namespace.get("path")
        if path:
            syscalls.join(path)
        elif kind in _KINDS:
            new |= _KINDS[kind]
            left.add(kind)
        elif kind == "pid":
            new |= syscalls.CLONE_NEWPID
        else:
            left.add(kind)
    if new:
        syscalls.unshare(new)
    return left


def _fork(start: Callable[[], None], prepare: Callable[[int], None]) -> int:
    """Run *start*, which executes a command, in a child that waits for *prepare*; return its process ID.

    :raises OSError: the child failed before the execution.
    """
    go_reader, go_writer = os.pipe()
    error_reader, error_writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(go_writer)
        os.close(error_reader)
        try:
            if os.read(go_reader, 1):
                start()
        except Exception as error:
            os.write(error_writer, str(getattr(error, "strerror", None) or error).encode())
        os._exit(1)
    os.close(go_reader)
    os.close(error_writer)
    try:
        prepare(pid)
        os.write(go_writer, b"g")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(go_writer)
    with open(error_reader, "rb") as output:
        failure = output.read()
    if failure:
        os.waitpid(pid, 0)
        _forget_pid()
        raise OSError(failure.decode(errors="replace"))
    return pid


def _forget_pid() -> None:
    """Remove the PID file of a command that failed to start."""
    options, _ = _parse(sys.argv[1:])
    if "--process" in options and os.path.exists(options["--pid-file"]):
        os.unlink(options["--pid-file"])


def _write_pid(options: dict[str, str], pid: int) -> None:
    with open(options["--pid-file"], "w") as file:
        file.write(str(pid))


def _state(options: dict[str, str], container_id: str) -> str:
    return f"{options['--root']}/{container_id}.json"


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def _parse(words: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    rest = []
    waiting = iter(words)
    for word in waiting:
        if word in _VALUED:
            options[word] = next(waiting)
        elif not word.startswith("--"):
            rest.append(word)
    return options, rest
