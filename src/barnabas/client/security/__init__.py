"""Who a client is, and whom it trusts: TLS and SASL under Kafka's option names.

`options` reads them (with `jaas`), `tls` makes a context of the standard library's, `sasl` has the mechanisms and
`login` their way through Kafka's messages, both without sockets; `tokens` asks for OAUTHBEARER tokens.
"""

from __future__ import annotations
