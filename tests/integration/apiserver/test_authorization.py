"""Tests for authorization over TLS: RBAC and Node on one server, other modes on separate ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver_stub.options import parse
from apiserver_stub.server import startup
from tests.integration.apiserver.conftest import Api, Server
from tests.integration.apiserver.provider import Provider

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
GROUP = {"apiGroup": "rbac.authorization.k8s.io"}
TOKENS = """alice,alice,u1,"dev,ops"
bob,bob,u2
node1,system:node:n1,u3,"system:nodes"
root,root,u4,"system:masters"
"""


@contextmanager
def serving(directory: Path, *arguments: str) -> Iterator[Server]:
    directory.mkdir(parents=True, exist_ok=True)
    tokens = directory / "tokens.csv"
    tokens.write_text(TOKENS)
    audit = directory / "policy.yaml"
    audit.write_text("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    server = Server(
        directory / "data",
        f"--token-auth-file={tokens}",
        f"--audit-policy-file={audit}",
        f"--audit-log-path={directory / 'audit.log'}",
        *arguments,
    )
    try:
        yield server
    finally:
        assert server.stop() == 0


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Server with RBAC and Node authorization."""
    with serving(tmp_path_factory.mktemp("roles"), "--authorization-mode=Node,RBAC") as server:
        yield server


@pytest.fixture
def as_(harness: Server) -> Iterator[Callable[[str], Api]]:
    """Factory of clients with a token."""
    clients: list[Api] = []

    def client(token: str) -> Api:
        clients.append(harness.api(token, close=False))
        return clients[-1]

    yield client
    for found in clients:
        found.close()


def audit_notes(directory: Path, uri: str) -> dict[str, str]:
    """Return the annotations of the latest audit event for *uri*."""
    lines = (directory / "audit.log").read_text().splitlines()
    found = [event for event in map(json.loads, lines) if event["requestURI"] == uri]
    response: dict[str, str] = found[-1]["annotations"]
    return response


def secret_pod(name: str, secret: str) -> dict[str, Any]:
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x", "envFrom": [{"secretRef": {"name": secret}}]}]}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.row("opt.authorization-mode")
def test_binding_applies_immediately_and_audit_has_the_reason(harness: Server, as_: Callable[[str], Api]) -> None:
    admin, alice = as_(""), as_("alice")
    uri = f"{PODS}?limit=7"
    code, rejection = alice.call("GET", uri)
    assert (code, rejection["reason"], rejection["details"]) == (403, "Forbidden", {"kind": "pods"})
    assert rejection["message"] == (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    assert audit_notes(harness.data_dir.parent, uri) == {
        "authorization.k8s.io/decision": "forbid",
        "authorization.k8s.io/reason": "",
    }

    binding = {
        "metadata": {"name": "viewers"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "name": "dev"}],
    }
    made = admin.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding)
    assert made["roleRef"]["apiGroup"] == made["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    alice.ok("GET", uri)
    assert audit_notes(harness.data_dir.parent, uri) == {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": (
            'RBAC: allowed by RoleBinding "viewers/default" of ClusterRole "view" to Group "dev"'
        ),
    }

    admin.ok("DELETE", f"{RBAC}/namespaces/default/rolebindings/viewers")
    assert alice.call("GET", uri)[0] == 403


@pytest.mark.row("opt.authorization-mode")
def test_node_reads_only_objects_of_its_pods(as_: Callable[[str], Api]) -> None:
    admin, node = as_(""), as_("node1")
    secrets = "/api/v1/namespaces/default/secrets"
    for name in ("mine", "other"):
        admin.ok("POST", secrets, {"metadata": {"name": name}})
    assert node.call("GET", f"{secrets}/mine")[0] == 403

    admin.ok("POST", PODS, secret_pod("needy", "mine"))
    assert node.call("GET", f"{secrets}/mine")[0] == 200
    assert node.call("GET", f"{secrets}?fieldSelector=metadata.name%3Dmine")[0] == 200
    code, rejection = node.call("GET", f"{secrets}?fieldSelector=metadata.name%3Dother")
    assert (code, rejection["details"]) == (403, {"name": "other", "kind": "secrets"})
    assert rejection["message"].endswith(": no relationship found between node 'n1' and this object")

    admin.ok("DELETE", f"{PODS}/needy?gracePeriodSeconds=0")
    assert node.call("GET", f"{secrets}/mine")[0] == 403


