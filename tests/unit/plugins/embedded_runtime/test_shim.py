"""Tests for the container shim: log, exit code, attachments and input."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime.helpers import shim

RUNNER = """
#!/bin/sh
exec 3<&0  # The input of a background command is otherwise empty.
sh -c "read line < hold; $1" <&3 3<&- &  # It must not exit first, or this shell could reap it.
echo $! > pid
"""


class Shim:
    """A shim in a child process, with a command of the host as its container."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.pid = directory, 0
        (directory / "runner").write_text(RUNNER.strip())
        (directory / "runner").chmod(0o755)
        os.mkfifo(directory / "hold")

    def start(self, script: str, options: str = "", *, runner: str = "runner", log: str = "log") -> str:
        """Start the shim and return its response."""
        reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(reader)
            try:
                path = str(self.directory / log) if log else ""
                words = [str(self.directory), path, options, str(self.directory / runner), script]
                shim.main(words, lambda text: os.close(writer) if os.write(writer, text.encode()) else None)
            except BaseException as error:
                os.write(writer, f"error: {error}".encode())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader) as file:
            response = file.read()
        if response.startswith("ok "):
            (self.directory / "hold").write_text("\n")
        return response

    def wait(self) -> tuple[int, list[str]]:
        """Wait until the shim has exited; return the exit code and the lines of the log without their times."""
        os.waitpid(self.pid, 0)
        self.pid = 0
        code = json.loads((self.directory / "exit.json").read_text())["exit_code"]
        log = self.directory / "log"
        return code, [line.partition(" ")[2] for line in log.read_text().splitlines()] if log.exists() else []

    def connect(self, command: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(20)
        connection.connect(str(self.directory / "control"))
        connection.sendall(f"{command}\n".encode())
        return connection

    def attach(self) -> socket.socket:
        connection = self.connect("attach")
        assert connection.recv(3) == b"ok\n"
        return connection


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shim]:
    monkeypatch.setattr(shim, "DRAIN_SECONDS", 5.0)
    started = Shim(tmp_path)
    yield started
    if started.pid:
        os.kill(started.pid, 9)
        os.waitpid(started.pid, 0)


def frame(kind: int, data: bytes = b"") -> bytes:
    return bytes((kind,)) + len(data).to_bytes(4, "big") + data


def frames(connection: socket.socket) -> list[tuple[int, bytes]]:
    """Return the frames until the shim closes the connection; the data of each stream is joined."""
    content, found = b"", dict[int, bytes]()
    while data := connection.recv(1 << 16):
        content += data
    while content:
        end = 5 + int.from_bytes(content[1:5], "big")
        found[content[0]] = found.get(content[0], b"") + content[5:end]
        content = content[end:]
    return sorted(found.items())


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_exit_code_is_stored(process: Shim, script: str, code: int) -> None:
    response = process.start(script)
    assert response == f"ok {(process.directory / 'pid').read_text().strip()} {process.pid}"
    assert process.wait() == (code, [])


def test_outputs_are_logged_by_stream(process: Shim) -> None:
    process.start("echo out; echo err >&2; printf rest")
    code, lines = process.wait()
    assert code == 0
    assert sorted(lines) == ["stderr F err", "stdout F out", "stdout F rest"]


def test_container_without_a_log_runs(process: Shim) -> None:
    process.start("echo out; exit 4", log="")
    assert process.wait() == (4, [])


@pytest.mark.parametrize(
    ("log", "text"),
    [
        ('{"msg": "first"}\n{"level": "error", "msg": "no such user"}\n', "no such user"),
        ("not JSON\n", "failing exited with code 5"),
        ("", "failing exited with code 5"),
        (None, "failing exited with code 5"),
    ],
)
def test_failed_runner_is_reported_with_the_last_line_of_its_log(process: Shim, log: str | None, text: str) -> None:
    (process.directory / "failing").write_text("#!/bin/sh\nexit 5\n")
    (process.directory / "failing").chmod(0o755)
    if log is not None:
        (process.directory / "runner.log").write_text(log)
    assert process.start("", runner="failing") == f"error: {text}"


def test_log_is_reopened(process: Shim) -> None:
    for name in ("first", "second"):  # The second read of one pipe could end with the first write.
        os.mkfifo(process.directory / name)
    process.start("read line < first; echo one; read line < second; echo two")
    with process.attach() as client:
        (process.directory / "first").write_text("\n")
        assert client.recv(100) == frame(1, b"one\n")
    (process.directory / "log").rename(process.directory / "log.1")
    with process.connect("reopen") as connection:
        assert connection.recv(100) == b"ok\n"
    (process.directory / "second").write_text("\n")
    code, lines = process.wait()
    assert (code, lines) == (0, ["stdout F two"])
    assert (process.directory / "log.1").read_text().endswith(" stdout F one\n")


