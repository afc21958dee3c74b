"""What a listener shows and whom it believes: its TLS context, made anew when a file has changed.

A new context is whole or is not used: connections that are open keep theirs, the next ones get the new one.
"""

from __future__ import annotations

import ssl
import time

from barnabas.client.security.certificates import files_changed, own_certificate, show_certificate, trust
from barnabas.config import Config
from barnabas.errors import BarnabasError, ConfigError
from barnabas.security.certificate import ENDS_SOON_S, Certificate, read_certificate
from barnabas.security.principal import PrincipalRules
from barnabas.server.net.tls.believed import disbelief
from barnabas.server.net.tls.settings import tls_of
from barnabas.server.observe import events

__all__ = ["Identity"]

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_WANTED = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
WARN_EVERY_S = 86400.0


class Identity:
    """One per listener with TLS.  `context` is what the next connection gets; `rules` say who a client is."""

    __slots__ = (
        "_believed",
        "_config",
        "_said_at",
        "_seen",
        "_tls",
        "_wanted",
        "certificate",
        "context",
        "listener",
        "rules",
    )

    def __init__(self, config: Config, listener: str) -> None:
        """Raises ConfigError where the listener cannot be served."""
        self.listener = listener
        self._config = at = config.at(listener)
        self._tls = tls_of(at)
        with_sasl = (config.protocol_of(listener) or "").startswith("SASL")
        own = config.is_given_for(listener, "ssl.client.auth")
        wanted = at.str("ssl.client.auth") if own or not with_sasl else "none"
        self._wanted = _WANTED[wanted]
        name = "ssl.principal.mapping.rules"
        self.rules = None if with_sasl else PrincipalRules.parse(at.str(name))
        self._said_at = 0.0
        self._seen = files_changed(self._tls)
        self.context, self.certificate = self._made()
        self._believed = not self._disbelief()
        self._say_if_it_ends_soon()

    def _made(self) -> tuple[ssl.SSLContext, Certificate]:
        tls, listener = self._tls, self.listener
        if not tls.cert_file and not tls.cert_pem:
            raise ConfigError(
                f"listener {listener} speaks TLS and has no certificate",
                next_step=f"set ssl.keystore.location, or listener.name.{listener.lower()}.ssl.keystore.location",
            )
        if self._wanted != ssl.CERT_NONE and not tls.ca_file and not tls.ca_pem:
            raise ConfigError(
                f"listener {listener} asks clients for certificates, and nobody is named who may sign them",
                next_step="set ssl.truststore.location to the certificate of the authority",
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        spoken = [_VERSIONS[name] for name in self._config.list("ssl.enabled.protocols")]
        context.minimum_version, context.maximum_version = min(spoken), max(spoken)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.num_tickets = 0  # a session that goes on would not be asked for its certificate again
        context.verify_mode = self._wanted
        if self._wanted != ssl.CERT_NONE:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Java: trust any certificate
            trust(context, tls)
        show_certificate(context, tls)
        return context, read_certificate(own_certificate(tls))

    def look(self) -> None:
        """Take over changed files.  What cannot be used is said, and what was there before goes on."""
        if time.time() - self._said_at >= WARN_EVERY_S:
            self._say_if_it_ends_soon()
        try:
            seen = files_changed(self._tls)
            if seen == self._seen:
                return
            self._seen = seen
            context, certificate = self._made()
            self._check_names(certificate)
            believed = self._check_believed(certificate)
        except BarnabasError as error:
            events.emit(events.CERTIFICATE_REFUSED, reason=self.listener, listener=self.listener, error=error)
            return
        self.context, self.certificate, self._believed = context, certificate, believed
        events.emit(events.CERTIFICATE_CHANGED, listener=self.listener, subject=certificate.subject)
        self._say_if_it_ends_soon()

    def _check_names(self, new: Certificate) -> None:
        old, config = self.certificate, self._config
        if new.subject != old.subject and not config.bool("ssl.allow.dn.changes"):
            raise ConfigError(
                f"the new certificate is of {new.subject}, the one before of {old.subject}",
                next_step="set ssl.allow.dn.changes=true and restart, if that is meant",
            )
        if not old.names <= new.names and not config.bool("ssl.allow.san.changes"):
            raise ConfigError(
                "the new certificate lacks alternative names of the one before",
                next_step="set ssl.allow.san.changes=true and restart, if that is meant",
            )

    def _check_believed(self, new: Certificate) -> bool:
        """Return whether the nodes' own truststore believes the new certificate; raise ConfigError where that, or
        its time, is worse than of the one before."""
        now = time.time()
        if not new.begins <= now < new.ends and self.certificate.begins <= now < self.certificate.ends:
            day = time.strftime("%Y-%m-%d", time.gmtime(new.ends if new.ends <= now else new.begins))
            raise ConfigError(
                f"the new certificate {'ended on' if new.ends <= now else 'is not valid before'} {day}",
                next_step="put one there that is valid now: `barnabas certs show FILE` says until when",
            )
        why = self._disbelief()
        if why and self._believed:
            raise ConfigError(
                f"ssl.truststore does not believe the new certificate, as it did the one before: {why}",
                next_step="add its authority to ssl.truststore.location at all nodes first",
            )
        return not why

    def _disbelief(self) -> str | None:
        """Return why the truststore of this listener does not believe its certificate; None without one."""
        return disbelief(self._tls) if self._tls.ca_file or self._tls.ca_pem else None

    def seconds_left(self) -> float:
        """How long the certificate is valid yet."""
        return self.certificate.ends - time.time()

    def _say_if_it_ends_soon(self) -> None:
        self._said_at = time.time()
        left = self.seconds_left()
        if left < ENDS_SOON_S:
            events.emit(
                events.CERTIFICATE_ENDS,
                reason=self.listener,
                listener=self.listener,
                subject=self.certificate.subject,
                days=int(left // 86400),
            )

    def __repr__(self) -> str:
        return f"<Identity of {self.listener}: {self.certificate.subject}>"
