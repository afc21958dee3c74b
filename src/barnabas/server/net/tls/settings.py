"""Which certificates a listener, or who dials one, works with: the settings of `ssl.` as files and texts."""

from __future__ import annotations

from barnabas.client.security.options import Tls
from barnabas.config import Config

__all__ = ["tls_of"]


def tls_of(config: Config) -> Tls:
    """What `config` names: that of one listener (`config.at`)."""

    def given(name: str) -> str:
        return config.optional_str(name) or ""

    return Tls(
        ca_file=given("ssl.truststore.location"),
        ca_type=given("ssl.truststore.type"),
        ca_password=given("ssl.truststore.password"),
        ca_pem=given("ssl.truststore.certificates"),
        cert_file=given("ssl.keystore.location"),
        cert_type=given("ssl.keystore.type"),
        cert_password=given("ssl.keystore.password"),
        cert_pem=given("ssl.keystore.certificate.chain"),
        key_pem=given("ssl.keystore.key"),
        key_password=given("ssl.key.password"),
        check_host=config.str("ssl.endpoint.identification.algorithm") == "https",
    )