def test_access_reviews_return_the_decision(as_: Callable[[str], Api]) -> None:
    admin, bob = as_(""), as_("bob")
    send = {"spec": {"user": "u", "groups": ["system:monitoring"], "nonResourceAttributes": {"path": "/metrics"}}}
    send["spec"]["nonResourceAttributes"]["verb"] = "get"  # type: ignore[index]
    status = admin.ok("POST", f"{REVIEWS}/subjectaccessreviews", send)["status"]
    assert status["allowed"] is True
    assert 'ClusterRole "system:monitoring" to Group "system:monitoring"' in status["reason"]
    own = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}}
    response = bob.ok("POST", f"{REVIEWS}/selfsubjectaccessreviews", own)
    assert response["status"] == {"allowed": False}
    assert response["spec"] == own["spec"]
    assert response["metadata"]["creationTimestamp"] is None
    local = {"spec": {**own["spec"], "user": "bob"}}
    assert admin.ok("POST", f"{REVIEWS}/namespaces/default/localsubjectaccessreviews", local)["status"] == {
        "allowed": False
    }


@pytest.mark.parametrize(
    ("plural", "spec", "message"),
    [
        (
            "subjectaccessreviews",
            {},
            '[spec.resourceAttributes: Invalid value: "null": exactly one of nonResourceAttributes or '
            "resourceAttributes must be specified, "
            'spec.user: Invalid value: "": at least one of user or group must be specified]',
        ),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x"}},
            'spec.nonResourceAttributes: Invalid value: authorization.NonResourceAttributes{Path:"/x", Verb:""}: '
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "a", "resourceAttributes": {"verb": "get", "namespace": "foo"}},
            'spec.resourceAttributes.namespace: Invalid value: "foo": must match metadata.namespace',
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "a", "nonResourceAttributes": {"path": "/x"}},
            'spec.nonResourceAttributes: Invalid value: authorization.NonResourceAttributes{Path:"/x", Verb:""}: '
            "disallowed on this kind of request",
        ),
    ],
)
def test_invalid_review_reports_every_error(
    as_: Callable[[str], Api], plural: str, spec: dict[str, Any], message: str
) -> None:
    code, response = as_("").call("POST", f"{REVIEWS}/{plural}", {"spec": spec})

    assert (code, response["reason"]) == (422, "Invalid")
    assert response["message"] == f'.authorization.k8s.io "" is invalid: {message}'
    assert "kind" not in response["details"]


def test_rules_review_lists_the_rules_of_the_user(as_: Callable[[str], Api]) -> None:
    bob, node = as_("bob"), as_("node1")
    path = f"{REVIEWS}/selfsubjectrulesreviews"

    response = bob.ok("POST", path, {"spec": {"namespace": "default"}})
    assert response["spec"] == {}
    assert response["status"]["incomplete"] is False
    own = {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}
    assert own in response["status"]["resourceRules"]
    assert any("/openapi/*" in rule["nonResourceURLs"] for rule in response["status"]["nonResourceRules"])
    status = node.ok("POST", path, {"spec": {"namespace": "default"}})["status"]
    assert status["incomplete"] is True
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"
    code, rejection = bob.call("POST", path, {"spec": {}})
    assert (code, rejection["message"]) == (400, "no namespace on request")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            "clusterroles",
            {"rules": [{"verbs": []}, {"verbs": ["get"], "nonResourceURLs": ["/x"], "apiGroups": [""]}]},
            "[rules[0].verbs: Required value: verbs must contain at least one value, "
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group, "
            "rules[0].resources: Required value: resource rules must supply at least one resource, "
            'rules[1].nonResourceURLs: Invalid value: []string{"/x"}: rules cannot apply to both regular resources '
            "and non-resource URLs]",
        ),
        (
            "clusterroles",
            {"aggregationRule": {}},
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
            "aggregationRule is non-nil",
        ),
        (
            "namespaces/default/roles",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x", "/y"]}]},
            'rules[0].nonResourceURLs: Invalid value: []string{"/x", "/y"}: namespaced rules cannot apply to '
            "non-resource URLs",
        ),
        (
            "namespaces/default/rolebindings",
            {"roleRef": {"kind": "Foo", "name": "a/b", "apiGroup": "x"}},
            '[roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io", '
            'roleRef.kind: Unsupported value: "Foo": supported values: "Role", "ClusterRole", '
            "roleRef.name: Invalid value: \"a/b\": may not contain '/']",
        ),
        (
            "clusterrolebindings",
            {
                "roleRef": {"kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "Foo", "name": ""}, {"kind": "ServiceAccount", "name": "a"}],
            },
            '[subjects[0].name: Required value, subjects[0].kind: Unsupported value: "Foo": supported values: '
            '"ServiceAccount", "User", "Group", subjects[1].namespace: Required value]',
        ),
    ],
)
def test_invalid_roles_and_bindings_are_rejected(
    as_: Callable[[str], Api], path: str, body: dict[str, Any], message: str
) -> None:
    code, response = as_("").call("POST", f"{RBAC}/{path}", {"metadata": {"name": "wrong"}, **body})

    assert (code, response["reason"]) == (422, "Invalid"), response
    assert (
        response["message"] == f'{response["details"]["kind"]}.rbac.authorization.k8s.io "wrong" is invalid: {message}'
    )


