"""Server that forks the pause processes and shims: they share its memory, and need no start of an interpreter.

``fork_server.py SOCKET ROOT``: each packet on the socket with descriptor SOCKET has the name of a helper and its
arguments, separated by NUL, and the descriptor of a socket for its response, which ends when the helper closes it.
ROOT, the runtime's directory, identifies the processes to operators. The server exits when the runtime closes the
socket; the helpers keep running.
"""

from __future__ import annotations

import fcntl  # noqa: F401 - for the helpers, which may be unable to read files of the host
import gc
import os
import signal
import socket
import struct  # noqa: F401
import sys
from collections.abc import Callable

from nodeagent_plugins.embedded_runtime.helpers import pause, shim

HELPERS = {"pause": pause.main, "shim": shim.main}
MAX_REQUEST_BYTES = 128 * 1024


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the runtime.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps the helpers.
    gc.collect()
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 1)
        if not request:
            return
        (descriptor,) = descriptors
        if not os.fork():
            requests.close()
            _run(request, descriptor)
        os.close(descriptor)


def _run(request: bytes, descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _leave_streams()
    try:
        name, *arguments = os.fsdecode(request).split("\0")
        HELPERS[name](arguments, _responder(descriptor))
    except BaseException as error:
        try:
            os.write(descriptor, f"error: {error}".encode())
        except OSError:  # The helper had already responded.
            pass
    finally:
        os._exit(0)


def _responder(descriptor: int) -> Callable[[str], None]:
    def respond(text: str) -> None:
        os.write(descriptor, text.encode())
        os.close(descriptor)

    return respond


def _leave_streams() -> None:
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
