"""Private containerd: separate root, state, socket and network, with two images in its store.

In tests: the fixture ``containerd``. By hand: ``python -m tests.integration.containerd --dir DIR`` prints the endpoint
and runs until SIGTERM. Several instances may run concurrently.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import grpc

from nodeagent.base.criproto import api_pb2 as cri
from tests.integration import images

CNI_PLUGINS = Path("/usr/lib/cni")
BUILD = Path(__file__).parents[2] / "build"
LATER = BUILD / "containerd-1.7/usr/bin"
"""Directory to which tools/test-parts extracts containerd of the next Debian release."""
CONTAINERD_2 = BUILD / "containerd-2/usr/bin"
"""The same for containerd 2 of the Debian release in development, with a runc that it can use for user namespaces; it
does not exist if that containerd does not run on this host."""
MAX_NETWORKS = 200
NETWORK_LOCKS = Path("/tmp/containerd-networks")
"""Not below ``TMPDIR``: runs with different temporary directories share the names of network interfaces."""
START_SECONDS = 30.0
STOP_SECONDS = 20.0

CONFIG = """\
version = 2
root = "{dir}/root"
state = "{dir}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{dir}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  enable_cdi = true
  cdi_spec_dirs = ["{dir}/cdi"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_bin}"
    conf_dir = "{dir}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{dir}/certs.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
        BinaryName = "crun"
        SystemdCgroup = false
"""


class Containerd:
    """Private containerd; ``close`` removes its pods and all its traces on the host.

    :param directory: has all files; a short path, because of the sockets in it. Default: a new one in the system's
        directory for temporary files, removed by ``close``.
    :param executables: directory of containerd's executables; by default the installed ones.
    """

    def __init__(self, directory: Path | None = None, executables: Path | None = None) -> None:
        path = os.environ["PATH"]
        self._environment = {**os.environ, "PATH": path if executables is None else f"{executables}:{path}"}
        self._own_directory = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="containerd-")) if directory is None else directory.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o711)  # The root user of a user namespace has to reach the containers' root directories.
        self.socket = self.directory / "containerd.sock"
        self.endpoint = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        self._network = Network()
        for name in ("cni", "certs.d", "opt", "cdi"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        (self.directory / "cni" / "10-test.conflist").write_text(self._network.configuration(self.addresses))
        settings = {"dir": self.directory, "pause": images.PAUSE_IMAGE, "cni_bin": CNI_PLUGINS}
        (self.directory / "config.toml").write_text(CONFIG.format(snapshotter=self._snapshotter(), **settings))

    def __enter__(self) -> Containerd:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        assert self._process is not None, "containerd does not run"
        return self._process.pid

    @property
    def log(self) -> Path:
        """Log of the daemon."""
        return self.directory / "containerd.log"

    @property
    def subnet(self) -> str:
        """Network of its pods."""
        return self._network.subnet

    @property
    def addresses(self) -> Path:
        """Directory of the assigned addresses, with a directory per network."""
        return self.directory / "ipam"

    def start(self) -> None:
        """Start the daemon, wait until it can run pods, and import both images."""
        assert self._process is None, "containerd runs already"
        with self.log.open("ab") as log:
            path = shutil.which("containerd", path=self._environment["PATH"]) or "containerd"
            command = [path, "--config", str(self.directory / "config.toml")]
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=self._environment
            )
        self._wait_until_ready()
        if not self.ctr("images", "ls", "-q", f"name=={images.PAUSE_IMAGE}").strip():
            archive = self.directory / "images.tar"
            images.write_archive(archive)
            self.import_images(archive)

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> None:
        """Stop the daemon; containers keep running."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(with_signal)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Restart the daemon; containers keep running."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Stop the process of the daemon with a signal: it accepts connections but does not respond."""
        os.kill(self.pid, signal.SIGSTOP)
        until = time.monotonic() + START_SECONDS
        while not all(_is_stopped(thread) for thread in Path(f"/proc/{self.pid}/task").iterdir()):
            assert time.monotonic() < until, "the daemon is not stopped"  # Each thread stops when it is scheduled.
            time.sleep(0.01)

    def thaw(self) -> None:
        """Resume a frozen daemon."""
        os.kill(self.pid, signal.SIGCONT)

    def ctr(self, *arguments: str) -> str:
        """Run ``ctr`` in the namespace of pods and return its output."""
        path = shutil.which("ctr", path=self._environment["PATH"]) or "ctr"
        command = [path, "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def import_images(self, archive: Path) -> None:
        """Load every image of an OCI *archive*."""
        self.ctr("images", "import", "--snapshotter", self._snapshotter(), str(archive))

    def remove_pods(self) -> None:
        """Stop and remove every sandbox with its containers."""
        for last in (False, False, True):
            try:
                self._remove_pods()
                return
            except grpc.RpcError as error:
                interrupted = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNKNOWN, grpc.StatusCode.NOT_FOUND)
                if last or error.code() not in interrupted:
                    raise
                # Needed to remove a task whose start was interrupted, or a pod that is being removed for an agent that
                # was stopped since.
                self.restart()

    def close(self) -> None:
        """Remove all pods, stop the daemon and clean up; safe to call again."""
        try:
            if self._process is None and self.directory.exists() and self._shims():
                self.start()
            if self._process is not None:
                self.thaw()
                self.remove_pods()
        except (grpc.RpcError, RuntimeError, OSError) as error:
            print(f"containerd: pods could not be removed in order: {error}", file=sys.stderr)
        finally:
            self.stop()
            self._kill_shims()
            self._unmount()
            self._network.close()
            if self._own_directory:
                shutil.rmtree(self.directory, ignore_errors=True)

    # --- internals -----------------------------------------------------------------------------------------------

    def _remove_pods(self) -> None:
        with self._channel() as channel:
            listed = _call(channel, "ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(functools.partial(_remove_sandbox, channel), [sandbox.id for sandbox in listed.items]))

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with self._channel() as channel:
            while True:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"containerd does not start:\n{self.log.read_text()[-3000:]}")
                with contextlib.suppress(grpc.RpcError):
                    response = _call(channel, "Status", cri.StatusRequest(), cri.StatusResponse)
                    if all(condition.status for condition in response.status.conditions):
                        return
                time.sleep(0.05)

    def _channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.endpoint, options=[("grpc.initial_reconnect_backoff_ms", 100)])

    def _snapshotter(self) -> str:
        """Return ``overlayfs`` if it works, else ``native``."""
        known = getattr(self, "_known_snapshotter", None)
        if known is None:
            known = self._known_snapshotter = "overlayfs" if _overlay_works(self.directory) else "native"
        return known

    def _shims(self) -> list[int]:
        """Return the process IDs of the shims of this daemon's containers."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if b"containerd-shim" in words[0] and str(self.socket).encode() in words:
                        found.append(int(entry.name))
        return found

    def _kill_shims(self) -> None:
        """Kill remaining processes: the children of shims first, because they would outlive them."""
        for shim in self._shims():
            for child in _children(shim):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(shim, signal.SIGTERM)

    def _unmount(self) -> None:
        points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for point in reversed([p for p in points if p.startswith(f"{self.directory}/")]):
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


