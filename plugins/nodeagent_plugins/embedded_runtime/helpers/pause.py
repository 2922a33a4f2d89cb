"""Pause process of a sandbox: creates and configures the namespaces, and holds them while it sleeps.

Arguments: HOSTNAME NAMESPACES [NAME=VALUE…]. NAMESPACES are of ``net,ipc,uts,pid``, the rest are kernel parameters.
With ``uid_map=…`` and ``gid_map=…``, in the kernel's format, the namespaces belong to a new user namespace.
Responds with the process ID of the sleeping process.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from nodeagent_plugins.embedded_runtime.helpers import syscalls

KINDS = {
    "net": syscalls.CLONE_NEWNET,
    "ipc": syscalls.CLONE_NEWIPC,
    "uts": syscalls.CLONE_NEWUTS,
    "pid": syscalls.CLONE_NEWPID,
}
_MAPS = ("uid_map=", "gid_map=")
SLEEP = ("/bin/sleep", "2147483647")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def main(arguments: list[str], respond: Callable[[str], None]) -> None:
    """Create the namespaces, and leave the sleeping process.

    :raises OSError: a namespace or a parameter was rejected; the text is the reason.
    """
    hostname, kinds, *rest = arguments
    maps = [entry for entry in rest if entry.startswith(_MAPS)]
    try:
        if maps:
            enter_user_namespace(dict(entry.split("=", 1) for entry in maps))
        parameters = [entry for entry in rest if entry not in maps]
        respond(str(hold(hostname, [kind for kind in kinds.split(",") if kind], parameters)))
    except OSError as error:
        raise OSError(error.strerror or str(error)) from error


def enter_user_namespace(maps: dict[str, str]) -> None:
    """Become root in a new user namespace; *maps* has its mappings by file name.

    A child process that stays outside writes the mappings, because only the parent namespace may map other users.
    """
    process = os.getpid()
    created_reader, created_writer = os.pipe()
    mapped_reader, mapped_writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(created_writer)
        if os.read(created_reader, 1):
            for name, content in maps.items():
                with open(f"/proc/{process}/{name}", "w") as file:
                    file.write(content)
            os.write(mapped_writer, b"m")
        os._exit(0)
    os.close(mapped_writer)
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    os.write(created_writer, b"c")
    mapped = os.read(mapped_reader, 1)
    os.waitpid(child, 0)
    if not mapped:
        raise OSError(f"failed to map users {maps}")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def hold(hostname: str, kinds: list[str], parameters: list[str]) -> int:
    """Create the namespaces *kinds*, leave a sleeping process in them and return its process ID."""
    flags = 0
    for kind in kinds:
        flags |= KINDS[kind]
    syscalls.unshare(flags)
    if "uts" in kinds and hostname:
        syscalls.set_hostname(hostname)
    if "net" in kinds:
        _bring_up_loopback()
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        _set_parameter(name, value)
    # The init process of a PID namespace must reap orphans: the kernel does so if SIGCHLD is ignored, which persists
    # across exec.
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    child = os.fork()
    if not child:
        os.setsid()
        os.chdir("/")
        os.execv(SLEEP[0], ["sandbox", *SLEEP[1:]] if _sleep_has_own_name() else list(SLEEP))  # noqa: S606
    return child


def _sleep_has_own_name() -> bool:
    """Return whether ``sleep`` can run under another name; busybox selects its command by name."""
    return not os.path.realpath(SLEEP[0]).endswith("busybox")


def _set_parameter(name: str, value: str) -> None:
    path = "/proc/sys/" + name.replace(".", "/")
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError as error:
        raise OSError(error.errno, f"set kernel parameter {name}={value}: {error.strerror}") from error


def _bring_up_loopback() -> None:
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", b"lo", 0)
        response = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sh22x", response)[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))
