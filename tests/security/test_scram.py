"""The server's side of SCRAM: against our client's side, the RFC's vectors, and those who lie."""

from __future__ import annotations

import base64
from collections import Counter

import pytest

from barnabas.client.security.sasl import Scram
from barnabas.security.scram import (
    LoginRefused,
    ScramServer,
    client_proof,
    credential_of,
    made_up_credential,
    salt_size,
    salted_password,
)

SALT = b"0123456789abcdef"
KINDS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def credential(mechanism: str = "SCRAM-SHA-256", password: bytes = b"secret"):  # type: ignore[no-untyped-def]
    return credential_of(mechanism, salted_password(mechanism, password, SALT, 4096), SALT, 4096)


def begun(first: bytes = b"n,,n=ada,r=client", **how: bool) -> tuple[ScramServer, str]:
    server = ScramServer(first)
    said = server.challenge(credential(), "server", **how).decode()
    return server, said


def last(
    first: str, said: str, *, nonce: str = "clientserver", password: bytes = b"secret", bound: str = "biws"
) -> bytes:
    """The client's last message as a right client computes it, but for what is given."""
    without = f"c={bound},r={nonce}"
    salted = salted_password("SCRAM-SHA-256", password, SALT, 4096)
    proof = client_proof("SCRAM-SHA-256", salted, f"{first},{said},{without}".encode())
    return f"{without},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("mechanism", KINDS)
@pytest.mark.parametrize("user", ["ada", "a,b=c", "Łukasz"])
def test_our_client_and_our_server_believe_each_other(mechanism: str, user: str) -> None:
    client = Scram(mechanism, user, "pässword", "client-nonce")
    server = ScramServer(client.respond(None) or b"")
    assert server.user == user
    kept = credential(mechanism, "pässword".encode())
    proof = client.respond(server.challenge(kept, "server-nonce")) or b""
    assert client.respond(server.finish(proof)) is None
    assert client.complete


def test_the_example_of_rfc_7677_comes_out() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = credential_of("SCRAM-SHA-256", salted_password("SCRAM-SHA-256", b"pencil", salt, 4096), salt, 4096)
    server = ScramServer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    said = server.challenge(kept, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert said == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = b"c=biws," + said.partition(b",")[0] + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert server.finish(proof) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"y,,n=ada,r=x",
        b"p=tls-unique,,n=ada,r=x",
        b"n,,n=ada",
        b"n,,n=,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=ada,r=",
        b"n,,n=ada,r=a b",
        b"n,a=eve,n=ada,r=x",
        b"n,,n=" + b"a" * 20_000 + b",r=x",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(LoginRefused):
        ScramServer(first)


def test_somebody_may_name_itself_twice_and_send_extensions_that_nobody_knows() -> None:
    """CVE-2017-12610 was another name there."""
    server, said = begun(b"n,a=ada,n=ada,r=client,ext=1")
    bound = base64.b64encode(b"n,a=ada,").decode()
    assert server.finish(last("n=ada,r=client,ext=1", said, bound=bound)).startswith(b"v=")


@pytest.mark.parametrize("nonce", ["server", "client", "clientserverx", "other-clientserver", "clientserve"])
def test_a_nonce_of_another_login_is_refused(nonce: str) -> None:
    """CVE-2024-56128: the nonce is compared whole."""
    server, said = begun()
    with pytest.raises(LoginRefused, match="nonce"):
        server.finish(last("n=ada,r=client", said, nonce=nonce))


def test_a_wrong_password_a_cut_proof_and_another_binding_are_refused() -> None:
    server, said = begun()
    with pytest.raises(LoginRefused, match="password of user ada"):
        server.finish(last("n=ada,r=client", said, password=b"wrong"))
    with pytest.raises(LoginRefused, match="password of user ada"):
        server.finish(last("n=ada,r=client", said)[:-8] + b"AAAA")
    with pytest.raises(LoginRefused, match="binding"):
        server.finish(last("n=ada,r=client", said, bound=base64.b64encode(b"y,,").decode()))
    with pytest.raises(LoginRefused, match="not SCRAM"):
        server.finish(b"p=AAAA")


def test_a_user_who_does_not_exist_gets_a_salt_and_the_same_each_time() -> None:
    one = made_up_credential("SCRAM-SHA-512", b"key", "eve", 4096)
    assert one == made_up_credential("SCRAM-SHA-512", b"key", "eve", 4096)
    assert one.salt != made_up_credential("SCRAM-SHA-512", b"key", "bob", 4096).salt
    assert one.salt != made_up_credential("SCRAM-SHA-512", b"other", "eve", 4096).salt, "or anybody knew it"
    assert len(one.salt) == 24 and not one.fits(b"")
    server = ScramServer(b"n,,n=eve,r=client")
    said = server.challenge(credential(), "server", is_made_up=True).decode()
    with pytest.raises(LoginRefused, match="no user eve"):
        server.finish(last("n=eve,r=client", said))


def test_a_made_up_salt_looks_like_those_of_the_users_who_exist() -> None:
    """Apache Kafka's tools make salts of 130 bits in base 36; ours are 24 bytes."""
    made = [made_up_credential("SCRAM-SHA-512", b"key", f"user-{n}", 4096, 0).salt for n in range(400)]
    sizes = Counter(map(len, made))
    assert set().union(*made) == set(b"0123456789abcdefghijklmnopqrstuvwxyz")
    assert sizes[25] + sizes[26] > 390 and sizes[25] > 150 and sizes[26] > 100
    assert {salt_size(salt) for salt in made} == {0}
    assert salt_size(b"1g2x3kzc0q4ii1h7dr2ab3k9vn") == 0
    assert salt_size(bytes(range(24))) == 24
    assert len(made_up_credential("SCRAM-SHA-256", b"key", "eve", 4096, 32).salt) == 32


def test_a_credential_shows_no_secret() -> None:
    kept = credential()
    assert repr(kept) == "<ScramCredential SCRAM-SHA-256 iterations=4096>"
    assert kept.fits(b"secret") and not kept.fits(b"Secret")
