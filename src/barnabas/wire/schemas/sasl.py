"""Who is there: SASL, SCRAM credentials and delegation tokens.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import Array, Bytes, Int8, Int16, Int32, Int64, String, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "AlterUserScramCredentialsResult",
    "CreatableRenewers",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "CredentialInfo",
    "DescribeDelegationTokenOwner",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "DescribeUserScramCredentialsResult",
    "DescribedDelegationToken",
    "DescribedDelegationTokenRenewer",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ScramCredentialDeletion",
    "ScramCredentialUpsertion",
    "UserName",
]


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    """Choose a mechanism."""

    mechanism: String = ""


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    """Mechanisms of this listener."""

    error_code: Int16 = 0
    mechanisms: Array[String] = []


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    """One step of the mechanism."""

    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    """The answering step (KIP-152, KIP-368)."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    """Ask for SCRAM users (KIP-554)."""

    users: Array[UserName] | None = []


class UserName(Struct):
    name: String = ""


class DescribeUserScramCredentialsResponse(Message, key=50, versions="0", flexible="0+"):
    """Users, mechanisms, iterations."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Array[DescribeUserScramCredentialsResult] = []


class DescribeUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: Array[CredentialInfo] = []


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    """Set or remove SCRAM credentials (KIP-554)."""

    deletions: Array[ScramCredentialDeletion] = []
    upsertions: Array[ScramCredentialUpsertion] = []


class ScramCredentialDeletion(Struct):
    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsResponse(Message, key=51, versions="0", flexible="0+"):
    """Result per user."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult] = []


class AlterUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class CreateDelegationTokenRequest(Message, key=38, versions="1-3", flexible="2+"):
    """Make a token (KIP-48)."""

    owner_principal_type: String | None = since(3, default="")
    owner_principal_name: String | None = since(3, default="")
    renewers: Array[CreatableRenewers] = []
    max_lifetime_ms: Int64 = 0


class CreatableRenewers(Struct):
    principal_type: String = ""
    principal_name: String = ""


class CreateDelegationTokenResponse(Message, key=38, versions="1-3", flexible="2+"):
    """The token."""

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0


class RenewDelegationTokenRequest(Message, key=39, versions="1-2", flexible="2+"):
    """Renew a token."""

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Message, key=39, versions="1-2", flexible="2+"):
    """When it ends now."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class ExpireDelegationTokenRequest(Message, key=40, versions="1-2", flexible="2+"):
    """End a token."""

    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Message, key=40, versions="1-2", flexible="2+"):
    """When it ends now."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class DescribeDelegationTokenRequest(Message, key=41, versions="1-3", flexible="2+"):
    """Ask for tokens."""

    owners: Array[DescribeDelegationTokenOwner] | None = []


class DescribeDelegationTokenOwner(Struct):
    principal_type: String = ""
    principal_name: String = ""


class DescribeDelegationTokenResponse(Message, key=41, versions="1-3", flexible="2+"):
    """Tokens and their renewers."""

    error_code: Int16 = 0
    tokens: Array[DescribedDelegationToken] = []
    throttle_time_ms: Int32 = 0


class DescribedDelegationToken(Struct):
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: Array[DescribedDelegationTokenRenewer] = []


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String = ""
    principal_name: String = ""
