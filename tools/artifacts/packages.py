"""Content of the Debian packages."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from nodeagent.base.release import NEWEST
from tools.artifacts import completions, environment, manpages, project
from tools.artifacts.deb import Package
from tools.artifacts.parsers import Command
from tools.artifacts.wheels import Wheel

MAINTAINER = "nodeagent developers <nodeagent@localhost>"
HOME = "usr/lib/nodeagent"
MODULES = {
    "nodeagent": "nodeagent",
    "nodeagent-apiserver": "apiserver_stub",
    "nodeagent-runtime": "nodeagent_plugins.embedded_runtime",
    "kubelet": "nodeagent.cli.kubelet",
}
"""Module that each executable runs."""
_UNITS = "usr/lib/systemd/system"
_SCRIPTS = Path(__file__).parent / "scripts"
_SYSTEMD = project.ROOT / "systemd"
_PYTHONS = " | ".join(f"python{python}" for python in project.PYTHONS)
_COMMON = {"Section": "admin", "Priority": "optional", "Homepage": "https://kubernetes.io/docs/concepts/architecture/"}


def launcher(module: str) -> bytes:
    """Return the script that starts *module* in the private environment."""
    return f'#!/bin/sh\nexec /{HOME}/bin/python -P -m {module} "$@"\n'.encode()


def packages(
    own: Wheel, wheels: Mapping[str, Sequence[Wheel]], commands: Mapping[str, Command], version: str, time: int
) -> list[Package]:
    """Return all packages."""
    bundled = list(environment.distributions(own, wheels))
    result = [_agent(own, wheels), _api_server(version), _runtime(version), _kubelet(version)]
    for package in result:
        _add_documents(package, version, time, bundled if package.name == "nodeagent" else [own])
        name = "kubelet" if package.name == "nodeagent-kubelet" else package.name
        _add_command(package, name, commands[name], version, time)
        for file in sorted(_SCRIPTS.glob(f"{package.name}.p*")):
            package.scripts[file.suffix[1:]] = file.read_text()
    return result


def _agent(own: Wheel, wheels: Mapping[str, Sequence[Wheel]]) -> Package:
    fields = {
        "Depends": f"{_PYTHONS}, libc6 (>= 2.34), libstdc++6, init-system-helpers (>= 1.52)",
        "Recommends": "containerd | cri-o | nodeagent-runtime, iptables, iproute2",
        "Suggests": "nodeagent-apiserver, kubernetes-client",
        "Description": "node agent for Kubernetes\n nodeagent runs the pods of a Linux node on a container runtime with"
        " CRI, from\n manifest files, a URL or an API server, like the kubelet. All features are\n plugins.",
    }
    package = Package("nodeagent", _COMMON | fields)
    tree = package.tree
    environment.add_environment(tree, HOME, own, wheels)
    _add_unit(package, "nodeagent.service")
    _add_conffile(package, "nodeagent.env", "etc/nodeagent/nodeagent.env", 0o600)
    _add_conffile(package, "sysctl.conf", "etc/sysctl.d/90-nodeagent.conf", 0o644)
    _add_conffile(package, "addresses.conf", "etc/systemd/system/nodeagent.service.d/10-addresses.conf", 0o600)
    tree.copy(_SYSTEMD / "config.yaml", "usr/share/nodeagent/config.yaml")
    tree.directory("etc/nodeagent", 0o755)
    tree.directory("etc/nodeagent/manifests", 0o755)
    for page in sorted((project.ROOT / "docs").glob("*.md")):
        tree.copy(page, f"usr/share/nodeagent/docs/{page.name}", 0o644)
    return package


def _api_server(version: str) -> Package:
    fields = {
        "Depends": f"nodeagent (= {version})",
        "Description": "lightweight Kubernetes API server\n An API server for one or a few nodes, with durable storage."
        " Its unit is started\n with the unit of nodeagent, which uses it unless another one is configured.",
    }
    package = Package("nodeagent-apiserver", _COMMON | fields)
    _add_unit(package, "nodeagent-apiserver.service")
    _add_conffile(package, "apiserver.env", "etc/nodeagent/apiserver.env", 0o600)
    return package


def _runtime(version: str) -> Package:
    fields = {
        "Depends": f"nodeagent (= {version}), iptables, iproute2",
        "Recommends": "crun | runc",
        "Description": "embedded container runtime of nodeagent\n A container runtime with CRI for nodes without"
        " containerd or CRI-O.",
    }
    package = Package("nodeagent-runtime", _COMMON | fields)
    _add_unit(package, "nodeagent-runtime.service")
    _add_conffile(package, "runtime.env", "etc/nodeagent/runtime.env", 0o600)
    return package


def _kubelet(version: str) -> Package:
    fields = {
        "Depends": f"nodeagent (= {version}), init-system-helpers (>= 1.52)",
        "Provides": f"kubelet (= {NEWEST}.0)",
        "Conflicts": "kubelet",
        "Replaces": "kubelet",
        "Description": "node agent for Kubernetes, in place of the kubelet\n The command and the unit kubelet, as"
        " kubeadm expects them,\n provided by nodeagent.",
    }
    package = Package("nodeagent-kubelet", _COMMON | fields)
    _add_unit(package, "kubelet/kubelet.service")
    _add_unit(package, "kubelet/kubelet.service.d/10-kubeadm.conf")
    return package


def _add_unit(package: Package, name: str) -> None:
    text = (_SYSTEMD / name).read_text().replace("/usr/local/", "/usr/")
    package.tree.add(f"{_UNITS}/{name.removeprefix('kubelet/')}", text.encode(), 0o600)


def _add_conffile(package: Package, source: str, path: str, mode: int) -> None:
    package.tree.copy(_SYSTEMD / source, path, mode)
    package.conffiles.append(path)


def _add_command(package: Package, name: str, command: Command, version: str, time: int) -> None:
    tree = package.tree
    tree.add(f"usr/bin/{name}", launcher(MODULES[name]), 0o755)
    tree.add(f"usr/share/man/man8/{name}.8.gz", _gzip(manpages.man_page(command, version, time)))
    tree.add(f"usr/share/bash-completion/completions/{name}", completions.bash(command).encode())
    tree.add(f"usr/share/zsh/vendor-completions/_{name}", completions.zsh(command).encode())
    tree.add(f"usr/share/fish/vendor_completions.d/{name}.fish", completions.fish(command).encode())


def _add_documents(package: Package, version: str, time: int, bundled: Sequence[Wheel]) -> None:
    date = format_datetime(datetime.fromtimestamp(time, UTC))
    entry = f"nodeagent ({version}) unstable; urgency=medium\n\n  * See /usr/share/doc/nodeagent/CHANGELOG.md.gz.\n"
    directory = f"usr/share/doc/{package.name}"
    package.tree.add(f"{directory}/changelog.gz", _gzip(f"{entry}\n -- {MAINTAINER}  {date}\n"))
    if package.name == "nodeagent":
        package.tree.add(f"{directory}/CHANGELOG.md.gz", _gzip((project.ROOT / "CHANGELOG.md").read_text()))
    package.tree.add(f"{directory}/copyright", _copyright(bundled, datetime.fromtimestamp(time, UTC).year).encode())
    overrides = _SCRIPTS / f"{package.name}.lintian-overrides"
    if overrides.exists():
        package.tree.copy(overrides, f"usr/share/lintian/overrides/{package.name}", 0o644)


def _copyright(bundled: Sequence[Wheel], year: int) -> str:
    lines = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
        "Upstream-Name: nodeagent",
        "",
        "Files: *",
        f"Copyright: {year} the nodeagent authors",
        "License: Apache-2.0",
        " On Debian systems, the license is in /usr/share/common-licenses/Apache-2.0.",
        "",
    ]
    others = {(wheel.name, wheel.version, wheel.license) for wheel in bundled if wheel.name != "nodeagent"}
    if others:
        lines.append("Comment: Bundled distributions, each with its license in its .dist-info directory:")
        lines += [f" {name} {version}: {license}" for name, version, license in sorted(others, key=_folded)]
    return "\n".join(lines) + "\n"


def _folded(item: tuple[str, str, str]) -> tuple[str, str]:
    return item[0].lower(), item[1]


def _gzip(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)
