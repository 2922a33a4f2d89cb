"""Tests for the secrets that the ServiceAccount admission plugin permits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.service_account import ServiceAccount
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity

ACCOUNT = {
    "metadata": {"name": "robot", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
    "secrets": [{"name": "own"}],
}
VARIABLE = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]}
SOURCE = {"envFrom": [{"secretRef": {"name": "other"}}]}
OWN = {"envFrom": [{"secretRef": {"name": "own"}}]}


def pod(kind: str, *references: dict[str, Any]) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": "i", **each} for number, each in enumerate(references)]
    return {"metadata": {"name": "web"}, "spec": {"serviceAccountName": "robot", kind: containers}}


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("reference", [VARIABLE, SOURCE], ids=["env", "envFrom"])
async def test_other_secret_is_rejected_in_each_kind_of_container(
    call: Any, kind: str, reference: dict[str, Any]
) -> None:
    admission = AdmissionChain([ServiceAccount(SimpleNamespace(find=lambda *_: ACCOUNT), Identity())])  # type: ignore[arg-type]
    options: dict[str, Any] = {}
    if kind == "ephemeralContainers":
        options = {"operation": "UPDATE", "subresource": "ephemeralcontainers"}

    await admission.check(call(pod(kind, OWN), pod(kind), **options))
    with pytest.raises(ApiError, match=r"referencing secret\.secretName=\"other\" is not allowed"):
        await admission.check(call(pod(kind, OWN, reference), pod(kind), **options))


TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
MIRROR = {"kubernetes.io/config.mirror": "x"}


def plugin(**account: Any) -> ServiceAccount:
    """Return the plugin in a namespace with the accounts default and robot."""
    accounts = {name: {"metadata": {"name": name}, **account} for name in ("default", "robot")}
    lister: Any = SimpleNamespace(find=lambda collection, name, namespace: accounts.get(name))
    return ServiceAccount(lister, Identity())


def new(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": spec.pop("metadata", {"name": "web"}), "spec": {"containers": containers, **spec}}


async def rejected(call: Any, found: ServiceAccount, obj: Any, **options: Any) -> str:
    try:
        await AdmissionChain([found]).check(call(obj, **options))
    except ApiError as error:
        return error.message
    return ""


async def test_default_account_is_set_and_its_token_mounted(call: Any) -> None:
    for title, spec, account, name, mounted in (
        ("default", {}, {}, "default", True),
        ("named", {"serviceAccountName": "robot"}, {}, "robot", True),
        ("disabled by the pod", {"automountServiceAccountToken": False}, {}, "default", False),
        ("disabled by the account", {}, {"automountServiceAccountToken": False}, "default", False),
        (
            "the pod takes precedence",
            {"automountServiceAccountToken": True},
            {"automountServiceAccountToken": False},
            "default",
            True,
        ),
    ):
        obj = new(**spec)
        assert await rejected(call, plugin(**account), obj) == "", title
        found = obj["spec"]
        assert (found["serviceAccountName"], found["serviceAccount"]) == (name, name), title
        mounts = found["containers"][0].get("volumeMounts") or []
        assert [item["mountPath"] for item in mounts] == ([TOKEN_PATH] if mounted else []), title
        assert [item["name"] for item in found.get("volumes") or ()] == [item["name"] for item in mounts], title


async def test_containers_with_a_mount_at_the_path_keep_it(call: Any) -> None:
    own = {"name": "own", "mountPath": TOKEN_PATH}
    other = {"name": "other", "mountPath": "/x"}
    obj = new(initContainers=[{"name": "i", "volumeMounts": [other]}], volumes=[{"name": "other"}])
    obj["spec"]["containers"][0]["volumeMounts"] = [own]
    await rejected(call, plugin(), obj)
    spec = obj["spec"]
    assert spec["containers"][0]["volumeMounts"] == [own]
    assert [item["mountPath"] for item in spec["initContainers"][0]["volumeMounts"]] == ["/x", TOKEN_PATH]
    assert len(spec["volumes"]) == 2
    only = new()
    only["spec"]["containers"][0]["volumeMounts"] = [own]
    await rejected(call, plugin(), only)
    assert "volumes" not in only["spec"]


async def test_pull_secrets_are_those_of_the_account_by_default(call: Any) -> None:
    for spec, account, expected in (
        ({}, [{"name": "a"}, {}], [{"name": "a"}, {"name": ""}]),
        ({"imagePullSecrets": [{"name": "b"}]}, [{"name": "a"}], [{"name": "b"}]),
        ({}, [], None),
    ):
        obj = new(**spec)
        await rejected(call, plugin(imagePullSecrets=account), obj)
        assert obj["spec"].get("imagePullSecrets") == expected, (spec, account)


async def test_missing_account_is_an_error(call: Any) -> None:
    text = 'error looking up service account default/x: serviceaccount "x" not found'
    assert text in await rejected(call, plugin(), new(serviceAccountName="x"))
    text = "no service account specified for pod default/web"
    options = {"operation": "UPDATE", "subresource": "ephemeralcontainers"}
    assert text in await rejected(call, plugin(), new(), **options)
    assert await rejected(call, plugin(), new(serviceAccountName="x"), operation="UPDATE") == ""


async def test_mirror_pods_have_no_account_and_no_secrets(call: Any) -> None:
    projected = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    for spec, problem in (
        ({}, ""),
        ({"serviceAccountName": "robot"}, "a mirror pod may not reference service accounts"),
        ({"volumes": [{"name": "s", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
        ({"volumes": [projected]}, "a mirror pod may not use ServiceAccountToken volume projections"),
    ):
        obj = new(metadata={"name": "web", "annotations": MIRROR}, **spec)
        found = await rejected(call, plugin(), obj)
        assert (problem in found) if problem else not found, (spec, found)
        assert "serviceAccount" not in obj["spec"], spec


async def test_only_listed_secrets_are_permitted_if_enforced(call: Any) -> None:
    ending = "is not allowed because service account robot does not reference that"
    enforced = "kubernetes.io/enforce-mountable-secrets"
    volume = {"name": "v", "secret": {"secretName": "other"}}
    own = {"name": "v", "secret": {"secretName": "own"}}
    for value, spec, problem in (
        ("true", {"volumes": [own]}, ""),
        ("true", {"volumes": [volume]}, f'volume with secret.secretName="other" {ending} secret'),
        ("1", {"volumes": [volume]}, ending),
        ("T", {"volumes": [volume]}, ending),
        ("false", {"volumes": [volume]}, ""),
        ("yes", {"volumes": [volume]}, ""),
        ("true", {"imagePullSecrets": [{"name": "pull"}]}, ""),
        ("true", {"imagePullSecrets": [{"name": "x"}]}, f'imagePullSecrets[0].name="x" {ending} imagePullSecret'),
        (
            "true",
            {"containers": [{"name": "c", **VARIABLE}]},
            'container c with envVar A referencing secret.secretName="',
        ),
        ("true", {"containers": [{"name": "c", **SOURCE}]}, "container c with envFrom referencing"),
        ("true", {"containers": [{"name": "c", **OWN}]}, ""),
    ):
        account = {"metadata": {"name": "robot", "annotations": {enforced: value}}}
        found = plugin(**account, secrets=[{"name": "own"}], imagePullSecrets=[{"name": "pull"}])
        text = await rejected(call, found, new(serviceAccountName="robot", **spec))
        assert (problem in text) if problem else not text, (value, spec, text)
