"""Kubeconfig reader: API server, CA and credentials of the current context.

Custom, since the loader of the ``kubernetes`` package is blocking and imports the client.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nodeagent.base.exec_plugin import EXTENSION, ExecCredential, ExecPlugin, Report, read_plugin
from nodeagent.base.key_material import NO_MATERIAL, Material, bare_context, load_key_pair
from nodeagent.base.proxy import proxy_from_environment, proxy_problem
from nodeagent.base.secret import Secret
from nodeagent.base.structs import Struct

MAX_FILE_BYTES = 1024 * 1024
_UNSUPPORTED_CREDENTIALS = ("auth-provider", "as", "as-uid", "as-groups", "as-user-extra")


class Fault(Struct, frozen=True):
    """One problem of a file: position, value unless it is secret, and violated rule."""

    source: str
    path: str
    value: object
    rule: str

    def __str__(self) -> str:
        where = f"{self.source}: {self.path}" if self.path else self.source
        return f"{where}: {self.rule}" if self.value is None else f"{where}: {self.value!r} {self.rule}"


class KubeconfigError(ValueError):
    """The file is invalid; ``faults`` lists all problems."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


class Kubeconfig(Struct, frozen=True, kw_only=True):
    """The current context of a kubeconfig."""

    source: str
    server: str
    """Base URL without a trailing slash."""
    namespace: str = "default"
    certificate_authority: Material = NO_MATERIAL
    """Empty: the CA certificates of the system."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    """Proxy that takes precedence over the variables of the environment."""
    client_certificate: Material = NO_MATERIAL
    client_key: Material = NO_MATERIAL
    token: Secret[str] | None = None
    token_file: Path | None = None
    """Precedes ``token``; read again at each use, because it is replaced while the process runs."""
    username: str = ""
    password: Secret[str] | None = None
    exec_plugin: ExecPlugin | None = None
    exec_config: object = None
    """Extension of the cluster entry for the plugin."""

    @property
    def encrypted(self) -> bool:
        return self.server.startswith("https://")

    def files(self) -> list[Path]:
        """Return the files with credentials, whose change requires new connections."""
        materials = (self.certificate_authority, self.client_certificate, self.client_key)
        return [material.file for material in materials if material.file is not None]

    def with_pair(self, pair: Path) -> Kubeconfig:
        """Return the same server, with the certificate and key in the file *pair* as the only credentials."""
        return replace(
            self,
            client_certificate=Material(file=pair),
            client_key=Material(file=pair),
            token=None,
            token_file=None,
            username="",
            password=None,
            exec_plugin=None,
        )

    def with_credential(self, credential: ExecCredential) -> Kubeconfig:
        """Return the same server with *credential* of the plugin; a token of the kubeconfig takes precedence."""
        config = replace(self, exec_plugin=None)
        if credential.certificate:
            certificate, key = Material(data=credential.certificate), Material(data=credential.key)
            config = replace(config, client_certificate=certificate, client_key=key)
        if credential.token is not None and not (self.token or self.token_file or self.username):
            config = replace(config, token=credential.token)
        return config

    def run_plugin(self) -> ExecCredential:
        """Run the exec plugin; blocks, see :meth:`ExecPlugin.run`.

        :raises ExecPluginError: it failed.
        :raises KubeconfigError: the file of the certificate authority cannot be read.
        """
        assert self.exec_plugin is not None
        return self.exec_plugin.run(self._cluster_info() if self.exec_plugin.provide_cluster_info else {})

    def proxy(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the URL of the proxy for the server, empty for a direct connection.

        :raises KubeconfigError: a variable of the environment has no valid URL.
        """
        if self.proxy_url:
            return self.proxy_url
        url = proxy_from_environment(self.server, environment)
        if url and (rule := proxy_problem(url)):
            raise KubeconfigError([Fault("environment", "proxy", _without_password(url), rule)])
        return url

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the server and the client certificate; ``None`` for plain HTTP. Reads the disk.

        :raises KubeconfigError: a file is missing or has no valid certificate or key.
        """
        if not self.encrypted:
            return None
        trusts_system = not self.certificate_authority and not self.insecure_skip_tls_verify
        context = ssl.create_default_context() if trusts_system else bare_context()
        if self.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.certificate_authority:
            try:
                context.load_verify_locations(cadata=self.certificate_authority.read().decode("ascii"))
            except (OSError, ValueError) as error:
                raise self._fault("certificate-authority", f"has no valid certificate: {_reason(error)}") from error
        if self.client_certificate:
            for path, material in (("client-certificate", self.client_certificate), ("client-key", self.client_key)):
                if material.file is not None and not material.file.exists():
                    raise self._fault(path, f"{material.file} does not exist")
            try:
                load_key_pair(context, self.client_certificate, self.client_key)
            except (OSError, ValueError) as error:
                text = f"cannot be used with client-key: {_reason(error)}"
                raise self._fault("client-certificate", text) from error
        return context

    def authorization(self) -> str:
        """Return the value of the ``Authorization`` header, empty without one. Reads the disk for a token file.

        :raises KubeconfigError: the token file cannot be read or is empty.
        """
        if self.token_file is not None:
            try:
                token = self.token_file.read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                raise self._fault("tokenFile", f"cannot be read: {_reason(error)}") from error
            if not token:
                raise self._fault("tokenFile", f"{self.token_file} is empty")
            return f"Bearer {token}"
        if self.token:
            return f"Bearer {self.token.reveal()}"
        if self.username:
            password = self.password.reveal() if self.password is not None else ""
            pair = f"{self.username}:{password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return ""

    def _cluster_info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"server": self.server}
        if self.tls_server_name:
            info["tls-server-name"] = self.tls_server_name
        if self.insecure_skip_tls_verify:
            info["insecure-skip-tls-verify"] = True
        if self.certificate_authority:
            try:
                data = self.certificate_authority.read()
            except OSError as error:
                raise self._fault("certificate-authority", f"cannot be read: {_reason(error)}") from error
            info["certificate-authority-data"] = base64.b64encode(data).decode()
        if self.proxy_url:
            info["proxy-url"] = self.proxy_url
        if self.exec_config is not None:
            info["config"] = self.exec_config
        return info

    def _fault(self, path: str, rule: str) -> KubeconfigError:
        return KubeconfigError([Fault(self.source, path, None, rule)])


def load(path: Path) -> Kubeconfig:
    """Read the current context of the file *path*; relative file names in it are relative to its directory.

    :raises KubeconfigError: with all problems found.
    """
    return _open(path).read()


def load_users(path: Path) -> tuple[dict[str, Kubeconfig], str]:
    """Read the credentials of all users of the file *path*, and return them with the user of the current context.

    The results have no server. The name is empty without a current context.

    :raises KubeconfigError: with all problems found.
    """
    reader = _open(path)
    return reader.users(), reader.default_user()


def _open(path: Path) -> _Reader:
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise KubeconfigError([Fault(source, "", None, f"cannot be read: {_reason(error)}")]) from error
    if len(data) > MAX_FILE_BYTES:
        raise KubeconfigError([Fault(source, "", None, f"must not be over {MAX_FILE_BYTES} bytes")])
    return _Reader(source, path.parent, _parse(source, data))


class _Reader:
    """Reader of the parsed document that collects all problems."""

    def __init__(self, source: str, directory: Path, document: Mapping[str, Any]) -> None:
        self._source, self._directory, self._document = source, directory, document
        self._faults: list[Fault] = []

    def read(self) -> Kubeconfig:
        where, context = self._current_context()
        cluster_where, cluster = self._named("clusters", "cluster", self._text(context, "cluster", where), where)
        user_name = self._text(context, "user", where)
        user_where, user = self._named("users", "user", user_name, where) if user_name else (where, {})
        server = self._server(cluster, cluster_where)
        ca = self._material(cluster, "certificate-authority", cluster_where)
        insecure = cluster.get("insecure-skip-tls-verify") is True
        if insecure and ca:
            rule = "must not be combined with a certificate authority"
            self._fault(f"{cluster_where}.insecure-skip-tls-verify", True, rule)
        proxy = self._text(cluster, "proxy-url", cluster_where)
        if proxy and (rule := proxy_problem(proxy)):
            self._fault(f"{cluster_where}.proxy-url", _without_password(proxy), rule)
        credentials = self._credentials(user, user_where)
        if self._faults:
            raise KubeconfigError(self._faults)
        return Kubeconfig(
            source=self._source,
            server=server,
            namespace=self._text(context, "namespace", where) or "default",
            certificate_authority=ca,
            insecure_skip_tls_verify=insecure,
            tls_server_name=self._text(cluster, "tls-server-name", cluster_where),
            proxy_url=proxy,
            exec_config=_extension(cluster),
            **credentials,
        )

    def users(self) -> dict[str, Kubeconfig]:
        """Return the credentials of every user entry, without a server."""
        entries, found = self._document.get("users"), {}
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            where = f"users[{index}].user"
            if not isinstance(entry, Mapping) or not isinstance(user := entry.get("user") or {}, Mapping):
                self._fault(where, None, "must be a mapping")
            else:
                found[str(entry.get("name") or "")] = self._credentials(user, where)
        if self._faults:
            raise KubeconfigError(self._faults)
        return {name: Kubeconfig(source=self._source, server="", **credentials) for name, credentials in found.items()}

    def default_user(self) -> str:
        """Return the user of the current context, empty if there is none."""
        if not self._text(self._document, "current-context", ""):
            return ""
        where, context = self._current_context()
        return self._text(context, "user", where)

    def _credentials(self, user: Mapping[str, Any], user_where: str) -> dict[str, Any]:
        """Return the credentials of the entry *user* as arguments of :class:`Kubeconfig`."""
        plugin = None
        if (entry := user.get("exec")) is not None:
            plugin = read_plugin(entry, self._directory, self._below(f"{user_where}.exec"))
        for method in _UNSUPPORTED_CREDENTIALS:
            if user.get(method):
                self._fault(f"{user_where}.{method}", None, "is not supported: use a certificate, token or tokenFile")
        certificate = self._material(user, "client-certificate", user_where)
        key = self._material(user, "client-key", user_where)
        if bool(certificate) != bool(key):
            self._fault(f"{user_where}.client-certificate", None, "and client-key must be set together")
        token = self._text(user, "token", user_where)
        token_file = self._text(user, "tokenFile", user_where)
        password = self._text(user, "password", user_where)
        return {
            "client_certificate": certificate,
            "client_key": key,
            "token": Secret(token) if token else None,
            "token_file": self._directory / token_file if token_file else None,
            "username": self._text(user, "username", user_where),
            "password": Secret(password) if password else None,
            "exec_plugin": plugin,
        }

    def _below(self, where: str) -> Report:
        """Return the report function for problems of the member *where*."""
        return lambda path, value, rule: self._fault(f"{where}{path}", value, rule)

    def _current_context(self) -> tuple[str, Mapping[str, Any]]:
        name = self._text(self._document, "current-context", "")
        if not name:
            self._fault("current-context", None, "must name a context")
            raise KubeconfigError(self._faults)
        return self._named("contexts", "context", name, "current-context")

    def _named(self, plural: str, key: str, name: str, referrer: str) -> tuple[str, Mapping[str, Any]]:
        """Return path and content of the first entry called *name*."""
        entries = self._document.get(plural)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, Mapping) and entry.get("name") == name:
                where, content = f"{plural}[{index}].{key}", entry.get(key)
                if isinstance(content, Mapping):
                    return where, content
                self._fault(where, None, "must be a mapping")
                raise KubeconfigError(self._faults)
        self._fault(referrer, name, f"must be the name of an entry of {plural}")
        raise KubeconfigError(self._faults)

    def _server(self, cluster: Mapping[str, Any], where: str) -> str:
        server = self._text(cluster, "server", where)
        if not server:
            self._fault(f"{where}.server", None, "must be set")
            return ""
        try:
            parts = urlsplit(server)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port)
        except ValueError:
            usable = False
        if not usable or parts.query or parts.fragment or parts.username:
            self._fault(f"{where}.server", server, "must be an http or https URL with nothing after its path")
        return server.rstrip("/")

    def _material(self, holder: Mapping[str, Any], key: str, where: str) -> Material:
        """Return the inline data, which takes precedence over a file as with kubectl, or the file."""
        inline, file = self._text(holder, f"{key}-data", where), self._text(holder, key, where)
        if inline:
            try:
                return Material(data=base64.b64decode("".join(inline.split()), validate=True))
            except ValueError:
                self._fault(f"{where}.{key}-data", None, "must be base64")
        elif file:
            return Material(file=self._directory / file)
        return NO_MATERIAL

    def _text(self, holder: Mapping[str, Any], key: str, where: str) -> str:
        value = holder.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self._fault(f"{where}.{key}" if where else key, None, "must be a string")
            return ""
        return value

    def _fault(self, path: str, value: object, rule: str) -> None:
        self._faults.append(Fault(self._source, path, value, rule))


def _parse(source: str, data: bytes) -> Mapping[str, Any]:
    from nodeagent.base import yamlsafe

    try:
        document = yamlsafe.load(data, yamlsafe.Limits(MAX_FILE_BYTES, max_depth=32, max_values=100_000))
    except yamlsafe.YamlError as error:
        # The full text may quote the line, which may contain a key.
        where = f" near line {error.line}" if error.line else ""
        raise KubeconfigError([Fault(source, "", None, f"is not valid YAML{where}")]) from None
    if not isinstance(document, Mapping):
        raise KubeconfigError([Fault(source, "", None, "must be a mapping")])
    if document.get("kind") not in (None, "", "Config"):
        raise KubeconfigError([Fault(source, "kind", document["kind"], "must be Config")])
    return document


def _extension(cluster: Mapping[str, Any]) -> object:
    """Return the configuration of the exec plugin in a cluster entry."""
    entries = cluster.get("extensions")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == EXTENSION:
            return entry.get("extension")
    return None


def _without_password(url: str) -> str:
    """Return *url* without user name and password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _reason(error: Exception) -> str:
    """Return the reason of *error* without errno and path."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
