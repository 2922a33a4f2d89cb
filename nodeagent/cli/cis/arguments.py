"""Items about the agent's effective configuration. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from nodeagent.cli.cis.installation import Installation

STRONG_CIPHERS = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
)
_ACCEPTED_CIPHERS = {*STRONG_CIPHERS, *(f"{name}_SHA256" for name in STRONG_CIPHERS if name.endswith("POLY1305"))}
MIN_EVENT_RATE = 5
"""Rate below which events of a busy node are dropped; 0 is unlimited."""
_ROTATION_GATE = "RotateNodeAgentServerCertificate"


def anonymous(installation: Installation) -> Iterable[str]:
    """Return whether anonymous requests are accepted."""
    return _unless(not installation.config.authentication.anonymous.enabled, "anonymous requests are accepted")


def authorization(installation: Installation) -> Iterable[str]:
    """Return whether every request is authorized."""
    mode = installation.config.authorization.mode
    return _unless(mode != "AlwaysAllow", f"authorization.mode is {mode}")


def client_ca(installation: Installation) -> Iterable[str]:
    """Return whether client certificates cannot be verified."""
    return _unless(bool(installation.config.authentication.x509.client_ca_file), "clientCAFile is not set")


def read_only_port(installation: Installation) -> Iterable[str]:
    """Return whether the read-only port is enabled."""
    port = installation.config.read_only_port
    return _unless(port == 0, f"readOnlyPort is {port}")


def streaming_timeout(installation: Installation) -> Iterable[str]:
    """Return whether idle streams are not closed."""
    timeout = installation.config.streaming_connection_idle_timeout
    return _unless(timeout.seconds > 0, "streamingConnectionIdleTimeout is 0")


def iptables_chains(installation: Installation) -> Iterable[str]:
    """Return whether the chains of other components are not created."""
    return _unless(installation.config.make_iptables_util_chains, "makeIPTablesUtilChains is false")


def kernel_defaults(installation: Installation) -> Iterable[str]:
    """Return whether the agent changes kernel parameters."""
    return _unless(installation.config.protect_kernel_defaults, "protectKernelDefaults is false")


def node_name(installation: Installation) -> Iterable[str]:
    """Return whether the node name is not the host name."""
    return _unless(not installation.overrides_node_name, f"--hostname-override is {installation.settings.node_name}")


def event_rate(installation: Installation) -> Iterable[str]:
    """Return whether events are dropped on a busy node."""
    rate = installation.config.event_record_qps
    return _unless(rate == 0 or rate >= MIN_EVENT_RATE, f"eventRecordQPS is {rate}")


def serving_certificate(installation: Installation) -> Iterable[str]:
    """Return whether the serving certificate is self-signed."""
    config = installation.config
    has_files = bool(config.tls_cert_file)  # Not valid without tlsPrivateKeyFile.
    return _unless(has_files or config.server_tls_bootstrap, "the serving certificate is self-signed")


def client_rotation(installation: Installation) -> Iterable[str]:
    """Return whether the client certificate is not renewed."""
    return _unless(installation.config.rotate_certificates, "rotateCertificates is false")


def server_rotation(installation: Installation) -> Iterable[str]:
    """Return whether the renewal of the serving certificate is disabled."""
    return _unless(installation.gates.enabled(_ROTATION_GATE), f"feature gate {_ROTATION_GATE} is disabled")


def cipher_suites(installation: Installation) -> Iterable[str]:
    """Return the weak cipher suites that are allowed; those of TLS 1.3 are strong."""
    config = installation.config
    if config.tls_min_version == "VersionTLS13":
        return []
    if not config.tls_cipher_suites:
        return ["tlsCipherSuites is not set"]
    return [f"{name} is allowed" for name in config.tls_cipher_suites if name not in _ACCEPTED_CIPHERS]


def process_limit(installation: Installation) -> Iterable[str]:
    """Return whether pods have no process limit."""
    limit = installation.config.pod_pids_limit
    return _unless(limit > 0, f"podPidsLimit is {limit}")


def seccomp_default(installation: Installation) -> Iterable[str]:
    """Return whether containers without a profile are unconfined."""
    return _unless(installation.config.seccomp_default, "seccompDefault is false")


def _unless(passed: bool, deviation: str) -> Iterable[str]:
    return [] if passed else [deviation]
