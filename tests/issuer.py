"""An issuer of tokens (OpenID's words): its keys, its tokens, and the endpoints where both are fetched."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

WHY = "pip install -e '.[dev]'"
pytest.importorskip("joserfc", reason=WHY)
jwt = pytest.importorskip("jwt", reason=WHY)
ISSUER, AUDIENCE = "https://issuer.example.org/", "kafka"
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
KINDS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES, "EdDSA")


@cache
def private(kid: str) -> Any:
    """The private key of that name, whose first word is an algorithm: `private("ES256-old")`."""
    algorithm = kid.partition("-")[0]
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def public_pem(kid: str) -> bytes:
    return (
        private(kid)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def jwk_of(key: str, **more: Any) -> dict[str, Any]:
    """The public key as its issuer publishes it."""
    algorithm = jwt.get_algorithm_by_name(key.partition("-")[0])
    return {**algorithm.to_jwk(private(key).public_key(), as_dict=True), "kid": key, "use": "sig", **more}


def jwks(*kids: str) -> bytes:
    return json.dumps({"keys": [jwk_of(kid) for kid in kids]}).encode()


def claims(now: float, **changed: Any) -> dict[str, Any]:
    """Those of a good token, with changes; None leaves one out."""
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": int(now), "exp": int(now) + 600, **changed}
    return {name: value for name, value in found.items() if value is not None}


def token(kid: str = "RS256", now: float | None = None, **changed: Any) -> str:
    """A token with a valid signature, whatever it says."""
    content = json.dumps(claims(time.time() if now is None else now, **changed)).encode()
    return jwt.api_jws.encode(content, private(kid), kid.partition("-")[0], headers={"kid": kid})


def by_hand(header: dict[str, Any], content: dict[str, Any], secret: bytes | None = None) -> str:
    """A token with any header; signed with a shared secret (HS256), or not at all."""
    signed = ".".join(coded(json.dumps(part).encode()) for part in (header, content))
    mac = b"" if secret is None else hmac.digest(secret, signed.encode(), hashlib.sha256)
    return f"{signed}.{coded(mac)}"


def coded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Issuer:
    """An HTTP server: `/keys`, `/token` (client credentials), and endpoints that misbehave.

    `kids` are the keys that it publishes.
    """

    def __init__(self, *kids: str) -> None:
        self.kids, self.asked, self.works, self.seconds = list(kids or ("RS256",)), 0, True, 600
        for kid in self.kids:
            private(kid)  # before several threads ask for it
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                if self.path == "/redirect":
                    self.send_response(302)
                    self.send_header("Location", "/keys")
                    self.end_headers()
                elif self.path == "/large":
                    self.answer(b" " * ((1 << 20) + 1) + jwks(*issuer.kids))
                elif self.path == "/keys" and issuer.works:
                    self.answer(jwks(*issuer.kids))
                else:
                    self.send_error(503)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                now = time.time()
                found = token(issuer.kids[0], exp=int(now) + issuer.seconds, scope="kafka")
                answer = {"access_token": found, "token_type": "Bearer", "expires_in": issuer.seconds}
                self.answer(json.dumps(answer).encode())

            def answer(self, content: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.socket = self._server.socket
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def over_tls(self, context: Any) -> None:
        """Before it is entered: speak TLS."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    def __enter__(self) -> Issuer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
