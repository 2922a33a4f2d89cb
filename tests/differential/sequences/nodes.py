"""Scenarios about requests of nodes at release 1.36: permissions, mirror pods, tokens and certificates. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.differential.scenarios import Scenario
from tests.differential.sequences.script import MERGE_PATCH, Script, ref

_CORE, _SPACE = "/api/v1", "/api/v1/namespaces/<ns>"
_PODS, _SECRETS, _ACCOUNTS = f"{_SPACE}/pods", f"{_SPACE}/secrets", f"{_SPACE}/serviceaccounts"
_TOKENS = f"{_ACCOUNTS}/default/token"
_CERTIFICATES, _SLICES = "/apis/certificates.k8s.io", "/apis/resource.k8s.io/v1/resourceslices"
_REQUESTS = f"{_CERTIFICATES}/v1beta1/namespaces/<ns>/podcertificaterequests"
_BUNDLES = f"{_CERTIFICATES}/v1beta1/clustertrustbundles"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NODE, _OTHER = "<ns>-n1", "<ns>-n2"
_USER = f"system:node:{_NODE}"
_STUB = (
    "MH8wMwIBADAAMCowBQYDK2VwAyEAmUu1LzbxBFgKV0cQaGeJ2F7ecLKf6L+3LnZh/6/ZZ9mgADAFBgMrZXADQQBGnF3SvzafHvoUMmQyjQ64IrPZ"
    "39Lq6Ke6Kgt/xnvy9JdstOmjo4Scq/XSj+JLGbRrPKFdf8/Q55+FWS7bR7QD"
)
"""A certificate request with an empty subject."""
_NODE_REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHdU1HSUNBUUF3THpFVk1CTUdBMVVFQ2d3TWMzbHpkR1Z0T201dlpHVnpNUll3"
    "RkFZRFZRUUREQTF6ZVhOMApaVzA2Ym05a1pUcGhNQ293QlFZREsyVndBeUVBbVV1MUx6YnhCRmdLVjBjUWFHZUoyRjdlY0xLZjZMKzNMblpoCi82"
    "L1paOW1nQURBRkJnTXJaWEFEUVFBR3FVL01Xc0p1Mmhxd3QzVkI0aThCVklWdXBTRC9pdFhYZmcvcjNFM1oKbjdkZTYyWGNXVzhwYWZORjA3L1lu"
    "NDdmMHFxRCtTeFZyUDFoOWtGZTdSZ00KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="
)
"""A certificate request of node ``a``."""
_CA = (
    "-----BEGIN CERTIFICATE-----\nMIHdMIGQoAMCAQICAQcwBQYDK2VwMA0xCzAJBgNVBAMMAmNhMCAXDTI0MDEwMTAw\n"
    "MDAwMFoYDzIxMjMxMjA4MDAwMDAwWjANMQswCQYDVQQDDAJjYTAqMAUGAytlcAMh\n"
    "AJlLtS828QRYCldHEGhnidhe3nCyn+i/ty52Yf+v2WfZoxMwETAPBgNVHRMBAf8E\n"
    "BTADAQH/MAUGAytlcANBADCveO5Kyz0CsWusp0VS3ZVGvr8skr4/ifgukiXys+iq\n"
    "A5bU+Swnqz4YiwBEWjIt9dqo1+RbTJmquYIHbKiHlgI=\n-----END CERTIFICATE-----\n"
)
_LEAF = (
    "-----BEGIN CERTIFICATE-----\nMIHHMHugAwIBAgIBBzAFBgMrZXAwDTELMAkGA1UEAwwCY2EwIBcNMjQwMTAxMDAw\n"
    "MDAwWhgPMjEyMzEyMDgwMDAwMDBaMA0xCzAJBgNVBAMMAmNhMCowBQYDK2VwAyEA\n"
    "mUu1LzbxBFgKV0cQaGeJ2F7ecLKf6L+3LnZh/6/ZZ9kwBQYDK2VwA0EAsw2v3fXH\n"
    "m6OI158FUkl2CPtrFzYnaCUsCG1H8YKsYJ9h+K2VqAL5JiDcx7suCFiBrzSjDOxr\njrsxCsd/WrAFDg==\n-----END CERTIFICATE-----\n"
)

_CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
_SOURCES: tuple[dict[str, Any], ...] = (
    {"secret": {"secretName": "s"}},
    {"configMap": {"name": "m"}},
    {"csi": {"driver": "d.example.com"}},
    {"csi": {"driver": "d.example.com", "nodePublishSecretRef": {"name": "s"}}},
    {"glusterfs": {"endpoints": "e", "path": "p"}},
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"ephemeral": {"volumeClaimTemplate": _CLAIM}},
    {"azureFile": {"shareName": "s", "secretName": "t"}},
    {"cephfs": {"monitors": ["m"], "secretRef": {"name": "s"}}},
    {"nfs": {"server": "s", "path": "/p"}},
)
_PROJECTIONS: tuple[dict[str, Any], ...] = (
    {"serviceAccountToken": {"path": "t"}},
    {"clusterTrustBundle": {"path": "t", "name": "x"}},
    {"podCertificate": {"signerName": "a.example.com/b", "keyType": "ED25519", "credentialBundlePath": "p"}},
    {"configMap": {"name": "m"}},
)


def generate() -> Iterator[Scenario]:
    """Yield the scenarios."""
    for sequence in (reads, writes, mirror_pods, tokens, pod_certificates, certificate_status, trust_bundles, policies):
        script = Script()
        sequence(script)
        yield Scenario(f"node-{sequence.__name__.replace('_', '-')}", script.steps)


def _pod(name: str, node: str = _NODE, **spec: Any) -> dict[str, Any]:
    content = {"nodeName": node, "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name}, "spec": {**content, **spec}}


def _volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def _start(script: Script, *pods: dict[str, Any]) -> tuple[int, list[int]]:
    """Create two nodes and *pods*; continue as the first node once it may read its pods. Return the steps."""
    node = script.post(f"{_CORE}/nodes", {"metadata": {"name": _NODE}})
    script.post(f"{_CORE}/nodes", {"metadata": {"name": _OTHER}})
    found = [script.post(_PODS, pod) for pod in pods]
    script.user = _USER
    for pod in pods:
        if pod["spec"]["nodeName"] == _NODE:
            script.get(f"{_PODS}/{pod['metadata']['name']}", until='"phase"')
    return node, found


def _as_administrator(script: Script) -> None:
    script.user = ""


def reads(script: Script) -> None:
    """Read objects, with and without a relation to the node."""
    for name in ("mounted", "pulled", "other"):
        script.post(_SECRETS, {"metadata": {"name": name}})
    mine = _pod("mine", imagePullSecrets=[{"name": "pulled"}], **_volume(secret={"secretName": "mounted"}))
    _start(script, mine, _pod("theirs", _OTHER))
    selectors = (f"spec.nodeName%3D{_NODE}", f"spec.nodeName%3D{_OTHER}", f"spec.nodeName%21%3D{_NODE}")
    for path in (_PODS, _SLICES, f"{_CERTIFICATES}/v1beta1/podcertificaterequests"):
        script.get(path)
        for selector in selectors:
            if path != _SLICES or selector != selectors[0]:  # The bundled server has no resource slices.
                script.get(path, f"fieldSelector={selector}")
    for name in (_NODE, _OTHER):
        script.get(f"{_CORE}/nodes/{name}")
        script.get(f"{_CORE}/nodes", f"fieldSelector=metadata.name%3D{name}")
    for path in (
        f"{_CORE}/nodes",
        f"{_PODS}/theirs",
        f"{_PODS}/none",
        f"{_PODS}/mine/log",
        f"{_SECRETS}/mounted",
        f"{_SECRETS}/pulled",
        f"{_SECRETS}/other",
        _SECRETS,
        f"{_CORE}/secrets",
        f"{_ACCOUNTS}/default",
        f"{_ACCOUNTS}/other",
        _ACCOUNTS,
        f"{_SLICES}/x",
        f"{_SLICES}/x/status",
        "/apis/resource.k8s.io/v1/namespaces/<ns>/resourceclaims/x",
        f"{_REQUESTS}/x",
        f"{_REQUESTS}/x/status",
        f"{_BUNDLES}/x",
        f"{_LEASES}/{_OTHER}",
        f"/apis/storage.k8s.io/v1/csinodes/{_OTHER}",
        f"{_CORE}/namespaces",
        "/metrics",
    ):
        script.get(path)
    for path in (_SLICES, f"{_SLICES}/x", f"{_REQUESTS}/x", _REQUESTS, f"{_CORE}/nodes/{_NODE}", f"{_PODS}/theirs"):
        script.delete(path)


def writes(script: Script) -> None:
    """Write pods' status, nodes, leases and certificate requests."""
    _start(script, _pod("mine"), _pod("theirs", _OTHER))
    claim = {"resourceClaimName": "x", "requestMappings": []}
    for content in (
        {"status": {"phase": "Running"}},
        {"metadata": {"labels": {"a": "b"}}},
        {"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "y"}]}},
        {"status": {"extendedResourceClaimStatus": claim}},
    ):
        script.patch(f"{_PODS}/mine/status", content)
    script.patch(f"{_PODS}/theirs/status", {"status": {"phase": "Running"}})
    for path in ("mine", "mine/resize", "mine/ephemeralcontainers"):
        script.patch(f"{_PODS}/{path}", {"metadata": {"labels": {"a": "b"}}})
    for name in ("theirs", "none"):
        script.post(f"{_PODS}/{name}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction"})
    source = {"configMap": {"namespace": "a", "name": "b", "uid": "u", "kubeletConfigKey": "k"}}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}
    changes: tuple[dict[str, Any], ...] = (
        {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}},
        {"metadata": {"labels": {"kubernetes.io/os": "linux"}}},
        {"metadata": {"labels": {"x.k8s.io/a": "b", "node.kubernetes.io/role": "x"}}},
        {"metadata": {"ownerReferences": [owner]}},
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
        {"spec": {"configSource": source}},
    )
    for change in changes:
        script.patch(f"{_CORE}/nodes/{_NODE}", change)
    script.patch(f"{_CORE}/nodes/{_OTHER}", {"metadata": {"labels": {"a": "b"}}})
    script.post(f"{_CORE}/nodes", {"metadata": {"generateName": "n"}})
    script.post(_LEASES, {"metadata": {"name": _OTHER}, "spec": {}})
    requests = f"{_CERTIFICATES}/v1/certificatesigningrequests"
    for user in (_USER, "system:node:a"):
        script.user = user
        for signer in ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet", "a.com/b"):
            usages = ["digital signature", "client auth" if "client" in signer else "server auth"]
            spec = {"request": _NODE_REQUEST, "signerName": signer, "usages": usages}
            script.post(requests, {"metadata": {"generateName": "c-"}, "spec": spec})


