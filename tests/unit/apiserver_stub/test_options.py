"""Tests for command-line options: types, aliases, defaults and validation."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver_stub.options import Options, OptionsError, parse, warnings


def test_defaults_listen_on_all_interfaces() -> None:
    options = parse([])

    assert options == Options()
    assert (options.bind_address, options.secure_port, options.event_ttl_seconds) == ("0.0.0.0", 6443, 3600)


def test_values_are_typed() -> None:
    options = parse(
        [
            "--data-dir=/d",
            "--bind-address",
            "::1",
            "--event-ttl=90m",
            "--anonymous-auth=false",
            "--permit-port-sharing",
            "--authorization-mode=ABAC,RBAC",
            "--authorization-policy-file=/p",
            "--request-timeout=1m30s",
            "-v=4",
        ]
    )

    assert options.data_dir == Path("/d")
    assert options.certificates == Path("/d/certs")
    assert (options.bind_address, options.event_ttl_seconds, options.anonymous_auth) == ("::1", 5400, False)
    assert options.permit_port_sharing
    assert options.authorization_mode == ("ABAC", "RBAC")
    assert (options.request_timeout_seconds, options.verbosity) == (90.0, 4)


def test_kube_apiserver_flags_are_accepted() -> None:
    options = parse(
        [
            "--etcd-servers=http://192.0.2.1:2379",
            "--etcd-prefix",
            "/kubelet-client-key",
            "--kubelet-preferred-address-types=Hostname",
            "--kubernetes-service-node-port=30001",
        ]
    )
    assert (options.store_servers, options.store_prefix) == (("http://192.0.2.1:2379",), "/kubelet-client-key")
    assert options.nodeagent_preferred_address_types == ("Hostname",)
    assert options.platform_service_node_port == 30001
    with pytest.raises(OptionsError, match=r"unknown flag: --etcd-bogus\nunknown flag: --kubelet-port$"):
        parse(["--etcd-bogus=1", "--kubelet-port=1"])


@pytest.mark.parametrize(("given", "missing"), [("cert", "key"), ("key", "cert")])
def test_proxy_client_certificate_requires_its_key(given: str, missing: str) -> None:
    with pytest.raises(OptionsError) as error:
        parse([f"--proxy-client-{given}-file=x"])

    assert error.value.problems == [f"--proxy-client-{given}-file requires --proxy-client-{missing}-file"]


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--secure-port=abc", '"abc" for "--secure-port" flag: strconv.ParseInt: parsing "abc": invalid syntax'),
        ("-v=x", '"x" for "-v, --v" flag: strconv.ParseInt: parsing "x": invalid syntax'),
        ("--profiling=maybe", '"maybe" for "--profiling" flag: strconv.ParseBool: parsing "maybe": invalid syntax'),
        ("--bind-address=a: b", '"a: b" for "--bind-address" flag: failed to parse IP: "a: b"'),
        ("--feature-gates=NodeSwap", '"NodeSwap" for "--feature-gates" flag: missing bool value for NodeSwap'),
    ],
)
def test_invalid_value_is_reported_with_its_option(argument: str, problem: str) -> None:
    with pytest.raises(OptionsError) as error:
        parse(["--bogus", argument])

    assert error.value.problems == [f"invalid argument {problem}"]


def test_invalid_options_report_every_error() -> None:
    with pytest.raises(OptionsError) as error:
        parse(["--bogus", "--secure-port=70000", "--tls-cert-file=x", "--tls-min-version=VersionTLS14", "extra"])

    text = "\n".join(error.value.problems)
    for part in (
        "unknown flag: --bogus",
        "unexpected argument: extra",
        "--secure-port 70000 must be between",
        "missing filename for serving cert",
        'unknown tls version "VersionTLS14"',
    ):
        assert part in text


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--secure-port=abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("--anonymous-auth=maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        ("--event-ttl=abc", 'time: invalid duration "abc"'),
        ("--bind-address=foo", 'failed to parse IP: "foo"'),
        ("--logging-format=json", 'format: Invalid value: "json": Unsupported log format'),
    ],
)
def test_invalid_value_is_named_in_the_error(argument: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        parse([argument])


def test_insecure_options_cause_warnings() -> None:
    everything = [
        "All authenticated users have full access; to authorize nodes and roles, start with "
        "--authorization-mode=Node,RBAC",
        "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false.",
    ]
    roles = "--authorization-mode=Node,RBAC"
    file = ["--authorization-config=x", "--feature-gates=StructuredAuthorizationConfiguration=true"]

    assert warnings(parse([])) == warnings(parse(["--authorization-mode=AlwaysAllow"])) == everything
    assert warnings(parse(["--anonymous-auth=false"])) == everything[:1]
    assert warnings(parse([roles])) == warnings(parse(file)) == []
    insecure = ["Use of insecure cipher 'TLS_RSA_WITH_RC4_128_SHA' detected."]
    assert (
        warnings(parse([roles, "--disable-http2-serving", "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"])) == insecure
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("log-mode=foo", 'invalid audit log mode foo, allowed modes are "batch,blocking,blocking-strict"'),
        ("webhook-mode=foo", 'invalid audit webhook mode foo, allowed modes are "batch,blocking,blocking-strict"'),
        ("log-format=foo", 'invalid audit log format foo, allowed formats are "legacy,json"'),
        ("log-maxage=-1", "--audit-log-maxage -1 can't be a negative number"),
        ("log-mode=batch log-batch-buffer-size=0", "buffer size 0, must be a positive number"),
        ("webhook-batch-throttle-qps=0", "invalid audit batch webhook throttle QPS 0, must be a positive number"),
        ("log-truncate-enabled log-truncate-max-event-size=0", "max event size 0, must be a positive number"),
        (
            "webhook-truncate-enabled webhook-truncate-max-event-size=20000000",
            r"max batch size 10485760, must be greater than max event size \(20000000\)",
        ),
        *(
            pytest.param(
                f"{plugin}-version=audit.k8s.io/v2",
                r'invalid group version, allowed versions are \["audit.k8s.io/v1"\]',
                marks=pytest.mark.row(f"opt.audit-{plugin}-version"),
            )
            for plugin in ("log", "webhook")
        ),
    ],
)
def test_audit_options_are_validated_only_with_their_backend(arguments: str, message: str) -> None:
    given = [f"--audit-{argument}" for argument in arguments.split()]
    parse(given)  # without a backend there are no rules

    with pytest.raises(OptionsError, match=message):
        parse([*given, "--audit-log-path=-", "--audit-webhook-config-file=x"])


@pytest.mark.row("opt.cert-dir")
def test_default_cert_dir_depends_on_data_dir_and_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert parse([]).certificates == Path("/var/run/kubernetes")
    assert parse([]).authorities == Path("/var/lib/nodeagent-apiserver/certs")
    assert parse(["--platform-dir=other"]).certificates == Path("/var/run/other")
    assert parse(["--data-dir=/var/lib/nodeagent-apiserver"]).certificates == Path("/var/lib/nodeagent-apiserver/certs")
    assert parse(["--data-dir=/d", "--cert-dir=/c"]).certificates == Path("/c")

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert parse([]).certificates == parse([]).data_dir / "certs"
    assert parse(["--cert-dir=/c"]).certificates == Path("/c")


def test_default_data_dir_of_a_user_is_in_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert str(parse([]).data_dir) == "/home/ann/.local/state/nodeagent-apiserver"

    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert str(parse([]).data_dir) == "/state/nodeagent-apiserver"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--leader-elect-retry-period=0s"], "leader-elect-retry-period must be greater than zero"),
        (
            ["--leader-elect-renew-deadline=2400ms"],
            "leader-elect-renew-deadline must be greater than 1.2 times leader-elect-retry-period",
        ),
        (
            ["--leader-elect-lease-duration=10s"],
            "leader-elect-lease-duration must be greater than leader-elect-renew-deadline",
        ),
    ],
)
def test_inconsistent_times_of_the_leader_election_are_rejected(arguments: list[str], message: str) -> None:
    with pytest.raises(OptionsError, match=f"^{message}$"):
        parse(arguments)
