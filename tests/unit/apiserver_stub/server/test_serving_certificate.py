"""Tests for the serving certificate: generated or configured, with its CA and cipher suites."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from apiserver_stub.options import parse
from apiserver_stub.server.key_generation import generate_keys
from apiserver_stub.server.serving_certificate import Certificates, choose_ciphers
from nodeagent.base.tls import INSECURE_CIPHERS, KeyPair, TlsError, generate_ca, issue

EXISTING = "Using existing serving certificate"


def certificates(directory: Path, *arguments: str) -> Certificates:
    options = parse([f"--data-dir={directory / 'data'}", *arguments])
    return Certificates(options, generate_keys(options))


def write(directory: Path, pair: KeyPair) -> tuple[str, str]:
    """Write *pair* and return the options that name its files."""
    certificate, key = directory / "apiserver.crt", directory / "apiserver.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"


@pytest.fixture
def pair() -> KeyPair:
    return issue(generate_ca("others"), "web", names=["localhost"], server=True)


def test_generated_certificate_has_a_generated_ca(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    found = certificates(tmp_path)

    authority = found.own_authority()
    assert authority is not None and authority.certificate == found.authority.read_bytes()
    assert EXISTING not in caplog.messages


@pytest.mark.parametrize(("configured", "logged"), [(True, False), (False, True)])
def test_existing_certificate_is_logged_unless_configured(
    tmp_path: Path, pair: KeyPair, caplog: pytest.LogCaptureFixture, configured: bool, logged: bool
) -> None:
    caplog.set_level("INFO")
    named = write(tmp_path, pair)

    found = certificates(tmp_path, *(named if configured else [f"--cert-dir={tmp_path}"]))

    assert found.own_authority() is None
    assert (EXISTING in caplog.messages) is logged


def test_clients_are_trusted_if_the_bundle_has_the_generated_ca(tmp_path: Path) -> None:
    other = tmp_path / "other.crt"
    other.write_bytes(generate_ca("other").certificate)
    own = certificates(tmp_path).authority
    both = tmp_path / "both.crt"
    both.write_bytes(other.read_bytes() + own.read_bytes())

    assert not certificates(tmp_path).trusts_own_clients()
    assert not certificates(tmp_path, f"--client-ca-file={other}").trusts_own_clients()
    assert certificates(tmp_path, f"--client-ca-file={both}").trusts_own_clients()


@pytest.mark.parametrize(
    ("option", "mode"),
    [
        (None, ssl.CERT_NONE),
        ("--client-ca-file", ssl.CERT_OPTIONAL),
        ("--requestheader-client-ca-file", ssl.CERT_OPTIONAL),
    ],
)
def test_client_certificates_are_requested_only_with_a_bundle(
    tmp_path: Path, option: str | None, mode: ssl.VerifyMode
) -> None:
    bundle = tmp_path / "clients.crt"
    bundle.write_bytes(generate_ca("clients").certificate)

    found = certificates(tmp_path, *([f"{option}={bundle}"] if option else []))

    assert found.context.verify_mode is mode


@pytest.mark.parametrize("name", ["--client-ca-file", "--requestheader-client-ca-file"])
def test_invalid_bundle_is_named(tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "clients.crt"
    bundle.write_text("x")

    with pytest.raises(Exception, match=r"client-ca-bundle|request-header"):
        certificates(tmp_path, f"{name}={bundle}")


def test_invalid_certificate_is_rejected(tmp_path: Path, pair: KeyPair) -> None:
    named = write(tmp_path, KeyPair(b"x", pair.key))

    with pytest.raises(TlsError):
        certificates(tmp_path, *named)


@pytest.mark.parametrize(
    ("names", "enabled", "disabled", "unsupported"),
    [
        ([], {"ECDHE-RSA-AES128-GCM-SHA256"}, set(), []),
        (["TLS_AES_128_GCM_SHA256"], {"ECDHE-RSA-AES128-GCM-SHA256"}, set(), []),
        (
            ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
            {"ECDHE-RSA-AES128-GCM-SHA256"},
            {"ECDHE-RSA-AES256-GCM-SHA384"},
            [],
        ),
        (["TLS_RSA_WITH_AES_128_CBC_SHA"], {"AES128-SHA"}, {"ECDHE-RSA-AES128-GCM-SHA256"}, []),
    ],
)
def test_cipher_suites_are_limited_to_the_configured_ones(
    names: list[str], enabled: set[str], disabled: set[str], unsupported: list[str]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    assert choose_ciphers(context, names) == unsupported

    found = {cipher["name"] for cipher in context.get_ciphers()}
    assert enabled <= found and not disabled & found


def test_unsupported_suites_are_logged_and_disable_old_versions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "TLS_RSA_WITH_AES_128_CBC_SHA"
    monkeypatch.setitem(INSECURE_CIPHERS, name, "NO-SUCH-CIPHER")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    assert choose_ciphers(context, [name]) == [name]
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert caplog.messages == ["Cipher suite not supported by the TLS library"]

    other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert choose_ciphers(other, [name, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]) == [name]
    assert other.minimum_version is not ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(("disabled", "offered"), [("true", False), ("false", True)])
def test_http2_is_offered_unless_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disabled: str, offered: bool
) -> None:
    found: list[ssl.SSLContext] = []
    monkeypatch.setattr("apiserver_stub.server.serving_certificate.offer_http2", found.append)

    context = certificates(tmp_path, f"--disable-http2-serving={disabled}").context

    assert found == ([context] if offered else [])


def shown(context: ssl.SSLContext, name: str | None) -> bytes:
    """Return the certificate that a client receives which sends the server *name*."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(3):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der).encode()


@pytest.mark.parametrize("adds_names", [True, False])
def test_reloaded_certificate_is_served_except_for_other_names(tmp_path: Path, pair: KeyPair, adds_names: bool) -> None:
    (tmp_path / "named").mkdir()
    named = issue(generate_ca("named"), "named", names=["named.test"], server=True)
    write(tmp_path / "named", named)
    files = f"{tmp_path / 'named/apiserver.crt'},{tmp_path / 'named/apiserver.key'}"
    found = certificates(tmp_path, *write(tmp_path, pair), f"--tls-sni-cert-key={files}")
    if adds_names:
        found.add_named()
    other = issue(generate_ca("others"), "web", names=["localhost"], server=True)
    write(tmp_path, other)

    assert found.reload()

    assert shown(found.context, "localhost").strip() in other.certificate
    assert shown(found.context, "named.test").strip() in (named if adds_names else other).certificate


@pytest.mark.parametrize(("address", "is_named"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_client_without_a_server_name_gets_the_one_of_the_bind_address(
    tmp_path: Path, pair: KeyPair, address: str, is_named: bool
) -> None:
    (tmp_path / "named").mkdir()
    named = issue(generate_ca("named"), "named", names=["named.test"], server=True)
    write(tmp_path / "named", named)
    files = f"{tmp_path / 'named/apiserver.crt'},{tmp_path / 'named/apiserver.key'}:{address}"
    found = certificates(tmp_path, *write(tmp_path, pair), f"--tls-sni-cert-key={files}", f"--bind-address={address}")
    found.add_named()

    assert shown(found.context, None).strip() in (named if is_named else pair).certificate


@pytest.mark.parametrize(
    ("names", "weak"),
    [
        (["TLS_RSA_WITH_AES_128_CBC_SHA256"], True),
        (["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256"], True),
        (["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], False),
    ],
)
def test_security_level_is_lowered_only_for_weak_suites(names: list[str], weak: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    before = context.security_level

    choose_ciphers(context, names)

    assert context.security_level == (0 if weak else before) and before > 0
