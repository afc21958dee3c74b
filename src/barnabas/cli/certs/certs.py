"""Certificates: an authority of one's own, and what it signs for nodes and users (docs/security.md).

barnabas certs init certs                                        an authority, in the directory certs
barnabas certs issue certs node1 --host node1.example.org,10.0.0.1       for a node: names that are dialled
barnabas certs issue certs ada                                   for a user
barnabas certs show certs/node1.pem                              whom it names, and until when
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.certs.authority import AUTHORITY, issue, load, make_authority
from barnabas.cli.exits import MissingFileError
from barnabas.cli.output import print_document
from barnabas.cli.typed.numbers import whole

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["add_arguments", "run"]

SOON = datetime.timedelta(days=30)
MOST_DAYS = 36500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas certs`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="init|issue|show")
    init = verbs.add_parser("init", help="make an authority: barnabas certs init certs")
    init.add_argument("directory", type=Path, help="where its files go; only you can read the key")
    init.add_argument("--name", default="Barnabas authority", help="its name")
    init.add_argument("--days", type=whole(1, MOST_DAYS), default=3650, help="how long it is valid (3650)")
    one = verbs.add_parser("issue", help="sign one: barnabas certs issue certs node1 --host 10.0.0.1")
    one.add_argument("directory", type=Path, help="that of the authority")
    one.add_argument("name", help="who it is: ada, or CN=ada,O=Acme")
    one.add_argument("--host", default="", metavar="A,B", help="how a node is dialled: names and addresses")
    one.add_argument("--days", type=whole(1, MOST_DAYS), default=365, help="how long it is valid (365)")
    one.add_argument("--out", type=Path, metavar="FILE", help="the file (NAME.pem in the directory)")
    shows = verbs.add_parser("show", help="what a file has: barnabas certs show certs/node1.pem")
    shows.add_argument("file", type=Path, help="a PEM file")
    for verb in (init, one, shows):
        verb.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """`barnabas certs init|issue|show`."""
    return {"init": _init, "issue": _issue, "show": _show}[args.verb](args)


def _init(args: argparse.Namespace) -> int:
    made = make_authority(args.directory, args.name, args.days)
    if args.json:
        print_document("certs.authority", {"file": str(args.directory / AUTHORITY), **_described(made)})
        return 0
    where = args.directory
    print(f"Made the authority {_described(made)['principal']}, valid until {_day(made)}.")
    print(f"  {where / AUTHORITY}   for clients and nodes: they trust what it signs")
    print(f"  {where / 'ca.key'}   for nobody: who has it can be anybody")
    print(f"next: barnabas certs issue {where} node1 --host NAMES-AND-ADDRESSES-OF-THE-NODE")
    return 0


def _issue(args: argparse.Namespace) -> int:
    hosts = [host.strip() for host in args.host.split(",") if host.strip()]
    file_name = args.name.partition(",")[0].rpartition("=")[2].strip().replace("/", "_") or "certificate"
    target = args.out or args.directory / f"{file_name}.pem"
    made = issue(args.directory, args.name, hosts, args.days, target)
    if args.json:
        print_document("certs.issued", {"file": str(target), **_described(made)})
        return 0
    print(f"Made {target}: {_described(made)['principal']}, valid until {_day(made)}. It has the key, too.")
    print(f"next: in {'server.properties' if hosts else 'the client' + chr(39) + 's properties'}")
    if not hosts:
        print("  security.protocol=SSL")
    print(f"  ssl.keystore.type=PEM\n  ssl.keystore.location={target.absolute()}")
    print(f"  ssl.truststore.type=PEM\n  ssl.truststore.location={(args.directory / AUTHORITY).absolute()}")
    return 0


def _show(args: argparse.Namespace) -> int:
    try:
        found = load(args.file)
    except FileNotFoundError:
        raise MissingFileError(f"{args.file} does not exist", next_step="check the path") from None
    rows = [_described(certificate) for certificate in found]
    if args.json:
        print_document("certs.shown", {"file": str(args.file), "certificates": rows})
        return 0
    for certificate, row in zip(found, rows, strict=True):
        print(f"{row['principal']}")
        print(f"  signed by   {row['issuer']}")
        print(f"  hosts       {', '.join(row['hosts']) or '-'}")
        print(f"  valid       {row['begins']} to {row['ends']}{_warning(certificate)}")
    return 0


def _warning(certificate: x509.Certificate) -> str:
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    if left < datetime.timedelta():
        return ": it has expired"
    return f": it ends in {left.days} days" if left < SOON else ""


def _described(certificate: x509.Certificate) -> dict[str, Any]:
    """`principal` is what a node makes of it without mapping rules."""
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

    from barnabas.security.certificate import read_certificate

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
        hosts = [str(name.value) for name in names]
    except ExtensionNotFound:
        hosts = []
    return {
        "principal": f"User:{read_certificate(certificate.public_bytes(Encoding.DER)).subject}",
        "issuer": certificate.issuer.rfc4514_string(),
        "hosts": hosts,
        "begins": certificate.not_valid_before_utc.isoformat(timespec="seconds"),
        "ends": certificate.not_valid_after_utc.isoformat(timespec="seconds"),
    }


def _day(certificate: x509.Certificate) -> str:
    return certificate.not_valid_after_utc.date().isoformat()