def test_role_ref_is_immutable(as_: Callable[[str], Api]) -> None:
    admin = as_("")
    binding = {"metadata": {"name": "stays"}, "roleRef": {"kind": "ClusterRole", "name": "view"}}
    admin.ok("POST", f"{RBAC}/clusterrolebindings", binding)
    binding["roleRef"]["name"] = "edit"

    code, response = admin.call("PUT", f"{RBAC}/clusterrolebindings/stays", binding)

    assert code == 422
    assert response["message"].endswith(
        'roleRef: Invalid value: rbac.RoleRef{APIGroup:"rbac.authorization.k8s.io", Kind:"ClusterRole", Name:"edit"}: '
        "cannot change roleRef"
    )


def test_privilege_escalation_is_rejected(as_: Callable[[str], Api]) -> None:
    admin, bob = as_(""), as_("bob")
    manage = {"verbs": ["create", "update", "patch"], "apiGroups": [GROUP["apiGroup"]], "resources": ["*"]}
    read = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    admin.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "manager"}, "rules": [manage, read]})
    binding = {
        "metadata": {"name": "manager"},
        "roleRef": {"kind": "ClusterRole", "name": "manager"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    admin.ok("POST", f"{RBAC}/clusterrolebindings", binding)

    bob.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "small"}, "rules": [read]})
    more = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}]
    tries = (
        ("POST", "clusterroles", {"metadata": {"name": "big"}, "rules": more}, "application/json"),
        ("PATCH", "clusterroles/small", {"rules": more}, "application/merge-patch+json"),
        ("PUT", "clusterroles/small", {"metadata": {"name": "small"}, "rules": more}, "application/json"),
        (
            "PATCH",
            "clusterroles/big?fieldManager=m",
            {
                "apiVersion": f"{GROUP['apiGroup']}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "big"},
                "rules": more,
            },
            "application/apply-patch+yaml",
        ),
    )
    for method, path, body, content_type in tries:
        code, rejection = bob.call(method, f"{RBAC}/{path}", body, content_type=content_type)
        assert (code, rejection["message"].partition(" is forbidden: ")[2]) == (
            403,
            'user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        ), (method, path)
    root = {"metadata": {"name": "root"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
    assert bob.call("POST", f"{RBAC}/clusterrolebindings", root)[0] == 403
    assert bob.call("POST", f"{RBAC}/namespaces/default/rolebindings", root)[0] == 403
    bind = {"verbs": ["bind"], "apiGroups": [GROUP["apiGroup"]], "resources": ["clusterroles"]}
    patch = {"rules": [manage, read, {**bind, "resourceNames": ["cluster-admin"]}]}
    admin.ok("PATCH", f"{RBAC}/clusterroles/manager", patch, content_type="application/merge-patch+json")
    bob.ok("POST", f"{RBAC}/namespaces/default/rolebindings", root)


def test_kubectl_creates_roles_and_checks_permissions(harness: Server) -> None:
    harness.kubectl("create", "role", "pod-reader", "--verb=get,list", "--resource=pods")
    harness.kubectl("create", "rolebinding", "pod-reader", "--role=pod-reader", "--user=carol")

    assert "Role/pod-reader" in harness.kubectl("get", "rolebindings", "pod-reader", "-o", "wide")
    assert harness.kubectl("auth", "can-i", "list", "pods", "--as=carol").startswith("yes")
    assert harness.kubectl("auth", "can-i", "delete", "pods", "--as=carol", code=1).startswith("no")
    assert "selfsubjectrulesreviews" in harness.kubectl("auth", "can-i", "--list", "--as=carol")


@pytest.mark.parametrize(("minor", "code"), [(34, 404), (35, 403)])
def test_connections_to_pods_require_the_permission_to_create(tmp_path: Path, minor: int, code: int) -> None:
    with serving(tmp_path, "--authorization-mode=RBAC", f"--compatibility-version=1.{minor}") as server:
        admin, alice = server.api(""), server.api("alice")
        rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}
        admin.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "reader"}, "rules": [rule]})
        binding = {
            "metadata": {"name": "reader"},
            "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "User", "name": "alice"}],
        }
        admin.ok("POST", f"{RBAC}/clusterrolebindings", binding)

        found, status = alice.call("GET", f"{PODS}/missing/exec?command=id&container=c")

    assert found == code
    if code == 403:
        assert 'User "alice" cannot create resource "pods/exec"' in status["message"]


