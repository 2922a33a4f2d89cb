"""External signer of service account tokens, as a process: ``python -m … SOCKET VERSION MAX_SECONDS``."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import grpc
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from apiserver_stub.authn.external_signer.proto import external_jwt_pb2 as pb

from .processes import grpc_service, run_commands


class TokenSigner:
    """Signer with RSA keys; the last one signs."""

    def __init__(self, max_seconds: int) -> None:
        self._max_seconds = max_seconds
        self._keys: dict[str, rsa.RSAPrivateKey] = {}
        self._failing = False
        self.rotate()

    def rotate(self) -> None:
        self._keys[f"key-{len(self._keys) + 1}"] = rsa.generate_private_key(65537, 2048)

    def fail(self) -> None:
        self._failing = True

    def metadata(self, request: pb.MetadataRequest, context: Any) -> pb.MetadataResponse:
        return pb.MetadataResponse(max_token_expiration_seconds=self._max_seconds)

    def fetch_keys(self, request: pb.FetchKeysRequest, context: Any) -> pb.FetchKeysResponse:
        form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        keys = [pb.Key(key_id=name, key=key.public_key().public_bytes(*form)) for name, key in self._keys.items()]
        return pb.FetchKeysResponse(keys=keys, data_timestamp=pb.Timestamp(seconds=1), refresh_hint_seconds=600)

    def sign(self, request: pb.SignJWTRequest, context: Any) -> pb.SignJWTResponse:
        if self._failing:
            context.abort(grpc.StatusCode.INTERNAL, "the module is locked")
        name, key = list(self._keys.items())[-1]
        header = _encoded(json.dumps({"alg": "RS256", "kid": name, "typ": "JWT"}).encode())
        signed = f"{header}.{request.claims}".encode()
        return pb.SignJWTResponse(
            header=header, signature=_encoded(key.sign(signed, padding.PKCS1v15(), hashes.SHA256()))
        )


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def main(socket: str, version: str, max_seconds: str) -> None:
    signer = TokenSigner(int(max_seconds))
    methods = {
        "Metadata": (signer.metadata, pb.MetadataRequest),
        "FetchKeys": (signer.fetch_keys, pb.FetchKeysRequest),
        "Sign": (signer.sign, pb.SignJWTRequest),
    }
    address = f"unix-abstract:{socket[1:]}" if socket.startswith("@") else f"unix:{socket}"
    with grpc_service(address, f"{version}.ExternalJWTSigner", methods):
        run_commands({"rotate": signer.rotate, "fail": signer.fail})


if __name__ == "__main__":
    main(*sys.argv[1:])
