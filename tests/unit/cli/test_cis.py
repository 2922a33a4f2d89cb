"""Tests for ``nodeagent doctor --cis``: an installation that passes, and one deviation per item."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from nodeagent.cli.cis import host
from nodeagent.cli.cis.host import HostFiles
from nodeagent.cli.cis.units import Unit, command_line
from nodeagent.cli.main import main

UNITS = Path(__file__).parents[3] / "systemd"
UNIT = "usr/lib/systemd/system/nodeagent.service"
ADDRESSES = "etc/systemd/system/nodeagent.service.d/10-addresses.conf"
CONFIG = "etc/nodeagent/config.yaml"
PROXY = {"4.1.3", "4.1.4", "4.3.1"}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return the root of a host with the installed files, all owned by root unless the test changes it."""
    files = {
        UNIT: UNITS / "nodeagent.service",
        ADDRESSES: UNITS / "addresses.conf",
        CONFIG: UNITS / "config.yaml",
        "etc/nodeagent/nodeagent.env": UNITS / "nodeagent.env",
    }
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tmp_path / name)
        (tmp_path / name).chmod(0o600)
    clients = tmp_path / "var/lib/nodeagent/clients"
    clients.mkdir(parents=True)
    for link, target in {"kubeconfig": "node.kubeconfig", "client-ca.crt": "ca.crt"}.items():
        (clients / target).write_text("")
        (clients / target).chmod(0o600)
        (tmp_path / "etc/nodeagent" / link).symlink_to(f"/var/lib/nodeagent/clients/{target}")
    monkeypatch.setattr(host, "_status", lambda files, name: _owned(files.path(name)))
    return tmp_path


def _owned(path: Path) -> os.stat_result | None:
    if not path.exists():
        return None
    owner = 1000 if path.with_name(f"{path.name}.owner").exists() else 0
    status = path.stat()
    return os.stat_result((*status[:4], owner, owner, *status[6:]))


def replace(root, name, old, new):
    path = root / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def results(root, capsys, *flags):
    code = main(["doctor", "--cis", f"--host-root={root}", "-o", "json", *flags])
    found = {item["id"]: item for item in json.loads(capsys.readouterr().out)}
    failed = {key for key, item in found.items() if item["status"] == "FAIL"}
    assert code == (1 if failed else 0)
    assert all(bool(item["remedy"]) == (key in failed) for key, item in found.items())
    return found, failed


def test_installed_files_pass_every_item(root, capsys):
    found, failed = results(root, capsys)

    assert not failed
    assert {key for key, item in found.items() if item["status"] == "not applicable"} == PROXY
    assert len(found) == 27


@pytest.mark.parametrize(
    ("item", "old", "new"),
    [
        ("4.2.1", "anonymous: {enabled: false}", "anonymous: {enabled: true}"),
        ("4.2.2", "mode: Webhook", "mode: AlwaysAllow"),
        ("4.2.4", "readOnlyPort: 0", "readOnlyPort: 10255"),
        ("4.2.6", "makeIPTablesUtilChains: true", "makeIPTablesUtilChains: false"),
        ("4.2.6 (1.8)", "protectKernelDefaults: true", "protectKernelDefaults: false"),
        ("4.2.8", "eventRecordQPS: 50", "eventRecordQPS: 1"),
        ("4.2.9", "serverTLSBootstrap: true", "serverTLSBootstrap: false"),
        ("4.2.10", "rotateCertificates: true", "rotateCertificates: false"),
        ("4.2.12", "  - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n", "  - TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA\n"),
        ("4.2.13", "podPidsLimit: 4096", "podPidsLimit: -1"),
        ("4.2.14", "seccompDefault: true", "seccompDefault: false"),
    ],
)
def test_deviating_setting_fails_only_its_item(root, capsys, item, old, new):
    replace(root, CONFIG, old, new)

    assert results(root, capsys)[1] == {item}


def test_disabled_rotation_gate_fails_only_its_item(root, capsys):
    replace(root, CONFIG, "serverTLSBootstrap: true", "tlsCertFile: /a.crt\ntlsPrivateKeyFile: /a.key")
    (root / CONFIG).write_text(
        (root / CONFIG).read_text() + "featureGates: {RotateNodeAgentServerCertificate: false}\n"
    )

    assert results(root, capsys)[1] == {"4.2.11"}