@pytest.mark.row("opt.authorization-mode")
def test_default_roles_are_reconciled_at_startup(tmp_path: Path) -> None:
    path = f"{RBAC}/clusterroles/system:discovery"
    with serving(tmp_path, "--authorization-mode=RBAC") as server:
        admin = server.api()
        assert admin.ok("GET", path)["metadata"]["annotations"] == {
            "rbac.authorization.kubernetes.io/autoupdate": "true"
        }
        admin.ok("PATCH", path, {"rules": []}, content_type="application/merge-patch+json")
        assert server.api("bob").call("GET", "/api")[0] == 403

        server.stop()
        server.start()

        assert server.api("bob").call("GET", "/api")[0] == 200


# Other modes.


@pytest.mark.row("opt.authorization-mode")
async def test_default_mode_allows_authenticated_users_only(tmp_path: Path) -> None:
    options = parse([f"--data-dir={tmp_path}", "--bind-address=127.0.0.1", "--free-port"])
    running = await startup.start(options)

    def send() -> None:
        admin, anonymous = (Api(running.url, str(running.ca_file), token) for token in (running.token, None))
        made = admin.ok("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
        account = Api(running.url, str(running.ca_file), made["status"]["token"])
        assert account.call("GET", "/api/v1/secrets")[0] == 200
        assert account.call("POST", "/api/v1/namespaces", {"metadata": {"name": "made"}})[0] == 201
        assert account.call("DELETE", "/api/v1/namespaces/made")[0] == 200
        assert [anonymous.call("GET", path)[0] for path in ("/api/v1/secrets", "/healthz")] == [401, 401]
        for client in (admin, anonymous, account):
            client.close()

    try:
        await asyncio.to_thread(send)
    finally:
        await running.stop()


@pytest.mark.row("opt.authorization-mode", "opt.authorization-policy-file")
def test_abac_policy_followed_by_always_deny(tmp_path: Path) -> None:
    policy = tmp_path / "policy.jsonl"
    spec = {"user": "bob", "namespace": "*", "resource": "pods", "apiGroup": "", "readonly": True}
    line = {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec}
    policy.write_text(json.dumps(line))
    arguments = ("--authorization-mode=ABAC,AlwaysDeny", f"--authorization-policy-file={policy}")

    with serving(tmp_path, *arguments) as server:
        bob = server.api("bob")

        assert bob.call("GET", PODS)[0] == 200
        code, response = bob.call("POST", PODS, {})
        assert (code, response["message"].partition('"default"')[2]) == (
            403,
            ": No policy matched.\nEverything is forbidden.",
        )
        assert server.api("root").call("GET", "/api/v1/nodes")[0] == 200


def connection(directory: Path, provider: Provider) -> Path:
    path = directory / "webhook.kubeconfig"
    cluster = {"server": f"{provider.url}/authorize", "certificate-authority": str(provider.ca_file)}
    config = {
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u"}}],
        "current-context": "a",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def decide(review: Any) -> tuple[int, Any]:
    """Respond as a webhook that lets bob read, has no opinion on nodes, and fails for other requests."""
    about = review["spec"].get("resourceAttributes") or {}
    if about.get("resource") == "broken":
        return 400, {}
    denied = about.get("resource") == "secrets"
    allowed = review["spec"]["user"] == "bob" and about.get("verb") == "list" and not denied
    status = {"allowed": allowed, "denied": denied, "reason": "so says the service"}
    return 200, {"kind": "SubjectAccessReview", "apiVersion": review["apiVersion"], "status": status}


@pytest.mark.row(
    "opt.authorization-mode",
    "opt.authorization-webhook-config-file",
    "opt.authorization-webhook-version",
    "opt.authorization-webhook-cache-authorized-ttl",
    "opt.authorization-webhook-cache-unauthorized-ttl",
)
@pytest.mark.parametrize(("good_for", "bad_for", "times"), [("1h", "0s", 3), ("0s", "1h", 4)])
def test_webhook_authorizes_requests(tmp_path: Path, good_for: str, bad_for: str, times: int) -> None:
    provider = Provider(tmp_path)
    provider.paths["/authorize"] = decide
    arguments = (
        "--authorization-mode=Webhook,RBAC",
        f"--authorization-webhook-config-file={connection(tmp_path, provider)}",
        "--authorization-webhook-version=v1",
        f"--authorization-webhook-cache-authorized-ttl={good_for}",
        f"--authorization-webhook-cache-unauthorized-ttl={bad_for}",
    )
    with serving(tmp_path, *arguments) as server:
        bob = server.api("bob")

        for _ in range(3):
            bob.ok("GET", PODS)
        code, rejection = bob.call("GET", f"{PODS}/x")
        bob.call("GET", f"{PODS}/x")
        assert code == 403
        assert rejection["message"].endswith('in the namespace "default": so says the service')
        assert bob.call("GET", "/api/v1/secrets")[0] == 403
        assert bob.call("GET", "/api")[0] == 200, "what the service has no opinion about, roles decide"
        assert bob.call("GET", "/api/v1/broken")[:2] == (
            500,
            b'Internal Server Error: "/api/v1/broken": an error on the server ("unknown") has prevented the request '
            b"from succeeding\n",
        )
        assert audit_notes(tmp_path, "/api/v1/broken") == {"authorization.k8s.io/reason": "internal error"}

    requested = [(body["spec"].get("resourceAttributes") or {}) for path, body in provider.requests]
    assert provider.requests[0][0] == "/authorize?timeout=30s"
    assert provider.requests[0][1]["apiVersion"] == "authorization.k8s.io/v1"
    assert provider.requests[0][1]["spec"]["groups"] == ["system:authenticated"]
    assert [item.get("resource") for item in requested] == [*["pods"] * times, "secrets", None, "broken"]
    provider.close()


@pytest.mark.row("opt.authorization-config")
def test_authorization_configuration_authorizes_requests(tmp_path: Path) -> None:
    provider = Provider(tmp_path)
    provider.paths["/authorize"] = decide
    hook = {
        "authorizedTTL": "1m",
        "unauthorizedTTL": "1m",
        "timeout": "7s",
        "subjectAccessReviewVersion": "v1beta1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(connection(tmp_path, provider))},
        "matchConditions": [{"expression": "has(request.resourceAttributes)"}],
    }
    config = {
        "apiVersion": "apiserver.config.k8s.io/v1alpha1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Webhook", "name": "service.example", "webhook": hook},
            {"type": "RBAC", "name": "rbac"},
        ],
    }
    file = tmp_path / "authorization.yaml"
    file.write_text(yaml.safe_dump(config))
    gate = "--feature-gates=StructuredAuthorizationConfiguration=true"

    with serving(tmp_path, gate, f"--authorization-config={file}") as server:
        bob = server.api("bob")

        assert bob.call("GET", PODS)[0] == 200
        assert bob.call("GET", "/api")[0] == 200
        assert bob.call("GET", "/api/v1/broken")[0] == 500

    assert [(path, "group" in body["spec"]) for path, body in provider.requests] == [
        ("/authorize?timeout=7s", True)
    ] * 2
    provider.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/mine/nodes?watch=1&timeoutSeconds=1"),
        ("GET", "/api/v1/watch/namespaces/mine/nodes?timeoutSeconds=1"),
        ("GET", "/api/v1/namespaces/mine/nodes"),
        ("GET", f"{RBAC}/namespaces/mine/clusterroles/admin"),
        ("GET", "/api/v1/namespaces/mine/namespaces"),
        ("GET", "/api/v1/namespaces/mine/namespaces?watch=1&timeoutSeconds=1"),
        ("GET", "/api/v1/namespaces/mine/namespaces/default"),
        ("PUT", "/api/v1/namespaces/mine/namespaces/default/finalize"),
        ("DELETE", "/api/v1/namespaces/mine/namespaces/default"),
        ("DELETE", "/api/v1/namespaces/mine/namespaces"),
        ("POST", "/api/v1/namespaces/mine/namespaces"),
        ("GET", "/api/v1/watch/namespaces/mine/pods/web/log?timeoutSeconds=1"),
    ],
)
def test_role_of_a_namespace_gives_no_access_to_cluster_scoped_objects(
    harness: Server, as_: Callable[[str], Api], method: str, path: str
) -> None:
    admin, bob = harness.api(""), as_("bob")
    admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    admin.call("POST", f"{RBAC}/namespaces/mine/roles", {"metadata": {"name": "owner"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "owner"},
        "roleRef": {"kind": "Role", "name": "owner"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    admin.call("POST", f"{RBAC}/namespaces/mine/rolebindings", binding)
    body = {"metadata": {"name": "default"}, "spec": {"finalizers": []}} if method in ("POST", "PUT") else None

    code, reply = bob.call(method, path, body)

    assert (code, reply["reason"]) == (404, "NotFound"), reply
    assert bob.ok("GET", "/api/v1/namespaces/mine")["metadata"]["name"] == "mine"
    assert bob.ok("GET", "/api/v1/namespaces/mine/pods")["items"] == []
    assert bob.call("GET", "/api/v1/nodes")[0] == 403
    assert "deletionTimestamp" not in admin.ok("GET", "/api/v1/namespaces/default")["metadata"]


@pytest.mark.parametrize("verbs", [["patch", "update"], ["patch", "update", "create"]])
def test_patches_and_updates_that_create_require_that_permission(
    harness: Server, as_: Callable[[str], Api], verbs: list[str]
) -> None:
    admin, bob, may_create = harness.api(""), as_("bob"), "create" in verbs
    rule = {"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": verbs}
    role = {"metadata": {"name": f"writer-{len(verbs)}"}, "rules": [rule]}
    admin.ok("POST", f"{RBAC}/namespaces/kube-public/roles", role)
    binding = {
        "metadata": role["metadata"],
        "roleRef": {"kind": "Role", "name": f"writer-{len(verbs)}"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    admin.ok("POST", f"{RBAC}/namespaces/kube-public/rolebindings", binding)
    maps = "/api/v1/namespaces/kube-public/configmaps"
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-public/leases"

    def applied(name: str) -> tuple[int, Any]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": str(len(verbs))}}
        query = "fieldManager=bob&force=true"
        return bob.call("PATCH", f"{maps}/{name}?{query}", body, content_type="application/apply-patch+yaml")

    code, reply = applied("new")
    replaced, _ = bob.call("PUT", f"{leases}/new", {"metadata": {"name": "new"}})
    admin.call("DELETE", f"{maps}/new")
    admin.call("DELETE", f"{leases}/new")
    admin.ok("DELETE", f"{RBAC}/namespaces/kube-public/rolebindings/writer-{len(verbs)}")

    assert (code, replaced) == ((201, 201) if may_create else (403, 403)), reply
    if not may_create:
        assert reply["message"].startswith('configmaps "new" is forbidden')


def test_patch_of_an_existing_object_requires_no_other_permission(harness: Server, as_: Callable[[str], Api]) -> None:
    admin, bob = harness.api(""), as_("bob")
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}
    admin.ok("POST", f"{RBAC}/namespaces/kube-public/roles", {"metadata": {"name": "patcher"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "patcher"},
        "roleRef": {"kind": "Role", "name": "patcher"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    admin.ok("POST", f"{RBAC}/namespaces/kube-public/rolebindings", binding)
    path = "/api/v1/namespaces/kube-public/configmaps"
    admin.ok("POST", path, {"metadata": {"name": "existing"}})

    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "existing"}, "data": {"a": "b"}}
    bob.ok("PATCH", f"{path}/existing?fieldManager=bob", body, content_type="application/apply-patch+yaml")

    admin.ok("DELETE", f"{RBAC}/namespaces/kube-public/rolebindings/patcher")
