"""Tests for command-line options: types, aliases, defaults and validation."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver_stub.apimachinery.version import git_version
from apiserver_stub.options import Options, OptionsError, parse, warnings
from nodeagent.base.release import OLDEST


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


def problems(*arguments: str) -> list[str]:
    """Return the errors in *arguments*."""
    try:
        parse(arguments)
    except OptionsError as error:
        return error.problems
    return []


LIMITED = "--max-requests-inflight and --max-mutating-requests-inflight can not be negative value"
NOTHING = (
    "invalid configuration: MaxRequestsInFlight={} and MaxMutatingRequestsInFlight={}; "
    "they must add up to something positive"
)
PORTS = "--platform-service-node-port {} must be between 0 and 65535, inclusive. " + (
    "If 0, the service of this server will be of type ClusterIP"
)
PORT = "--secure-port {} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
GOAWAY = "--goaway-chance can not be less than 0 or greater than 0.02"
TOKEN_TIMES = "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
VERSION = "--show-hidden-metrics-for-version must be omitted or have the value '1.28'. " + (
    "Only the previous minor version is allowed"
)
LABELS = (
    "--allow-metric-labels must have a list of kv pair with format `metricName:labelName=labelValue, labelValue,...` "
)


def negative(name: str, phrase: str = "can not be negative value") -> str:
    return f"--{name} {phrase}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--max-requests-inflight=-1", [LIMITED]),
        ("--max-mutating-requests-inflight=-1", [LIMITED]),
        ("--max-requests-inflight=0", []),
        ("--max-mutating-requests-inflight=0", []),
        ("--max-requests-inflight=0 --max-mutating-requests-inflight=0", [NOTHING.format(0, 0)]),
        ("--max-requests-inflight=1 --max-mutating-requests-inflight=0", []),
        (
            "--max-requests-inflight=0 --max-mutating-requests-inflight=0 --enable-priority-and-fairness=false",
            [],
        ),
        ("--max-connection-bytes-per-sec=-1", [negative("max-connection-bytes-per-sec")]),
        ("--max-connection-bytes-per-sec=0", []),
        *(
            (f"--{name}={value}", [negative(name)] if value.startswith("-") else [])
            for name in (
                "request-timeout",
                "livez-grace-period",
                "shutdown-delay-duration",
                "shutdown-watch-termination-grace-period",
            )
            for value in ("-1s", "0s")
        ),
        ("--min-request-timeout=-1", [negative("min-request-timeout")]),
        ("--min-request-timeout=0", []),
        ("--node-certificate-duration=999ms", ["node-certificate-duration must be at least 1s"]),
        ("--node-certificate-duration=1s", []),
    ],
)
def test_limits_and_times_are_bounded(arguments: str, expected: list[str]) -> None:
    assert problems(*arguments.split()) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--secure-port=0", [PORT.format(0)]),
        ("--secure-port=1", []),
        ("--secure-port=65535", []),
        ("--secure-port=65536", [PORT.format(65536)]),
        ("--goaway-chance=-0.01", [GOAWAY]),
        ("--goaway-chance=0.02", []),
        ("--goaway-chance=0.021", [GOAWAY]),
        (
            "--goaway-chance=0.01 --disable-http2-serving",
            ["--goaway-chance requires HTTP/2; omit --disable-http2-serving or --goaway-chance"],
        ),
        ("--goaway-chance=0 --disable-http2-serving", []),
        ("--http2-max-streams-per-connection=2147483647", []),
        (
            "--http2-max-streams-per-connection=2147483648",
            ["--http2-max-streams-per-connection must not be greater than 2147483647"],
        ),
        ("--cors-allowed-origins=//a$,^b:", []),
        (
            "--cors-allowed-origins=[",
            ["--cors-allowed-origins has an invalid regular expression: [: unterminated character set at position 0"],
        ),
        ("--strict-transport-security-directives=max-age=1,includeSubDomains,preload", []),
        ("--tls-cert-file=x --tls-private-key-file=y", []),
        ("--tls-sni-cert-key=a,b:c,d", []),
        ("--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", []),
        ("--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256 --disable-http2-serving", []),
        ("--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256 --tls-min-version=VersionTLS13", []),
        (
            "--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256",
            [
                "HTTP/2 requires one of TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 and "
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 among --tls-cipher-suites"
            ],
        ),
    ],
)
def test_options_of_the_secure_port_are_validated(arguments: str, expected: list[str]) -> None:
    assert problems(*arguments.split()) == expected


@pytest.mark.parametrize("origin", ["a$", "^a", "a"])
def test_origin_patterns_must_be_pinned_to_the_host(origin: str) -> None:
    assert problems(f"--cors-allowed-origins={origin}") == [
        "--cors-allowed-origins has an invalid regular expression: regular expression does not pin to start/end of "
        f"host in the origin header, help: {origin} needs ^ or // and $ or :"
    ]


@pytest.mark.parametrize("directives", ["max-age=x,preload", "preload,includesubdomains", "a,b"])
def test_unknown_transport_security_directives_are_rejected_once(directives: str) -> None:
    (problem,) = problems(f"--strict-transport-security-directives={directives}")

    assert problem.startswith("--strict-transport-security-directives invalid, allowed values: ")


@pytest.mark.parametrize("pair", ["a", "a,", ",b", "a,b,c"])
def test_named_certificate_is_a_pair_of_files(pair: str) -> None:
    problem = f'invalid argument "{pair}" for "--tls-sni-cert-key" flag: '

    assert problems(f"--tls-sni-cert-key={pair}") == [
        f"{problem}expected comma separated certificate and key file paths"
    ]


def test_number_of_streams_is_that_of_the_option_or_the_default() -> None:
    for arguments, expected in (
        ([], 100),
        (["--http2-max-streams-per-connection=-1"], 100),
        (["--http2-max-streams-per-connection=7"], 7),
        (["--http2-max-streams-per-connection=7", "--disable-http2-serving"], 0),
    ):
        assert parse(arguments).http2_streams == expected, arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--platform-service-node-port=-1", [PORTS.format(-1)]),
        ("--platform-service-node-port=65536", [PORTS.format(65536)]),
        ("--platform-service-node-port=0", []),
        ("--platform-service-node-port=30000", []),
        ("--platform-service-node-port=32768", ["service node port range 30000-32767 doesn't contain 32768"]),
        ("--platform-service-node-port=65535 --service-node-port-range=1-65535", []),
        ("--endpoint-reconciler-type=none", []),
        ("--endpoint-reconciler-type=x", ["Reconciler not implemented: x"]),
        (
            "--cloud-provider-cloudvendor-l7lb-src-cidrs=192.0.2.0/24,x",
            ["--cloud-provider-cloudvendor-l7lb-src-cidrs: invalid CIDR address: x"],
        ),
        (
            "--cloudvendor-container-registry-config=/nowhere",
            ["--cloudvendor-container-registry-config: open /nowhere: no such file or directory"],
        ),
        ("--cloudvendor-container-registry-config=/dev/null", []),
    ],
)
def test_options_of_services_are_validated(arguments: str, expected: list[str]) -> None:
    assert problems(*arguments.split()) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1-65535", range(1, 65536)),
        ("80", range(80, 81)),
        ("80-80", range(80, 81)),
        (" 80 - 90 ", range(80, 91)),
        ("80+10", range(80, 91)),
        ("65535+0", range(65535, 65536)),
    ],
)
def test_node_ports_are_a_range(value: str, expected: range) -> None:
    assert parse([f"--service-node-port-range={value}"]).service_node_port_range == expected


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("0-80", "the port range cannot be greater than 65535: 0-80"),
        ("80-65536", "the port range cannot be greater than 65535: 80-65536"),
        ("80+65456", "the port range cannot be greater than 65535: 80+65456"),
        ("90-80", "end port cannot be less than start port: 90-80"),
        ("x-80", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("80-", 'strconv.Atoi: parsing "": invalid syntax'),
    ],
)
def test_invalid_range_of_node_ports_is_rejected(value: str, rule: str) -> None:
    found = problems(f"--service-node-port-range={value}")

    assert found == [f'invalid argument "{value}" for "--service-node-port-range" flag: {rule}']


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--authorization-mode=RBAC,x", ['authorization-mode "x" is not a valid mode']),
        ("--authorization-mode=RBAC,RBAC", ['authorization-mode ["RBAC" "RBAC"] has mode specified more than once']),
        ("--authorization-mode=ABAC", ["authorization-mode ABAC's authorization policy file not passed"]),
        ("--authorization-mode=Webhook", ["authorization-mode Webhook's authorization config file not passed"]),
        ("--authorization-policy-file=x", ["cannot specify --authorization-policy-file without mode ABAC"]),
        (
            "--authorization-webhook-config-file=x",
            ["cannot specify --authorization-webhook-config-file without mode Webhook"],
        ),
        ("--authorization-mode=Webhook --authorization-webhook-config-file=x --authorization-webhook-version=v1", []),
        (
            "--authorization-webhook-version=v2",
            ['authorization-webhook-version "v2" is not supported: must be one of v1, v1beta1'],
        ),
        (
            "--authorization-webhook-cache-authorized-ttl=-1s",
            ["--authorization-webhook-cache-authorized-ttl must not be negative"],
        ),
        (
            "--authorization-webhook-cache-unauthorized-ttl=-1s",
            ["--authorization-webhook-cache-unauthorized-ttl must not be negative"],
        ),
        ("--authorization-webhook-cache-authorized-ttl=0s --authorization-webhook-cache-unauthorized-ttl=0s", []),
        (
            "--authorization-config=x",
            [
                "--authorization-config cannot be used without enabling StructuredAuthorizationConfiguration "
                "feature flag"
            ],
        ),
        *(
            (
                f"--authorization-config=x --feature-gates=StructuredAuthorizationConfiguration=true --{flag}",
                [
                    "--authorization-config can not be specified when --authorization-mode or "
                    "--authorization-webhook-* flags are defined"
                ],
            )
            for flag in (
                "authorization-mode=RBAC",
                "authorization-webhook-version=v1",
                "authorization-webhook-config-file=x",
                "authorization-webhook-cache-authorized-ttl=0s",
                "authorization-webhook-cache-unauthorized-ttl=0s",
            )
        ),
        ("--authorization-config=x --feature-gates=StructuredAuthorizationConfiguration=true", []),
        (
            "--authentication-token-webhook-version=v2",
            ['authentication-token-webhook-version "v2" is not supported: must be one of v1, v1beta1'],
        ),
        (
            "--authentication-config=x",
            ["set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file"],
        ),
        (
            "--requestheader-uid-headers=X-Uid",
            ["--requestheader-uid-headers cannot be used without enabling RemoteRequestHeaderUID feature flag"],
        ),
    ],
)
def test_options_of_authentication_and_authorization_are_validated(arguments: str, expected: list[str]) -> None:
    assert problems(*arguments.split()) == expected


def test_authorization_has_defaults_without_options() -> None:
    options, file = parse([]), Options(authorization_config=Path("x"))

    assert (options.authorization_mode, file.authorization_mode) == (("AlwaysAllow",), ())
    assert options.authorization_webhook_version == "v1beta1"
    assert options.authorization_webhook_cache_authorized_ttl_seconds == 300
    assert options.authorization_webhook_cache_unauthorized_ttl_seconds == 30
    given = parse([f"--authorization-webhook-cache-{name}-ttl=0s" for name in ("authorized", "unauthorized")])
    assert given.authorization_webhook_cache_authorized_ttl_seconds == 0
    assert given.authorization_webhook_cache_unauthorized_ttl_seconds == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--service-account-issuer=", ["service-account-issuer should not be an empty string"]),
        ("--service-account-issuer=a --service-account-issuer=a", ['service-account-issuer "a" is already specified']),
        ("--service-account-issuer=a --service-account-issuer=b", []),
        (
            "--service-account-issuer=:a",
            [
                "service-account-issuer \":a\" contained a ':' but was not a valid URL: "
                'parse ":a": missing protocol scheme'
            ],
        ),
        ("--service-account-issuer=https://a:1", []),
        ("--service-account-jwks-uri=https://a/keys", []),
        (
            "--service-account-jwks-uri=http://a/keys",
            ["service-account-jwks-uri requires https scheme, parsed as: http://a/keys"],
        ),
        (
            "--service-account-jwks-uri=:a",
            ['service-account-jwks-uri must be a valid URL: parse ":a": missing protocol scheme'],
        ),
        ("--service-account-signing-key-file=x", ["service-account-key-file is a required flag"]),
        ("--service-account-signing-key-file=x --service-account-key-file=y", []),
        ("--service-account-max-token-expiration=0s", []),
        ("--service-account-max-token-expiration=59m59s", [TOKEN_TIMES]),
        ("--service-account-max-token-expiration=1h", []),
        ("--service-account-max-token-expiration=4294967296s", []),
        ("--service-account-max-token-expiration=4294967297s", [TOKEN_TIMES]),
        (
            "--service-account-signing-endpoint=/run/x.sock",
            [
                "setting `--service-account-signing-endpoint` requires enabling ExternalServiceAccountTokenSigner "
                "feature gate"
            ],
        ),
    ],
)
def test_options_of_service_accounts_are_validated(arguments: str, expected: list[str]) -> None:
    assert problems(*arguments.split()) == expected


@pytest.mark.parametrize("spare", ["signing-key-file", "key-file"])
def test_external_signer_replaces_key_files(spare: str) -> None:
    arguments = ["--compatibility-version=1.34", "--service-account-signing-endpoint=/run/x.sock"]

    assert problems(*arguments) == []
    (problem,) = problems(*arguments, f"--service-account-{spare}=x")
    assert problem.startswith(
        "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with "
    )
    (problem,) = problems(arguments[0], "--service-account-signing-endpoint=x y")
    assert problem.startswith('invalid value "x y" passed for `--service-account-signing-endpoint`')
    assert parse(arguments).generated_token_key is None
    assert parse(["--data-dir=/d"]).generated_token_key == Path("/d/service-account.key")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--service-account-max-token-expiration=1h", ["_SHORT", "3600"]),
        ("--service-account-max-token-expiration=1h --service-account-extend-token-expiration=false", []),
        ("--service-account-max-token-expiration=3606s", ["_SHORT", "3606"]),
        ("--service-account-max-token-expiration=3607s", ["3607"]),
        ("--service-account-max-token-expiration=8760h", []),
        ("--endpoint-reconciler-type=master-count", ["master-count is deprecated"]),
        ("--cloudvendor-container-registry-config=/dev/null", ["registry-config has no effect"]),
        ("--cloud-provider-cloudvendor-l7lb-src-cidrs=192.0.2.0/24", ["l7lb-src-cidrs has no effect"]),
        ("--audit-policy-file=x", ["No audit backend provided"]),
        ("--audit-policy-file=x --audit-log-path=-", []),
        ("--audit-policy-file=x --audit-webhook-config-file=x", []),
        ("--audit-log-path=-", ["No audit policy file provided"]),
        ("--audit-webhook-config-file=x", ["No audit policy file provided"]),
        ("--enable-admission-plugins=AlwaysDeny", ["AlwaysDeny admission controller is deprecated"]),
        ("--watch-cache-sizes=pods#0", []),
        ("--watch-cache-sizes=pods#10", ["Dropping watch-cache-size for pods"]),
        ("--store-prefix=/x", ["--store-prefix only affects encryption at rest"]),
        ("--store-prefix=/x --store-servers=http://a:1", []),
        ("--store-prefix=/x --store-servers-overrides=/events#http://a:1", []),
        ("--lease-reuse-duration-seconds=1", ["--lease-reuse-duration-seconds has no effect"]),
        ("--feature-gates=APIListChunking=true", ["APIListChunking"]),
    ],
)
def test_problematic_options_cause_warnings(arguments: str, expected: list[str]) -> None:
    short = "in order to correctly trigger safe transition logic"
    found = warnings(parse(["--authorization-mode=RBAC", *arguments.split()]))

    assert len(found) == len(expected), found
    for warning, part in zip(found, expected, strict=True):
        assert part.replace("_SHORT", short) in warning


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--allow-metric-labels=m,l=a", []),
        ("--allow-metric-labels=m=a", [LABELS]),
        ("--show-hidden-metrics-for-version=1.28", []),
        ("--show-hidden-metrics-for-version=1.27", [VERSION]),
        (
            "--allow-metric-labels=x",
            ['invalid argument "x" for "--allow-metric-labels" flag: x must be formatted as key=value'],
        ),
        (
            "--allow-metric-labels=",
            ['invalid argument "" for "--allow-metric-labels" flag:  must be formatted as key=value'],
        ),
        ("--store-servers-overrides=/events#http://a:1", []),
        ("--watch-cache-sizes=pods#0,leases.coordination.k8s.io#5", []),
        (f"--version={git_version(OLDEST)}-own", []),
        (
            "--version=v1.28.0",
            [
                'invalid argument "v1.28.0" for "--version" flag: version "v1.28.0" must match major/minor/patch of '
                f'default version "{git_version(OLDEST)}"'
            ],
        ),
        (
            "--feature-gates=Unknown=true",
            ['invalid argument "Unknown=true" for "--feature-gates" flag: unrecognized feature gate: Unknown'],
        ),
        ("--runtime-config=flowcontrol.apiserver.k8s.io/v1=false --enable-priority-and-fairness=false", []),
        (
            "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false",
            [
                "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false conflicts with "
                "--enable-priority-and-fairness=true"
            ],
        ),
        ("--advertise-address=::1", ['service IP family "10.0.0.0/24" must match public address family "::1"']),
        ("--advertise-address=::1 --endpoint-reconciler-type=none", []),
        ("--advertise-address=::1 --service-cluster-ip-range=fd00::/112", []),
        ("--advertise-address=192.0.2.1", []),
        ("--advertise-address=::", []),
        ("--enable-admission-plugins=x", ['enable-admission-plugins plugin "x" is unknown']),
        ("--disable-admission-plugins=x", ['disable-admission-plugins plugin "x" is unknown']),
        (
            "--enable-admission-plugins=AlwaysDeny --disable-admission-plugins=AlwaysDeny",
            ["[AlwaysDeny] in enable-admission-plugins and disable-admission-plugins overlapped"],
        ),
    ],
)
def test_options_of_features_and_metrics_are_validated(arguments: str, expected: list[str]) -> None:
    assert problems(*arguments.split()) == expected


def test_admission_plugins_are_enabled_by_default_or_option() -> None:
    usual = parse([]).admission_plugins
    changed = parse(["--enable-admission-plugins=AlwaysDeny", "--disable-admission-plugins=ServiceAccount"])

    assert "ServiceAccount" in usual
    assert set(changed.admission_plugins) == {*usual, "AlwaysDeny"} - {"ServiceAccount"}


def test_allowed_metric_labels_are_read_from_options_and_manifest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('"m,l": "a, b"\n"n,l": "c"\n"broken": "d"\n', encoding="utf-8")
    given = [f"--allow-metric-labels-manifest={manifest}", '--allow-metric-labels="m,l=x,y"', "--disabled-metrics=a,b"]

    choice = parse(given).metric_choice()

    assert choice.allowed == {("m", "l"): frozenset("xy"), ("n", "l"): frozenset("c")}
    assert (choice.disabled, choice.hidden) == (frozenset("ab"), False)
    assert parse(["--show-hidden-metrics-for-version=1.28"]).metric_choice().hidden
    assert not caplog.records
    for content in ("[]", '"m,l": 1', ":"):
        manifest.write_text(content, encoding="utf-8")
        assert parse(given).metric_choice().allowed == {("m", "l"): frozenset("xy")}
        assert caplog.records.pop().message == "Failed to read metric label manifest, ignoring it"
        caplog.clear()


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("*", True),
        ("deployment-controller", True),
        ("*,-deployment-controller", False),
        ("replicaset-controller", False),
    ],
)
def test_controllers_run_by_default_or_by_name(text: str, runs: bool) -> None:
    assert parse([f"--controllers={text}"]).runs_controller("deployment-controller") is runs


@pytest.mark.parametrize(
    ("argument", "output"),
    [
        ("--version=false", None),
        ("--version=v1.29.1", None),
        ("--version", f"nodeagent-apiserver {git_version()}+"),
        ("--version=true", f"nodeagent-apiserver {git_version()}+"),
        ("--version=raw", f"{git_version()}\n"),
    ],
)
def test_version_is_printed_on_request(argument: str, output: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    if output is None:
        parse([argument])
    else:
        with pytest.raises(SystemExit):
            parse([argument])

    printed = capsys.readouterr().out
    assert printed == "" if output is None else printed.startswith(output)
