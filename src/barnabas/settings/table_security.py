"""The rows of the table of settings about who may connect."""

from __future__ import annotations

from barnabas.settings.setting import MAX_INT, MAX_LONG, section

__all__ = ["is_of_listener"]

# fmt: off
# One row is read as a whole; the formatter would give every argument a line of its own.
_s = section("Logins")
_s("sasl.enabled.mechanisms", "list", ("GSSAPI",),
   "What listeners with SASL take: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER. Of one listener: "
   "`listener.name.<name>.sasl.enabled.mechanisms`. Users of a listener's own for PLAIN, and what this node "
   "logs in with there: `listener.name.<name>.<mechanism>.sasl.jaas.config`.",
   ours=("SCRAM-SHA-512",),
   why="Kerberos is not supported")
_s("sasl.mechanism.inter.broker.protocol", "string", "GSSAPI",
   "How this node logs in to other brokers, where their listener has SASL.",
   ours="SCRAM-SHA-512",
   why="Kerberos is not supported")
_s("sasl.mechanism.controller.protocol", "string", "GSSAPI",
   "How this node logs in to controllers, where their listener has SASL.",
   ours="SCRAM-SHA-512",
   why="Kerberos is not supported")
_s("connections.max.reauth.ms", "long", 0,
   "A session that is older has to log in again; 0: never. Of one listener, or of one mechanism there: "
   "`listener.name.<name>.connections.max.reauth.ms`, "
   "`listener.name.<name>.<mechanism>.connections.max.reauth.ms`.",
   low=0, high=MAX_LONG)
_s("sasl.server.max.receive.size", "int", 524288,
   "Largest request, in bytes, of a client that has not logged in.",
   ours=65536, low=512, high=MAX_INT,
   why="no mechanism needs more")
_s("connection.failed.authentication.delay.ms", "int", 100,
   "A refused login is answered after this time, and the connection closed. It doubles with each refusal of an "
   "address, up to fifty times, until none came for a minute.", low=0, high=MAX_INT)
_s = section("Delegation tokens")
_s("delegation.token.secret.key", "password", None,
   "With it, users may have tokens that log in as they do (KIP-48). The same at all nodes; who changes it ends "
   "all tokens.")
_s("delegation.token.max.lifetime.ms", "long", 604800000,
   "Longest life of a token; nobody can renew it beyond.", low=1, high=MAX_LONG)
_s("delegation.token.expiry.time.ms", "long", 86400000,
   "How long a token counts until it is renewed.", low=1, high=MAX_LONG)
_s("delegation.token.expiry.check.interval.ms", "long", 3600000,
   "How often tokens that have ended are removed. (They are refused from their end on.)", low=1, high=MAX_LONG)
_s = section("Tokens of others (OAUTHBEARER)")
_s("sasl.oauthbearer.jwks.endpoint.url", "string", None,
   "Where the issuer of tokens publishes its keys (its `jwks_uri`): https. All of this section may be given for "
   "one listener, as `listener.name.<name>.sasl.oauthbearer...` or "
   "`listener.name.<name>.oauthbearer.sasl.oauthbearer...`.")
_s("sasl.oauthbearer.expected.issuer", "string", None, "Who issues the tokens (`iss`), letter by letter.")
_s("sasl.oauthbearer.expected.audience", "list", None,
   "For whom a token has to be (`aud`): one of these.")
_s("sasl.oauthbearer.clock.skew.seconds", "int", 30,
   "How far the issuer's clock may be from this node's.", low=0, high=3600)
_s("sasl.oauthbearer.sub.claim.name", "string", "sub", "The claim that names the user.")
_s("sasl.oauthbearer.scope.claim.name", "string", "scope",
   "The claim with the scopes: it has to be text, or a list.")
_s("sasl.oauthbearer.jwks.endpoint.refresh.ms", "long", 3600000,
   "How often the keys are fetched. (A token with a key not seen before has them fetched, once a minute at most.)",
   low=1000, high=MAX_LONG)
_s("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "long", 100,
   "Until the next try when they cannot be fetched; doubles each time.", low=10, high=MAX_LONG)
_s("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "long", 10000, "And the most that becomes.",
   low=10, high=MAX_LONG)
_s("barnabas.oauthbearer.allowed.urls", "list", (),
   "JWKS URLs, letter by letter, that may be http: or file:, or have an address of the machine's own.")
# fmt: on

_MECHANISMS = ("scram-sha-256", "scram-sha-512", "plain", "oauthbearer")
_OF_MECHANISMS = ("sasl.jaas.config", "connections.max.reauth.ms", "sasl.server.callback.handler.class")


def is_of_listener(name: str) -> bool:
    """Whether `listener.name.<listener>.<mechanism>.<...>` is a setting that this release uses."""
    if not name.startswith("listener.name."):
        return False
    _, _, rest = name.removeprefix("listener.name.").partition(".")
    return any(
        rest.removeprefix(f"{word}.") in _OF_MECHANISMS for word in _MECHANISMS if rest.startswith(f"{word}.")
    )
