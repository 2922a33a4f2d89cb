"""Integration tests for webhook configurations and policies in files (ManifestBasedAdmissionControlConfig)."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.admission import manifests
from apiserver_stub.admission.config import AdmissionError

from .etcd import serving
from .provider import Provider
from .test_admission import hook, patching, review
from .test_limits import Client

MAPS = "/api/v1/namespaces/default/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
ENABLED = "--feature-gates=ManifestBasedAdmissionControlConfig=true"
RELEASE = "--compatibility-version=1.36"
WAIT_SECONDS = 10


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    found = Provider(tmp_path)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "POLL_SECONDS", 0.05)


def an_object(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": f"{name}.static.k8s.io"}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, **fields}


def rules(resource: str = "configmaps", group: str = "") -> dict[str, Any]:
    rule = {"operations": ["CREATE"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource]}
    return {"resourceRules": [rule]}


def validating(name: str, expression: str, **more: Any) -> list[dict[str, Any]]:
    """Return a policy that requires *expression*, and its binding."""
    spec = {"matchConstraints": rules(**more), "validations": [{"expression": expression}]}
    bound = {"policyName": f"{name}.static.k8s.io", "validationActions": ["Deny"]}
    return [
        an_object("ValidatingAdmissionPolicy", name, spec=spec),
        an_object("ValidatingAdmissionPolicyBinding", name, spec=bound),
    ]


def mutating(name: str, data: str) -> list[dict[str, Any]]:
    patch = {"expression": f"Object{{data: {{'{data}': 'set'}}}}"}
    spec = {
        "matchConstraints": rules(),
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": patch}],
    }
    return [
        an_object("MutatingAdmissionPolicy", name, spec=spec),
        an_object("MutatingAdmissionPolicyBinding", name, spec={"policyName": f"{name}.static.k8s.io"}),
    ]


def configuration(directory: Path, **plugins: list[dict[str, Any]]) -> str:
    """Write the manifests of each plugin and return the option with their configuration."""
    listed = []
    for name, objects in plugins.items():
        files = directory / name
        files.mkdir(parents=True)
        for number, obj in enumerate(objects):
            (files / f"{number}.json").write_text(json.dumps(obj))
        kind = "WebhookAdmissionConfiguration" if name.endswith("Webhook") else f"{name}Configuration"
        config = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": kind, "staticManifestsDir": str(files)}
        listed.append({"name": name, "configuration": config})
    path = directory / "admission.json"
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    path.write_text(json.dumps({**head, "plugins": listed}))
    return f"--admission-control-config-file={path}"


async def create(client: Client, name: str, path: str = MAPS, **fields: Any) -> tuple[int, Any]:
    code, _, body = await client("POST", path, json={"metadata": {"name": name}, **fields})
    return code, json.loads(body)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not await condition():
            await asyncio.sleep(0.02)


async def test_policies_apply_from_the_start_and_are_not_visible(tmp_path: Path) -> None:
    option = configuration(
        tmp_path,
        ValidatingAdmissionPolicy=validating("no-bad", "object.metadata.name != 'bad'"),
        MutatingAdmissionPolicy=mutating("mark", "mark"),
    )
    async with serving(tmp_path / "data", RELEASE, ENABLED, option) as client:
        bad = await create(client, "bad")
        good = await create(client, "good")
        stored = json.loads((await client("GET", f"{REGISTRATION}/validatingadmissionpolicies"))[2])

    assert bad[0] == 422
    assert (
        "ValidatingAdmissionPolicy 'no-bad.static.k8s.io' with binding 'no-bad.static.k8s.io' denied"
        in bad[1]["message"]
    )
    assert good[0] == 201
    assert good[1]["data"] == {"mark": "set"}
    assert [item["metadata"]["name"] for item in stored["items"] if "static" in item["metadata"]["name"]] == []


async def test_webhooks_precede_stored_ones(tmp_path: Path, provider: Provider) -> None:
    order: list[str] = []

    def responder(name: str) -> Callable[[Any], tuple[int, Any]]:
        def respond(body: Any) -> tuple[int, Any]:
            order.append(name)
            return patching({"op": "add", "path": "/data", "value": {name: "yes"}})(body)

        return respond

    provider.paths |= {"/static": responder("static"), "/stored": responder("stored")}
    provider.paths["/check"] = lambda body: review(body, allowed=body["request"]["name"] != "bad")
    option = configuration(
        tmp_path,
        MutatingAdmissionWebhook=[
            an_object("MutatingWebhookConfiguration", "m", webhooks=[hook(provider, "/static", "default")])
        ],
        ValidatingAdmissionWebhook=[
            an_object("ValidatingWebhookConfiguration", "v", webhooks=[hook(provider, "/check", "default")])
        ],
    )
    async with serving(tmp_path / "data", RELEASE, ENABLED, option) as client:
        webhooks = [hook(provider, "/stored", "default")]
        assert (await create(client, "a", f"{REGISTRATION}/mutatingwebhookconfigurations", webhooks=webhooks))[0] == 201
        good, bad = await create(client, "good"), await create(client, "bad")

    assert order[:2] == ["static", "stored"]
    assert (good[0], good[1]["data"]) == (201, {"stored": "yes"})
    assert bad[0] == 400
    assert 'admission webhook "check.example.com" denied the request' in bad[1]["message"]


@pytest.mark.parametrize("static", [True, False])
async def test_only_manifests_apply_to_policies_themselves(tmp_path: Path, static: bool) -> None:
    target = {"resource": "validatingadmissionpolicybindings", "group": "admissionregistration.k8s.io"}
    found = validating("protect", "object.metadata.name != 'bad'", **target)
    option = configuration(tmp_path, ValidatingAdmissionPolicy=found if static else [])
    async with serving(tmp_path / "data", RELEASE, ENABLED, option) as client:
        if not static:
            for plural, obj in zip(("policies", "policybindings"), found, strict=True):
                spec = {**obj["spec"], "policyName": "protect"} if "policyName" in obj["spec"] else obj["spec"]
                path = f"{REGISTRATION}/validatingadmission{plural}"
                assert (await create(client, "protect", path, spec=spec))[0] == 201
        spec = {"policyName": "x", "validationActions": ["Deny"]}
        code, _ = await create(client, "bad", f"{REGISTRATION}/validatingadmissionpolicybindings", spec=spec)

    assert code == (422 if static else 201)


async def test_stored_bindings_do_not_bind_policies_of_manifests(tmp_path: Path) -> None:
    policy, _ = validating("none", "false")
    option = configuration(tmp_path, ValidatingAdmissionPolicy=[policy])
    async with serving(tmp_path / "data", RELEASE, ENABLED, option) as client:
        spec = {"policyName": "none.static.k8s.io", "validationActions": ["Deny"]}
        assert (await create(client, "b", f"{REGISTRATION}/validatingadmissionpolicybindings", spec=spec))[0] == 201
        assert (await create(client, "a"))[0] == 201


async def test_files_are_reloaded_unless_they_are_invalid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    option = configuration(tmp_path, ValidatingAdmissionPolicy=validating("p", "object.metadata.name != 'first'"))
    files = tmp_path / "ValidatingAdmissionPolicy"
    async with serving(tmp_path / "data", RELEASE, ENABLED, option) as client:

        async def denies(name: str) -> bool:
            return (await client("POST", f"{MAPS}?dryRun=All", json={"metadata": {"name": name}}))[0] == 422

        assert await denies("first")
        (files / "0.json").write_text(json.dumps(validating("p", "object.metadata.name != 'second'")[0]))
        await until(lambda: denies("second"))
        assert not await denies("first")

        with caplog.at_level(logging.ERROR):
            (files / "0.json").write_text(json.dumps(validating("p", "object.")[0]))

            async def reports() -> bool:
                return any("Failed to reload admission manifests" in record.message for record in caplog.records)

            await until(reports)
        assert await denies("second")

        (files / "0.json").unlink()
        (files / "1.json").unlink()

        async def permits() -> bool:
            return not await denies("second")

        await until(permits)
        page = (await client("GET", "/metrics"))[2].decode()

    start, plugin = "apiserver_manifest_admission_config_controller", 'plugin="ValidatingAdmissionPolicy"'
    for status, count in (("success", 3), ("failure", 1)):
        labels = rf'status="{status}",{plugin},apiserver_id_hash="sha256:\w{{64}}"'
        assert re.search(rf"{start}_automatic_reloads_total{{{labels}}} {count}\n", page)
        assert re.search(rf"{start}_automatic_reload_last_timestamp_seconds{{{labels}}} \d", page)
    assert page.count(f"{start}_last_config_info{{{plugin},") == 1


@pytest.mark.parametrize(("options", "code"), [((ENABLED,), 422), ((), 201)])
async def test_names_of_manifests_are_reserved(tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    async with serving(tmp_path / "data", RELEASE, *options) as client:
        found = await create(client, "a.static.k8s.io", f"{REGISTRATION}/validatingwebhookconfigurations")

    assert found[0] == code
    if options:
        assert found[1]["details"]["causes"] == [
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "a.static.k8s.io": names ending with ".static.k8s.io" are reserved for '
                "static manifest-based configurations and cannot be managed via the API",
                "field": "metadata.name",
            }
        ]


def other_name(objects: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{**obj, "metadata": {"name": name}} for obj in objects]


POLICY, BINDING = validating("p", "true")
INVALID: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "suffix": ("ValidatingAdmissionPolicy", other_name([POLICY], "p"), 'must have a name ending with ".static.k8s.io"'),
    "duplicate": ("ValidatingAdmissionPolicy", [POLICY, POLICY], 'duplicate name "p.static.k8s.io"'),
    "reference": ("ValidatingAdmissionPolicy", [BINDING], "which does not exist in the manifest directory"),
    "kind": ("MutatingAdmissionPolicy", [POLICY], 'unsupported kind "ValidatingAdmissionPolicy"'),
    "field": ("ValidatingAdmissionPolicy", [{**POLICY, "extra": 1}], 'unknown field "extra"'),
    "expression": ("ValidatingAdmissionPolicy", validating("p", "object."), "spec.validations[0].expression"),
    "parameters": (
        "ValidatingAdmissionPolicy",
        [{**POLICY, "spec": {**POLICY["spec"], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
        "spec.paramKind is not supported for static manifests",
    ),
    "service": (
        "ValidatingAdmissionWebhook",
        [
            an_object(
                "ValidatingWebhookConfiguration",
                "w",
                webhooks=[
                    {
                        "name": "a.example.com",
                        "clientConfig": {"service": {"name": "a", "namespace": "b"}},
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                    }
                ],
            )
        ],
        "webhooks[0].clientConfig.url is required for static manifests",
    ),
}


@pytest.mark.parametrize("case", INVALID)
async def test_invalid_manifests_prevent_the_start(tmp_path: Path, case: str) -> None:
    plugin, objects, message = INVALID[case]
    option = configuration(tmp_path, **{plugin: objects})

    with pytest.raises(AdmissionError) as error:
        async with serving(tmp_path / "data", RELEASE, ENABLED, option):
            pass

    assert message in str(error.value)


async def test_lists_and_documents_of_a_file_are_read(tmp_path: Path) -> None:
    option = configuration(tmp_path, ValidatingAdmissionPolicy=[])
    first, second = validating("a", "object.metadata.name != 'a'"), validating("b", "object.metadata.name != 'b'")
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": first})
    documents = "\n---\n".join([listed, *map(json.dumps, second)])
    (tmp_path / "ValidatingAdmissionPolicy" / "all.yaml").write_text(documents)
    (tmp_path / "ValidatingAdmissionPolicy" / "README.md").write_text("{")
    async with serving(tmp_path / "data", RELEASE, ENABLED, option) as client:
        assert [(await create(client, name))[0] for name in ("a", "b", "c")] == [422, 422, 201]


async def test_directory_requires_the_gate(tmp_path: Path) -> None:
    option = configuration(tmp_path, ValidatingAdmissionWebhook=[])
    with pytest.raises(AdmissionError, match="requires the ManifestBasedAdmissionControlConfig feature gate"):
        async with serving(tmp_path / "data", RELEASE, option):
            pass


@pytest.mark.parametrize(
    ("directory", "problem"),
    [
        ("manifests", "must be an absolute file path"),
        ("/proc/none", "unable to read"),
        ("/dev/null", "must be a directory"),
    ],
)
async def test_invalid_directory_is_rejected(tmp_path: Path, directory: str, problem: str) -> None:
    option = configuration(tmp_path, MutatingAdmissionPolicy=[])
    file = tmp_path / "admission.json"
    file.write_text(file.read_text().replace(str(tmp_path / "MutatingAdmissionPolicy"), directory))
    with pytest.raises(AdmissionError, match=problem):
        async with serving(tmp_path / "data", RELEASE, ENABLED, option):
            pass
