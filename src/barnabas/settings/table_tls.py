"""The settings of a node about TLS.

Those of `ssl.` may be given for one listener alone, as `listener.name.NAME.ssl.keystore.location`.
"""

from __future__ import annotations

from barnabas.settings.setting import MAX_INT, section

__all__ = ["PER_LISTENER"]

PER_LISTENER = (
    "ssl.",
    "sasl.enabled.mechanisms",
    "sasl.oauthbearer.",
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
)
"""What the names begin with that a listener may have for itself."""

_LOOKED_AT = "a file is looked at; Java's own format (JKS) is refused with the command that converts it"

# fmt: off
# One row is read as a whole; the formatter would give every argument a line of its own.
_s = section("TLS")
_s("ssl.keystore.location", "string", None,
   "File with this node's certificate, the chain above it and its key: PEM or PKCS12.")
_s("ssl.keystore.type", "string", "JKS",
   "`PEM` or `PKCS12`.", choices=("PEM", "PKCS12", "JKS"), ours=None, why=_LOOKED_AT)
_s("ssl.keystore.password", "password", None, "Password of a PKCS12 file.")
_s("ssl.keystore.certificate.chain", "password", None,
   "The certificate itself, in PEM, where there is no file.")
_s("ssl.keystore.key", "password", None, "Its key itself, in PEM.")
_s("ssl.key.password", "password", None, "Password of an encrypted key.")
_s("ssl.truststore.location", "string", None,
   "File with the certificates of the authorities that sign clients and other nodes: PEM or PKCS12.")
_s("ssl.truststore.type", "string", "JKS",
   "`PEM` or `PKCS12`.", choices=("PEM", "PKCS12", "JKS"), ours=None, why=_LOOKED_AT)
_s("ssl.truststore.password", "password", None, "Password of a PKCS12 file.")
_s("ssl.truststore.certificates", "password", None,
   "The certificates themselves, in PEM, where there is no file.")
_s("ssl.client.auth", "string", "none",
   "Whether clients show a certificate: `required`, `requested`, `none`. A listener with SASL takes it only from "
   "`listener.name.NAME.ssl.client.auth`, as in Kafka.", choices=("required", "requested", "none"),
   any_case=True)
_s("ssl.principal.mapping.rules", "string", "DEFAULT",
   "Who a certificate is: rules `RULE:pattern/replacement/[LU]` and `DEFAULT` (the whole name), separated by "
   "commas; the first that fits is used.")
_s("ssl.enabled.protocols", "list", ("TLSv1.2", "TLSv1.3"),
   "Versions of TLS that are spoken.", choices=("TLSv1.2", "TLSv1.3"))
_s("ssl.endpoint.identification.algorithm", "string", "https",
   "`https`: the certificate of another node has to name the host that this node dialled. Empty: it need not.",
   choices=("https", ""), any_case=True)
_s("ssl.allow.dn.changes", "boolean", False,
   "Whether a changed certificate of this node may have another name than the one before.")
_s("ssl.allow.san.changes", "boolean", False,
   "Whether a changed certificate of this node may leave out alternative names of the one before.")
_s("security.inter.broker.protocol", "string", "PLAINTEXT",
   "Where `inter.broker.listener.name` is not set: brokers reach each other over the listener of this name.",
   choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), ours=None,
   why="the first listener that is not a controller listener")

_s = section("Before a client is known")
_s("barnabas.login.timeout.ms", "int", 10000,
   "A connection whose TLS handshake and login together take longer is closed.", low=100, high=MAX_INT)
_s("barnabas.unauthenticated.connections", "int", 500,
   "TLS handshakes and logins under way. At the limit the oldest of the address with most of them is closed for "
   "a new one: at once if the new one's address has fewer, else after a second; until then the new one is.",
   low=1, high=MAX_INT)

# fmt: on
