"""Users who log in with a password (SCRAM, and PLAIN where a listener takes it).

barnabas users list                                       who there is
barnabas users add alice                                  asks for the password
barnabas users add etl --password-file secrets/etl        its first line
barnabas users passwd alice                               another password: her open connections end
barnabas users remove alice                               she cannot log in any more, and her connections end
"""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import TYPE_CHECKING

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, print_rows
from barnabas.cli.typed.numbers import whole
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

__all__ = ["add_arguments", "run"]

_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_SHORTEST = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas users`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|add|passwd|remove")
    lists = verbs.add_parser("list", help="who there is: barnabas users list")
    adds = verbs.add_parser("add", help="a new user: barnabas users add alice")
    changes = verbs.add_parser("passwd", help="another password: barnabas users passwd alice")
    removes = verbs.add_parser("remove", help="no login any more: barnabas users remove alice")
    for verb in (adds, changes, removes):
        verb.add_argument("user", metavar="USER")
        verb.add_argument(
            "--mechanism",
            action="append",
            choices=_MECHANISMS,
            help="may be repeated (default: SCRAM-SHA-512; passwd and remove: all that the user has)",
        )
    for verb in (adds, changes):
        verb.add_argument(
            "--password-file",
            metavar="FILE",
            help="the password is its first line; - is standard input (default: ask)",
        )
        verb.add_argument(
            "--iterations",
            type=whole(4096, 16384),
            default=16384,
            metavar="N",
            help="4096 to 16384 (default: 16384)",
        )
    for verb in (lists, adds, changes, removes):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas users list|add|passwd|remove`."""
    from barnabas.client.cluster import Cluster

    cluster = Cluster(
        args.bootstrap_server, client_id="barnabas-users", timeout=args.timeout, security=security_of(args)
    )
    try:
        if args.verb == "list":
            _list(cluster, args)
        elif args.verb == "remove":
            _remove(cluster, args)
        else:
            _set(cluster, args)
    finally:
        cluster.close()
    return 0


def _list(cluster: Cluster, args: argparse.Namespace) -> None:
    from barnabas.client.admin.users import users_of

    found = users_of(cluster)
    if args.json:
        print_document("users", {"users": [one._asdict() for one in found]})
        return
    print_rows(["user", "mechanism", "iterations"], [[*one[:2], str(one.iterations)] for one in found])


def _set(cluster: Cluster, args: argparse.Namespace) -> None:
    from barnabas.client.admin.users import set_password

    has = _mechanisms_of(cluster, args.user)
    if args.verb == "add" and has:
        raise ConfigError(
            f"there is a user {args.user} ({', '.join(has)})",
            next_step=f"`barnabas users passwd {args.user}` changes the password",
        )
    if args.verb == "passwd" and not has:
        raise ConfigError(
            f"there is no user {args.user}", next_step=f"`barnabas users add {args.user}` makes one"
        )
    password = _password(args)
    chosen = args.mechanism or has or ["SCRAM-SHA-512"]
    for mechanism in chosen:
        set_password(cluster, args.user, password, mechanism, args.iterations)
    if args.json:
        print_document("users.changed", {"user": args.user, "mechanisms": chosen})
    elif args.verb == "add":
        print(f"Added user {args.user} ({', '.join(chosen)}).")
    else:
        print(f"Changed the password of user {args.user} ({', '.join(chosen)}); its open connections end.")


def _remove(cluster: Cluster, args: argparse.Namespace) -> None:
    from barnabas.client.admin.users import remove_user

    has = _mechanisms_of(cluster, args.user)
    gone = args.mechanism or has
    if not has:
        raise ConfigError(
            f"there is no user {args.user}", next_step="`barnabas users list` shows who there is"
        )
    for mechanism in gone:
        remove_user(cluster, args.user, mechanism)
    if args.json:
        print_document("users.changed", {"user": args.user, "removed": gone})
    else:
        print(f"Removed user {args.user} ({', '.join(gone)}); its open connections end.")


def _mechanisms_of(cluster: Cluster, user: str) -> list[str]:
    from barnabas.client.admin.users import users_of

    return [one.mechanism for one in users_of(cluster) if one.user == user]


def _password(args: argparse.Namespace) -> str:
    """From a file, standard input or the keyboard; never from the command line, which others can see."""
    if args.password_file == "-":
        password = sys.stdin.readline().rstrip("\r\n")
    elif args.password_file is not None:
        try:
            with open(args.password_file, encoding="utf-8") as file:
                password = file.readline().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(
                f"{args.password_file} cannot be read: {why}", next_step="name a file with the password in it"
            ) from error
    elif not sys.stdin.isatty():
        raise ConfigError(
            "there is no keyboard to ask for the password",
            next_step="use --password-file FILE, or --password-file - and standard input",
        )
    else:
        password = getpass.getpass(f"Password of {args.user}: ")
        if getpass.getpass("The same again: ") != password:
            raise ConfigError("the two passwords differ", next_step="type the command again")
    if len(password) < _SHORTEST:
        raise ConfigError(f"a password has at least {_SHORTEST} characters", next_step="choose a longer one")
    return password
