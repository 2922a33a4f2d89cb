"""Tests for the default admission plugins."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apiserver.conftest import Api, Server
from tests.integration.apiserver.provider import Provider

STORAGE, NODE, NETWORKING = "/apis/storage.k8s.io/v1", "/apis/node.k8s.io/v1", "/apis/networking.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
SECONDS = 10.0


def pod(name: str = "web", metadata: Any = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i:1", "resources": {}}]
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"containers": containers, **spec}}


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def eventually(check: Callable[[], Any]) -> Any:
    """Return the result of *check* once it is true."""
    end = time.monotonic() + SECONDS
    while not (found := check()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
    return found


def rejection(api: Api, method: str, path: str, body: Any = None, *, code: int = 403, **more: Any) -> str:
    """Return the message of a request that must fail with *code*."""
    given, reply = api.call(method, path, body, **more)
    assert given == code, reply
    return str(reply["message"])


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    found = Provider(tmp_path_factory.mktemp("provider"))
    yield found
    found.close()


@pytest.mark.row("admission.NamespaceLifecycle")
def test_creation_in_missing_or_terminating_namespace_is_rejected(api: Api) -> None:
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    api.ok("POST", "/api/v1/namespaces/going/configmaps", held)

    missing = rejection(api, "POST", "/api/v1/namespaces/missing/configmaps", held, code=404)
    api.ok("DELETE", "/api/v1/namespaces/going")
    code, going = api.call("POST", "/api/v1/namespaces/going/configmaps", {"metadata": {"name": "late"}})
    lasting = ("default", "kube-system", "kube-public")
    protected = [rejection(api, "DELETE", f"/api/v1/namespaces/{name}") for name in lasting]
    patch = {"metadata": {"finalizers": None}}
    api.ok("PATCH", "/api/v1/namespaces/going/configmaps/held", patch, content_type="application/merge-patch+json")

    assert missing == 'namespaces "missing" not found'
    assert (code, going["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    assert going["message"].endswith("in namespace going because it is being terminated")
    assert protected == [f'namespaces "{name}" is forbidden: this namespace may not be deleted' for name in lasting]


@pytest.mark.row("admission.LimitRanger")
def test_limit_ranges_default_and_limit_pod_resources(api: Api, namespace: str) -> None:
    limits = [{"type": "Container", "default": {"cpu": "200m"}, "max": {"cpu": "500m"}, "min": {"cpu": "50m"}}]
    limits.append({"type": "Pod", "max": {"cpu": "600m"}})
    limits.append({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})
    path = f"/api/v1/namespaces/{namespace}/limitranges"
    api.ok("POST", path, {"metadata": {"name": "bounds"}, "spec": {"limits": limits}})
    claim = {
        "metadata": {"name": "big"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    }

    made = api.ok("POST", pods(namespace), pod())
    greedy = pod("greedy")
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "600m"}}
    small = pod("small")
    small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    two = pod("two", containers=[{"name": n, "image": "i", "resources": {"limits": {"cpu": "400m"}}} for n in "ab"])

    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "200m"}, "requests": {"cpu": "200m"}}
    note = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert note == "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    text = "maximum cpu usage per Container is 500m, but limit is 600m"
    assert rejection(api, "POST", pods(namespace), greedy) == f'pods "greedy" is forbidden: {text}'
    text = "minimum cpu usage per Container is 50m, but request is 10m"
    assert rejection(api, "POST", pods(namespace), small) == f'pods "small" is forbidden: {text}'
    assert "maximum cpu usage per Pod is 600m, but limit is 800m" in rejection(api, "POST", pods(namespace), two)
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    text = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    assert rejection(api, "POST", path, claim) == f'persistentvolumeclaims "big" is forbidden: {text}'


@pytest.mark.row("admission.ServiceAccount")
def test_pods_get_a_service_account_and_its_token(api: Api, namespace: str) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    account = {"metadata": {"name": "robot"}, "imagePullSecrets": [{"name": "pull"}]}
    account["metadata"]["annotations"] = {"kubernetes.io/enforce-mountable-secrets": "true"}
    api.ok("POST", accounts, account)
    api.ok("POST", accounts, {"metadata": {"name": "shy"}, "automountServiceAccountToken": False})
    secret = [{"name": "s", "secret": {"secretName": "other"}}]
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}

    plain = api.ok("POST", pods(namespace), pod())["spec"]
    robot = api.ok("POST", pods(namespace), pod("robot", serviceAccountName="robot"))["spec"]
    shy = api.ok("POST", pods(namespace), pod("shy", serviceAccountName="shy"))["spec"]
    bare = api.ok("POST", pods(namespace), pod("bare", automountServiceAccountToken=False))["spec"]

    assert plain["serviceAccountName"] == plain["serviceAccount"] == "default"
    mount = plain["containers"][0]["volumeMounts"][0]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    location = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    assert plain["volumes"][0]["projected"]["sources"] == [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": location}]}},
    ]
    assert robot["imagePullSecrets"] == [{"name": "pull"}]
    assert "volumes" not in bare
    assert "volumes" not in shy
    text = f'error looking up service account {namespace}/no: serviceaccount "no" not found'
    assert rejection(api, "POST", pods(namespace), pod("x", serviceAccountName="no")).endswith(text)
    text = 'secret.secretName="other" is not allowed because service account robot does not reference that secret'
    assert text in rejection(api, "POST", pods(namespace), pod("x", serviceAccountName="robot", volumes=secret))
    text = "a mirror pod may not reference service accounts"
    assert text in rejection(api, "POST", pods(namespace), pod("x", mirror, serviceAccountName="robot"))


@pytest.mark.row("admission.TaintNodesByCondition")
def test_new_node_is_tainted_until_it_is_ready(api: Api) -> None:
    def taints() -> list[str]:
        found = api.ok("GET", "/api/v1/nodes/fresh")["spec"].get("taints") or []
        return [item["key"].partition("/")[2] for item in found]

    def report(**conditions: str) -> None:
        status = {"conditions": [{"type": kind, "status": status} for kind, status in conditions.items()]}
        kind = "application/strategic-merge-patch+json"
        api.ok("PATCH", "/api/v1/nodes/fresh/status", {"status": status}, content_type=kind)

    made = api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "fresh"}})
    report(Ready="True", MemoryPressure="False")
    eventually(lambda: not taints())
    report(MemoryPressure="True")
    eventually(lambda: taints() == ["memory-pressure"])
    api.ok("DELETE", "/api/v1/nodes/fresh")

    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


@pytest.mark.row("admission.PodSecurity")
def test_pod_security_level_of_the_namespace_is_enforced(api: Api) -> None:
    prefix = "pod-security.kubernetes.io"
    labels = {f"{prefix}/enforce": "baseline", f"{prefix}/warn": "restricted"}
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "careful", "labels": labels}})
    bad = {"metadata": {"name": "odd", "labels": {f"{prefix}/enforce": "strict"}}}

    denied = rejection(api, "POST", pods("careful"), pod(hostNetwork=True, hostPID=True))
    code, headers, _ = api.raw("POST", pods("careful"), pod())
    label = rejection(api, "POST", "/api/v1/namespaces", bad, code=422)
    stricter = {"metadata": {"labels": {f"{prefix}/enforce": "restricted"}}}
    _, after, _ = api.raw("PATCH", "/api/v1/namespaces/careful", stricter, content_type="application/merge-patch+json")
    api.ok("DELETE", "/api/v1/namespaces/careful")

    assert denied == (
        'pods "web" is forbidden: violates PodSecurity "baseline:latest": '
        "host namespaces (hostNetwork=true, hostPID=true)"
    )
    assert code == 201
    assert 'would violate PodSecurity \\"restricted:latest\\": allowPrivilegeEscalation != false' in headers["warning"]
    assert label.endswith('Invalid value: "strict": must be one of privileged, baseline, restricted')
    assert "existing pods in namespace" in after["warning"]


def test_ephemeral_container_has_the_security_level_of_the_namespace(api: Api) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "guarded", "labels": labels}})
    api.ok("POST", pods("guarded"), pod())
    path, kind = f"{pods('guarded')}/web/ephemeralcontainers", "application/strategic-merge-patch+json"
    debugger = {"name": "debug", "image": "i", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}

    text = rejection(api, "PATCH", path, {"spec": {"ephemeralContainers": [debugger]}}, content_type=kind)
    api.ok("PATCH", path, {"spec": {"ephemeralContainers": [{"name": "plain", "image": "i"}]}}, content_type=kind)
    api.ok("DELETE", "/api/v1/namespaces/guarded")

    assert 'violates PodSecurity "baseline:latest": non-default capabilities' in text


@pytest.mark.row("admission.Priority")
def test_priority_class_sets_the_pod_priority(api: Api, namespace: str) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.ok("POST", classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    api.ok("POST", classes, {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"})

    usual = api.ok("POST", pods(namespace), pod())["spec"]
    high = api.ok("POST", pods(namespace), pod("high", priorityClassName="high"))["spec"]
    other = rejection(api, "POST", classes, {"metadata": {"name": "second"}, "value": 1, "globalDefault": True})
    missing = rejection(api, "POST", pods(namespace), pod("x", priorityClassName="none"))
    wrong = rejection(api, "POST", pods(namespace), pod("x", priority=5))
    for name in ("usual", "high"):
        api.ok("DELETE", f"{classes}/{name}")

    assert (usual["priority"], usual["priorityClassName"]) == (7, "usual")
    assert (high["priority"], high["preemptionPolicy"]) == (100, "Never")
    assert other.endswith("PriorityClass usual is already marked as default. Only one default can exist")
    assert missing.endswith("no PriorityClass with name none was found")
    assert "the integer value of priority (5) must not be provided in pod spec" in wrong


@pytest.mark.row("admission.DefaultTolerationSeconds")
def test_pods_get_default_tolerations_for_unreachable_nodes(api: Api, namespace: str) -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}

    plain = api.ok("POST", pods(namespace), pod())["spec"]["tolerations"]
    given = api.ok("POST", pods(namespace), pod("own", tolerations=[own]))["spec"]["tolerations"]

    keys = [f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable")]
    assert [(item["key"], item["tolerationSeconds"]) for item in plain] == [(key, 300) for key in keys]
    assert [item["key"] for item in given] == keys
    assert "tolerationSeconds" not in given[0]


@pytest.mark.row("opt.default-not-ready-toleration-seconds", "opt.default-unreachable-toleration-seconds")
@pytest.mark.row("opt.allow-privileged")
def test_options_set_toleration_seconds_and_allow_privileged(tmp_path: Path) -> None:
    stay = ("--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=-1")
    server = Server(tmp_path, "--allow-privileged", *stay)
    api = server.api()
    privileged = pod(containers=[{"name": "c", "image": "i", "securityContext": {"privileged": True}}])

    spec = api.ok("POST", pods("default"), privileged)["spec"]

    assert spec["containers"][0]["securityContext"] == {"privileged": True}
    assert [item["tolerationSeconds"] for item in spec["tolerations"]] == [7, -1]
    api.close()
    assert server.stop() == 0


@pytest.mark.row("admission.DefaultStorageClass", "admission.PersistentVolumeClaimResize")
def test_claims_get_the_default_class_and_may_be_expanded(api: Api, namespace: str) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name, more in (("plain", {}), ("fast", {"annotations": default})):
        body = {"metadata": {"name": name, **more}, "provisioner": "example.com/disk"}
        api.ok("POST", f"{STORAGE}/storageclasses", {**body, "allowVolumeExpansion": name == "fast"})
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    merge = "application/merge-patch+json"

    def size(text: str) -> dict[str, Any]:
        return {"spec": {"resources": {"requests": {"storage": text}}}}

    spec = {"accessModes": ["ReadWriteOnce"], **size("1Gi")["spec"]}
    made = api.ok("POST", claims, {"metadata": {"name": "a"}, "spec": spec})
    api.ok("POST", claims, {"metadata": {"name": "b"}, "spec": {**spec, "storageClassName": "plain"}})
    unbound = rejection(api, "PATCH", f"{claims}/a", size("2Gi"), code=422, content_type=merge)
    for name in "ab":
        api.ok("PATCH", f"{claims}/{name}/status", {"status": {"phase": "Bound"}}, content_type=merge)
    grown = api.ok("PATCH", f"{claims}/a", size("2Gi"), content_type=merge)
    fixed = rejection(api, "PATCH", f"{claims}/b", size("2Gi"), content_type=merge)
    for name in ("plain", "fast"):
        api.ok("DELETE", f"{STORAGE}/storageclasses/{name}")

    assert made["spec"]["storageClassName"] == "fast"
    assert unbound.endswith("for bound claims")
    assert grown["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    text = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support"
    assert fixed.endswith(f"{text} resize")


@pytest.mark.row("admission.StorageObjectInUseProtection")
def test_claim_in_use_is_protected(api: Api, namespace: str) -> None:
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    modes = {"accessModes": ["ReadWriteOnce"]}
    expected = {**modes, "resources": {"requests": {"storage": "1Gi"}}}
    made = api.ok("POST", claims, {"metadata": {"name": "data"}, "spec": expected})
    location = {**modes, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    volume = api.ok("POST", "/api/v1/persistentvolumes", {"metadata": {"name": f"pv-{namespace}"}, "spec": location})
    source = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    api.ok("POST", pods(namespace), pod(nodeName="n1", volumes=[source]))

    api.ok("DELETE", f"{claims}/data")
    api.ok("DELETE", f"/api/v1/persistentvolumes/pv-{namespace}")
    eventually(lambda: api.call("GET", f"/api/v1/persistentvolumes/pv-{namespace}")[0] == 404)
    in_use = api.ok("GET", f"{claims}/data")
    api.ok("DELETE", f"{pods(namespace)}/web?gracePeriodSeconds=0")
    eventually(lambda: api.call("GET", f"{claims}/data")[0] == 404)

    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert in_use["metadata"]["deletionTimestamp"]


@pytest.mark.row("admission.RuntimeClass")
def test_runtime_class_sets_overhead_and_scheduling(api: Api, namespace: str) -> None:
    scheduling = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "vm", "operator": "Exists"}]}
    body = {"handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": scheduling}
    api.ok("POST", f"{NODE}/runtimeclasses", {"metadata": {"name": "vm"}, **body})

    made = api.ok("POST", pods(namespace), pod(runtimeClassName="vm"))["spec"]
    missing = rejection(api, "POST", pods(namespace), pod("x", runtimeClassName="nope"))
    clash = rejection(api, "POST", pods(namespace), pod("x", runtimeClassName="vm", nodeSelector={"disk": "hdd"}))
    alone = rejection(api, "POST", pods(namespace), pod("x", overhead={"cpu": "1"}))
    less = rejection(api, "POST", pods(namespace), pod("x", runtimeClassName="vm", overhead={"cpu": "1m"}))
    api.ok("DELETE", f"{NODE}/runtimeclasses/vm")

    assert made["overhead"] == {"cpu": "250m"}
    assert made["nodeSelector"] == {"disk": "ssd"}
    assert "vm" in [item["key"] for item in made["tolerations"]]
    assert missing.endswith('pod rejected: RuntimeClass "nope" not found')
    assert clash.endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[disk] = ssd; pod.spec.nodeSelector[disk] = hdd"
    )
    assert less.endswith("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    assert alone.endswith("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


@pytest.mark.row("admission.CertificateSubjectRestriction")
def test_csr_for_system_masters_is_rejected(api: Api) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def request(organization: str) -> dict[str, Any]:
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)])
        made = x509.CertificateSigningRequestBuilder().subject_name(subject)
        pem = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
            serialization.Encoding.PEM
        )
        spec = {"request": base64.b64encode(pem).decode(), "usages": ["client auth"]}
        spec["signerName"] = "kubernetes.io/kube-apiserver-client"
        return {"metadata": {"generateName": "csr-"}, "spec": spec}

    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    text = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    assert rejection(api, "POST", path, request("system:masters")).endswith(text)
    assert api.ok("POST", path, request("people"))["spec"]["username"] == "admin"


@pytest.mark.row("admission.DefaultIngressClass")
def test_ingresses_get_the_default_class(api: Api, namespace: str) -> None:
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": "edge", "annotations": default}, "spec": {"controller": "example.com/edge"}}
    api.ok("POST", f"{NETWORKING}/ingressclasses", body)
    backend = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    path = f"{NETWORKING}/namespaces/{namespace}/ingresses"

    made = api.ok("POST", path, {"metadata": {"name": "a"}, "spec": backend})
    own = api.ok("POST", path, {"metadata": {"name": "b"}, "spec": {**backend, "ingressClassName": "mine"}})
    api.ok("DELETE", f"{NETWORKING}/ingressclasses/edge")

    assert made["spec"]["ingressClassName"] == "edge"
    assert own["spec"]["ingressClassName"] == "mine"


@pytest.mark.row("admission.ResourceQuota")
def test_concurrent_requests_never_exceed_a_quota(server: Server, api: Api, namespace: str) -> None:
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {"count/configmaps": "6", "limits.cpu": "1", "pods": "5"}
    api.ok("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    before = eventually(lambda: api.ok("GET", f"{quotas}/q")["status"].get("used"))

    def create(number: int) -> int:
        client = server.api(close=False)
        try:
            body = {"metadata": {"name": f"c{number}"}}
            return client.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)[0]
        finally:
            client.close()

    with ThreadPoolExecutor(10) as workers:
        codes = list(workers.map(create, range(20)))
    full = rejection(api, "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "late"}})
    unsaid = rejection(api, "POST", pods(namespace), pod())
    greedy = pod("greedy")
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1500m"}}
    exceeded = rejection(api, "POST", pods(namespace), greedy)
    maps = api.ok("GET", f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    mine = next(item["metadata"]["name"] for item in maps if item["metadata"]["name"].startswith("c"))
    api.ok("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{mine}")
    api.ok("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "again"}})
    eventually(lambda: api.ok("GET", f"{quotas}/q")["status"]["used"]["count/configmaps"] == "6")

    assert before == {"count/configmaps": "1", "limits.cpu": "0", "pods": "0"}  # certificate of the server
    assert (codes.count(201), codes.count(403)) == (5, 15)
    assert full == (
        'configmaps "late" is forbidden: exceeded quota: q, requested: count/configmaps=1, '
        "used: count/configmaps=6, limited: count/configmaps=6"
    )
    assert unsaid.endswith("failed quota: q: must specify limits.cpu for: c")
    assert exceeded.endswith(
        "exceeded quota: q, requested: limits.cpu=1500m, used: limits.cpu=0, limited: limits.cpu=1"
    )


def hook(provider: Provider, path: str, namespace: str, **more: Any) -> dict[str, Any]:
    bundle = base64.b64encode(provider.ca_file.read_bytes()).decode()
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "name": f"{path.strip('/')}.example.com",
        "clientConfig": {"url": provider.url + path, "caBundle": bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        **more,
    }


def review(body: Any, **response: Any) -> tuple[int, Any]:
    reply = {"uid": body["request"]["uid"], "allowed": True, **response}
    return 200, {"kind": body["kind"], "apiVersion": body["apiVersion"], "response": reply}


def patching(*operations: Any) -> Callable[[Any], tuple[int, Any]]:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda body: review(body, patch=patch, patchType="JSONPatch")


@pytest.mark.row("admission.MutatingAdmissionWebhook")
def test_mutating_webhooks_see_changes_of_other_webhooks(api: Api, namespace: str, provider: Provider) -> None:
    provider.paths["/first"] = lambda body: (
        patching({"op": "add", "path": "/data/again", "value": "yes"})(body)
        if "second" in body["request"]["object"]["data"]
        else patching({"op": "add", "path": "/data/first", "value": "1"})(body)
    )
    provider.paths["/second"] = patching({"op": "add", "path": "/data/second", "value": "2"})
    hooks = [hook(provider, "/first", namespace, reinvocationPolicy="IfNeeded")]
    hooks.append(hook(provider, "/second", namespace, objectSelector={"matchLabels": {"hooked": "yes"}}))
    path = f"{HOOKS}/mutatingwebhookconfigurations"
    api.ok("POST", path, {"metadata": {"name": "change"}, "webhooks": hooks})
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    provider.requests.clear()

    made = api.ok(
        "POST", f"{maps}?dryRun=All", {"metadata": {"name": "a", "labels": {"hooked": "yes"}}, "data": {"x": "0"}}
    )
    alone = api.ok("POST", maps, {"metadata": {"name": "b"}, "data": {"x": "0"}})
    untouched = api.ok("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", {"metadata": {"name": "c"}})
    api.ok("DELETE", f"{path}/change")

    assert made["data"] == {"x": "0", "first": "1", "second": "2", "again": "yes"}
    assert alone["data"] == {"x": "0", "first": "1"}
    assert "data" not in untouched
    requested = [path for path, _ in provider.requests]
    assert requested == ["/first?timeout=10s", "/second?timeout=10s", "/first?timeout=10s", "/first?timeout=10s"]
    request = provider.requests[0][1]["request"]
    assert (request["operation"], request["dryRun"], request["namespace"]) == ("CREATE", True, namespace)
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["userInfo"]["username"] == "admin"


@pytest.mark.row("admission.ValidatingAdmissionWebhook")
def test_webhooks_reject_requests_and_may_fail_open(api: Api, namespace: str, provider: Provider) -> None:
    path, maps = f"{HOOKS}/validatingwebhookconfigurations", f"/api/v1/namespaces/{namespace}/configmaps"
    provider.paths["/judge"] = lambda body: review(
        body,
        allowed="bad" not in body["request"]["name"],
        status={"message": "no bad names", "code": 409},
        warnings=["looked at"],
    )
    provider.paths["/broken"] = lambda _: (500, {})
    condition = {"name": "not-skipped", "expression": "!object.metadata.name.startsWith('skip')"}
    judge = hook(provider, "/judge", namespace, matchConditions=[condition])
    api.ok("POST", path, {"metadata": {"name": "judge"}, "webhooks": [judge]})

    code, headers, _ = api.raw("POST", maps, {"metadata": {"name": "good"}})
    denied = rejection(api, "POST", maps, {"metadata": {"name": "bad"}}, code=409)
    api.ok("POST", maps, {"metadata": {"name": "skip-bad"}})
    broken = hook(provider, "/broken", namespace, failurePolicy="Ignore")
    api.ok("POST", path, {"metadata": {"name": "open"}, "webhooks": [broken]})
    api.ok("POST", maps, {"metadata": {"name": "through"}})
    api.ok("POST", path, {"metadata": {"name": "shut"}, "webhooks": [{**broken, "failurePolicy": "Fail"}]})
    failed = rejection(api, "POST", maps, {"metadata": {"name": "stopped"}}, code=500)
    unknown = hook(provider, "/judge", namespace, matchConditions=[{"name": "x", "expression": "authorizer.x()"}])
    wrong = rejection(api, "POST", path, {"metadata": {"name": "odd"}, "webhooks": [unknown]}, code=422)
    page = api.raw("GET", "/metrics")[2].decode()
    for name in ("judge", "open", "shut"):
        api.ok("DELETE", f"{path}/{name}")
    api.ok("POST", maps, {"metadata": {"name": "after"}})
    later = api.raw("GET", "/metrics")[2].decode()

    counts = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("apiserver_admission_webhook_"))
    start, called = "apiserver_admission_webhook_", 'type="validating",operation="CREATE"'
    assert counts[f'{start}request_total{{name="judge.example.com",{called},code="409",rejected="true"}}'] == "1"
    assert counts[f'{start}request_total{{name="broken.example.com",{called},code="503",rejected="false"}}'] == "2"
    assert counts[f'{start}fail_open_count{{name="broken.example.com",type="validating"}}'] == "2"
    failure = f'name="broken.example.com",{called},error_type="calling_webhook_error",rejection_code="503"'
    assert counts[f"{start}rejection_count{{{failure}}}"] == "1"
    assert f'{start}admission_duration_seconds_count{{name="judge.example.com",{called},rejected="false"}}' in counts
    assert "judge.example.com" not in later
    assert (code, headers["warning"]) == (201, '299 - "looked at"')
    assert denied == 'admission webhook "judge.example.com" denied the request: no bad names'
    assert failed.startswith(
        'Internal error occurred: failed calling webhook "broken.example.com": failed to call webhook: Post'
    )
    assert "undeclared reference to 'x'" in wrong


def test_webhooks_are_called_for_reviews(api: Api, provider: Provider) -> None:
    provider.paths["/reviews"] = lambda body: review(
        body, allowed=body["request"]["object"]["spec"].get("user") != "eve", status={"message": "not about her"}
    )
    rule = {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["subjectaccessreviews"]}
    path = f"{HOOKS}/validatingwebhookconfigurations"
    entry = hook(provider, "/reviews", "", rules=[rule], namespaceSelector={})
    api.ok("POST", path, {"metadata": {"name": "reviews"}, "webhooks": [entry]})
    requesting, spec = "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"nonResourceAttributes": {"path": "/x"}}

    responded = api.ok("POST", requesting, {"spec": spec | {"user": "bob"}})
    text = rejection(api, "POST", requesting, {"spec": spec | {"user": "eve"}}, code=400)
    api.ok("DELETE", f"{path}/reviews")

    assert responded["status"]["allowed"] is False
    assert text == 'admission webhook "reviews.example.com" denied the request: not about her'


def test_review_in_a_missing_namespace_does_not_reveal_that(api: Api) -> None:
    spec = {"user": "bob", "resourceAttributes": {"namespace": "missing", "verb": "get", "resource": "pods"}}

    reply = api.ok("POST", "/apis/authorization.k8s.io/v1/namespaces/missing/localsubjectaccessreviews", {"spec": spec})

    assert reply["status"]["allowed"] is False


def test_webhook_rejects_exec(api: Api, namespace: str, provider: Provider) -> None:
    provider.paths["/connect"] = lambda body: review(body, allowed=False, status={"reason": "NoCommands"})
    rule = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}
    path = f"{HOOKS}/validatingwebhookconfigurations"
    entry = hook(provider, "/connect", namespace, rules=[rule])
    api.ok("POST", path, {"metadata": {"name": "commands"}, "webhooks": [entry]})
    api.ok("POST", pods(namespace), pod())

    text = rejection(api, "POST", f"{pods(namespace)}/web/exec?command=ls&command=-l&stdout=1", code=400)
    api.ok("DELETE", f"{path}/commands")

    assert text == 'admission webhook "connect.example.com" denied the request: NoCommands'
    request = provider.requests[-1][1]["request"]
    assert (request["operation"], request["subResource"], request["name"]) == ("CONNECT", "exec", "web")
    assert request["object"] == {"kind": "PodExecOptions", "apiVersion": "v1", "stdout": True, "command": ["ls", "-l"]}


def test_webhook_certificate_must_have_the_service_name(api: Api, namespace: str, provider: Provider) -> None:
    """The certificate contains only an address, so a call by service name must fail."""
    port = int(provider.url.rpartition(":")[2])
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    api.ok("POST", f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": "hook"}, "spec": spec})
    service = {"name": "hook", "namespace": namespace, "port": port, "path": "/judge"}
    entry = hook(provider, "/judge", namespace)
    entry["clientConfig"] = {"service": service, "caBundle": entry["clientConfig"]["caBundle"]}
    path = f"{HOOKS}/validatingwebhookconfigurations"
    api.ok("POST", path, {"metadata": {"name": "named"}, "webhooks": [entry]})

    text = rejection(api, "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "a"}}, code=500)
    api.ok("DELETE", f"{path}/named")

    assert f"hook.{namespace}.svc" in text


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_webhook_sees_the_stored_node_as_the_old_object(
    api: Api, provider: Provider, method: str, subresource: str
) -> None:
    def decide(body: Any) -> tuple[int, Any]:
        old, new = (body["request"][each]["metadata"].get("labels", {}) for each in ("oldObject", "object"))
        return review(body, allowed="locked" not in old or "locked" in new, status={"message": "locked"})

    provider.paths["/nodes"] = decide
    rule = {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes", "nodes/status"]}
    path = f"{HOOKS}/validatingwebhookconfigurations"
    node = api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "guarded", "labels": {"locked": "yes"}}})
    entry = hook(provider, "/nodes", "", rules=[rule], namespaceSelector={})
    api.ok("POST", path, {"metadata": {"name": "nodes"}, "webhooks": [entry]})

    if method == "PUT":
        node["metadata"]["labels"] = {}
        text = rejection(api, "PUT", f"/api/v1/nodes/guarded{subresource}", node, code=400)
    else:
        patch = {"metadata": {"labels": {"locked": None}}}
        kind = "application/merge-patch+json"
        text = rejection(api, "PATCH", f"/api/v1/nodes/guarded{subresource}", patch, code=400, content_type=kind)
    stored = api.ok("GET", "/api/v1/nodes/guarded")
    api.ok("DELETE", f"{path}/nodes")
    api.ok("DELETE", "/api/v1/nodes/guarded")

    assert text.endswith("denied the request: locked")
    assert stored["metadata"]["labels"]["locked"] == "yes"