def mirror_pods(script: Script) -> None:
    """Create mirror pods with each kind of reference, and with owners that are not the node."""
    node, _ = _start(script, _pod("any"))
    owner = {"apiVersion": "v1", "kind": "Node", "name": _NODE, "uid": ref(node, "metadata.uid"), "controller": True}

    def create(*owners: dict[str, Any], name: str = "m", **spec: Any) -> None:
        annotations = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
        metadata = {"name": name, "annotations": annotations, "ownerReferences": list(owners or (owner,))}
        content = {"nodeName": _NODE, "containers": [{"name": "c", "image": "i"}], **spec}
        script.post(_PODS, {"metadata": metadata, "spec": content})

    script.post(_PODS, _pod("plain"))
    create(nodeName=_OTHER)
    for change in ({"controller": False}, {"blockOwnerDeletion": True}, {"uid": "u"}, {"name": _OTHER}):
        create({**owner, **change})
    create(owner, {**owner, "name": "x", "uid": "u", "controller": False})
    environment = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
    specs: tuple[dict[str, Any], ...] = (
        {"serviceAccountName": "default"},
        {"containers": [{"name": "c", "image": "i", **environment}]},
        {"containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "m"}}]}]},
        {"imagePullSecrets": [{"name": "s"}]},
        {"resourceClaims": [{"name": "r", "resourceClaimName": "x"}]},
        *(_volume(**source) for source in _SOURCES),
        *(_volume(projected={"sources": [projection]}) for projection in _PROJECTIONS),
    )
    for spec in specs:
        create(**spec)
        script.delete(f"{_PODS}/m", query="gracePeriodSeconds=0")


def tokens(script: Script) -> None:
    """Request tokens for audiences that the pod needs, that a role allows, and others."""
    driver = {"metadata": {"name": "<ns>.example.com"}, "spec": {"tokenRequests": [{"audience": "csi"}]}}
    script.post("/apis/storage.k8s.io/v1/csidrivers", driver)
    sources = [{"serviceAccountToken": {"path": "t", "audience": "vault"}}, {"serviceAccountToken": {"path": "u"}}]
    volumes = [{"name": "p", "projected": {"sources": sources}}, {"name": "c", "csi": {"driver": "<ns>.example.com"}}]
    pods = [_pod("rich", volumes=volumes), _pod("plain"), _pod("theirs", _OTHER)]
    pods.append(_pod("broken", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "missing"}}]))
    _, made = _start(script, *pods)
    steps = {pod["metadata"]["name"]: step for pod, step in zip(pods, made, strict=True)}

    def request(pod: str, *audiences: str, path: str = _TOKENS, until: str = "", **reference: Any) -> None:
        uid = ref(steps[pod], "metadata.uid") if pod in steps else "u"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, **reference}
        body = {"spec": {"audiences": list(audiences), "boundObjectRef": bound}}
        script.send("POST", path, body, until=until)

    for audiences in ((), ("vault",), ("csi",), ("other",), ("a", "b")):
        request("rich", *audiences)
    for pod in ("plain", "broken", "theirs", "none"):
        request(pod)
    request("rich", uid="u")
    request("rich", uid="")
    request("rich", kind="Node")
    request("rich", path=f"{_ACCOUNTS}/other/token")
    script.post(_TOKENS, {"spec": {}})
    _as_administrator(script)
    rule = {"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["granted"]}
    script.post(f"{_RBAC}/namespaces/<ns>/roles", {"metadata": {"name": "a"}, "rules": [rule]})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": _USER}
    role = {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}
    binding = {"metadata": {"name": "a"}, "roleRef": role, "subjects": [subject]}
    script.post(f"{_RBAC}/namespaces/<ns>/rolebindings", binding)
    for uid in ("u", ""):
        script.post(_TOKENS, {"metadata": {"uid": uid}, "spec": {}})
    script.user = _USER
    request("plain", "granted", until="TokenRequest")
    request("broken", "granted")


def _certificate_spec(script: Script) -> dict[str, Any]:
    """Create the objects that a pod certificate request names, and return its spec."""
    account = script.get(f"{_ACCOUNTS}/default")
    node, (pod, _) = _start(script, _pod("mine"), _pod("theirs", _OTHER))
    return {
        "signerName": "example.com/signer",
        "podName": "mine",
        "podUID": ref(pod, "metadata.uid"),
        "serviceAccountName": "default",
        "serviceAccountUID": ref(account, "metadata.uid"),
        "nodeName": _NODE,
        "nodeUID": ref(node, "metadata.uid"),
        "maxExpirationSeconds": 3600,
        "stubPKCS10Request": _STUB,
    }


def pod_certificates(script: Script) -> None:
    """Request certificates for pods, of this node and of others."""
    spec = _certificate_spec(script)

    def create(name: str = "r", **changes: Any) -> None:
        content = {key: value for key, value in {**spec, **changes}.items() if value is not None}
        script.post(_REQUESTS, {"metadata": {"name": name}, "spec": content})

    create("made", maxExpirationSeconds=None, unverifiedUserAnnotations={"example.com/a": "b"})
    for name in ("nodeName", "podName", "serviceAccountName"):
        create(**{name: "other"})
    for name in ("nodeUID", "podUID", "serviceAccountUID"):
        create(**{name: "u"})
    script.get(f"{_REQUESTS}/made", until='"uid"')
    script.patch(f"{_REQUESTS}/made", {"metadata": {"labels": {"a": "b"}}})
    script.patch(f"{_REQUESTS}/made/status", {"status": {}})
    script.delete(f"{_REQUESTS}/made")
    _as_administrator(script)
    for changes in (
        {"signerName": "bad"},
        {"podName": "A_b", "podUID": ""},
        {"podUID": "x" * 129},
        {"serviceAccountName": "", "nodeName": ""},
        {"maxExpirationSeconds": 3599},
        {"maxExpirationSeconds": 91 * 86400 + 1},
        {"maxExpirationSeconds": 86401, "signerName": "kubernetes.io/x"},
        {"stubPKCS10Request": None},
        {"pkixPublicKey": "YQ=="},
        {"stubPKCS10Request": "YWJj"},
        {"stubPKCS10Request": None, "pkixPublicKey": "YWJj", "proofOfPossession": "YWJj"},
        {"unverifiedUserAnnotations": {"a": "b", "A b": "c"}},
    ):
        create(**changes)
    script.patch(f"{_REQUESTS}/made", {"spec": {"podName": "x"}})
    script.patch(f"{_REQUESTS}/made", {"metadata": {"labels": {"a": "b"}}, "status": {"certificateChain": "x"}})
    script.get(_REQUESTS, "fieldSelector=spec.podName%3Dmine,spec.nodeName%3D" + _NODE)
    script.get(_REQUESTS, "fieldSelector=spec.podUID%3Dx")
    script.get(f"{_CERTIFICATES}/v1alpha1/namespaces/<ns>/podcertificaterequests")


def certificate_status(script: Script) -> None:
    """Write the status of a pod certificate request."""
    spec = _certificate_spec(script)
    _as_administrator(script)
    script.post(_REQUESTS, {"metadata": {"name": "r"}, "spec": spec})

    def condition(type_: str, **changes: Any) -> dict[str, Any]:
        found = {"type": type_, "status": "True", "reason": "R", "message": "m"}
        return {**found, "lastTransitionTime": "2026-01-01T00:00:00Z", **changes}

    def write(*conditions: dict[str, Any], **status: Any) -> None:
        script.patch(f"{_REQUESTS}/r/status", {"status": {"conditions": list(conditions), **status}}, MERGE_PATCH)

    issued, denied = condition("Issued"), condition("Denied")
    for conditions in (
        (condition("Other"),),
        (condition("Issued", status="False"),),
        (issued, denied),
        (condition("Denied", reason=""),),
        (issued,),
    ):
        write(*conditions)
    write(denied, certificateChain="x")
    write(certificateChain="x")
    script.user = "someone"
    write(denied)
    _as_administrator(script)
    times = {"notBefore": "2024-01-01T00:00:00Z", "notAfter": "2123-12-08T00:00:00Z"}
    for text in ("x", "-----BEGIN X-----\nYWJj\n-----END X-----\n", _LEAF):
        write(issued, certificateChain=text)
    write(issued, certificateChain=_LEAF, beginRefreshAt="2024-01-01T01:00:00Z", **times)
    write(denied)
    write(issued)
    script.patch(f"{_REQUESTS}/r/status", {"metadata": {"labels": {"a": "b"}}})


def trust_bundles(script: Script) -> None:
    """Create trust bundles in both versions."""

    def create(name: str, text: str, signer: str = "") -> None:
        spec = {"trustBundle": text, **({"signerName": signer} if signer else {})}
        script.post(_BUNDLES, {"metadata": {"name": name}, "spec": spec})

    create("<ns>", _CA)
    create("<ns>-b", _CA + _CA)
    for text in ("", _LEAF, "-----BEGIN X-----\nYWJj\n-----END X-----\n"):
        create("<ns>-b", text)
    create("example.com:foo:<ns>", _CA, "example.com/foo")
    create("<ns>-b", _CA, "example.com/foo")
    create("a:<ns>", _CA)
    create("bad:<ns>", _CA, "bad")
    script.patch(f"{_BUNDLES}/<ns>", {"spec": {"signerName": "example.com/x"}})
    old = f"{_CERTIFICATES}/v1alpha1/clustertrustbundles/<ns>"
    script.get(old)
    script.patch(old, {"metadata": {"labels": {"a": "b"}}})
    script.get(f"{_BUNDLES}/<ns>")
    script.user = _USER
    script.get(f"{_BUNDLES}/<ns>")
    script.patch(f"{_BUNDLES}/<ns>", {"metadata": {"labels": {"a": "c"}}})


def policies(script: Script) -> None:
    """Create an admission policy in the stable version."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    match = {"resourceRules": [rule], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "<ns>"}}}
    spec = {"matchConstraints": match, "validations": [{"expression": "object.metadata.name != 'bad'"}]}
    script.post(_POLICIES, {"metadata": {"name": "<ns>"}, "spec": spec})
    script.post(_POLICIES, {"metadata": {"name": "<ns>-b"}, "spec": {**spec, "validations": [{"expression": "x"}]}})
    bound = {"policyName": "<ns>", "validationActions": ["Deny"]}
    script.post(_POLICIES.replace("policies", "policybindings"), {"metadata": {"name": "<ns>"}, "spec": bound})
    script.get(f"{_POLICIES.replace('v1/', 'v1beta1/')}/<ns>")
    script.send(
        "POST", f"{_SPACE}/configmaps", {"metadata": {"name": "bad"}}, "dryRun=All", until="ValidatingAdmission"
    )
