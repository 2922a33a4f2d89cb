"""Tests for ``nodeagent creds test``: report of requests and responses, masked secrets, exit codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent import hookimpl
from nodeagent.cli import main
from nodeagent.contracts.api import PODS
from nodeagent.contracts.images import CredentialLookup, CredentialLookupResult
from nodeagent.contracts.runtime import Credentials
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeApi

CONFIG = """\
apiVersion: nodeagent.config.k8s.io/v1beta1
kind: CredentialProviderConfig
providers:
- {name: ok, matchImages: [reg.io], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}
"""
BOB = Credentials("bob", "hunter2", "ok")
OK = CredentialLookup(
    "ok", ("reg.io",), ("/bin/ok", "a b"), '{"image": "reg.io/app"}', {"reg.io": BOB}, "Registry, for 5m0s", seconds=0.1
)
BROKEN = CredentialLookup(
    "broken",
    ("reg.*",),
    ("/bin/broken",),
    "{}",
    failure="exited with code 1",
    detail='hunter2 "token": "abc" \x1b[2J',
)
IDLE = CredentialLookup("idle")


class DiagnosableProvider:
    def __init__(self, *lookups: CredentialLookup) -> None:
        self.lookups, self.image = lookups, ""
        self.pod: Pod | None = None

    async def credentials(self, image: str, pod: Pod | None = None) -> tuple[Credentials, ...]:
        return (await self.lookup(image, pod)).credentials

    async def lookup(self, image: str, pod: Pod | None = None) -> CredentialLookupResult:
        self.image, self.pod = image, pod
        return CredentialLookupResult(tuple(c for i in self.lookups for c in i.auth.values()), self.lookups)


class PlainProvider:
    async def credentials(self, image: str, pod: Pod | None = None) -> tuple[Credentials, ...]:
        return (Credentials("token", "", "vault"),)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command with the given providers; it returns exit code and both outputs."""
    (tmp_path / "providers.yaml").write_text(CONFIG)

    def command(image: str, *words: str, providers: tuple[Any, ...] = ()) -> tuple[int, str, str]:
        class Plugin:
            @hookimpl
            def nodeagent_provide_credential_providers(self, context: Any) -> tuple[Any, ...]:
                assert context.settings.image_credential_provider_bin_dir == str(tmp_path)
                return providers

        monkeypatch.setattr(
            PluginManager, "load_entry_points", lambda self, disabled: self.register(Plugin(), name="test")
        )
        files = ["--image_credential_provider_config", str(tmp_path / "providers.yaml")]
        files += ["--image-credential-provider-bin-dir", str(tmp_path)]
        code = main.main(["creds", "test", image, *files, *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_report_lists_lookups_and_order_of_credentials(run: Any) -> None:
    provider = DiagnosableProvider(OK, IDLE)

    code, out, err = run("reg.io/app:1", providers=(provider,))

    assert (code, err, provider.image) == (0, "", "reg.io/app")
    assert out.splitlines() == [
        "reg.io/app:1: repository reg.io/app",
        "",
        "ok: matches reg.io",
        "  command   /bin/ok 'a b'",
        '  request   {"image": "reg.io/app"}',
        "  response  after 0.1 s; cached: Registry, for 5m0s",
        "  auth      reg.io: user 'bob', password ***",
        "",
        "idle: no pattern matches",
        "",
        "A pull tries these credentials, in this order:",
        "  1. user 'bob', password *** from ok",
    ]


def test_failure_exits_with_1_and_prints_masked_stderr(run: Any) -> None:
    code, out, _ = run("reg.io/app", providers=(DiagnosableProvider(OK, BROKEN),))

    assert code == 1
    assert '  failure   exited with code 1\n  stderr    *** "token": *** \N{REPLACEMENT CHARACTER}[2J\n' in out
    assert "hunter2" not in out


def test_no_match_exits_with_1(run: Any) -> None:
    code, out, _ = run("busybox", providers=(DiagnosableProvider(IDLE),))

    assert code == 1
    assert out.startswith("busybox: repository docker.io/library/busybox\n")
    assert out.endswith("Pulls are anonymous, unless the pod has pull secrets.\n")


def test_response_without_credentials_exits_with_0(run: Any) -> None:
    code, out, _ = run(
        "reg.io/app", providers=(DiagnosableProvider(CredentialLookup("ok", ("reg.io",), request="{}")),)
    )

    assert code == 0
    assert "auth      none: anonymous pull" in out


def test_json_report_includes_providers_without_diagnostics(run: Any) -> None:
    code, out, _ = run("reg.io/app", "-o", "json", providers=(DiagnosableProvider(OK, BROKEN), PlainProvider()))

    report = json.loads(out)
    assert (code, report["repository"]) == (1, "reg.io/app")
    assert report["providers"][0] == {
        "name": "ok",
        "matches": ["reg.io"],
        "skipped": "",
        "command": ["/bin/ok", "a b"],
        "request": {"image": "reg.io/app"},
        "auth": {"reg.io": {"username": "bob", "password": "***"}},
        "cached": "Registry, for 5m0s",
        "seconds": 0.1,
        "failure": "",
        "stderr": "",
    }
    assert report["credentials"] == [
        {"provider": "ok", "username": "bob", "password": "***"},
        {"provider": "vault", "username": "***", "password": ""},
    ]
    assert "hunter2" not in out


def test_invalid_image_name_and_missing_flags_exit_with_2(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("Not:an:image")

    assert (code, err.startswith("nodeagent: image name 'Not:an:image' ")) == (2, True)
    with pytest.raises(SystemExit) as raised:
        main.main(["creds", "test", "busybox"])
    assert raised.value.code == 2


def test_invalid_file_exits_with_2_and_lists_all_problems(run: Any, tmp_path: Path) -> None:
    (tmp_path / "providers.yaml").write_text(CONFIG.replace("ok", "a/b").replace("1m", "-1m"))

    code, _, err = run("busybox")

    assert code == 2
    assert len(err.splitlines()) == 2


def test_unknown_field_is_a_warning(run: Any, tmp_path: Path) -> None:
    (tmp_path / "providers.yaml").write_text(CONFIG.replace("name: ok", "name: ok, later: 1"))

    assert "warning: " in run("reg.io/app", providers=(DiagnosableProvider(OK),))[2]


def test_skipped_provider_is_reported_with_its_reason(run: Any) -> None:
    skipped = CredentialLookup("tokens", skipped="there is no pod")

    code, out, _ = run("reg.io/app", providers=(DiagnosableProvider(OK, skipped),))

    assert code == 0
    assert "\ntokens: skipped, because there is no pod\n" in out


def test_pod_is_read_with_the_kubeconfig_and_passed_on(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    api.put(PODS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"serviceAccountName": "buyer"}})
    monkeypatch.setattr(api, "close", lambda: asyncio.sleep(0), raising=False)
    monkeypatch.setattr("nodeagent.apiclient.connect", lambda *_: api)
    provider = DiagnosableProvider(OK)

    code, _, err = run("reg.io/app", "--pod", "shop/web", "--kubeconfig", "node.conf", providers=(provider,))

    assert (code, err) == (0, "")
    assert provider.pod is not None
    assert (provider.pod.full_name, provider.pod.spec.service_account_name) == ("shop/web", "buyer")


def test_unknown_pod_exits_with_1(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    monkeypatch.setattr(api, "close", lambda: asyncio.sleep(0), raising=False)
    monkeypatch.setattr("nodeagent.apiclient.connect", lambda *_: api)

    code, _, err = run("reg.io/app", "--pod", "shop/web", "--kubeconfig", "node.conf")

    assert code == 1
    assert err.startswith("nodeagent: failed to get pod shop/web: ")


@pytest.mark.parametrize("words", [("--pod", "shop/web"), ("--kubeconfig", "node.conf")])
def test_pod_and_kubeconfig_require_each_other(run: Any, words: tuple[str, ...]) -> None:
    code, _, err = run("reg.io/app", *words)

    assert (code, err) == (2, "nodeagent: --pod and --kubeconfig require each other\n")


@pytest.mark.parametrize("name", ["web", "/web", "shop/", "shop/web/x", ""])
def test_pod_needs_a_namespace_and_a_name(run: Any, capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as raised:
        run("reg.io/app", f"--pod={name}", "--kubeconfig", "node.conf")

    assert raised.value.code == 2
    assert "must be NAMESPACE/NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("providers", "code"),
    [
        ((PlainProvider(),), 0),
        ((DiagnosableProvider(IDLE), PlainProvider()), 0),
        ((DiagnosableProvider(OK, CredentialLookup("idle", failure="unused")),), 0),
        ((), 1),
    ],
)
def test_exit_code_is_that_of_matching_providers(run: Any, providers: tuple[Any, ...], code: int) -> None:
    assert run("reg.io/app", providers=providers)[0] == code


@pytest.mark.parametrize(("password", "masked"), [("abc", False), ("abcd", True)])
def test_password_of_at_least_four_characters_is_masked_in_stderr(run: Any, password: str, masked: bool) -> None:
    lookup = CredentialLookup(
        "broken",
        ("reg.*",),
        ("/b",),
        "{}",
        {"r": Credentials("bob", password)},
        failure="x",
        detail=f"log {password} end",
    )

    _, out, _ = run("reg.io/app", providers=(DiagnosableProvider(lookup),))

    assert (f"stderr    log {password} end" in out) == (not masked)
    assert ("stderr    log *** end" in out) == masked


def test_empty_password_is_reported(run: Any) -> None:
    lookup = CredentialLookup("ok", ("reg.io",), request="{}", auth={"r": Credentials("bob", "")})

    assert "auth      r: user '***', password empty" in run("reg.io/app", providers=(DiagnosableProvider(lookup),))[1]


def test_unavailable_api_server_exits_with_3(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    api.outage = True
    monkeypatch.setattr(api, "close", lambda: asyncio.sleep(0), raising=False)
    monkeypatch.setattr("nodeagent.apiclient.connect", lambda *_: api)

    assert run("reg.io/app", "--pod", "shop/web", "--kubeconfig", "node.conf")[0] == 3