def test_failed_reopen_is_reported(process: Shim) -> None:
    os.mkfifo(process.directory / "go")
    (process.directory / "logs").mkdir()
    process.start("read line < go", log="logs/log")
    (process.directory / "logs/log").unlink()
    (process.directory / "logs").rmdir()
    with process.connect("reopen") as connection:
        assert connection.recv(200).startswith(b"error: [Errno 2] No such file")
    with process.connect("other") as connection:
        assert connection.recv(200) == b"error: unknown command\n"
    (process.directory / "go").write_text("\n")
    assert process.wait()[0] == 0


def test_attached_clients_receive_the_outputs(process: Shim) -> None:
    os.mkfifo(process.directory / "go")
    process.start("read line < go; echo out; echo err >&2")
    clients = [process.attach() for _ in range(2)]
    (process.directory / "go").write_text("\n")
    assert [frames(client) for client in clients] == [[(1, b"out\n"), (2, b"err\n")]] * 2
    assert process.wait()[0] == 0
    for client in clients:
        client.close()


@pytest.mark.parametrize("disconnects", [False, True])
def test_input_ends_with_the_first_attachment_if_it_is_used_once(process: Shim, disconnects: bool) -> None:
    process.start("cat", "stdin,once")
    with process.attach() as client:
        client.sendall(frame(0, b"a") + frame(0, b"b\n"))
        client.sendall(frame(9, b"unknown") + frame(3)[:2])
        if not disconnects:
            client.sendall(frame(3)[2:])
            assert frames(client) == [(1, b"ab\n")]
    assert process.wait() == (0, ["stdout F ab"])


def test_last_input_of_a_client_that_disconnects_is_passed(process: Shim) -> None:
    for name in ("go", "written"):
        os.mkfifo(process.directory / name)
    process.start("read line < go; echo output; echo > written; cat", "stdin,once")
    with process.attach() as client:
        client.sendall(frame(0, b"first "))
        os.kill(process.pid, signal.SIGSTOP)  # When it continues, output and the end of the connection are waiting.
        (process.directory / "go").write_text("\n")
        (process.directory / "written").read_text()
        client.sendall(frame(0, b"second\n"))
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait() == (0, ["stdout F output", "stdout F first second"])


def test_input_ends_when_a_client_that_does_not_read_is_disconnected(process: Shim) -> None:
    process.start(f"head -c {2 * shim.MAX_PENDING_BYTES} /dev/zero | tr '\\0' '\\n'; cat", "stdin,once", log="")
    with process.attach():
        assert process.wait() == (0, [])


def test_input_stays_open_for_the_next_attachment(process: Shim) -> None:
    process.start("read a; read b; echo $a $b", "stdin")
    with process.attach() as client:
        client.sendall(frame(0, b"one\n") + frame(3))
    with process.attach() as client:
        client.sendall(frame(0, b"two\n"))
        assert frames(client) == [(1, b"one two\n")]
    assert process.wait() == (0, ["stdout F one two"])


def test_container_without_input_ignores_that_of_clients(process: Shim) -> None:
    os.mkfifo(process.directory / "go")
    process.start("read line < go; cat")
    with process.attach() as client:
        client.sendall(frame(0, b"x") + frame(3) + frame(4, struct.pack("!HH", 1, 1)))
        (process.directory / "go").write_text("\n")
        assert process.wait() == (0, [])


@pytest.mark.parametrize("disconnects", [False, True])
def test_all_input_is_passed_to_a_container_that_reads_it_late(process: Shim, disconnects: bool) -> None:
    os.mkfifo(process.directory / "go")
    process.start("read line < go; wc -c", "stdin,once")
    size, chunk = 3 * shim.MAX_PENDING_BYTES, 1 << 16
    reader = os.fork()
    if not reader:  # The shim reads no more input than it can keep until the container continues.
        with process.attach() as client:
            for _ in range(size // chunk):
                client.sendall(frame(0, bytes(chunk)))
            if not disconnects:
                client.sendall(frame(3))
                client.recv(1)
        os._exit(0)
    (process.directory / "go").write_text("\n")
    code, lines = process.wait()
    os.waitpid(reader, 0)
    assert (code, lines) == (0, [f"stdout F {size}"])


def test_input_that_the_container_does_not_read_is_dropped(process: Shim) -> None:
    os.mkfifo(process.directory / "go")
    process.start("exec < /dev/null; read line < go", "stdin,once")
    with process.attach() as client:
        client.sendall(frame(0, bytes(1 << 20)) + frame(3))
        (process.directory / "go").write_text("\n")
        assert process.wait() == (0, [])
