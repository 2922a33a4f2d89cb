"""A virtual machine with systemd and cgroup v2 that the product is installed on, reached over ssh on loopback."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.integration.programs import free_port, wait_until

NODE = "vm-node"
ADMIN = "/etc/nodeagent/admin.kubeconfig"
BOOT_SECONDS = 900.0
CALL_SECONDS = 120.0
"""Factor for time limits: the virtual machine is emulated, and its host may be busy."""
HANDSHAKES = 6
MEMORY_MIB = 2048
CPUS = 2
_COMMAND_LINE = "root=/dev/vda rw console=ttyS0 net.ifnames=0 systemd.unified_cgroup_hierarchy=1"


class VirtualNode:
    """Virtual machine with a copy of the built disk.

    :param build: directory with the disk, the kernel and its initial file system.
    :param results: directory for the console output and the files of ``collect``.
    :param numa: divide CPUs and memory evenly between two NUMA nodes.
    """

    def __init__(self, build: Path, results: Path, *, numa: bool = False) -> None:
        self._build, self._results, self._numa = build, results, numa
        self._directory = Path(tempfile.mkdtemp(prefix="vm-"))  # Short, because it contains a socket.
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Boot, and wait until the virtual machine accepts commands."""
        results, directory = self._results, self._directory
        disk = results / "disk.ext4"
        subprocess.run(["cp", "--sparse=always", self._build / "disk.ext4", disk], check=True)
        self._let_in(disk)
        devices = [
            *("-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"),
            *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22"),
            *("-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci"),
            *("-nodefaults", "-display", "none", "-serial", f"file:{results / 'console.log'}"),
        ]
        kernel = ["-kernel", str(self._build / "vmlinuz"), "-initrd", str(self._build / "initrd.img")]
        kernel += ["-append", _COMMAND_LINE]
        machine = ["-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(MEMORY_MIB)]
        machine += _numa_nodes() if self._numa else ["-smp", str(CPUS)]
        with (results / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["nice", "qemu-system-x86_64", *machine, *kernel, *devices],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": str(directory)},
            )
        self.wait_for_boot()

    def wait_for_boot(self, after: str = "") -> str:
        """Wait until a boot other than *after* accepts commands, and return its ID."""
        return str(wait_until(lambda: self._other_boot(after), "machine takes commands", BOOT_SECONDS, 0.5))

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id").strip()

    def run(self, command: str, *, check: bool = True, seconds: float = CALL_SECONDS, text: str = "") -> str:
        """Run a shell command as root with standard input *text*, and return its output."""
        done = self._ssh(command, seconds, text)
        if check and done.returncode:
            raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def write(self, path: str, content: str) -> None:
        """Write a file atomically."""
        aside = shlex.quote(f"{path}.new~")
        self.run(f"cat > {aside} && mv {aside} {shlex.quote(path)}", text=content)

    def kubectl(self, *arguments: str, check: bool = True, text: str = "") -> str:
        """Run kubectl on the virtual machine, as its administrator."""
        return self.run(_kubectl(*arguments), check=check, text=text)

    def raw(self, path: str) -> str:
        """Get *path* from the API server; repeated if a busy host delays the handshake for more than ten seconds."""
        command = _kubectl("get", "--raw", path)
        for _ in range(HANDSHAKES - 1):
            done = self._ssh(command, CALL_SECONDS)
            if done.returncode == 0:
                return done.stdout
            if "TLS handshake timeout" not in done.stderr:
                break
        return self.run(command)

    def node(self) -> Any:
        return json.loads(self.raw(f"/api/v1/nodes/{NODE}"))

    def condition(self, kind: str) -> str:
        """Return the status of a condition of the node."""
        return next((str(each["status"]) for each in self.node()["status"]["conditions"] if each["type"] == kind), "")

    def pods(self) -> dict[str, Any]:
        """Return every pod of the namespace ``default`` by name."""
        found = json.loads(self.raw("/api/v1/namespaces/default/pods"))["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def create(self, *pods: Any) -> None:
        documents = {"apiVersion": "v1", "kind": "List", "items": list(pods)}
        self.kubectl("create", "--validate=false", "--filename=-", text=json.dumps(documents))

    def delete(self, *names: str) -> None:
        self.kubectl("delete", "pods", "--wait=false", *names)

    def wait_for_running(self, *names: str, seconds: float = 240.0) -> dict[str, Any]:
        """Wait until the pods are Ready and return all pods."""

        def all_ready() -> dict[str, Any]:
            pods = self.pods()
            return pods if all(name in pods and is_ready(pods[name]) for name in names) else {}

        found: dict[str, Any] = wait_until(all_ready, f"{', '.join(names)} run", seconds, 1.0)
        return found

    def wait_for_end(self, *names: str, seconds: float = 240.0) -> None:
        """Wait until the pods are deleted."""
        wait_until(lambda: not set(names) & set(self.pods()), f"{', '.join(names)} are gone", seconds, 1.0)

    def collect(self) -> None:
        """Copy the journal of all boots to the results."""
        journal = self.run("journalctl --no-pager --output=short-precise", check=False)
        (self._results / "journal.txt").write_text(journal)

    def close(self) -> None:
        """Power off the virtual machine and remove its disk; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            try:
                self.collect()
            except (OSError, subprocess.SubprocessError) as error:
                print(f"journal of the virtual node cannot be had: {error}")
            self._call_ssh(["-O", "exit"], CALL_SECONDS)
            process.terminate()
            process.wait(30)
        (self._results / "disk.ext4").unlink(missing_ok=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    # --- internals -----------------------------------------------------------------------------------------------

    def _let_in(self, disk: Path) -> None:
        """Generate a key for this session and authorize it in the virtual machine's ssh server."""
        key = self._directory / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        allowed = self._directory / "authorized_keys"
        allowed.write_bytes(key.with_suffix(".pub").read_bytes())
        allowed.chmod(0o600)
        orders = f"mkdir /root/.ssh\nwrite {allowed} /root/.ssh/authorized_keys\n"
        tool = shutil.which("debugfs", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        assert tool, "debugfs is needed, of e2fsprogs"
        subprocess.run([tool, "-w", "-f", "-", disk], input=orders.encode(), check=True, capture_output=True)

    def _other_boot(self, before: str) -> str:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"qemu ended: {(self._results / 'qemu.log').read_text()}")
        done = self._ssh("cat /proc/sys/kernel/random/boot_id", 30)
        return "" if done.returncode or done.stdout.strip() == before else done.stdout.strip()

    def _ssh(self, command: str, seconds: float, text: str = "") -> subprocess.CompletedProcess[str]:
        return self._call_ssh([command], seconds, text)

    def _call_ssh(self, words: list[str], seconds: float, text: str = "") -> subprocess.CompletedProcess[str]:
        options = {
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": "10",
            "ServerAliveInterval": "10",
            "ControlMaster": "auto",
            "ControlPath": f"{self._directory}/control",
            "ControlPersist": "60",
        }
        command = ["ssh", "-F", "/dev/null", "-i", f"{self._directory}/key", "-p", str(self._port)]
        command += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        try:
            command += ["root@127.0.0.1", *words]
            return subprocess.run(command, check=False, input=text, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(late.cmd, 255, "", f"no answer within {seconds:g} s")


def _kubectl(*arguments: str) -> str:
    return shlex.join(["kubectl", "--kubeconfig", ADMIN, *arguments])


def _numa_nodes() -> list[str]:
    """Return the options for a NUMA node per CPU."""
    options = ["-smp", f"{CPUS},sockets={CPUS}"]
    for number in range(CPUS):
        options += ["-object", f"memory-backend-ram,id=ram{number},size={MEMORY_MIB // CPUS}M"]
        options += ["-numa", f"node,nodeid={number},cpus={number},memdev=ram{number}"]
    return options


class Measures:
    """Measurements of a test session, in a file next to its other results."""

    def __init__(self, file: Path) -> None:
        self._file, self._figures = file, dict[str, float]()

    def note(self, name: str, value: float) -> None:
        self._figures[name] = round(value, 2)
        self._file.write_text(json.dumps(self._figures, indent=1) + "\n")
        print(f"{name}: {value:.2f}")


class Stopwatch:
    """Seconds since its creation."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._since


def is_ready(pod: Any) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def main_container(pod: Any) -> tuple[str, int]:
    """Return the ID of a pod's first container, without the runtime's name, and its restart count."""
    status = pod["status"]["containerStatuses"][0]
    return str(status["containerID"]).removeprefix("containerd://"), int(status["restartCount"])


def pod_slice(pod: Any) -> str:
    """Return the expected path of a pod's cgroup."""
    uid = pod["metadata"]["uid"].replace("-", "_")
    kind = str(pod["status"]["qosClass"]).lower()
    top = "/sys/fs/cgroup/kubepods.slice"
    if kind == "guaranteed":
        return f"{top}/kubepods-pod{uid}.slice"
    return f"{top}/kubepods-{kind}.slice/kubepods-{kind}-pod{uid}.slice"
