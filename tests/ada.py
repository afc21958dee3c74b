"""Who may log in, for tests of logins: one user, ada, and no tokens."""

from __future__ import annotations

from barnabas.security.scram import ScramCredential, credential_of, made_up_credential, salted_password

__all__ = ["SALT", "USER", "Ada"]

USER, SALT = "ada", b"salt"


class Ada:
    """`Ada(b"secret").credential("ada", "SCRAM-SHA-512")`; a test may give her another `password` later."""

    def __init__(self, password: bytes) -> None:
        self.password = password
        self._kept: dict[tuple[str, bytes], ScramCredential] = {}
        """What was hashed before."""

    def credential(self, name: str, mechanism: str) -> ScramCredential | None:
        if name != USER or not mechanism.startswith("SCRAM-"):
            return None
        key = mechanism, self.password
        if key not in self._kept:
            salted = salted_password(mechanism, self.password, SALT, 4096)
            self._kept[key] = credential_of(mechanism, salted, SALT, 4096)
        return self._kept[key]

    def token(self, token_id: str, mechanism: str) -> None:
        return None

    def made_up_token(self, token_id: str, mechanism: str) -> ScramCredential:
        return self.made_up(token_id, mechanism)

    def made_up(self, name: str, mechanism: str) -> ScramCredential:
        return made_up_credential(mechanism, b"key", name, 4096)

    def usual(self) -> str:
        return "SCRAM-SHA-512"
