"""Delegation tokens: what is refused (as by Apache Kafka, see tests/compat), and what becomes of them in time."""

from __future__ import annotations

from typing import Any

from tests.controller.cluster import Cluster

from barnabas.controller.decisions.users.delegation_tokens import MOST_OF_ONE, MOST_RENEWERS
from barnabas.controller.snapshot import image_from, image_records
from barnabas.errors import ErrorCode
from barnabas.security.delegation import token_hmac
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.sasl import (
    AlterUserScramCredentialsRequest,
    CreatableRenewers,
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

SECRET, DAY = "a-secret-of-all-nodes", 86_400_000
ADA, TOM, EVE = "User:ada", "User:tom", "User:eve"


def with_tokens(**settings: str) -> Cluster:
    return Cluster(1, delegation_token_secret_key=SECRET, **settings)


def ask(cluster: Cluster, request: Message, sender: str = ADA) -> Any:
    controller, version = cluster.controller, request.VERSIONS[1]
    decision = controller.decide(request, version, cluster.now, cluster.offset, sender)
    cluster.append(decision.records)
    return decision.answer


def made(cluster: Cluster, sender: str = ADA, lasts: int = -1, *renewers: str) -> Any:
    named = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    return ask(cluster, CreateDelegationTokenRequest(max_lifetime_ms=lasts, renewers=named), sender)


def renewed(cluster: Cluster, mac: bytes, sender: str = ADA, period: int = -1) -> Any:
    return ask(cluster, RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period), sender)


def expired(cluster: Cluster, mac: bytes, sender: str = ADA, period: int = -1) -> Any:
    return ask(cluster, ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period), sender)


def test_the_metadata_have_a_token_and_not_what_proves_it() -> None:
    cluster = with_tokens()
    answer = made(cluster, ADA, -1, "tom")
    (kept,) = cluster.image.tokens.values()
    assert (kept.owner, kept.requester, kept.renewers) == (ADA, ADA, [TOM])
    assert kept.max_timestamp - kept.issue_timestamp == 7 * DAY
    assert kept.expiration_timestamp - kept.issue_timestamp == DAY
    assert answer.hmac == token_hmac(SECRET, kept.token_id) and len(answer.hmac) == 64
    assert answer.hmac.hex() not in repr(kept) and SECRET not in repr(kept)


def test_a_snapshot_keeps_tokens() -> None:
    cluster = with_tokens()
    made(cluster, ADA, -1, "tom")
    made(cluster, TOM, 1000)
    again = image_from(
        image_records(cluster.image), cluster_id="", end_offset=9, epoch=1, timestamp_ms=cluster.now.wall_ms
    )
    assert again.tokens == cluster.image.tokens and len(again.tokens) == 2


def test_owner_and_renewers_change_a_token_and_nobody_else() -> None:
    cluster = with_tokens()
    mac = made(cluster, ADA, -1, "tom").hmac
    cluster.time += 3600
    for who in (ADA, TOM):
        assert renewed(cluster, mac, who).expiry_timestamp_ms == cluster.now.wall_ms + DAY
        assert expired(cluster, mac, who, 5000).expiry_timestamp_ms == cluster.now.wall_ms + 5000
    for refused in (renewed(cluster, mac, EVE), expired(cluster, mac, EVE)):
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expired(cluster, mac, TOM).error_code == 0 and not cluster.image.tokens
    assert renewed(cluster, mac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_whoever_makes_a_token_for_another_does_not_renew_it() -> None:
    cluster = with_tokens()
    other = {"owner_principal_type": "User", "owner_principal_name": "ada"}
    answer = ask(cluster, CreateDelegationTokenRequest(max_lifetime_ms=-1, **other), EVE)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("ada", "eve")
    assert renewed(cluster, answer.hmac, EVE).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renewed(cluster, answer.hmac, ADA).error_code == 0


def test_a_token_is_renewed_up_to_its_longest_life() -> None:
    cluster = with_tokens()
    answer = made(cluster, ADA, 3 * 3_600_000)
    assert answer.expiry_timestamp_ms == answer.max_timestamp_ms == answer.issue_timestamp_ms + 3 * 3_600_000
    cluster.time += 3600
    assert renewed(cluster, answer.hmac).expiry_timestamp_ms == answer.max_timestamp_ms
    assert expired(cluster, answer.hmac, ADA, 2**62).expiry_timestamp_ms == answer.max_timestamp_ms
    cluster.time += 2 * 3600 + 1
    for refused in (renewed(cluster, answer.hmac), expired(cluster, answer.hmac)):
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_tokens_that_have_ended_are_removed_in_time() -> None:
    cluster = with_tokens(
        delegation_token_expiry_check_interval_ms="60000", auto_leader_rebalance_enable="false"
    )
    made(cluster, ADA, 30_000)
    made(cluster, TOM, 300_000)
    for seconds, left in ((59, 2), (2, 1), (200, 1), (60, 0)):
        cluster.time += seconds
        cluster.beat(1)
        cluster.append(cluster.controller.due_records(cluster.now, cluster.offset))
        assert len(cluster.image.tokens) == left, cluster.time


def test_without_a_secret_there_are_none() -> None:
    cluster = Cluster(1)
    assert made(cluster).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    for refused in (renewed(cluster, b"x"), expired(cluster, b"x")):
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert not cluster.image.tokens


def test_what_names_no_token_or_no_user_is_refused() -> None:
    cluster = with_tokens()
    made(cluster)
    for mac in (b"", b"x" * 64):
        assert renewed(cluster, mac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    group = CreatableRenewers(principal_type="Group", principal_name="all")
    refused = ask(cluster, CreateDelegationTokenRequest(renewers=[group]))
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE and not refused.hmac


def test_nobody_fills_the_metadata_with_tokens() -> None:
    cluster = with_tokens()
    for _ in range(MOST_OF_ONE):
        assert made(cluster).error_code == 0
    assert made(cluster).error_code == ErrorCode.POLICY_VIOLATION
    assert made(cluster, TOM).error_code == 0
    assert made(cluster, TOM, -1, *["x"] * (MOST_RENEWERS + 1)).error_code == ErrorCode.POLICY_VIOLATION
    assert made(cluster, TOM, -1, "x" * 2000).error_code == ErrorCode.POLICY_VIOLATION
    assert len(cluster.image.tokens) == MOST_OF_ONE + 1


def credentials(cluster: Cluster, *mechanisms: int, gone: bool = False) -> None:
    """Give ada a password for each of these mechanisms, or take it away."""
    for mechanism in mechanisms:
        deletions = [ScramCredentialDeletion(name="ada", mechanism=mechanism)] if gone else []
        one = ScramCredentialUpsertion(
            name="ada", mechanism=mechanism, iterations=4096, salt=b"s" * 24, salted_password=b"p" * 64
        )
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[] if gone else [one])
        assert [result.error_code for result in ask(cluster, request).results] == [0]


def test_a_token_ends_with_the_last_credential_of_its_owner() -> None:
    """`users remove ada` puts ada out: its tokens would let it in at every node for days."""
    cluster = with_tokens()
    credentials(cluster, 1, 2)
    made(cluster, ADA)
    made(cluster, TOM, -1, "ada")
    credentials(cluster, 1, gone=True)
    assert len(cluster.image.tokens) == 2, "ada still has a password"
    credentials(cluster, 2, gone=True)
    assert [token.owner for token in cluster.image.tokens.values()] == [TOM]
