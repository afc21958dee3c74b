"""The SCRAM users and the delegation tokens of the cluster, read from the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from barnabas.controller.image import MetadataImage
from barnabas.security.delegation import token_credential
from barnabas.security.login import Delegated
from barnabas.security.scram import (
    FEWEST_ITERATIONS,
    MECHANISMS,
    ScramCredential,
    made_up_credential,
    salt_size,
)

__all__ = ["ScramUsers"]

_OURS = 24
"""Bytes of a salt that our own command makes."""
_MOST_KEPT = 1000
_CODES = {name: code for code, name in MECHANISMS.items()}


class ScramUsers:
    """`credential("ada", "SCRAM-SHA-512")`: always as the metadata says now."""

    __slots__ = ("_image", "_kept", "_now", "_secret")

    def __init__(self, image: MetadataImage, secret: str, now: Callable[[], float]) -> None:
        """`secret` is delegation.token.secret.key, "" without tokens; `now` is in seconds since 1970."""
        self._image, self._secret, self._now = image, secret, now
        self._kept: dict[tuple[str, str], ScramCredential] = {}
        """What proves a token, by its id and mechanism: costs 4,096 hashes."""

    def __repr__(self) -> str:
        return f"<ScramUsers {len(self._image.scram)} credentials>"

    def credential(self, name: str, mechanism: str) -> ScramCredential | None:
        """What is kept of that user's password."""
        record = self._image.scram.get((name, _CODES.get(mechanism, 0)))
        if record is None:
            return None
        salt, stored, server = bytes(record.salt), bytes(record.stored_key), bytes(record.server_key)
        return ScramCredential(mechanism, salt, stored, server, record.iterations)

    def token(self, token_id: str, mechanism: str) -> Delegated | None:
        """The delegation token of that id; None: there is none, or it has ended."""
        record = self._image.tokens.get(token_id)
        if record is None or not self._secret or mechanism not in _CODES:
            return None
        until = min(record.expiration_timestamp, record.max_timestamp) / 1000
        if until <= self._now():
            return None
        credential = self._kept.get((token_id, mechanism))
        if credential is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            credential = token_credential(self._secret, token_id, mechanism)
            self._kept[token_id, mechanism] = credential
        return Delegated(record.owner.partition(":")[2], until, credential)

    def made_up_token(self, token_id: str, mechanism: str) -> ScramCredential:
        """What a token that does not exist is asked with: the same at every node, as those of tokens are."""
        key = (self._secret or self._image.cluster_id).encode()
        return made_up_credential(mechanism, key, token_id, FEWEST_ITERATIONS)

    def made_up(self, name: str, mechanism: str) -> ScramCredential:
        """What a user who does not exist is asked with, at every node alike.

        Its salt comes from a secret that all nodes have and clients have not: a key of the first user's
        credential.  Iterations and the look of the salt are those of most users of the mechanism.
        """
        scram, code = self._image.scram, _CODES.get(mechanism, 0)
        secret = bytes(scram[min(scram)].server_key) if scram else self._image.cluster_id.encode()
        usual = Counter(
            (record.iterations, salt_size(bytes(record.salt)))
            for (_, kind), record in scram.items()
            if kind == code
        )
        likely = min(usual, key=lambda one: (-usual[one], one)) if usual else (FEWEST_ITERATIONS, _OURS)
        return made_up_credential(mechanism, secret, name, *likely)

    def usual(self) -> str:
        """The mechanism of which most users have a credential."""
        kinds = Counter(kind for _, kind in self._image.scram)
        return MECHANISMS[max(kinds, key=lambda kind: (kinds[kind], kind), default=max(MECHANISMS))]
