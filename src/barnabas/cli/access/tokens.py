"""Delegation tokens: what logs in as you do, for jobs on machines that shall not have your password.

barnabas tokens create --file job.properties      a token, in a file of yours for the job's --command-config
barnabas tokens create --renewer User:etl         shown on the screen; etl may renew it, too
barnabas tokens list                              those that you may see, without their passwords
barnabas tokens renew TOKEN-ID                    it counts for another day (delegation.token.expiry.time.ms)
barnabas tokens end TOKEN-ID                      it is gone, and connections by it end
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, print_rows
from barnabas.cli.typed.numbers import at_least
from barnabas.errors import ConfigError, ErrorCode, KafkaError, StorageError

if TYPE_CHECKING:
    from barnabas.client.admin.tokens import DelegationToken
    from barnabas.client.cluster import Cluster

__all__ = ["add_arguments", "run"]

_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas tokens`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="create|list|renew|end")
    creates = verbs.add_parser("create", help="a new token: barnabas tokens create --file job.properties")
    lists = verbs.add_parser("list", help="those that you may see: barnabas tokens list")
    renews = verbs.add_parser("renew", help="let it count for longer: barnabas tokens renew TOKEN-ID")
    ends = verbs.add_parser("end", help="end it now: barnabas tokens end TOKEN-ID")
    creates.add_argument(
        "--file", metavar="FILE", help="write what logs in with it to a new file (default: show it)"
    )
    creates.add_argument(
        "--renewer",
        action="append",
        default=[],
        metavar="PRINCIPAL",
        help="who else may renew it, as User:etl; may be repeated",
    )
    for verb in (creates, lists):
        verb.add_argument(
            "--owner", metavar="PRINCIPAL", help="of another user, as User:bob (default: yours)"
        )
    for verb, what in ((creates, "its longest life"), (renews, "how long it counts")):
        verb.add_argument(
            "--hours",
            type=at_least(0.001, 1e6, "hours"),
            metavar="N",
            help=f"{what} (default: as long as the cluster allows)",
        )
    for verb in (renews, ends):
        verb.add_argument("token", metavar="TOKEN-ID")
    for verb in (creates, lists, renews, ends):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas tokens create|list|renew|end`."""
    from barnabas.client.cluster import Cluster

    for principal in [*getattr(args, "renewer", ()), *([args.owner] if getattr(args, "owner", None) else ())]:
        if not principal.partition(":")[2]:
            raise ConfigError(f"{principal!r} is no principal", next_step=f"write User:{principal}")
    cluster = Cluster(
        args.bootstrap_server, client_id="barnabas-tokens", timeout=args.timeout, security=security_of(args)
    )
    try:
        {"create": _create, "list": _list, "renew": _renew, "end": _end}[args.verb](cluster, args)
    finally:
        cluster.close()
    return 0


def _create(cluster: Cluster, args: argparse.Namespace) -> None:
    from barnabas.client.admin.tokens import create_token, end_token

    life = _ms(args.hours)
    if args.file is not None and os.path.exists(args.file):
        raise ConfigError(f"{args.file} exists", next_step="name a file that does not, or remove it")
    token = create_token(cluster, owner=args.owner or "", renewers=args.renewer, life_ms=life)
    if args.file is not None:
        try:
            _write(args.file, _properties(token, security_of(args)))
        except OSError as error:
            end_token(cluster, token)
            raise StorageError(
                f"cannot write {args.file}: {error.strerror}", next_step="check the path"
            ) from error
    if args.json:
        shown = token._asdict()
        if args.file is not None:
            del shown["password"]
        print_document("tokens.created", {"token": shown, "file": args.file})
        return
    print(f"Created token {token.id} of {token.owner}; it ends {_when(token.until_ms)} unless it is renewed,")
    print(f"and {_when(token.max_ms)} at the latest.")
    if args.file is not None:
        print(f"{args.file} logs in with it: --command-config {args.file}")
    else:
        print(f"user name  {token.id}\npassword   {token.password}")
        print("Log in with both by SCRAM, with tokenauth=true.")


def _list(cluster: Cluster, args: argparse.Namespace) -> None:
    from barnabas.client.admin.tokens import tokens_of

    found = tokens_of(cluster, [args.owner] if args.owner else None)
    if args.json:
        shown = [{k: v for k, v in one._asdict().items() if k != "password"} for one in found]
        print_document("tokens", {"tokens": shown})
        return
    rows: list[list[Any]] = [
        [one.id, one.owner, ",".join(one.renewers) or "-", _when(one.until_ms), _when(one.max_ms)]
        for one in found
    ]
    print_rows(["token", "owner", "renewers", "ends", "at_the_latest"], rows)


def _renew(cluster: Cluster, args: argparse.Namespace) -> None:
    from barnabas.client.admin.tokens import renew_token

    period = _ms(args.hours)
    until = renew_token(cluster, _named(cluster, args.token), period)
    if args.json:
        print_document("tokens.renewed", {"id": args.token, "until_ms": until})
    else:
        print(f"Token {args.token} ends {_when(until)}.")


def _end(cluster: Cluster, args: argparse.Namespace) -> None:
    from barnabas.client.admin.tokens import end_token

    end_token(cluster, _named(cluster, args.token))
    if args.json:
        print_document("tokens.ended", {"id": args.token})
    else:
        print(f"Token {args.token} is gone; connections by it end.")


def _named(cluster: Cluster, token_id: str) -> DelegationToken:
    """The token of that id.  Its password, which the cluster asks for, is not typed: others see command lines."""
    from barnabas.client.admin.tokens import tokens_of

    for one in tokens_of(cluster):
        if one.id == token_id:
            return one
    raise KafkaError(
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        f"there is no token {token_id}, or you may not see it",
        next_step="`barnabas tokens list` shows those that you may see",
    )


def _properties(token: DelegationToken, own: dict[str, str]) -> dict[str, str]:
    """What the bearer gives to --command-config: whom to trust as its owner does, and the token."""
    protocol = own.get("security.protocol", "SSL").upper().removeprefix("SASL_")
    mechanism = own.get("sasl.mechanism") or own.get("sasl.mechanisms") or ""
    words = {
        name: text for name, text in own.items() if name.startswith(("ssl.truststore", "ssl.ca", "ssl.end"))
    }
    login = f'username="{token.id}" password="{token.password}" tokenauth="true"'
    return {
        "security.protocol": f"SASL_{protocol}",
        "sasl.mechanism": mechanism if mechanism.startswith("SCRAM") else "SCRAM-SHA-512",
        "sasl.jaas.config": f"{_LOGIN} required {login};",
        **words,
    }


def _write(path: str, settings: dict[str, str]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("".join(f"{name}={value}\n" for name, value in settings.items()))


def _ms(hours: float | None) -> int:
    if hours is None:
        return -1
    return int(hours * 3_600_000)


def _when(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(ms / 1000))
