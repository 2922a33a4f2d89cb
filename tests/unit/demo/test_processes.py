"""Tests for the processes of the demo, with short Python processes instead of servers."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from nodeagent.demo import processes
from nodeagent.demo.processes import (
    MAX_SOCKET_PATH,
    DemoError,
    DemoProcess,
    Ports,
    acquire_lock,
    release_root,
    start_agent,
    start_api_server,
    start_runtime,
)


class Started:
    """A process that is recorded instead of started.

    :ivar codes: results of ``poll``; the last one is repeated.
    """

    def __init__(self, *codes):
        self.codes, self.signals, self.returncode, self.hangs = list(codes), [], 7, False

    def poll(self):
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]

    def send_signal(self, number):
        self.signals.append(number)

    def wait(self, timeout=None):
        if self.hangs and timeout is not None:
            raise subprocess.TimeoutExpired("x", timeout)

    def kill(self):
        self.signals.append(signal.SIGKILL)


def process_of(tmp_path, *codes):
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(20)))
    return DemoProcess("agent", Started(*codes), log)


def test_exited_process_is_an_error_with_the_end_of_its_log(tmp_path):
    process_of(tmp_path, None).check()
    with pytest.raises(DemoError, match="agent exited with code 7") as raised:
        process_of(tmp_path, 7).check()
    assert "line 12" in str(raised.value) and "line 11" not in str(raised.value)


@pytest.mark.parametrize(
    ("code", "hangs", "signals"),
    [(None, False, [signal.SIGTERM]), (None, True, [signal.SIGTERM, signal.SIGKILL]), (0, False, [])],
)
def test_running_process_is_terminated(tmp_path, code, hangs, signals):
    process = process_of(tmp_path, code)
    process.process.hangs = hangs
    process.stop()
    assert process.process.signals == signals


def test_output_is_appended_to_the_log(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    process = DemoProcess.start("platform", ["platform"], log)
    assert process.process.wait(60) == 0
    assert log.read_text().startswith("before\n") and len(log.read_text().splitlines()) == 2


@pytest.mark.parametrize("has_pods", [False, True])
def test_root_is_unmounted_unless_pods_are_left(tmp_path, monkeypatch, has_pods):
    unmounted = []
    monkeypatch.setattr(processes, "unmount", unmounted.append)
    release_root(tmp_path)
    (tmp_path / "pods").mkdir()
    if has_pods:
        (tmp_path / "pods/uid").touch()
    release_root(tmp_path)
    assert unmounted == ([] if has_pods else [tmp_path])


class Launcher:
    """Replaces the start of processes; ``ready`` is called when one starts."""

    def __init__(self, tmp_path, monkeypatch):
        self.tmp_path, self.arguments, self.process, self.stopped = tmp_path, [], Started(None), 0
        self.ready = lambda: None
        monkeypatch.setattr(DemoProcess, "start", self._start)
        monkeypatch.setattr(DemoProcess, "stop", self._stop)
        monkeypatch.setattr(processes.time, "sleep", lambda _: None)

    def _start(self, name, arguments, log):
        self.arguments = list(arguments)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("output")
        self.ready()
        return DemoProcess(name, self.process, log)

    def _stop(self):
        self.stopped += 1


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    return Launcher(tmp_path, monkeypatch)


def test_api_server_is_ready_with_its_file(launcher, tmp_path):
    directory = tmp_path / "apiserver"
    directory.mkdir()
    (directory / "ready.json").write_text('{"url": "of an earlier run"}')
    launcher.ready = lambda: (directory / "ready.json").write_text('{"url": "u"}')

    process, server = start_api_server(directory, 6443, "n")

    assert (process.name, server) == ("API server", {"url": "u"})
    assert "--secure-port=6443" in launcher.arguments and launcher.stopped == 0


def test_api_server_with_an_invalid_file_is_stopped(launcher, tmp_path):
    launcher.ready = lambda: (tmp_path / "ready.json").write_text("{")
    with pytest.raises(json.JSONDecodeError):
        start_api_server(tmp_path, 6443, "n")
    assert launcher.stopped == 1


def test_process_that_is_not_ready_in_time_is_stopped(launcher, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "START_SECONDS", 0)
    with pytest.raises(DemoError, match="timed out after 0 s waiting for agent; see its log"):
        start_agent(tmp_path, [], 1)
    assert launcher.stopped == 1


def test_process_that_exits_before_it_is_ready_is_an_error(launcher, tmp_path):
    launcher.process.codes = [None, 3]
    with pytest.raises(DemoError, match="embedded runtime exited with code 7"):
        start_runtime(tmp_path, tmp_path / "cri.sock")
    assert launcher.stopped == 1


def test_runtime_and_agent_are_ready_once_they_listen(launcher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        unix, tcp = (stack.enter_context(socket.socket(family)) for family in (socket.AF_UNIX, socket.AF_INET))
        unix.bind("cri.sock")
        tcp.bind(("127.0.0.1", 0))
        path, port = Path("cri.sock"), tcp.getsockname()[1]
        assert not processes._accepts_connections(path) and not processes._listens(port)
        unix.listen()
        tcp.listen()

        assert start_runtime(tmp_path / "runtime", path).name == "embedded runtime"
        assert start_agent(tmp_path, ["--config", "c"], port).name == "agent"
    assert launcher.arguments == ["nodeagent", "run", "--config", "c"] and launcher.stopped == 0


def test_path_of_the_socket_has_a_limit(launcher, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_accepts_connections", lambda _path: True)
    longest = tmp_path / ("x" * (MAX_SOCKET_PATH - len(str(tmp_path)) - 1))
    start_runtime(tmp_path, longest)
    with pytest.raises(DemoError, match="specify a shorter directory with --dir"):
        start_runtime(tmp_path, longest.with_name(f"{longest.name}x"))


def test_ports_of_the_previous_run_are_used_unless_they_are_in_use(tmp_path):
    file = tmp_path / "ports.json"
    with socket.socket() as used, socket.socket() as free:
        used.bind(("127.0.0.1", 0))
        used.listen()
        free.bind(("127.0.0.1", 0))
        taken, port = used.getsockname()[1], free.getsockname()[1]
        free.close()
        file.write_text(json.dumps({"api_server": taken, "agent": port}))
        ports = Ports.find(file)

    assert ports.agent == port and ports.api_server != taken
    assert json.loads(file.read_text())["api_server"] == ports.api_server


@pytest.mark.parametrize("text", ["{", "[]", '{"x": 1}'])
def test_invalid_file_with_ports_is_replaced(tmp_path, monkeypatch, text):
    monkeypatch.setattr(processes, "_is_free", lambda _port: True)
    file = tmp_path / "ports.json"
    file.write_text(text)
    assert Ports.find(file) == Ports() and "6443" in file.read_text()


def test_directory_is_used_by_one_demo_at_a_time(tmp_path):
    with acquire_lock(tmp_path / "lock"), pytest.raises(DemoError, match="in use by another demo"):
        acquire_lock(tmp_path / "lock")
    acquire_lock(tmp_path / "lock").close()
