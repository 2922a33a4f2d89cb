"""Container shim: owns a container's stdio, log and exit code across runtime restarts.

Arguments: DIR LOG OPTIONS RUNNER…. DIR is the container's directory, OPTIONS are of ``tty,stdin,once``, RUNNER is the
command that starts the container and writes its process ID to ``DIR/pid``. Responds with ``ok PID SHIM`` once the
container is running; then runs until the container has exited, and writes ``DIR/exit.json``.

``DIR/control`` is a socket that accepts one command: ``reopen`` the log, or ``attach``. After ``ok`` both sides of an
attachment send frames: kind, length (4 bytes), data. Kinds: 0 input, 1 output, 2 errors, 3 end of input, 4 size of the
terminal (rows and columns, 2 bytes each).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable

from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.helpers.cri_log import CriLog

READ_BYTES = 256 * 1024
PIPE_BYTES = 256 * 1024
"""Amount of output that is buffered before the container blocks."""
MAX_PENDING_BYTES = 1024 * 1024
DRAIN_SECONDS = 2.0
CONSOLE_SECONDS = 5.0
INPUT, OUTPUT, ERRORS, END_OF_INPUT, SIZE = range(5)
HEADER_BYTES = 5
_STREAMS = {OUTPUT: "stdout", ERRORS: "stderr"}
_TIOCSWINSZ = 0x5414


def main(arguments: list[str], respond: Callable[[str], None]) -> None:
    """Start the container and serve it until it has exited.

    :raises OSError: the container was not started; the text is the reason.
    """
    directory, log, options, *runner = arguments
    os.setsid()
    shim = Shim(directory, log, set(options.split(",")))
    respond(f"ok {shim.start(runner)} {os.getpid()}")
    shim.run()


def _widen(pipe: int) -> None:
    import fcntl

    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:  # The limit of the user's pipes is reached.
        pass


class Shim:
    """Shim of one container."""

    def __init__(self, directory: str, log: str, options: set[str]) -> None:
        self._directory = directory
        self._tty, self._has_input, self._once = "tty" in options, "stdin" in options, "once" in options
        self._log = CriLog(log)
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._outputs: dict[int, int] = {}
        self._input = -1
        self._unsent = b""
        self._input_ended = False
        self._clients: dict[int, Client] = {}
        self._pid = 0
        self._exit: tuple[int, int] | None = None
        self._drain_until = 0.0
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)  # The container becomes a child when the OCI runtime exits.
        # Bound through a descriptor, because the path of a socket is limited to 108 bytes.
        self._home = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._control = self._listen("control")
        wake_reader, wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        self._watch(wake_reader, self._children_ended)
        self._watch(self._control.fileno(), self._greet)

    def start(self, runner: list[str]) -> int:
        """Run *runner* and return the process ID of the container.

        :raises OSError: the runner failed; the text is its message.
        """
        actions: list[tuple[int, ...]] = []
        console = None
        if self._tty:
            console = self._listen("console")
        else:
            self._make_pipes(actions)
        try:
            reset = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD}
            os.chdir(self._directory)
            started = os.posix_spawn(runner[0], runner, os.environ, file_actions=actions, setsigdef=reset)
            status = os.waitstatus_to_exitcode(os.waitpid(started, 0)[1])
            os.chdir("/")
            for action in actions:
                if action[0] == os.POSIX_SPAWN_DUP2:
                    os.close(action[1])
            if status:
                raise OSError(self._failure(runner[0], status))
            if console is not None:
                self._take_terminal(console)
        finally:
            if console is not None:
                console.close()
                os.unlink(f"{self._directory}/console")
        with open(f"{self._directory}/pid") as file:
            self._pid = int(file.read())
        return self._pid

    def run(self) -> None:
        """Serve until the container has exited, then record its exit."""
        self._children_ended(-1)
        while self._exit is None or (self._outputs and time.monotonic() < self._drain_until):
            for descriptor, happened in self._poll.poll(None if self._exit is None else 100):
                handler = self._handlers.get(descriptor)
                if handler is not None:
                    handler(happened)
        for stream in set(self._outputs.values()):
            self._log.write(_STREAMS[stream], b"")
        self._log.close()
        code, finished_at = self._exit
        with open(f"{self._directory}/exit.new", "w") as file:
            file.write(f'{{"exit_code": {code}, "finished_at": {finished_at}}}')
        os.rename(f"{self._directory}/exit.new", f"{self._directory}/exit.json")
        for client in list(self._clients.values()):
            client.finish()

    # --- output and input -------------------------------------------------------------------------------------

    def _make_pipes(self, actions: list[tuple[int, ...]]) -> None:
        if self._has_input:
            theirs, self._input = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._input, False)
            actions.append((os.POSIX_SPAWN_DUP2, theirs, 0))
        for stream in (OUTPUT, ERRORS):
            ours, theirs = os.pipe2(os.O_CLOEXEC)
            _widen(ours)
            actions.append((os.POSIX_SPAWN_DUP2, theirs, stream))
            self._add_output(ours, stream)

    def _add_output(self, descriptor: int, stream: int) -> None:
        self._outputs[descriptor] = stream
        self._watch(descriptor, lambda _: self._pump(descriptor, stream))

    def _take_terminal(self, console: socket.socket) -> None:
        console.settimeout(CONSOLE_SECONDS)
        connection, _ = console.accept()
        with connection:
            _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
        master = descriptors[0]
        os.set_inheritable(master, False)
        self._add_output(master, OUTPUT)
        if self._has_input:
            self._input = os.dup(master)
            os.set_blocking(self._input, False)

    def _pump(self, descriptor: int, stream: int) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except OSError:  # All processes have closed the terminal.
            data = b""
        self._log.write(_STREAMS[stream], data)
        if data:
            for client in list(self._clients.values()):
                client.send(stream, data)
            return
        del self._outputs[descriptor]
        self._forget(descriptor)
        os.close(descriptor)

    @property
    def accepts_input(self) -> bool:
        """False while the container has not read the input of the clients, which then wait."""
        return len(self._unsent) <= MAX_PENDING_BYTES

    def feed(self, data: bytes) -> None:
        """Pass *data* to the container, once it reads its input."""
        if self._input < 0 or self._input_ended:
            return
        self._unsent += data
        self._push(0)

    def end_input(self) -> None:
        """End the input of an attachment; with *once*, close the container's input after all data was passed."""
        if self._once and self._input >= 0 and not self._tty:
            self._input_ended = True
            self._push(0)

    def resize(self, rows: int, columns: int) -> None:
        if self._tty:
            import fcntl
            import struct

            for descriptor in self._outputs:
                fcntl.ioctl(descriptor, _TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _push(self, _happened: int) -> None:
        try:
            self._unsent = self._unsent[os.write(self._input, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # The container closed its input.
            self._unsent = b""
        if self._unsent:
            self._watch(self._input, self._push, select.POLLOUT)
        else:
            self._forget(self._input)
            if self._input_ended:
                os.close(self._input)
                self._input = -1
        for client in self._clients.values():
            client.watch()

    # --- children and clients ---------------------------------------------------------------------------------

    def _children_ended(self, _happened: int) -> None:
        for descriptor in [d for d, handler in self._handlers.items() if handler == self._children_ended]:
            try:
                os.read(descriptor, 4096)
            except BlockingIOError:
                pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self._exit = (code if code >= 0 else 128 - code, time.time_ns())
                self._drain_until = time.monotonic() + DRAIN_SECONDS

    def _greet(self, _happened: int) -> None:
        connection, _ = self._control.accept()
        connection.settimeout(1.0)
        try:
            command = connection.recv(64)
            if command == b"reopen\n":
                self._log.reopen()
                connection.sendall(b"ok\n")
            elif command == b"attach\n":
                connection.sendall(b"ok\n")
                connection.setblocking(False)
                client = Client(self, connection)
                self._clients[connection.fileno()] = client
                self._watch(connection.fileno(), client.happened)
                return
            else:
                connection.sendall(b"error: unknown command\n")
        except OSError as error:
            try:
                connection.sendall(f"error: {error}\n".encode())
            except OSError:
                pass
        connection.close()

    def watch_client(self, client: Client, events: int) -> None:
        self._poll.modify(client.connection.fileno(), events)

    def forget_client(self, client: Client) -> None:
        self._forget(client.connection.fileno())
        self._clients.pop(client.connection.fileno(), None)

    # --- helpers ----------------------------------------------------------------------------------------------

    def _listen(self, name: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.unlink(f"{self._directory}/{name}")
        except FileNotFoundError:
            pass
        listener.bind(f"/proc/self/fd/{self._home}/{name}")
        listener.listen(8)
        return listener

    def _watch(self, descriptor: int, handler: Callable[[int], None], events: int = select.POLLIN) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, events)

    def _forget(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _failure(self, runner: str, status: int) -> str:
        """Return the last line of the runner's log."""
        import json

        try:
            with open(f"{self._directory}/runner.log") as file:
                lines = file.read().strip().splitlines()
            return str(json.loads(lines[-1])["msg"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return f"{os.path.basename(runner)} exited with code {status}"


class Client:
    """One attachment."""

    def __init__(self, shim: Shim, connection: socket.socket) -> None:
        self.connection = connection
        self._shim = shim
        self._received = b""
        self._pending = b""
        self._reads = True

    def send(self, kind: int, data: bytes) -> None:
        """Send a frame; a client that does not read is disconnected."""
        if not self._reads:
            return
        self._pending += bytes((kind,)) + len(data).to_bytes(4, "big") + data
        if len(self._pending) > MAX_PENDING_BYTES:
            self._shim.end_input()
            self._leave()
        else:
            self._flush()

    def finish(self) -> None:
        """Send the remaining data and close."""
        self.connection.settimeout(1.0)
        try:
            self.connection.sendall(self._pending)
        except OSError:
            pass
        self._leave()

    def happened(self, events: int) -> None:
        if events & select.POLLOUT:
            self._flush()
        if not events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return
        try:
            data = self.connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._shim.end_input()
            self._leave()
            return
        self._received += data
        while len(self._received) >= HEADER_BYTES:
            end = HEADER_BYTES + int.from_bytes(self._received[1:HEADER_BYTES], "big")
            if len(self._received) < end:
                break
            kind, body = self._received[0], self._received[HEADER_BYTES:end]
            self._received = self._received[end:]
            if kind == INPUT:
                self._shim.feed(body)
            elif kind == END_OF_INPUT:
                self._shim.end_input()
            elif kind == SIZE and len(body) == 4:
                self._shim.resize(int.from_bytes(body[:2], "big"), int.from_bytes(body[2:], "big"))

    def _flush(self) -> None:
        try:
            self._pending = self._pending[self.connection.send(self._pending) :]
        except BlockingIOError:
            pass
        except OSError:  # The client has disconnected, but its last input may not have been received yet.
            self._reads, self._pending = False, b""
        self.watch()

    def watch(self) -> None:
        """Wait for data of the client if the container accepts input, and to send what is pending."""
        reading = select.POLLIN if self._shim.accepts_input else 0
        self._shim.watch_client(self, reading | (select.POLLOUT if self._pending else 0))

    def _leave(self) -> None:
        if self.connection.fileno() >= 0:
            self._shim.forget_client(self)
            self.connection.close()