@pytest.mark.parametrize(
    ("name", "modes", "owners"),
    [
        (UNIT, "4.1.1", "4.1.2"),
        (ADDRESSES, "4.1.1", "4.1.2"),
        ("var/lib/nodeagent/clients/node.kubeconfig", "4.1.5", "4.1.6"),
        ("var/lib/nodeagent/clients/ca.crt", "4.1.7", "4.1.8"),
        (CONFIG, "4.1.9", "4.1.10"),
    ],
)
def test_mode_and_owner_of_a_file_fail_their_items(root, capsys, name, modes, owners):
    (root / name).chmod(0o666)
    assert results(root, capsys)[1] == {modes}

    (root / name).chmod(0o600)
    (root / f"{name}.owner").touch()
    assert results(root, capsys)[1] == {owners}

    (root / f"{name}.owner").unlink()
    if name.startswith("var/"):
        (root / name).unlink()
        found, failed = results(root, capsys)
        assert failed == {modes, owners}
        assert found[modes]["found"][0].endswith("does not exist")


def test_flags_of_the_unit_are_evaluated(root, capsys):
    replace(root, "etc/nodeagent/nodeagent.env", "NODEAGENT_FLAGS=", "NODEAGENT_FLAGS=--hostname-override=other")
    replace(root, "etc/nodeagent/nodeagent.env", "=other", "=other --streaming-connection-idle-timeout=0")
    replace(root, "etc/nodeagent/nodeagent.env", " --client-ca-file=/etc/nodeagent/client-ca.crt", "")

    found, failed = results(root, capsys)

    assert failed == {"4.2.3", "4.2.5", "4.2.7"}  # In a file, a timeout of 0 selects the default.
    assert found["4.1.7"]["status"] == "not applicable"


def test_flags_of_the_command_replace_those_of_the_unit(root, capsys):
    found, failed = results(root, capsys, "--config=/etc/nodeagent/config.yaml", "--hostname-override=other")

    assert failed == {"4.2.3", "4.2.7"}
    assert found["4.1.5"]["status"] == "not applicable"


@pytest.mark.parametrize(
    ("old", "new"),
    [("IPAddressDeny=any", "IPAddressDeny="), ("IPAddressAllow=localhost", "IPAddressAllow=0.0.0.0/0 localhost")],
)
def test_unit_without_address_limits_fails(root, capsys, old, new):
    replace(root, ADDRESSES, old, new)

    assert results(root, capsys)[1] == {"4.2.15"}


def test_kube_proxy_is_checked_if_it_runs(root, capsys):
    process = root / "proc/17"
    (process / "root/config").mkdir(parents=True)
    (process / "comm").write_text("kube-proxy\n")
    (process / "cmdline").write_text("/usr/bin/kube-proxy\0--config=/config/proxy.yaml\0")
    (process / "root/config/proxy.yaml").write_text('metricsBindAddress: "127.0.0.1:10249"\n')
    kubeconfig = root / "etc/kubernetes/proxy.conf"
    kubeconfig.parent.mkdir()
    kubeconfig.touch(mode=0o600)
    found, failed = results(root, capsys)
    assert not failed
    assert not [item for item in found.values() if item["status"] == "not applicable"]

    (process / "root/config/proxy.yaml").write_text("metricsBindAddress: 0.0.0.0:10249\n")
    kubeconfig.chmod(0o644)

    found, failed = results(root, capsys)
    assert failed == {"4.1.3", "4.3.1"}
    assert found["4.3.1"]["found"] == ["kube-proxy serves metrics on 0.0.0.0:10249"]


def test_text_output_has_the_remedy_of_failed_items(root, capsys):
    replace(root, CONFIG, "podPidsLimit: 4096", "podPidsLimit: -1")

    assert main(["doctor", "--cis", f"--host-root={root}"]) == 1

    output = capsys.readouterr().out
    assert "FAIL            4.2.13       limit of processes per pod\n" in output
    assert f"{'':29}podPidsLimit is -1\n{'':29}-> set podPidsLimit: 4096 in the configuration file\n" in output
    assert output.endswith("23 passed, 1 failed, 3 not applicable\n")


@pytest.mark.parametrize(
    "gates", ["RotateKubeletServerCertificate=false", "RotateNodeAgentServerCertificate=false", "AllBeta=false"]
)
def test_rotation_gate_is_effective_under_each_name(root, capsys, gates):
    replace(root, CONFIG, "serverTLSBootstrap: true", "tlsCertFile: /a.crt\ntlsPrivateKeyFile: /a.key")
    replace(root, "etc/nodeagent/nodeagent.env", "NODEAGENT_FLAGS=", f"NODEAGENT_FLAGS=--feature-gates={gates} ")

    assert results(root, capsys)[1] == {"4.2.11"}


