"""The TLS handshake of a listener, and whether this client believes it: each question by itself.

OpenSSL stops at the first thing that it does not like, so each check has a handshake that asks for nothing else.
"""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime
from typing import Any

from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.line import Address, dial
from barnabas.client.security.certificates import own_certificate, show_certificate, trust
from barnabas.client.security.options import Tls
from barnabas.client.security.tls import context_of
from barnabas.errors import BarnabasError
from barnabas.security.certificate import ENDS_SOON_S, Certificate, read_certificate

__all__ = ["examine_own_files", "examine_tls"]

_VERSIONS = (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)
_OLD = (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1)
_NO_CHECK_TIME = 0x200000
_NAMES = (62, 64)


def examine_own_files(tls: Tls, found: Findings) -> bool:
    """Return whether what the client itself has can be used; nothing is dialled for that."""
    check = "own files"
    try:
        context_of(tls)
        der = own_certificate(tls)
        own = read_certificate(der) if der else None
    except BarnabasError as error:
        found.fail(check, error.message, error.next_step or "check the files that --command-config names")
        return False
    if own is None:
        found.ok(check, "authorities to trust, no certificate of our own")
    elif _is_valid_now(own, check, f"our certificate ({own.subject})", "give", found):
        found.ok(check, f"our certificate is {own.subject}, valid until {_day(own.ends)}")
    return not found.failed


def examine_tls(address: Address, tls: Tls, found: Findings) -> bool:
    """Check versions, authority, name and dates.  Return whether a handshake can succeed."""
    spoken = [version for version in _VERSIONS if _shake(address, _asking(tls, version))[0]]
    if not spoken:
        old = [version for version in _OLD if _shake(address, _asking(Tls(), version, old=True))[0]]
        why = _shake(address, _asking(tls))[1]
        if old:
            names = ", ".join(_name(version) for version in old)
            found.fail(
                "TLS versions",
                f"no version in common: the listener speaks {names} only, we speak TLSv1.2 and TLSv1.3",
                "have the listener speak TLSv1.2 or TLSv1.3 (ssl.enabled.protocols)",
            )
        else:
            found.fail(
                "TLS versions",
                f"every handshake fails ({_reason(why)}): no version or cipher in common, or a certificate of "
                "ours is asked for",
                "see ssl.enabled.protocols of the listener, and set ssl.keystore.location if it wants a "
                "certificate; the node's log (tls.refused) says which",
            )
        return False
    found.ok("TLS versions", ", ".join(_name(version) for version in spoken))
    _, _, der = _shake(address, _asking(tls))
    if not der:
        found.fail("certificate", "the listener shows none", "set ssl.keystore.location at the listener")
        return False
    trusted = _examine_authority(address, tls, found)
    named = _examine_name(address, tls, der, found)
    return _examine_dates(der, found) and trusted and named


def _asking(tls: Tls, version: ssl.TLSVersion | None = None, *, old: bool = False) -> ssl.SSLContext:
    """Return a context that believes everybody, and shows what we have."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if old:
        context.set_ciphers("ALL:@SECLEVEL=0")
    if version is not None:
        context.minimum_version = context.maximum_version = version
    show_certificate(context, tls)
    return context


def _shake(address: Address, context: ssl.SSLContext) -> tuple[bool, OSError | None, bytes]:
    """Return whether the handshake succeeds, what it fails at, and the certificate (DER)."""
    try:
        with dial(address) as line, context.wrap_socket(line, server_hostname=address.host) as session:
            return True, None, session.getpeercert(True) or b""
    except OSError as error:
        return False, error, b""


def _believing(tls: Tls) -> ssl.SSLContext:
    """Return a context that asks for a trusted authority, and for nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    trust(context, tls)
    show_certificate(context, tls)
    return context


def _examine_authority(address: Address, tls: Tls, found: Findings) -> bool:
    done, error, _ = _shake(address, _believing(tls))
    whom = (
        "the authorities of ssl.truststore.location"
        if tls.ca_file or tls.ca_pem
        else "the system's authorities"
    )
    if isinstance(error, ssl.SSLCertVerificationError):
        found.fail(
            "authority",
            f"the listener's certificate is not signed by {whom} ({error.verify_message})",
            "set ssl.truststore.location (or ssl.ca.location) to the certificate of the authority that signed it",
        )
    elif not done:
        found.fail("authority", f"the handshake fails: {_reason(error)}", "see the node's log (tls.refused)")
    else:
        found.ok("authority", f"signed by one of {whom}")
    return done


def _examine_name(address: Address, tls: Tls, der: bytes, found: Findings) -> bool:
    if not tls.check_host:
        found.warn(
            "name",
            "not checked, for ssl.endpoint.identification.algorithm is empty",
            "leave that out, and dial a name that the certificate has",
        )
        return True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME) | ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(der))  # so nothing but the name is in doubt
    show_certificate(context, tls)
    done, error, _ = _shake(address, context)
    if done:
        found.ok("name", f"the certificate names {address.host}")
    elif isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _NAMES:
        context.check_hostname = False
        found.fail(
            "name",
            f"the certificate is for {_names(address, context)}, not for {address.host}",
            "dial one of these names, or issue a certificate that has this one among its alternative names",
        )
    else:
        found.fail("name", f"the handshake fails: {_reason(error)}", "see the node's log (tls.refused)")
    return done


def _names(address: Address, context: ssl.SSLContext) -> str:
    """Return the names in the certificate."""
    try:
        with dial(address) as line, context.wrap_socket(line, server_hostname=address.host) as session:
            known: Any = session.getpeercert() or {}
    except OSError:
        return "another name"
    names = [str(value) for _, value in known.get("subjectAltName", ())]
    return ", ".join(names[:10]) or "no name at all"


def _examine_dates(der: bytes, found: Findings) -> bool:
    try:
        certificate = read_certificate(der)
    except BarnabasError as error:
        found.warn("dates", error.message, "look at it with `barnabas certs show`")
        return True
    if not _is_valid_now(certificate, "dates", "the listener's certificate", "issue", found):
        return False
    if (left := certificate.ends - time.time()) < ENDS_SOON_S:
        days = int(left // 86400)
        found.warn("dates", f"the listener's certificate ends in {days} days", "renew it")
    else:
        found.ok("dates", f"valid until {_day(certificate.ends)}")
    return True


def _is_valid_now(certificate: Certificate, check: str, whose: str, verb: str, found: Findings) -> bool:
    now = time.time()
    if now < certificate.begins:
        said = f"{whose} is not valid before {_day(certificate.begins)}"
        found.fail(check, said, _clock(f"{verb} one that is valid now"))
    elif now > certificate.ends:
        found.fail(check, f"{whose} has expired on {_day(certificate.ends)}", _clock("renew it"))
    return certificate.begins <= now <= certificate.ends


def _clock(otherwise: str) -> str:
    return f"{otherwise}, unless the clock is wrong: this machine's says {_day(time.time())} UTC"


def _day(when: float) -> str:
    return datetime.fromtimestamp(min(max(when, 0), 253402300799), UTC).strftime("%Y-%m-%d %H:%M")


def _name(version: ssl.TLSVersion) -> str:
    return version.name.replace("TLSv1_", "TLSv1.")


def _reason(error: OSError | None) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "it is ended")
    return "the connection is ended" if error is None else str(error.strerror or error)