class Network:
    """Bridge name and subnet that are unique on this host, reserved by a lock."""

    def __init__(self) -> None:
        self._lock: IO[str] | None = None
        NETWORK_LOCKS.mkdir(exist_ok=True)
        for number in range(1, MAX_NETWORKS):
            lock = (NETWORK_LOCKS / str(number)).open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self._lock, self.bridge, self.subnet = lock, f"nacri{number}", f"10.99.{number}.0/24"
            self._remove_bridge()  # Left by an instance that was killed.
            return
        raise RuntimeError("no free test network")

    def configuration(self, addresses: Path) -> str:
        """Return the CNI configuration list; *addresses* is the directory of assigned ones."""
        bridge: dict[str, Any] = {
            "type": "bridge",
            "bridge": self.bridge,
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": str(addresses),
                "ranges": [[{"subnet": self.subnet}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
        return json.dumps({"cniVersion": "0.4.0", "name": self.bridge, "plugins": [bridge, portmap]})

    def close(self) -> None:
        """Remove the bridge and release the number."""
        if self._lock is not None:
            self._remove_bridge()
            self._lock.close()
            self._lock = None

    def _remove_bridge(self) -> None:
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)


def _call(channel: grpc.Channel, method: str, request: Any, response: Any) -> Any:
    path = f"/runtime.v1.RuntimeService/{method}"
    call = channel.unary_unary(path, request.__class__.SerializeToString, response.FromString)
    return call(request, timeout=START_SECONDS, wait_for_ready=False)


def _remove_sandbox(channel: grpc.Channel, sandbox_id: str) -> None:
    stop = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
    _call(channel, "StopPodSandbox", stop, cri.StopPodSandboxResponse)
    remove = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
    _call(channel, "RemovePodSandbox", remove, cri.RemovePodSandboxResponse)


def _is_stopped(thread: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # The thread has ended.
        return (thread / "stat").read_text().rpartition(") ")[2].startswith("T")
    return True


def _children(pid: int) -> list[int]:
    """Return the process IDs of all descendants of *pid*."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_children(int(child))]
    return found


def _overlay_works(directory: Path) -> bool:
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        lower, upper, work, merged = (Path(scratch) / name for name in ("lower", "upper", "work", "merged"))
        for path in (lower, upper, work, merged):
            path.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            return False
        subprocess.run(["umount", str(merged)], check=True)
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a private containerd until SIGTERM.")
    parser.add_argument("--dir", type=Path, help="where it lives (default: a temporary folder)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), Containerd(parser.parse_args().dir) as containerd:
        print(containerd.endpoint, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
