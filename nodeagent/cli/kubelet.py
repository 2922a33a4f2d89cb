"""``kubelet``: the daemon under the name, with the version and the exit codes that kubeadm and its unit expect."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeagent.base.release import NEWEST, ReleaseOrigin, SelectedRelease
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_startup_error
from nodeagent.cli.unit_words import split_words
from nodeagent.config.flags import parse
from nodeagent.config.release import assume_release, of_server, select_release
from nodeagent.errors import ConfigError, PluginError

DEFAULTS_FILES = (Path("/etc/default/kubelet"), Path("/etc/sysconfig/kubelet"))
"""Files in which administrators set ``KUBELET_EXTRA_ARGS``, by distribution."""

_KUBECONFIG = "/etc/kubernetes/kubelet.conf"
"""File that kubeadm passes to the daemon, but not when it queries the version."""
_KUBEADM_SECONDS = 10.0
_EXTRA_ARGS = re.compile(r"""^\s*KUBELET_EXTRA_ARGS=(["']?)(?P<value>.*)\1\s*$""")


def main() -> int:
    """Run the command line of the process and return its exit code."""
    return run(sys.argv[1:])


def run(arguments: Sequence[str], defaults: Iterable[Path] = DEFAULTS_FILES) -> int:
    """Run the daemon, or print the version, and return the exit code.

    A configuration that is invalid or does not exist yet results in exit code 1, after which the unit starts the
    process again: kubeadm writes the configuration of a node after the unit was started.
    """
    if any(argument in ("--version", "--version=true", "--version=raw") for argument in arguments):
        print(f"Kubernetes {node_release(arguments, defaults).node_version}")
        return ExitCode.OK
    from nodeagent.cli import run as daemon

    try:
        # While kubeadm creates a cluster, the kubelet starts before the API server, whose release is that of kubeadm.
        assume_release(Path(parse(arguments).settings.root_dir), _kubeadm_version())
        code = daemon.run(arguments)
    except (ConfigError, PluginError) as error:
        print_startup_error(error)
        return ExitCode.PROBLEMS
    return ExitCode.PROBLEMS if code == ExitCode.CONFIGURATION else code


def node_release(arguments: Sequence[str], defaults: Iterable[Path] = DEFAULTS_FILES) -> SelectedRelease:
    """Return the release that the node will probably report, for the version check of kubeadm.

    It is that of ``--compatibility-version`` in *arguments* or in one of the files *defaults*, then the release of the
    API server that was used last, then that of the installed kubeadm, then the latest supported one.
    """
    options = [argument for argument in arguments if not argument.startswith("--version")]
    selected = select_release(parse([f"--kubeconfig={_KUBECONFIG}", *_extra_arguments(defaults), *options]).settings)
    if selected.origin in (ReleaseOrigin.FLAG, ReleaseOrigin.REMEMBERED):
        return selected
    return of_server(_kubeadm_version()) or SelectedRelease(NEWEST)


def _extra_arguments(files: Iterable[Path]) -> list[str]:
    """Return the compatibility version of the first file that sets one, as a flag; reads the disk."""
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            continue
        for match in filter(None, map(_EXTRA_ARGS.match, lines)):
            words = split_words(match["value"])
            for name, value in zip(words, [*words[1:], ""], strict=True):
                if name.startswith("--compatibility-version="):
                    return [name]
                if name == "--compatibility-version":
                    return [f"{name}={value}"]
    return []


def _kubeadm_version() -> str:
    """Return the version of kubeadm on the search path, empty without one."""
    executable = shutil.which("kubeadm")
    if executable is None:
        return ""
    command = [executable, "version", "--output=short"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_KUBEADM_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
