"""Tests of the Debian packages on Debian 12 and 13: installation, upgrade from 0.1.0, downgrade and purge."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.programs import simple_pod, wait_until
from tests.vm.conftest import VARIABLE
from tests.vm.package_host import NODE, PackageHost, settle

pytestmark = pytest.mark.timeout(1800)

PACKAGES = ("nodeagent", "nodeagent-apiserver", "nodeagent-runtime")
PODS = ("one", "two")
DATA = "/var/lib/nodeagent-apiserver"
SOCKET = "unix:///run/nodeagent/cri.sock"
# The host has no unit that sets kernel parameters, and the cgroups are those of the node that runs the tests.
CONFIGURATION = f"""\
containerRuntimeEndpoint: {SOCKET}
protectKernelDefaults: false
podPidsLimit: -1
failSwapOn: false
makeIPTablesUtilChains: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
evictionHard: {{memory.available: 50Mi}}
"""


@pytest.fixture(params=["bookworm", "trixie"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PackageHost]:
    build = Path(os.environ[VARIABLE]).resolve()
    (base,) = (build.with_name(f"{build.name}-{request.param}")).glob("base-????????????")
    root = tmp_path / "root"
    root.mkdir()
    found = PackageHost(base, build.with_name(f"{build.name}-packages"), root)
    try:
        yield found
    finally:
        found.close()


def install(host: PackageHost, version: str) -> None:
    files = " ".join(f"/opt/packages/{version}/{name}_*.deb" for name in PACKAGES)
    host.run(f"apt-get install --yes --no-install-recommends --allow-downgrades {files}")


def kubectl(host: PackageHost, command: str, text: str = "", *, check: bool = True) -> str:
    return host.run(f"kubectl --kubeconfig {DATA}/admin.kubeconfig {command}", text=text, check=check)


def start(host: PackageHost) -> None:
    """Start the commands of the three units."""
    host.run(f"mkdir -p /run/nodeagent && rm -f {DATA}/ready.json /run/nodeagent/cri.sock")
    runtime = "--root /var/lib/nodeagent-runtime --network=host"
    host.start("runtime", f"nodeagent-runtime --listen {SOCKET} {runtime}")
    server = "--bind-address=127.0.0.1 --authorization-mode=Node,RBAC"
    host.start("apiserver", f"nodeagent-apiserver --data-dir {DATA} {server}")
    ready = f"ls {DATA}/ready.json /run/nodeagent/cri.sock"
    wait_until(lambda: len(host.run(ready, check=False).split()) == 2, "API server and runtime are ready", 300, 1)
    files = f"{DATA}/node.kubeconfig {DATA}/admin.kubeconfig {DATA}/certs/nodeagent-client-ca.crt"
    host.run(f"install -D -m 0600 -t /var/lib/nodeagent/clients {files}")
    flags = "--kubeconfig=/etc/nodeagent/kubeconfig --client-ca-file=/etc/nodeagent/client-ca.crt"
    node = f"--hostname-override={NODE} --disable-plugin=kernel_tunables"
    host.start("agent", f"nodeagent run --config /etc/nodeagent/config.yaml {flags} {node}")
    wait_until(lambda: NODE in kubectl(host, "get nodes", check=False), "node is registered", 300, 1)


def stop(host: PackageHost) -> None:
    """Stop the commands; pods keep running."""
    for name in ("agent", "apiserver", "runtime"):
        host.stop(name)


def containers(host: PackageHost) -> dict[str, tuple[str, int]]:
    """Return the ID and the restart count of the container of each Ready pod."""
    found = {}
    for pod in json.loads(kubectl(host, "get pods --output=json"))["items"]:
        for status in pod["status"].get("containerStatuses", ()):
            if status["ready"]:
                found[pod["metadata"]["name"]] = (status["containerID"], status["restartCount"])
    return found


def processes(host: PackageHost) -> list[str]:
    """Return PID and start time of the processes of all pods."""
    return sorted(host.run("ps -C sleep -o pid=,lstart=,args= | grep 1000000").splitlines())


def files(host: PackageHost) -> list[str]:
    """Return the files of the host that do not belong to the package manager."""
    skipped = ("/var/cache/apt", "/var/lib/apt", "/var/lib/dpkg", "/var/log", "/var/cache/ldconfig", "/var/cache/man")
    others = " -o ".join(f"-path {path}" for path in skipped)
    return host.run(f"find /etc /usr /var -xdev \\( {others} \\) -prune -o -print | sort").splitlines()


def node_version(host: PackageHost) -> str:
    return kubectl(host, f"get node {NODE} --output=jsonpath={{.status.nodeInfo.kubeletVersion}}")


def reports(host: PackageHost, version: str) -> bool:
    return version in node_version(host)


def test_upgrade_and_downgrade_keep_pods_and_purge_leaves_nothing(host: PackageHost) -> None:
    before = files(host)
    install(host, "0.1.0")
    names = "|".join(re.findall(r"^\w+", CONFIGURATION, re.MULTILINE))
    host.run(
        f"sed -i -E '/^({names}):/d' /etc/nodeagent/config.yaml && cat >> /etc/nodeagent/config.yaml",
        text=CONFIGURATION,
    )
    start(host)
    host.run(f"cp /opt/packages/images.tar /tmp && nodeagent-runtime --listen {SOCKET} --import /tmp/images.tar")
    for name in PODS:
        pod = simple_pod(name, nodeName=NODE, hostNetwork=True)
        kubectl(host, "create --validate=false --filename=-", text=json.dumps(pod))
    wait_until(lambda: set(containers(host)) == set(PODS), "pods are Ready", 300, 1)
    running, started = containers(host), processes(host)
    assert node_version(host) == "v0.1.0"

    for version in ("latest", "0.1.0", "latest"):
        stop(host)
        install(host, version)
        start(host)
        settle()
        wait_until(lambda: containers(host) == running, f"pods are those before the installation of {version}", 300, 1)
        assert processes(host) == started
        expected = "+nodeagent-" if version == "latest" else "v0.1.0"
        wait_until(partial(reports, host, expected), f"node has version {version}", 120, 1)

    kubectl(host, "delete pods --all --timeout=120s")
    stop(host)
    host.run("apt-get purge --yes nodeagent nodeagent-apiserver nodeagent-runtime")
    left = set(files(host)) - set(before) - {"/var/lib/nodeagent-runtime"}  # A mount point.
    assert not left


def test_new_installation_passes_the_cis_benchmark(host: PackageHost) -> None:
    install(host, "latest")
    host.run(f"mkdir -p {DATA} && chmod 700 {DATA}")
    server = "--bind-address=127.0.0.1 --authorization-mode=Node,RBAC"
    host.start("apiserver", f"nodeagent-apiserver --data-dir {DATA} {server}")
    wait_until(lambda: host.run(f"ls {DATA}/ready.json", check=False), "API server is ready", 300, 1)
    made = f"{DATA}/node.kubeconfig {DATA}/admin.kubeconfig {DATA}/certs/nodeagent-client-ca.crt"
    host.run(f"install -D -m 0600 -t /var/lib/nodeagent/clients {made}")

    items = json.loads(host.run("nodeagent doctor --cis --output=json"))

    assert [item["id"] for item in items if item["status"] not in ("PASS", "not applicable")] == []
    assert sum(item["status"] == "PASS" for item in items) == 24
    for command in ("nodeagent", "nodeagent-apiserver", "nodeagent-runtime"):
        assert "0.1.0" in host.run(f"{command} --version")
        assert f".TH {command.upper()} 8" in host.run(f"zcat /usr/share/man/man8/{command}.8.gz")
