"""Debian in namespaces: a host without a boot, on which packages are installed and their commands run.

Units do not run here, so the tests start the commands of the units. The kernel and its cgroups are those of this host.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from tests.integration.programs import wait_until

NODE = "package-host"
ADDRESS = "10.0.2.15"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS = 600.0
_SETUP = """
root=$1 packages=$2
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/host"
mount -t overlay overlay -o "lowerdir=$3,upperdir=$root/upper,workdir=$root/work" "$root/host"
host=$root/host
mount -t proc proc "$host/proc"
mount --rbind /sys "$host/sys"
mount --bind /dev "$host/dev"
mkdir -p "$host/var/lib/nodeagent-runtime" "$host/opt/packages"
for directory in run tmp var/lib/nodeagent-runtime; do mount -t tmpfs tmpfs "$host/$directory"; done
mount --bind -o ro "$packages" "$host/opt/packages"
hostname "$4"
echo "127.0.0.1 localhost $4" > "$host/etc/hosts"
ip link set lo up
ip address add "$5/24" dev lo
ip route add default via 10.0.2.2 dev lo
exec chroot "$host" sleep infinity
"""


class PackageHost:
    """Host with a changed copy of a base, in memory.

    :param base: directory with Debian and the packages that the product requires.
    :param packages: directory that the host has as ``/opt/packages``.
    :param directory: empty directory, for the file system.
    """

    def __init__(self, base: Path, packages: Path, directory: Path) -> None:
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts"]
        values = [str(directory), str(packages), str(base), NODE, ADDRESS]
        self._process = subprocess.Popen([*unshare, "bash", "-euc", _SETUP, "setup", *values])
        self._pid = str(wait_until(self._init, "host is set up", 60))
        self._commands: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, command: str, *, check: bool = True, text: str = "") -> str:
        """Run a shell command with standard input *text*, and return its output."""
        words = [*self._enter(), "bash", "-c", command]
        done = subprocess.run(words, check=False, input=text, capture_output=True, text=True, timeout=_SECONDS)
        assert not (check and done.returncode), f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, name: str, command: str) -> None:
        """Start a command that logs to ``/var/log/NAME.log``."""
        script = f"echo $$ > /run/{name}.pid && exec {command} >> /var/log/{name}.log 2>&1"
        self._commands[name] = subprocess.Popen([*self._enter(), "bash", "-c", script], stdin=subprocess.DEVNULL)

    def stop(self, name: str) -> None:
        """Terminate a command, and wait until it has exited."""
        self.run(f"kill $(cat /run/{name}.pid)")  # A signal to nsenter would not reach the command.
        self._commands.pop(name).wait(60)

    def log(self, name: str) -> str:
        return self.run(f"cat /var/log/{name}.log")

    def close(self) -> None:
        """Kill all processes; the file systems disappear with their namespace."""
        self._process.kill()
        self._process.wait(30)
        for process in self._commands.values():
            process.kill()
            process.wait(30)

    def _init(self) -> str:
        assert self._process.poll() is None, "the namespaces cannot be created"
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text() == "sleep\n":
            return children[0]
        return ""

    def _enter(self) -> list[str]:
        tool = shutil.which("nsenter")
        assert tool, "nsenter is required, of util-linux"
        namespaces = ("--mount", "--pid", "--net", "--ipc", "--uts", "--root", "--wd=/")
        variables = (f"PATH={_PATH}", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "HOME=/root")
        return [tool, f"--target={self._pid}", *namespaces, "env", "--ignore-environment", *variables]


def settle(seconds: float = 5.0) -> None:
    """Wait for changes that must not happen."""
    time.sleep(seconds)
