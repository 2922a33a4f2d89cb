"""Rules of the agent's servers: addresses, ports, TLS, authentication, authorization."""

from __future__ import annotations

from nodeagent.base.names import is_ip
from nodeagent.base.tls import (
    CURVES,
    INSECURE_CIPHERS,
    MIN_VERSIONS,
    PREFERRED_CIPHERS,
    SEVERAL_CURVES,
    TLS13_CIPHERS,
    can_limit_to,
)
from nodeagent.config.codec import nearest
from nodeagent.config.rules.check import Check


def check_serving(check: Check) -> None:
    """Check the fields of part *Serving*, authentication and authorization."""
    config = check.config
    for path in ("address", "healthzBindAddress"):
        if not is_ip(check.value(path)) or "%" in check.value(path):
            check.fail(path, "must be an IP address")
    check.between(1, 65535, "port")
    check.between(1, 65535, "readOnlyPort", "healthzPort", zero="off")
    check.not_negative(
        "streamingConnectionIdleTimeout",
        "authentication.webhook.cacheTTL",
        "authorization.webhook.cacheAuthorizedTTL",
        "authorization.webhook.cacheUnauthorizedTTL",
    )
    check.one_of("authorization.mode", ("AlwaysAllow", "Webhook"))
    _check_tls(check)
    authentication = config.authentication
    if not (authentication.x509.client_ca_file or authentication.webhook.enabled or authentication.anonymous.enabled):
        check.report("authentication", None, "must enable x509.clientCAFile, webhook or anonymous")
    if config.enable_system_log_query:
        if not config.enable_system_log_handler:
            check.fail("enableSystemLogQuery", "needs enableSystemLogHandler")
        check.needs_gate("enableSystemLogQuery", "NodeLogQuery")
    previous = str(check.release.release.previous)
    if config.show_hidden_metrics_for_version not in ("", previous):
        check.fail("showHiddenMetricsForVersion", f"must be unset or {previous}")


def _check_tls(check: Check) -> None:
    config = check.config
    if config.tls_cert_file and not config.tls_private_key_file:
        check.fail("tlsCertFile", "needs tlsPrivateKeyFile")
    if config.tls_private_key_file and not config.tls_cert_file:
        check.fail("tlsPrivateKeyFile", "needs tlsCertFile")
    check.one_of("tlsMinVersion", ("", *MIN_VERSIONS))
    known = (*PREFERRED_CIPHERS, *INSECURE_CIPHERS, *TLS13_CIPHERS)
    for index, name in enumerate(config.tls_cipher_suites):
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {near}?" if near else ""
            check.report(f"tlsCipherSuites[{index}]", name, f"is not a known cipher suite{hint}")
        elif name in INSECURE_CIPHERS:
            check.warnings.append(f"tlsCipherSuites: {name} is insecure")
        elif name in TLS13_CIPHERS:
            check.warnings.append(f"tlsCipherSuites: {name} is always enabled with TLS 1.3; listing it has no effect")
    if len(set(config.tls_curve_preferences)) > 1 and not SEVERAL_CURVES:
        rule = (
            "must have at most one entry: the ssl module of this Python can restrict key exchanges to a single curve, "
            "and to no set of curves; without entries, all curves of OpenSSL are allowed"
        )
        check.report("tlsCurvePreferences", ", ".join(map(str, config.tls_curve_preferences)), rule)
    for index, curve in enumerate(config.tls_curve_preferences):
        if curve not in CURVES:
            rule = f"is not a supported curve; supported: {', '.join(map(str, CURVES))}"
            check.report(f"tlsCurvePreferences[{index}]", curve, rule)
        elif not can_limit_to(curve):
            rule = f"is {CURVES[curve]}, to which the ssl module of this Python cannot restrict key exchanges"
            check.report(f"tlsCurvePreferences[{index}]", curve, rule)
    if config.server_tls_bootstrap:
        check.needs_gate("serverTLSBootstrap", "RotateNodeAgentServerCertificate")
