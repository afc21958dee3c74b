"""Delegation tokens (KIP-48): the HMAC of a token's id is its password, and any node can compute it."""

from __future__ import annotations

import base64
import hmac

from barnabas.security.scram import FEWEST_ITERATIONS, ScramCredential, credential_of, salted_password

__all__ = ["token_credential", "token_hmac"]


def token_hmac(secret: str, token_id: str) -> bytes:
    """What its owner is given, and shows when it renews the token.  `secret` is delegation.token.secret.key."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_credential(secret: str, token_id: str, mechanism: str) -> ScramCredential:
    """What a login with the token is checked against: its password is the HMAC in base64.  Takes milliseconds."""
    password = base64.b64encode(token_hmac(secret, token_id))
    salt = hmac.digest(secret.encode(), b"salt " + token_id.encode(), "sha256")[:24]
    salted = salted_password(mechanism, password, salt, FEWEST_ITERATIONS)
    return credential_of(mechanism, salted, salt, FEWEST_ITERATIONS)
