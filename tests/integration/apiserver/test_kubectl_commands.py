"""Tests for kubectl commands with their options: output and effect."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.integration.kubectl import KUBECTLS, kubectl_of

from .conftest import Api, Server

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


@pytest.fixture(autouse=True, scope="module", params=KUBECTLS)
def minor(request: pytest.FixtureRequest) -> Iterator[int]:
    """Minor version of kubectl."""
    with kubectl_of(request.param) as found:
        yield found


@pytest.fixture
def maps(server: Server, api: Api) -> Iterator[None]:
    """Two config maps with labels."""
    for name, tier in (("one", "front"), ("two", "back")):
        api.ok("POST", MAPS, {"metadata": {"name": name, "labels": {"tier": tier}}, "data": {"k": name}})
    yield
    server.kubectl("delete", "configmaps", "-l", "tier")


@pytest.mark.usefixtures("maps")
def test_get_in_every_output_format(server: Server) -> None:
    get = ("get", "configmaps", "-l", "tier")
    header, *rows = server.kubectl(*get).splitlines()
    assert header.split() == ["NAME", "DATA", "AGE"]
    assert [row.split()[:2] for row in rows] == [["one", "1"], ["two", "1"]]
    assert server.kubectl(*get, "-o", "name") == "configmap/one\nconfigmap/two\n"
    assert [item["data"] for item in json.loads(server.kubectl(*get, "-o", "json"))["items"]] == [
        {"k": "one"},
        {"k": "two"},
    ]
    assert "  data:\n    k: one\n" in server.kubectl(*get, "-o", "yaml")
    assert server.kubectl(*get, "-o", "jsonpath={.items[*].data.k}") == "one two"
    assert server.kubectl(*get, "-o", "go-template={{len .items}}") == "2"
    assert server.kubectl(*get, "--show-labels", "--no-headers").splitlines()[0].split()[-1] == "tier=front"
    assert server.kubectl(*get, "-L", "tier").splitlines()[0].split()[-1] == "TIER"
    assert server.kubectl(*get, "--sort-by=.data.k", "-o", "name").splitlines()[0] == "configmap/one"
    assert server.kubectl("get", "configmaps", "-l", "tier notin (front),tier", "-o", "name") == "configmap/two\n"
    chosen = ("get", "configmaps", "--field-selector", "metadata.name=two", "-o", "name")
    assert server.kubectl(*chosen) == "configmap/two\n"
    assert "one" in server.kubectl("get", "-A", "configmaps", "--chunk-size=1")
    assert json.loads(server.kubectl("get", "--raw", f"{MAPS}/one"))["data"] == {"k": "one"}
    missing = server.kubectl("get", "configmap", "three", code=1)
    assert missing == 'Error from server (NotFound): configmaps "three" not found\n'


@pytest.mark.usefixtures("maps")
def test_get_watch_prints_changes(server: Server, api: Api) -> None:
    command = ["kubectl", "get", "configmaps", "-l", "tier", "-o", "name", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=server.environment()) as watching:
        assert watching.stdout is not None
        assert {watching.stdout.readline(), watching.stdout.readline()} == {"configmap/one\n", "configmap/two\n"}
        api.ok("PATCH", f"{MAPS}/two", {"data": {"k": "new"}}, content_type=MERGE)
        assert watching.stdout.readline() == "configmap/two\n"
        watching.terminate()


@pytest.mark.usefixtures("maps")
def test_commands_that_modify_objects(server: Server, api: Api) -> None:
    server.kubectl("patch", "configmap", "one", "-p", '{"data":{"strategic":"1"}}')
    server.kubectl("patch", "configmap", "one", "--type=merge", "-p", '{"data":{"merge":"1","k":null}}')
    server.kubectl("patch", "configmap", "one", "--type=json", "-p", '[{"op":"add","path":"/data/json","value":"1"}]')
    assert api.ok("GET", f"{MAPS}/one")["data"] == {"strategic": "1", "merge": "1", "json": "1"}

    server.kubectl("label", "configmap", "one", "a=b")
    assert "already has a value" in server.kubectl("label", "configmap", "one", "a=c", code=1)
    server.kubectl("label", "configmaps", "-l", "tier", "a=c", "--overwrite")
    server.kubectl("annotate", "configmap", "one", "note=x")
    server.kubectl("annotate", "configmap", "one", "note-")
    found = api.ok("GET", f"{MAPS}/one")["metadata"]
    assert found["labels"] == {"tier": "front", "a": "c"}
    assert "annotations" not in found

    given = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "one"}, "data": {"k": "3"}})
    assert server.kubectl("replace", "-f", "-", stdin=given) == "configmap/one replaced\n"
    assert api.ok("GET", f"{MAPS}/one")["data"] == {"k": "3"}
    dry = server.kubectl("patch", "configmap", "two", "-p", '{"data":{"k":"dry"}}', "--dry-run=server", "-o", "json")
    assert json.loads(dry)["data"] == {"k": "dry"}
    assert api.ok("GET", f"{MAPS}/two")["data"] == {"k": "two"}
    api.ok("PATCH", f"{MAPS}/one", {"metadata": {"labels": {"tier": "front"}}}, content_type=MERGE)


def test_files_are_created_applied_and_pruned(server: Server, api: Api, tmp_path: Path, minor: int) -> None:
    for name in ("first", "second"):
        manifest = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "labels": {"set": "s"}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(manifest))
    directory = str(tmp_path)

    assert server.kubectl("create", "-f", directory) == "configmap/first created\nconfigmap/second created\n"
    assert server.kubectl("create", "-f", directory, code=1).count("AlreadyExists") == 2
    assert "configured" in server.kubectl("apply", "-f", directory)  # acquires ownership, with a warning
    assert server.kubectl("apply", "-f", directory).split()[1::2] == ["unchanged", "unchanged"]
    last = server.kubectl("apply", "view-last-applied", "-f", f"{directory}/first.json", "-o", "json")
    assert json.loads(last)["metadata"]["name"] == "first"
    (tmp_path / "second.json").unlink()
    kinds = "--prune-allowlist" if minor >= 26 else "--prune-whitelist"  # its former name
    pruned = server.kubectl("apply", "-f", directory, "--prune", "-l", "set=s", f"{kinds}=core/v1/ConfigMap")
    assert "configmap/second pruned" in pruned
    assert server.kubectl("delete", "-f", directory) == 'configmap "first" deleted\n'
    assert api.call("GET", f"{MAPS}/first")[0] == api.call("GET", f"{MAPS}/second")[0] == 404


def test_delete_waits_until_its_timeout(server: Server, api: Api) -> None:
    pod = {"spec": {"nodeName": "gone", "containers": [{"name": "c", "image": "busybox"}]}}
    path = "/api/v1/namespaces/default/pods"
    for name in ("slow", "forced"):
        api.ok("POST", path, {"metadata": {"name": name}, **pod})

    assert server.kubectl("delete", "pod", "slow", "--wait=false", "--grace-period=7") == 'pod "slow" deleted\n'
    assert api.ok("GET", f"{path}/slow")["metadata"]["deletionGracePeriodSeconds"] == 7
    timed_out = server.kubectl("delete", "pod", "slow", "--timeout=1s", code=1)
    assert "timed out waiting for the condition" in timed_out
    assert "force deleted" in server.kubectl("delete", "pod", "slow", "forced", "--force", "--grace-period=0")
    assert api.call("GET", f"{path}/slow")[0] == api.call("GET", f"{path}/forced")[0] == 404
    assert server.kubectl("delete", "pod", "slow", "--ignore-not-found") == ""


def test_drain_and_uncordon(server: Server, api: Api) -> None:
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n2"}})
    spec = {"nodeName": "n2", "containers": [{"name": "c", "image": "busybox"}], "terminationGracePeriodSeconds": 0}
    path = "/api/v1/namespaces/default/pods"
    api.ok("POST", path, {"metadata": {"name": "bare"}, "spec": spec})

    rejection = server.kubectl("drain", "n2", code=1)
    assert "default/bare" in rejection
    drained = server.kubectl("drain", "n2", "--force", "--ignore-daemonsets", "--timeout=20s")
    assert "evicting pod default/bare" in drained
    assert api.call("GET", f"{path}/bare")[0] == 404
    assert "SchedulingDisabled" in server.kubectl("get", "node", "n2")
    assert server.kubectl("uncordon", "n2") == "node/n2 uncordoned\n"
    server.kubectl("taint", "nodes", "n2", "k=v:NoExecute")
    server.kubectl("taint", "nodes", "n2", "k:NoExecute-")
    node = api.ok("GET", "/api/v1/nodes/n2")
    assert "unschedulable" not in node["spec"]
    assert all(taint["key"] != "k" for taint in node["spec"].get("taints") or ())
    server.kubectl("delete", "node", "n2")


def test_drain_respects_the_disruption_budget(server: Server, api: Api, tmp_path: Path) -> None:
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n3"}})
    path = "/api/v1/namespaces/default/pods"
    spec = {"nodeName": "n3", "containers": [{"name": "c", "image": "busybox"}], "terminationGracePeriodSeconds": 0}
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    api.ok("POST", path, {"metadata": {"name": "guarded", "labels": {"app": "g"}}, "spec": spec})
    api.ok("PATCH", f"{path}/guarded/status", ready, content_type=MERGE)
    expected = {"minAvailable": 1, "selector": {"matchLabels": {"app": "g"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": expected}
    (tmp_path / "budget.json").write_text(json.dumps(budget))
    server.kubectl("apply", "-f", str(tmp_path / "budget.json"))
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

    def counted(desired: int) -> tuple[int, ...]:
        with api.watch(f"{budgets}?watch=true&fieldSelector=metadata.name%3Db") as events:
            statuses = (event["object"]["status"] for event in events)
            found = next(item for item in statuses if item["expectedPods"] and item["desiredHealthy"] == desired)
        return found["currentHealthy"], found["disruptionsAllowed"]

    assert counted(1) == (1, 0)
    header, row = server.kubectl("get", "pdb", "b").splitlines()
    assert header.split() == ["NAME", "MIN", "AVAILABLE", "MAX", "UNAVAILABLE", "ALLOWED", "DISRUPTIONS", "AGE"]
    assert row.split()[:4] == ["b", "1", "N/A", "0"]

    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded"}}
    (tmp_path / "eviction.json").write_text(json.dumps(eviction))
    rejection = server.kubectl(
        "create", "--raw", f"{path}/guarded/eviction", "-f", str(tmp_path / "eviction.json"), code=1
    )
    assert "Cannot evict pod as it would violate the pod's disruption budget." in rejection
    assert "deletionTimestamp" not in api.ok("GET", f"{path}/guarded")["metadata"]
    server.kubectl("patch", "pdb", "b", "--type=merge", "-p", '{"spec":{"minAvailable":0}}')
    assert counted(0) == (1, 1)
    assert "evicting pod default/guarded" in server.kubectl("drain", "n3", "--force", "--timeout=20s")
    assert api.call("GET", f"{path}/guarded")[0] == 404
    server.kubectl("delete", "node/n3", "pdb/b")


def test_api_versions_and_api_services(server: Server, api: Api, tmp_path: Path) -> None:
    header, *rows = server.kubectl("get", "apiservices").splitlines()
    assert header.split() == ["NAME", "SERVICE", "AVAILABLE", "AGE"]
    shown = {row.split()[0]: row.split()[1:3] for row in rows}
    served = [version for group in api.ok("GET", "/apis")["groups"] for version in group["versions"]]
    assert shown.keys() >= {"v1.", "v1.events.k8s.io", "v1.policy"}
    assert len(shown) == len(served)  # adds the core group; the group of API services is not registered
    assert set(map(tuple, shown.values())) == {("Local", "True")}
    server.kubectl("wait", "--for=condition=Available", "apiservice/v1.policy", "--timeout=20s")
    assert "Local APIServices are always available" in server.kubectl("describe", "apiservice", "v1.policy")
    assert "groupPriorityMinimum" in server.kubectl("explain", "apiservices.spec")

    spec = {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100}
    elsewhere = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {**spec, "service": {"name": "metrics", "namespace": "kube-system"}},
    }
    (tmp_path / "elsewhere.json").write_text(json.dumps(elsewhere))
    server.kubectl("apply", "-f", str(tmp_path / "elsewhere.json"))
    server.kubectl("wait", "--for=condition=Available=False", "apiservice/v1beta1.metrics.k8s.io", "--timeout=20s")
    row = server.kubectl("get", "apiservice", "v1beta1.metrics.k8s.io", "--no-headers")
    assert row.split()[1:4] == ["kube-system/metrics", "False", "(ServiceNotFound)"]
    server.kubectl("delete", "apiservice", "v1beta1.metrics.k8s.io")

    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    with api.watch(f"{services}?watch=true&fieldSelector=metadata.name%3Dv1.policy") as events:
        before = next(events)["object"]
        server.kubectl("delete", "apiservice", "v1.policy")
        again = next(event["object"] for event in events if event["type"] == "ADDED")
    assert again["spec"] == before["spec"]
    assert again["metadata"]["uid"] != before["metadata"]["uid"]


def test_generators(server: Server, tmp_path: Path) -> None:
    run = server.kubectl
    (tmp_path / "file").write_text("content")
    run("create", "configmap", "c", f"--from-file={tmp_path / 'file'}")
    assert run("get", "configmap", "c", "-o", "jsonpath={.data.file}") == "content"
    run("create", "secret", "docker-registry", "s", "--docker-server=r", "--docker-username=u", "--docker-password=p")
    assert run("get", "secret", "s", "-o", "jsonpath={.type}") == "kubernetes.io/dockerconfigjson"
    run("create", "clusterrole", "k", "--verb=get,list", "--resource=pods,pods/log")
    assert "pods/log" in run("describe", "clusterrole", "k")
    run("create", "clusterrolebinding", "k", "--clusterrole=k", "--serviceaccount=default:default")
    assert "ClusterRole/k" in run("get", "clusterrolebinding", "k", "-o", "wide")
    run("create", "priorityclass", "p", "--value=5")
    run("create", "ingress", "i", "--rule=example.com/path=s:80")
    shown = run("run", "r", "--image=busybox", "--env=A=b", "--dry-run=client", "-o", "yaml", "--", "sleep", "1")
    assert "    - sleep\n" in shown
    assert run("run", "r", "--image=busybox", "--dry-run=server", "-o", "name") == "pod/r\n"
    run("delete", "configmap/c", "secret/s", "clusterrole/k", "clusterrolebinding/k", "priorityclass/p", "ingress/i")


def test_certificate_is_requested_and_approved(server: Server, api: Api) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    requested = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    text = requested.public_bytes(serialization.Encoding.PEM)
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    for request in ("jane", "eve"):
        manifest = {
            "metadata": {"name": request},
            "spec": {
                "request": base64.b64encode(text).decode(),
                "signerName": "example.com/people",
                "usages": ["client auth"],
            },
        }
        api.ok("POST", path, manifest)
    assert server.kubectl("get", "csr", "jane").splitlines()[1].split()[-1] == "Pending"
    assert "approved" in server.kubectl("certificate", "approve", "jane")
    assert "denied" in server.kubectl("certificate", "deny", "eve")
    assert server.kubectl("get", "csr", "jane").splitlines()[1].split()[-1] == "Approved"
    assert server.kubectl("get", "csr", "eve").splitlines()[1].split()[-1] == "Denied"
    assert "Subject:" in server.kubectl("describe", "csr", "jane")
    server.kubectl("delete", "csr", "jane", "eve")


def test_informational_commands(server: Server) -> None:
    resources = server.kubectl("api-resources", "--no-headers", "-o", "wide")
    pods = next(line for line in resources.splitlines() if line.startswith("pods "))
    assert pods.split()[1:5] == ["po", "v1", "true", "Pod"]
    assert "nodes" in server.kubectl("api-resources", "--namespaced=false", "-o", "name").split()
    assert "leases" in server.kubectl("api-resources", "--api-group=coordination.k8s.io", "-o", "name")
    assert {"v1", "events.k8s.io/v1"} <= set(server.kubectl("api-versions").splitlines())
    assert "Resources" in server.kubectl("auth", "can-i", "--list")
    assert "Metrics API not available" in server.kubectl("top", "nodes", code=1)
    assert server.ready["url"] in server.kubectl("cluster-info")
    assert f"server: {server.ready['url']}" in server.kubectl("config", "view", "--minify")
    context = server.kubectl("config", "current-context").strip()
    assert context in server.kubectl("config", "get-contexts")


DESCRIBED = {
    "namespace/default": "Status:       Active",
    "service/kubernetes": "443/TCP",
    "endpoints/kubernetes": "Subsets:",
    "serviceaccount/default": "Namespace:",
    "configmap/kube-root-ca.crt": "BEGIN CERTIFICATE",
    "clusterrole/cluster-admin": "PolicyRule:",
    "priorityclass/system-node-critical": "2000001000",
}


@pytest.mark.parametrize("what", DESCRIBED)
def test_describe(server: Server, what: str) -> None:
    assert DESCRIBED[what] in server.kubectl("describe", what)
