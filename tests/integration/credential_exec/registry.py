"""Private registry on loopback that requires a user name and password, from a file or through a token service."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import secrets
import socket
import subprocess
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import NameOID

from tests.integration import images
from tests.integration.programs import free_port, wait_until


class Registry:
    """Debian's docker-registry with *users* and their passwords; stopped when the context exits."""

    def __init__(self, directory: Path, users: Mapping[str, str], *, token_service: TokenService | None = None) -> None:
        directory.mkdir()
        self.directory, self.users, self.port = directory, users, free_port()
        self.host = f"127.0.0.1:{self.port}"
        self._tokens = token_service
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Registry:
        config = {
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(self.directory / "data")}},
            "http": {"addr": self.host},
            "auth": self._tokens.registry_settings() if self._tokens else self._htpasswd(),
        }
        file = self.directory / "config.yml"
        file.write_text(yaml.safe_dump(config))
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(["docker-registry", "serve", str(file)], stdout=log, stderr=log)
        wait_until(self._serves, "the registry serves")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(20)

    def push(self, repository: str, note: str) -> str:
        """Push an image of busybox and a file ``/note`` and return its name."""
        archive = images.OciArchive()
        layer = archive.add_layer(images.busybox_layer({"note": note.encode()}))
        archive.add_image("app:1", [layer], {"Cmd": ["sh"], "Env": ["PATH=/bin"]})
        file = self.directory / "image.tar"
        archive.write(file)
        layout = self.directory / f"layout-{secrets.token_hex(4)}"
        layout.mkdir()
        subprocess.run(["tar", "-xf", file, "-C", layout], check=True)
        index = json.loads((layout / "index.json").read_text())
        index["manifests"] = index["manifests"][:1]  # The tool copies the only image of a layout.
        (layout / "index.json").write_text(json.dumps(index))
        name, password = next(iter(self.users.items()))
        image = f"{self.host}/{repository}:1"
        command = ["skopeo", "copy", "--dest-tls-verify=false", f"--dest-creds={name}:{password}"]
        subprocess.run([*command, f"oci:{layout}", f"docker://{image}"], check=True, capture_output=True)
        return image

    def _htpasswd(self) -> dict[str, Any]:
        file = self.directory / "htpasswd"
        lines = [
            subprocess.run(["htpasswd", "-Bbn", *pair], check=True, capture_output=True, text=True).stdout.strip()
            for pair in self.users.items()
        ]
        file.write_text("\n".join(lines) + "\n")
        return {"htpasswd": {"realm": "test", "path": str(file)}}

    def _serves(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self.directory / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class TokenService:
    """Token service of a registry, for users with name and password."""

    service = "registry.test"
    issuer = "tokens.test"

    def __init__(self, directory: Path, users: Mapping[str, str]) -> None:
        self.users = users
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _self_signed(self._key)
        self._bundle = directory / "tokens.pem"
        self._bundle.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.handle_basic(self)

            def do_POST(self) -> None:
                outer.handle_form(self)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> TokenService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def registry_settings(self) -> dict[str, Any]:
        """Return the registry settings that require tokens of this service."""
        realm = f"http://127.0.0.1:{self._server.server_port}/token"
        names = {"service": self.service, "issuer": self.issuer}
        return {"token": {"realm": realm, **names, "rootcertbundle": str(self._bundle)}}

    def handle_basic(self, request: BaseHTTPRequestHandler) -> None:
        """Handle a request with the credentials in its header and the scopes in its query."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        name, _, password = base64.b64decode(given if scheme == "Basic" else "").decode().partition(":")
        self._respond(request, name, password, parse_qs(urlsplit(request.path).query).get("scope", []), "token")

    def handle_form(self, request: BaseHTTPRequestHandler) -> None:
        """Handle an OAuth request, with all parameters in its body."""
        form = parse_qs(request.rfile.read(int(request.headers["Content-Length"])).decode())
        name, password = (form.get(field, [""])[0] for field in ("username", "password"))
        self._respond(request, name, password, form.get("scope", []), "access_token")

    def _respond(
        self, request: BaseHTTPRequestHandler, name: str, password: str, scopes: list[str], field: str
    ) -> None:
        if not name or self.users.get(name) != password:
            request.send_error(401)
            return
        body = json.dumps({field: self._token(name, scopes), "expires_in": 300}).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _token(self, name: str, scopes: list[str]) -> str:
        now = int(datetime.datetime.now(datetime.UTC).timestamp())
        access = []
        for scope in " ".join(scopes).split():
            kind, _, rest = scope.partition(":")
            repository, _, actions = rest.rpartition(":")
            access.append({"type": kind, "name": repository, "actions": actions.split(",")})
        chain = base64.b64encode(self._certificate.public_bytes(serialization.Encoding.DER)).decode()
        header = {"typ": "JWT", "alg": "ES256", "x5c": [chain]}
        claims = {
            "iss": self.issuer,
            "sub": name,
            "aud": self.service,
            "iat": now,
            "nbf": now - 5,
            "exp": now + 300,
            "jti": secrets.token_hex(8),
            "access": access,
        }
        signed = f"{_segment(header)}.{_segment(claims)}"
        digest = hashlib.sha256(signed.encode()).digest()
        r, s = utils.decode_dss_signature(self._key.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256()))))
        return f"{signed}.{_base64url(r.to_bytes(32) + s.to_bytes(32))}"


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokens")])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


def _segment(value: Mapping[str, Any]) -> str:
    return _base64url(json.dumps(value).encode())


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
