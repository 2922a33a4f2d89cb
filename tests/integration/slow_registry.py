"""Registry with one image, whose layer is sent in two halves with a pause that the test controls."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.integration.images import busybox_layer

_CONFIG, _MANIFEST, _LAYER = (
    f"application/vnd.oci.image.{kind}" for kind in ("config.v1+json", "manifest.v1+json", "layer.v1.tar")
)
WAIT_SECONDS = 60.0


class SlowRegistry:
    """Registry on loopback, stopped when the context exits.

    :ivar resume: the second half is sent once this is set.
    """

    def __init__(self, bytes_of_noise: int) -> None:
        self.resume = threading.Event()
        layer = busybox_layer({"noise": os.urandom(bytes_of_noise)})
        rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, layer)],
        }
        self._documents = {_digest(content): content for content in (config, json.dumps(manifest).encode(), layer)}
        self._documents["1"] = json.dumps(manifest).encode()
        self._layer = layer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def image(self) -> str:
        return f"{self.host}/slow/app:1"

    def __enter__(self) -> SlowRegistry:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.resume.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                content = registry._documents.get(name)
                self.send_response(404 if content is None else 200)
                content = content or b""
                self.send_header("Content-Length", str(len(content)))
                self.send_header(
                    "Content-Type", _MANIFEST if "/manifests/" in self.path else "application/octet-stream"
                )
                self.send_header("Docker-Content-Digest", name if ":" in name else _digest(content))
                self.end_headers()
                if self.command == "HEAD":
                    return
                if content is registry._layer:
                    half = len(content) // 2
                    self.wfile.write(content[:half])
                    registry.resume.wait(WAIT_SECONDS)
                    content = content[half:]
                self.wfile.write(content)

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}
