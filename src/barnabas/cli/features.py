"""Features and their levels: what the cluster agreed on, and raising or lowering it.  Prints as Kafka's tool.

barnabas features describe
barnabas features upgrade --feature kraft.version=1
barnabas features upgrade --release-version 4.4 --dry-run
barnabas features downgrade --feature transaction.version=1
barnabas features disable --feature streams.version

A level is raised when every node supports it, or not at all.  --release-version 3.9 and newer raises
kraft.version, too: from 1 on the voters change at run time, and it can never be lowered again.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from barnabas.cli.controllers import add_flags, bootstrap_of, security_of
from barnabas.cli.output import print_document
from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from barnabas.client.admin.described import FeatureRange

__all__ = ["add_arguments", "feature_lines", "run"]

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas features`."""
    add_flags(parser, before_the_verb=True)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="describe|upgrade|downgrade|disable")
    describe = verbs.add_parser("describe", help="every feature with its range and its level")
    upgrade = verbs.add_parser("upgrade", help="raise levels")
    downgrade = verbs.add_parser("downgrade", help="lower levels")
    disable = verbs.add_parser("disable", help="level 0")
    for verb in (upgrade, downgrade):
        verb.add_argument("--release-version", "-r", metavar="RELEASE", help="the levels of a release: 4.4")
    for verb in (upgrade, downgrade, disable):
        verb.add_argument(
            "--feature", "-f", action="append", default=[], metavar="NAME[=LEVEL]", help="may be repeated"
        )
        verb.add_argument("--dry-run", action="store_true", help="only say whether it could be done")
    for verb in (downgrade, disable):
        verb.add_argument("--unsafe", action="store_true", help="also where data may be lost")
    for verb in (describe, upgrade, downgrade, disable):
        add_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas features describe|upgrade|downgrade|disable`."""
    from barnabas.client.admin.admin import Admin

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        if args.verb != "describe":
            return _update(args, admin.cluster)
        features = admin.features()
    if args.json:
        print_document("features", {"features": [feature._asdict() for feature in features]})
    else:
        print("\n".join(feature_lines(features)))
    return 0


def feature_lines(features: list[FeatureRange]) -> list[str]:
    """One line for each feature, as Kafka's tool prints them."""
    return [
        f"Feature: {f.name:<40}  SupportedMinVersion: {_level(f.name, f.supported_min):<15}  "
        f"SupportedMaxVersion: {_level(f.name, f.supported_max):<15}  "
        f"FinalizedVersionLevel: {_level(f.name, f.finalized):<15}  Epoch: {f.epoch if f.epoch >= 0 else '-'}"
        for f in features
    ]


def _level(name: str, level: int) -> str:
    from barnabas.controller.feature_levels import METADATA_VERSION, RELEASES

    return RELEASES.get(level, str(level)) if name == METADATA_VERSION else str(level)


def _wanted(args: argparse.Namespace) -> dict[str, int]:
    """The levels that the flags ask for.  Raises ConfigError."""
    from barnabas.controller.feature_levels import METADATA_VERSION, release_level, release_levels

    release = getattr(args, "release_version", None)
    if bool(release) == bool(args.feature):
        raise ConfigError("say --feature or --release-version, one of the two")
    if release:
        return release_levels(release_level(release), upgrade=args.verb == "upgrade")
    levels: dict[str, int] = {}
    for text in args.feature:
        name, equals, level = text.partition("=")
        if args.verb == "disable":
            level = "0"
        elif not equals:
            raise ConfigError(f"--feature {text}: say NAME=LEVEL")
        if name == METADATA_VERSION and not level.isdecimal():
            levels[name] = release_level(level)
        elif level.isdecimal():
            levels[name] = int(level)
        else:
            raise ConfigError(f"--feature {text}: {level!r} is no level")
    return levels


def _update(args: argparse.Namespace, cluster: object) -> int:
    from barnabas.client.admin.quorum import update_features
    from barnabas.client.cluster import Cluster

    assert isinstance(cluster, Cluster)
    levels = _wanted(args)
    kind = UPGRADE
    if args.verb != "upgrade":
        kind = UNSAFE_DOWNGRADE if args.unsafe else SAFE_DOWNGRADE
    refusal: str | None = None
    try:
        update_features(cluster, levels, upgrade_type=kind, dry_run=args.dry_run)
    except KafkaError as error:
        refusal = error.message
    if args.json:
        print_document("features.updated", {"levels": levels, "dry_run": args.dry_run, "refused": refusal})
        return 0 if refusal is None else 1
    for name, level in sorted(levels.items()):
        print(_result(args.verb, name, level, refusal, args.dry_run))
    if refusal is not None:
        print(f"{len(levels)} out of {len(levels)} operation(s) failed.", flush=True)
        print("  next: `barnabas features describe` shows ranges and levels", file=sys.stderr)
    return 0 if refusal is None else 1


def _result(verb: str, name: str, level: int, refusal: str | None, dry_run: bool) -> str:
    to = "" if verb == "disable" else f" to {level}"
    if refusal is not None:
        return f"{'Can' if dry_run else 'Could'} not {verb} {name}{to}. {refusal}"
    return f"{name} {'can be' if dry_run else 'was'} {verb}d{to}."
