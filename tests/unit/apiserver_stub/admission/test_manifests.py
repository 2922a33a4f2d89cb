"""Tests for webhook configurations and policies in files."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission import manifests as module
from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.manifest_config import load_manifests
from apiserver_stub.admission.manifest_reloads import ManifestReloads
from apiserver_stub.admission.manifests import ManifestError, Manifests
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity

REGISTRY = build_registry(parse(["--compatibility-version=1.36"]))
GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
HOOKS = "ValidatingWebhookConfiguration"
KINDS = (POLICY, BINDING, HOOKS)
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def obj(kind: str, name: str, version: str = f"{GROUP}/v1", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": version, "metadata": {"name": name}, **fields}


def policy(name: str = "p.static.k8s.io", **spec: Any) -> dict[str, Any]:
    given = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}], **spec}
    return obj(POLICY, name, spec=given)


def binding(name: str = "b.static.k8s.io", policy_name: str = "p.static.k8s.io", **spec: Any) -> dict[str, Any]:
    return obj(BINDING, name, spec={"policyName": policy_name, "validationActions": ["Deny"], **spec})


def hooks(name: str = "h.static.k8s.io", **config: Any) -> dict[str, Any]:
    hook = {"name": "a.example.com", "rules": [RULE], "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return obj(HOOKS, name, webhooks=[{**hook, "clientConfig": config or {"url": "https://w.example"}}])


def write(directory: Path, *files: Any) -> None:
    """Write files with one or several documents, as a.yaml and so on."""
    for name, content in zip("abcdef", files, strict=False):
        documents = content if isinstance(content, list) else [content]
        text = "\n---\n".join(item if isinstance(item, str) else json.dumps(item) for item in documents)
        (directory / f"{name}.yaml").write_text(text)


def read(directory: Path) -> Manifests:
    return Manifests("P", directory, KINDS, REGISTRY, Identity())


def names(found: Manifests, kind: str) -> list[str]:
    resource = REGISTRY.find_kind(GROUP, "v1", kind)
    assert resource is not None
    return [item["metadata"]["name"].removesuffix(".static.k8s.io") for item in found.every(resource.plural)]


def test_objects_of_all_files_are_ordered_by_name(tmp_path: Path) -> None:
    listed = {"kind": "List", "apiVersion": "v1", "items": [policy("a.static.k8s.io"), hooks()]}
    write(tmp_path, [policy("c.static.k8s.io"), policy()], listed, binding())
    (tmp_path / "d.yaml").mkdir()
    (tmp_path / "e.txt").write_text("5")

    found = read(tmp_path)

    assert (names(found, POLICY), names(found, BINDING), names(found, HOOKS)) == (["a", "c", "p"], ["b"], ["h"])
    assert found.every("validatingwebhookconfigurations")[0]["webhooks"][0]["timeoutSeconds"] == 10


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([[5]], "must be an object"),
        ([{"kind": "List", "apiVersion": "v1", "items": [5]}], "must be an object"),
        ([obj("List", "x", "v2")], 'unsupported kind "List" of "v2"; supported: ValidatingAdmissionPolicy, '),
        ([obj(POLICY, "x", f"{GROUP}/v1beta1")], f'unsupported kind "{POLICY}" of "{GROUP}/v1beta1"'),
        ([obj("MutatingWebhookConfiguration", "x")], 'unsupported kind "MutatingWebhookConfiguration"'),
        ([policy(other=1)], f'{POLICY}: strict decoding error: unknown field "spec.other"'),
        ([policy(validations={})], f"{POLICY}: "),
        ([policy("p")], f'{POLICY} "p" must have a name ending with ".static.k8s.io"'),
        ([policy(validations=[])], f'{POLICY} "p.static.k8s.io" is invalid: spec.validations: Required value'),
        ([policy("_.static.k8s.io")], "is invalid: metadata.name: Invalid value"),
        ([policy(), policy()], 'duplicate name "p.static.k8s.io" (previously seen in "'),
        ([hooks(service={"name": "s", "namespace": "n"})], "webhooks[0].clientConfig.url is required for static"),
        ([policy(paramKind={"apiVersion": "v1", "kind": "ConfigMap"})], "spec.paramKind is not supported for static"),
        (
            [policy(), binding(paramRef={"name": "x", "parameterNotFoundAction": "Deny"})],
            "spec.paramRef is not supported for static manifests",
        ),
        ([binding(policy_name="p")], 'spec.policyName "p" must end with ".static.k8s.io"'),
    ],
)
def test_invalid_objects_are_reported_with_their_file(tmp_path: Path, documents: list[Any], problem: str) -> None:
    write(tmp_path, documents)

    with pytest.raises(ManifestError) as error:
        read(tmp_path)

    assert str(error.value).startswith(f"error loading {tmp_path}/a.yaml: ")
    assert problem in str(error.value)


def test_binding_must_refer_to_a_policy_in_the_directory(tmp_path: Path) -> None:
    write(tmp_path, binding())

    with pytest.raises(ManifestError, match=r'binding "b\.static\.k8s\.io" references policy "p\.static\.k8s\.io"'):
        read(tmp_path)
    with pytest.raises(ManifestError, match="failed to read manifest directory"):
        read(tmp_path / "none")


def test_invalid_change_keeps_the_previous_objects(tmp_path: Path) -> None:
    write(tmp_path, policy())
    found = read(tmp_path)
    before, digest = found.every("validatingadmissionpolicies"), found.digest

    assert found.load() is False
    write(tmp_path, "5")
    with pytest.raises(ManifestError):
        found.load()
    assert found.load() is False
    assert found.every("validatingadmissionpolicies") is before
    assert found.digest == digest

    write(tmp_path, policy("q.static.k8s.io"))
    assert found.load() is True
    assert (names(found, POLICY), found.digest == digest) == (["q"], False)


async def test_reloads_are_counted_once_per_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[Any] = [False, ManifestError("bad"), ManifestError("bad"), True, ManifestError("bad")]
    reloads = ManifestReloads()
    write(tmp_path, policy())
    found = read(tmp_path)
    caplog.set_level("INFO")

    def load() -> bool:
        if not results:
            raise asyncio.CancelledError
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return bool(result)

    async def call(function: Any) -> Any:
        return function()

    async def pause(seconds: float) -> None:
        assert seconds == 2

    monkeypatch.setattr(found, "load", load)
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=pause, to_thread=call))
    with suppress(asyncio.CancelledError):
        await found.keep_current(reloads)

    assert reloads.counts == {("failure", "P"): 2, ("success", "P"): 1}
    assert reloads.digests == {"P": found.digest}
    failed = "Failed to reload admission manifests"
    assert caplog.messages == [failed, "Reloaded admission manifests", failed]


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """Components of a server with the feature gate, whose configuration names the directory."""
    options = parse(["--compatibility-version=1.36", "--feature-gates=ManifestBasedAdmissionControlConfig=true"])
    started: list[str] = []

    def start(task: Any, name: str) -> None:
        task.close()
        started.append(name)

    return SimpleNamespace(
        config={"staticManifestsDir": str(tmp_path)},
        gates=options.gates,
        identity=Identity(),
        registry=REGISTRY,
        manifest_reloads=ManifestReloads(),
        start_task=start,
        started=started,
    )


async def test_directory_of_the_configuration_is_loaded_and_reloaded(tmp_path: Path, context: Any) -> None:
    write(tmp_path, policy())

    found = await load_manifests("P", context, KINDS)

    assert found is not None
    assert names(found, POLICY) == ["p"]
    assert (context.started, context.manifest_reloads.digests) == (["admission-manifests/P"], {"P": found.digest})


HEAD = {"kind": "C", "apiVersion": "apiserver.config.k8s.io/v1"}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, ""),
        (HEAD, ""),
        ({"kind": "D", "apiVersion": HEAD["apiVersion"]}, 'P: no kind "D" is registered for version'),
        ({**HEAD, "other": 1}, 'P: unknown field "other"'),
        ({**HEAD, "staticManifestsDir": "x"}, 'P: staticManifestsDir: Invalid value: "x": must be an absolute'),
        ({**HEAD, "staticManifestsDir": "/none/x"}, "unable to read: no such file or directory"),
        ({**HEAD, "staticManifestsDir": "/dev/null"}, "must be a directory"),
    ],
)
async def test_invalid_configuration_is_rejected(context: Any, config: Any, problem: str) -> None:
    context.config, found = config, ""

    try:
        assert await load_manifests("P", context, KINDS, "C") is None
    except AdmissionError as error:
        found = error.problems[0]

    assert problem in found
    assert bool(found) == bool(problem)


async def test_invalid_manifest_prevents_start(tmp_path: Path, context: Any) -> None:
    write(tmp_path, "5")

    with pytest.raises(AdmissionError, match="P: error loading"):
        await load_manifests("P", context, KINDS)


async def test_directory_requires_the_feature_gate(context: Any) -> None:
    context.gates = parse([]).gates

    with pytest.raises(AdmissionError, match="requires the ManifestBasedAdmissionControlConfig feature gate"):
        await load_manifests("P", context, KINDS, "C")