def test_unbalanced_quotes_in_the_unit_are_accepted(root, capsys):
    unit = (root / UNIT).read_text()
    (root / UNIT).write_text(unit.replace("[Service]\n", "[Service]\nEnvironment=OWNER=it's\n"))

    assert not results(root, capsys)[1]


@pytest.mark.parametrize(("rate", "failed"), [(0, set()), (4, {"4.2.8"}), (5, set())])
def test_event_rate_is_unlimited_or_at_least_5(root, capsys, rate, failed):
    replace(root, CONFIG, "eventRecordQPS: 50", f"eventRecordQPS: {rate}")

    assert results(root, capsys)[1] == failed


@pytest.mark.parametrize(("limit", "failed"), [(1, set()), (0, {"4.2.13"})])
def test_limit_of_processes_is_positive(root, capsys, limit, failed):
    replace(root, CONFIG, "podPidsLimit: 4096", f"podPidsLimit: {limit}")

    assert results(root, capsys)[1] == failed


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("tlsMinVersion: VersionTLS13", set()),
        ("tlsMinVersion: VersionTLS12", {"4.2.12"}),
        ("tlsCipherSuites: [TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256]", set()),
        ("tlsCipherSuites: [TLS_RSA_WITH_AES_128_CBC_SHA]", {"4.2.12"}),
    ],
)
def test_cipher_suites_are_strong_or_those_of_tls_1_3(root, capsys, text, failed):
    lines = (root / CONFIG).read_text().splitlines()
    kept, skips = [], False
    for line in lines:
        skips = line.startswith(("tlsCipherSuites", "tlsMinVersion")) or (skips and line.startswith(" "))
        kept += [] if skips else [line]
    (root / CONFIG).write_text("\n".join([*kept, text, ""]))

    assert results(root, capsys)[1] == failed


@pytest.mark.parametrize(
    ("denied", "failed"),
    [("0.0.0.0/0 ::/0", set()), ("0.0.0.0/0", {"4.2.15"}), ("10.0.0.0/8", {"4.2.15"})],
)
def test_both_address_families_are_denied(root, capsys, denied, failed):
    replace(root, ADDRESSES, "IPAddressDeny=any", f"IPAddressDeny={denied}")

    assert results(root, capsys)[1] == failed


def test_links_are_resolved_below_the_root_and_limited(tmp_path):
    files = host.HostFiles(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/file").write_text("content")
    (tmp_path / "up").symlink_to("../../../etc/file")
    (tmp_path / "loop").symlink_to("loop")
    previous = "etc/file"
    for number in range(41):
        (tmp_path / f"link-{number}").symlink_to(previous)
        previous = f"link-{number}"

    assert files.text("/up") == "content"
    assert files.text("/loop") == ""
    assert not files.exists("/loop")
    assert files.path("/link-39") == tmp_path / "etc/file"
    assert files.path("/link-40") == tmp_path / "link-0"  # As many links as Linux follows.


def test_only_assignments_in_the_service_section_are_read(root, capsys):
    replace(root, ADDRESSES, "[Service]", "[Unit]")

    assert results(root, capsys)[1] == {"4.2.15"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ('A="two words"', "two words"),
        ("A='two words'", "two words"),
        ("A=''", ""),
        ('A="open', '"open'),
        ("A=\"mixed'", "\"mixed'"),
        ("A='", "'"),
        ("A=aba", "aba"),
        ("A=", ""),
    ],
)
def test_variables_of_a_file_are_unquoted(tmp_path, line, value):
    (tmp_path / "env").write_text(f"# comment\nignored\n {line} \n")
    unit = Unit("a.service", (), {"ExecStart": ("-/bin/a ${A}",), "EnvironmentFile": ("-/env",)})

    assert command_line(HostFiles(tmp_path), unit) == ["/bin/a", value]


def test_variables_of_a_file_replace_those_of_the_unit(tmp_path):
    (tmp_path / "env").write_text("B=file words\n")
    settings = {"ExecStart": ("/bin/x", "@/bin/a $A $B $C"), "Environment": ("A=1 B=2",), "EnvironmentFile": ("/env",)}

    assert command_line(HostFiles(tmp_path), Unit("a.service", (), settings)) == ["/bin/a", "1", "file", "words"]
    assert command_line(HostFiles(tmp_path), Unit("a.service", (), {})) == []
