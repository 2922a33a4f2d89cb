"""``nodeagent creds test`` tells who was asked what and answered what, without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent import hookimpl
from nodeagent.cli import main
from nodeagent.contracts.images import CredentialLookup, CredentialLookupResult
from nodeagent.contracts.runtime import Credentials
from nodeagent.pluginmanager import PluginManager

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
    failure="ended with exit code 1",
    detail='hunter2 "token": "abc" \x1b[2J',
)
IDLE = CredentialLookup("idle")


class Inquired:
    def __init__(self, *inquiries: CredentialLookup) -> None:
        self.lookups, self.image = inquiries, ""

    async def credentials(self, image: str) -> tuple[Credentials, ...]:
        return (await self.lookup(image)).credentials

    async def lookup(self, image: str) -> CredentialLookupResult:
        self.image = image
        return CredentialLookupResult(tuple(c for i in self.lookups for c in i.auth.values()), self.lookups)


class Plain:
    async def credentials(self, image: str) -> tuple[Credentials, ...]:
        return (Credentials("token", "", "vault"),)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command with the given providers; returns exit code, output and error output."""
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


def test_shows_who_was_asked_what_and_in_which_order_a_pull_tries(run: Any) -> None:
    provider = Inquired(OK, IDLE)

    code, out, err = run("reg.io/app:1", providers=(provider,))

    assert (code, err, provider.image) == (0, "", "reg.io/app")
    assert out.splitlines() == [
        "reg.io/app:1 is asked for as reg.io/app",
        "",
        "ok: matches reg.io",
        "  ran       /bin/ok 'a b'",
        '  asked     {"image": "reg.io/app"}',
        "  answered  after 0.1 s; cached: Registry, for 5m0s",
        "  auth      reg.io: user 'bob', password ***",
        "",
        "idle: no pattern matches",
        "",
        "A pull tries, in this order:",
        "  1. user 'bob', password *** from ok",
    ]


def test_a_failure_exits_with_1_and_shows_what_the_program_said_without_secrets(run: Any) -> None:
    code, out, _ = run("reg.io/app", providers=(Inquired(OK, BROKEN),))

    assert code == 1
    assert '  failed    it ended with exit code 1\n  stderr    *** "token": *** \N{REPLACEMENT CHARACTER}[2J\n' in out
    assert "hunter2" not in out


def test_no_match_exits_with_1(run: Any) -> None:
    code, out, _ = run("busybox", providers=(Inquired(IDLE),))

    assert code == 1
    assert out.startswith("busybox is asked for as docker.io/library/busybox\n")
    assert out.endswith("A pull is anonymous, unless the pod has pull secrets.\n")


def test_an_answer_without_credentials_is_fine(run: Any) -> None:
    code, out, _ = run("reg.io/app", providers=(Inquired(CredentialLookup("ok", ("reg.io",), request="{}")),))

    assert code == 0
    assert "auth      none: an anonymous pull" in out


def test_json_holds_the_same_and_providers_of_other_plugins(run: Any) -> None:
    code, out, _ = run("reg.io/app", "-o", "json", providers=(Inquired(OK, BROKEN), Plain()))

    report = json.loads(out)
    assert (code, report["repository"]) == (1, "reg.io/app")
    assert report["providers"][0] == {
        "name": "ok",
        "matches": ["reg.io"],
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


def test_a_name_that_is_none_and_missing_flags_exit_with_2(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("Not:an:image")

    assert (code, err.startswith("nodeagent: 'Not:an:image' ")) == (2, True)
    with pytest.raises(SystemExit) as raised:
        main.main(["creds", "test", "busybox"])
    assert raised.value.code == 2


def test_a_bad_file_exits_with_2_and_names_every_problem(run: Any, tmp_path: Path) -> None:
    (tmp_path / "providers.yaml").write_text(CONFIG.replace("ok", "a/b").replace("1m", "-1m"))

    code, _, err = run("busybox")

    assert code == 2
    assert len(err.splitlines()) == 2


def test_a_field_of_a_later_version_is_a_warning(run: Any, tmp_path: Path) -> None:
    (tmp_path / "providers.yaml").write_text(CONFIG.replace("name: ok", "name: ok, later: 1"))

    assert "warning: " in run("reg.io/app", providers=(Inquired(OK),))[2]
