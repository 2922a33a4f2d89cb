"""Tests for admission plugins that are disabled by default, on one server with all of them enabled."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver_stub.admission.config import AdmissionError
from tests.integration.apiserver.conftest import Api, Server
from tests.integration.apiserver.in_process import start
from tests.integration.apiserver.provider import Provider
from tests.integration.apiserver.test_admission import hook, pod, pods, rejection, review
from tests.integration.apiserver.test_kinds import VOLUME, signing_request

CERTIFICATES, POLICY = "/apis/certificates.k8s.io", "/apis/admissionregistration.k8s.io/v1beta1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CHOSEN = (
    "AlwaysAdmit,AlwaysPullImages,DenyServiceExternalIPs,EventRateLimit,ExtendedResourceToleration,ImagePolicyWebhook,"
    "LimitPodHardAntiAffinityTopology,NamespaceAutoProvision,NamespaceExists,NodeRestriction,"
    "OwnerReferencesPermissionEnforcement,PersistentVolumeLabel,PodNodeSelector,PodTolerationRestriction,"
    "SecurityContextDeny"
)
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    found = Provider(tmp_path_factory.mktemp("provider"))

    def judge(body: Any) -> tuple[int, Any]:
        images = [item["image"] for item in body["spec"]["containers"]]
        return 200, {"status": {"allowed": "evil" not in images, "reason": "evil is not welcome"}}

    found.paths["/images"] = judge
    yield found
    found.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("chosen")
    cluster = {"server": f"{provider.url}/images", "certificate-authority": str(provider.ca_file)}
    connection = {
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u"}}],
        "current-context": "a",
    }
    (directory / "images.kubeconfig").write_text(yaml.safe_dump(connection))
    users = [{"name": provider.url.removeprefix("https://"), "user": {"token": "of-the-hook"}}]
    (directory / "hooks.kubeconfig").write_text(yaml.safe_dump({"users": users}))
    plugins: dict[str, Any] = {
        "ValidatingAdmissionWebhook": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": "hooks.kubeconfig",
        },
        "ImagePolicyWebhook": {"imagePolicy": {"kubeConfigFile": "images.kubeconfig"}},
        "PodNodeSelector": {"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "pool=shared"}},
        "PodTolerationRestriction": {
            "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1",
            "kind": "Configuration",
            "default": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
        },
        "EventRateLimit": {
            "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
            "kind": "Configuration",
            "limits": [{"type": "Namespace", "qps": 1, "burst": 3}],
        },
        "ResourceQuota": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "ResourceQuotaConfiguration",
            "limitedResources": [{"resource": "pods", "matchContains": ["limits.memory"]}],
        },
    }
    (directory / "limits.json").write_text(json.dumps(plugins.pop("EventRateLimit")))
    listed: list[Any] = [{"name": name, "configuration": body} for name, body in plugins.items()]
    listed.append({"name": "EventRateLimit", "path": "limits.json"})
    config = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": listed}
    (directory / "admission.yaml").write_text(yaml.safe_dump(config))
    (directory / "users.csv").write_text("limited-token,limited,limited\n")
    found = Server(
        directory,
        f"--enable-admission-plugins={CHOSEN}",
        "--disable-admission-plugins=DefaultTolerationSeconds",
        f"--admission-control-config-file={directory / 'admission.yaml'}",
        "--feature-gates=SecurityContextDeny=true,ValidatingAdmissionPolicy=true,ClusterTrustBundle=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true,certificates.k8s.io/v1alpha1=true",
        f"--token-auth-file={directory / 'users.csv'}",
        "--node-name=n1",
    )
    yield found
    assert found.stop() == 0


@pytest.fixture
def limited(server: Server, api: Api) -> Iterator[Api]:
    """Client of a user without permissions for signers, finalizers and deletions."""
    rules = [
        {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["create", "update", "patch", "get"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["*"],
            "verbs": ["create", "update", "patch", "get"],
        },
    ]
    api.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "limited"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}]
    body = {"metadata": {"name": "limited"}, "roleRef": reference, "subjects": subjects}
    api.call("POST", f"{RBAC}/clusterrolebindings", body)
    client = server.api("limited-token")
    yield client
    client.close()


@pytest.fixture
def node(server: Server) -> Iterator[Api]:
    """Client of the agent of node n1."""
    config = yaml.safe_load(Path(server.ready["nodeKubeconfig"]).read_text())
    client = server.api(config["users"][0]["user"]["token"])
    yield client
    client.close()


@pytest.mark.row("admission.AlwaysPullImages", "opt.enable-admission-plugins", "opt.disable-admission-plugins")
def test_image_pull_policy_is_always(api: Api, namespace: str) -> None:
    containers = [{"name": name, "image": "i:1", "imagePullPolicy": "Never"} for name in "ab"]
    first = [{"name": "c", "image": "i:1"}]

    made = api.ok("POST", pods(namespace), pod(containers=containers, initContainers=first))["spec"]

    every = [*made["initContainers"], *made["containers"]]
    assert [item["imagePullPolicy"] for item in every] == ["Always"] * 3
    assert "node.kubernetes.io/not-ready" not in [item["key"] for item in made["tolerations"]]


@pytest.mark.row("admission.AlwaysAdmit")
def test_always_admit_rejects_nothing(api: Api, namespace: str) -> None:
    assert api.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "a"}})[0] == 201


@pytest.mark.row("admission.DenyServiceExternalIPs")
def test_external_ips_of_services_are_rejected(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    body = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}}

    assert rejection(api, "POST", path, body).endswith("Use of external IPs is denied by admission control")
    del body["spec"]["externalIPs"]
    api.ok("POST", path, body)


@pytest.mark.row("admission.EventRateLimit", "opt.admission-control-config-file")
def test_events_per_namespace_are_limited(api: Api, namespace: str) -> None:
    about = {"kind": "Pod", "namespace": namespace, "name": "p", "apiVersion": "v1"}
    core = f"/api/v1/namespaces/{namespace}/events"
    codes = []
    for number in range(8):
        body = {"metadata": {"name": f"e{number}"}, "involvedObject": about, "reason": "R", "type": "Normal"}
        codes.append(api.call("POST", core, body)[0])
        text = (
            rejection(api, "POST", core, {**body, "metadata": {"name": "last"}}, code=429) if codes[-1] == 429 else ""
        )

    assert codes[:3] == [201] * 3
    assert codes[-1] == 429
    assert text == f"Too many requests: limit reached on type Namespace for key {namespace}"


@pytest.mark.row("admission.ExtendedResourceToleration")
def test_pods_tolerate_taints_of_requested_extended_resources(api: Api, namespace: str) -> None:
    body = pod()
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    body["spec"]["initContainers"] = [{"name": "i", "image": "i", "resources": {"limits": {"example.com/disk": "1"}}}]

    tolerations = api.ok("POST", pods(namespace), body)["spec"]["tolerations"]

    for name in ("gpu", "disk"):
        assert {"key": f"example.com/{name}", "operator": "Exists", "effect": "NoSchedule"} in tolerations


@pytest.mark.row("admission.ImagePolicyWebhook")
def test_image_policy_webhook_rejects_images(api: Api, namespace: str, provider: Provider) -> None:
    containers = [{"name": "c", "image": "evil"}]
    metadata = {"annotations": {"mine.image-policy.k8s.io/ticket": "1", "other": "2"}}

    text = rejection(api, "POST", pods(namespace), pod("bad", metadata, containers=containers))

    assert text.endswith("image policy webhook backend denied one or more images: evil is not welcome")
    requested = provider.requests[-1][1]
    assert requested["spec"] == {
        "containers": [{"image": "evil"}],
        "namespace": namespace,
        "annotations": {"mine.image-policy.k8s.io/ticket": "1"},
    }


@pytest.mark.row("admission.ValidatingAdmissionWebhook")
def test_webhooks_are_called_as_the_user_of_the_kubeconfig(api: Api, namespace: str, provider: Provider) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    provider.paths["/seen"] = review
    api.ok("POST", path, {"metadata": {"name": "seen"}, "webhooks": [hook(provider, "/seen", namespace)]})

    api.ok("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "a"}})

    api.ok("DELETE", f"{path}/seen")
    assert (provider.requests[-1][0].partition("?")[0], provider.authorizations[-1]) == ("/seen", "Bearer of-the-hook")


@pytest.mark.row("admission.LimitPodHardAntiAffinityTopology")
def test_anti_affinity_topology_must_be_the_host_name(api: Api, namespace: str) -> None:
    def apart(key: str) -> dict[str, Any]:
        terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}}]
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return pod(affinity={"podAntiAffinity": rule})

    text = rejection(api, "POST", pods(namespace), apart("topology.kubernetes.io/zone"))

    assert "has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed" in text
    api.ok("POST", pods(namespace), apart("kubernetes.io/hostname"))


@pytest.mark.row("admission.NamespaceAutoProvision")
def test_missing_namespace_is_created(api: Api) -> None:
    api.ok("POST", "/api/v1/namespaces/made/configmaps", {"metadata": {"name": "a"}})

    assert api.ok("GET", "/api/v1/namespaces/made")["status"]["phase"] == "Active"
    assert api.ok("GET", "/api/v1/namespaces/made/serviceaccounts/default")
    api.ok("DELETE", "/api/v1/namespaces/made")


@pytest.mark.row("admission.NodeRestriction")
def test_node_agent_modifies_only_its_own_objects(api: Api, node: Api, namespace: str) -> None:
    made = node.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": made["metadata"]["uid"], "controller": True}
    lost = {"apiVersion": "v1", "kind": "Node", "name": "missing", "uid": "1"}
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    labels = {"metadata": {"labels": {"node-restriction.kubernetes.io/trusted": "yes", "example.com/a": "b"}}}
    api.ok("POST", pods(namespace), pod("mine", nodeName="n1"))
    theirs = api.ok("POST", pods(namespace), pod("theirs", nodeName="n2"))["metadata"]["uid"]
    status = {"status": {"phase": "Running"}}

    def token(uid: str) -> dict[str, Any]:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "theirs", "uid": uid}
        return {"spec": {"boundObjectRef": reference}}

    tokens = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    node.ok("POST", pods(namespace), pod("mirror", mirror, nodeName="n1"))
    node.ok("PATCH", f"{pods(namespace)}/mine/status", status, content_type=MERGE)
    node.ok("POST", leases, {"metadata": {"name": "n1"}, "spec": {}})

    for expected, method, path, body in (
        ('node "n1" is not allowed to modify node "n2"', "POST", "/api/v1/nodes", {"metadata": {"name": "n2"}}),
        ("can only create mirror pods", "POST", pods(namespace), pod("x", nodeName="n1")),
        ("spec.nodeName set to itself", "POST", pods(namespace), pod("x", mirror, nodeName="n2")),
        ("only delete pods with spec.nodeName set to itself", "DELETE", f"{pods(namespace)}/theirs", None),
        ("only update pod status for pods with", "PATCH", f"{pods(namespace)}/theirs/status", status),
        (
            "is not allowed to modify labels: node-restriction.kubernetes.io/trusted",
            "PATCH",
            "/api/v1/nodes/n1",
            labels,
        ),
        ("not allowed to modify taints", "PATCH", "/api/v1/nodes/n1", {"spec": {"taints": []}}),
        (
            "not allowed to modify ownerReferences",
            "PATCH",
            "/api/v1/nodes/n1",
            {"metadata": {"ownerReferences": [lost]}},
        ),
        ("with the same name as the requesting node", "POST", leases, {"metadata": {"name": "n2"}, "spec": {}}),
        ("node requested token not bound to a pod", "POST", tokens, {"spec": {}}),
        ("bound to a pod scheduled on a different node", "POST", tokens, token(theirs)),
    ):
        kind = MERGE if method == "PATCH" else "application/json"
        assert expected in rejection(node, method, path, body, content_type=kind)
    for path in ("/api/v1/nodes/n1", f"{pods(namespace)}/mirror?gracePeriodSeconds=0"):
        api.ok("DELETE", path)


@pytest.mark.row("admission.OwnerReferencesPermissionEnforcement")
def test_owner_references_require_delete_permission(api: Api, limited: Api, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    uid = api.ok("POST", maps, {"metadata": {"name": "owner"}})["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    limited.ok("POST", maps, {"metadata": {"name": "a"}})
    limited.ok("POST", maps, {"metadata": {"name": "b", "ownerReferences": [owner]}})
    blocking = {"metadata": {"name": "c", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}}

    late = {"metadata": {"ownerReferences": [owner]}}
    text = rejection(limited, "PATCH", f"{maps}/a", late, content_type=MERGE)
    assert "cannot set an ownerRef on a resource you can't delete" in text
    text = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
    assert text in rejection(limited, "POST", maps, blocking)
    api.ok("POST", maps, blocking)


@pytest.mark.row("admission.PersistentVolumeLabel")
def test_zone_labels_of_volumes_become_node_affinity(api: Api) -> None:
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    metadata = {"name": "here", "labels": {zone: "b__a", region: "r"}}
    metadata["annotations"] = {"pv.kubernetes.io/provisioned-by": "example.com/disk"}
    cloud = {"metadata": {"name": "cloud"}, "spec": {"gcePersistentDisk": {"pdName": "d"}}}

    made = api.ok("POST", "/api/v1/persistentvolumes", {"metadata": metadata, "spec": VOLUME})
    text = rejection(api, "POST", "/api/v1/persistentvolumes", cloud)
    api.ok("DELETE", "/api/v1/persistentvolumes/here")

    terms = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0] == {"key": zone, "operator": "In", "values": ["a", "b"]}
    assert text.endswith("error querying GCE PD volume d: unable to build GCE cloud provider for PD")


@pytest.mark.row("admission.PodNodeSelector")
def test_namespace_node_selector_applies_to_pods(api: Api, namespace: str) -> None:
    shared = api.ok("POST", pods(namespace), pod())["spec"]["nodeSelector"]
    clash = rejection(api, "POST", pods(namespace), pod("x", nodeSelector={"pool": "mine"}))
    note = {"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/node-selector": "pool=own,zone=a"}}}
    api.ok("PATCH", f"/api/v1/namespaces/{namespace}", note, content_type=MERGE)
    own = api.ok("POST", pods(namespace), pod("own"))["spec"]["nodeSelector"]

    assert shared == {"pool": "shared"}
    assert clash.endswith("pod node label selector conflicts with its namespace node label selector")
    assert own == {"pool": "own", "zone": "a"}


@pytest.mark.row("admission.PodTolerationRestriction")
def test_namespace_tolerations_apply_to_pods(api: Api, namespace: str) -> None:
    team = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    default = api.ok("POST", pods(namespace), pod())["spec"]["tolerations"]
    prefix = "scheduler.alpha.kubernetes.io"
    notes = {f"{prefix}/defaultTolerations": "[]", f"{prefix}/tolerationsWhitelist": json.dumps([team])}
    api.ok("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": notes}}, content_type=MERGE)
    none = api.ok("POST", pods(namespace), pod("none"))["spec"]
    other = rejection(api, "POST", pods(namespace), pod("x", tolerations=[{"operator": "Exists"}]))

    assert default == [team]
    assert "tolerations" not in none
    assert other.endswith("conflict with its namespace whitelist")


@pytest.mark.row("admission.SecurityContextDeny")
def test_security_context_fields_are_rejected(api: Api, namespace: str) -> None:
    containers: list[dict[str, Any]] = [{"name": "c", "image": "i", "securityContext": {"runAsUser": 1}}]

    text = rejection(api, "POST", pods(namespace), pod(securityContext={"fsGroup": 5}))
    assert text.endswith("pod.Spec.SecurityContext.FSGroup is forbidden")
    text = rejection(api, "POST", pods(namespace), pod(containers=containers))
    assert text.endswith("SecurityContext.RunAsUser is forbidden")
    containers[0]["securityContext"] = {"seLinuxOptions": {"level": "s0"}}
    text = rejection(api, "POST", pods(namespace), pod(containers=containers))
    assert text.endswith("SecurityContext.SELinuxOptions is forbidden")


@pytest.mark.row("admission.SecurityContextDeny", "gate.SecurityContextDeny")
async def test_security_context_deny_requires_its_gate(tmp_path: Path) -> None:
    with pytest.raises(AdmissionError, match="requires the SecurityContextDeny feature gate to be enabled"):
        await start(tmp_path / "data", "--enable-admission-plugins=SecurityContextDeny")


@pytest.mark.row("admission.CertificateApproval", "admission.CertificateSigning")
def test_approving_and_signing_require_signer_permissions(server: Server, api: Api, limited: Api) -> None:
    spec = signing_request(signerName="example.com/own")
    path = f"{CERTIFICATES}/v1/certificatesigningrequests"
    name = api.ok("POST", path, {"metadata": {"generateName": "csr-"}, "spec": spec})["metadata"]["name"]
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "R"}]}}
    certificate = base64.b64encode(Path(server.ready["caFile"]).read_bytes()).decode()
    signed = {"status": {"certificate": certificate}}

    approving = rejection(limited, "PATCH", f"{path}/{name}/approval", approved, content_type=MERGE)
    signing = rejection(limited, "PATCH", f"{path}/{name}/status", signed, content_type=MERGE)
    rules = [{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve", "sign"]}]
    rules[0]["resourceNames"] = ["example.com/*"]
    api.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "signer"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "signer"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}]
    body = {"metadata": {"name": "signer"}, "roleRef": reference, "subjects": subjects}
    api.ok("POST", f"{RBAC}/clusterrolebindings", body)

    assert approving.endswith('user not permitted to approve requests with signerName "example.com/own"')
    assert signing.endswith('user not permitted to sign requests with signerName "example.com/own"')
    limited.ok("PATCH", f"{path}/{name}/approval", approved, content_type=MERGE)
    limited.ok("PATCH", f"{path}/{name}/status", signed, content_type=MERGE)


@pytest.mark.row("admission.ClusterTrustBundleAttest")
def test_trust_bundles_require_attest_permission(server: Server, api: Api, limited: Api) -> None:
    pem = Path(server.ready["caFile"]).read_text()
    path = f"{CERTIFICATES}/v1alpha1/clustertrustbundles"

    def bundle(name: str, **spec: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"trustBundle": pem, **spec}}

    text = rejection(limited, "POST", path, bundle("other.com:ca:a", signerName="other.com/ca"))
    assert text.endswith('user not permitted to attest for signerName "other.com/ca"')
    limited.ok("POST", path, bundle("anybody"))
    api.ok("POST", path, bundle("other.com:ca:a", signerName="other.com/ca"))
    other = {"metadata": {"labels": {"a": "b"}}}
    text = rejection(limited, "PATCH", f"{path}/other.com:ca:a", other, content_type=MERGE)
    assert text.endswith('user not permitted to attest for signerName "other.com/ca"')


@pytest.mark.parametrize("query", ["", "?watch=true&timeoutSeconds=1"])
def test_deprecated_version_causes_a_warning(api: Api, query: str) -> None:
    code, headers, _ = api.raw("GET", f"{CERTIFICATES}/v1alpha1/clustertrustbundles{query}")

    assert code == 200
    assert headers["warning"] == (
        '299 - "certificates.k8s.io/v1alpha1 ClusterTrustBundle is deprecated in v1.29+, unavailable in v1.32+"'
    )


@pytest.mark.row("admission.ValidatingAdmissionPolicy")
def test_policy_expression_uses_the_authorizer(api: Api, limited: Api, namespace: str) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    expression = "authorizer.requestResource.check('create').allowed() && [1, 2].sum() == 3"
    expression += " && authorizer.path('/never').check('delete').allowed()"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    api.ok("POST", f"{POLICY}/validatingadmissionpolicies", {"metadata": {"name": "masters"}, "spec": spec})
    chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": "masters", "matchResources": chosen, "validationActions": ["Deny"]}
    api.ok("POST", f"{POLICY}/validatingadmissionpolicybindings", {"metadata": {"name": "masters"}, "spec": binding})
    maps = f"/api/v1/namespaces/{namespace}/configmaps"

    api.ok("POST", maps, {"metadata": {"name": "allowed"}})
    text = rejection(limited, "POST", maps, {"metadata": {"name": "denied"}}, code=422)

    assert "ValidatingAdmissionPolicy 'masters' with binding 'masters' denied request: failed expression" in text


@pytest.mark.row("admission.ValidatingAdmissionPolicy")
def test_admission_policies_evaluate_expressions(api: Api, namespace: str) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    validation = {
        "expression": "size(variables.keys) <= int(params.data.most)",
        "messageExpression": "'at most ' + params.data.most + ' keys'",
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "named", "expression": "object.metadata.name != 'free'"}],
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "keys", "expression": "has(object.data) ? object.data : {}"}],
        "validations": [validation],
    }
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", maps, {"metadata": {"name": "limits"}, "data": {"most": "1"}})
    api.ok("POST", f"{POLICY}/validatingadmissionpolicies", {"metadata": {"name": "few"}, "spec": spec})
    reference = {"name": "limits", "namespace": namespace, "parameterNotFoundAction": "Deny"}
    chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": "few", "paramRef": reference, "validationActions": ["Deny"], "matchResources": chosen}
    bindings = f"{POLICY}/validatingadmissionpolicybindings"
    api.ok("POST", bindings, {"metadata": {"name": "here"}, "spec": binding})
    two = {"a": "1", "b": "2"}

    text = rejection(api, "POST", maps, {"metadata": {"name": "x"}, "data": two}, code=422)
    api.ok("POST", maps, {"metadata": {"name": "y"}, "data": {"a": "1"}})
    api.ok("POST", maps, {"metadata": {"name": "free"}, "data": two})
    api.ok("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}, "data": two})
    api.ok("PATCH", f"{bindings}/here", {"spec": {"validationActions": ["Warn"]}}, content_type=MERGE)
    code, headers, _ = api.raw("POST", maps, {"metadata": {"name": "z"}, "data": two})
    bad = {**spec, "validations": [{"expression": "object.x +"}]}
    wrong = rejection(
        api, "POST", f"{POLICY}/validatingadmissionpolicies", {"metadata": {"name": "bad"}, "spec": bad}, code=422
    )
    for path in (f"{bindings}/here", f"{POLICY}/validatingadmissionpolicies/few"):
        api.ok("DELETE", path)

    assert text.endswith("ValidatingAdmissionPolicy 'few' with binding 'here' denied request: at most 1 keys")
    assert code == 201
    assert (
        "Validation failed for ValidatingAdmissionPolicy 'few' with binding 'here': at most 1 keys"
        in headers["warning"]
    )
    assert "compilation failed" in wrong


def test_limited_resource_requires_a_quota(api: Api, namespace: str) -> None:
    body = pod()
    body["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Mi"}}

    assert rejection(api, "POST", pods(namespace), body).endswith("insufficient quota to consume: limits.memory")
    hard = {"limits.memory": "1Mi"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    api.ok("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    api.ok("POST", pods(namespace), body)


@pytest.mark.row("opt.allow-privileged")
def test_privileged_containers_require_allow_privileged(api: Api, namespace: str) -> None:
    containers = [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]

    text = rejection(api, "POST", pods(namespace), pod(containers=containers), code=422)

    assert text.endswith("spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy")


@pytest.mark.row("admission.AlwaysDeny", "admission.NamespaceExists")
def test_always_deny_rejects_writes_after_the_namespace_check(tmp_path: Path) -> None:
    server = Server(
        tmp_path,
        "--enable-admission-plugins=NamespaceExists,AlwaysDeny",
        "--disable-admission-plugins=NamespaceLifecycle",
    )
    try:
        api = server.api()
        body = {"metadata": {"name": "m"}}
        for method, path, code in (
            ("POST", "/api/v1/namespaces/default/configmaps", 403),
            ("DELETE", "/api/v1/namespaces/default", 403),
            ("POST", "/api/v1/namespaces", 403),
        ):
            got, response = api.call(method, path, body if method == "POST" else None)
            assert (
                got,
                response["message"].endswith("is forbidden: admission control is denying all modifications"),
            ) == (
                code,
                True,
            )
        assert api.ok("GET", "/api/v1/namespaces/default")["status"]["phase"] == "Active"
        code, missing = api.call("POST", "/api/v1/namespaces/nope/configmaps", body)
        assert (code, missing["message"]) == (404, 'namespaces "nope" not found')
    finally:
        server.stop()
