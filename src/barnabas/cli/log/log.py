"""Look into log files without a node running.

  barnabas log dump FILE...     what is in segments, indexes, snapshots: the lines of Kafka's DumpLogSegments
  barnabas log verify DIR       check every batch of every partition against its CRC
  barnabas log compaction DIR   how far each compacted log is compacted

examples:
  barnabas log dump barnabas-data/greetings-0/00000000000000000000.log --print-data-log
  barnabas log dump --cluster-metadata-decoder barnabas-data/__cluster_metadata-0/00000000000000000000.log
  barnabas log verify barnabas-data
  barnabas log compaction barnabas-data --json
"""

from __future__ import annotations

import argparse
import sys

from barnabas.cli.typed.numbers import count

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas log`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="dump|verify|compaction")
    dump = verbs.add_parser("dump", help="print segments, indexes and snapshots as Kafka's tool does")
    dump.add_argument("files", nargs="*", metavar="FILE", help="also several separated by commas")
    dump.add_argument(
        "--files",
        dest="named",
        action="append",
        default=[],
        metavar="FILE,...",
        help="the same, as Kafka's tool",
    )
    dump.add_argument("--print-data-log", action="store_true", help="print keys and payloads of records")
    dump.add_argument("--deep-iteration", action="store_true", help="print records, but not their content")
    decoders = dump.add_mutually_exclusive_group()
    decoders.add_argument(
        "--cluster-metadata-decoder", action="store_true", help="payloads are records of the controllers"
    )
    decoders.add_argument("--offsets-decoder", action="store_true", help="files of __consumer_offsets")
    decoders.add_argument(
        "--transaction-log-decoder", action="store_true", help="files of __transaction_state"
    )
    dump.add_argument("--skip-record-metadata", action="store_true", help="only keys and payloads of records")
    dump.add_argument("--max-bytes", type=count, metavar="N", help="read only the first N bytes of each log")
    verify = verbs.add_parser("verify", help="check all batches of a data directory or one partition")
    verify.add_argument("directory", metavar="DIR")
    verify.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    compaction = verbs.add_parser("compaction", help="how far the logs of a data directory are compacted")
    compaction.add_argument("directory", metavar="DIR")
    compaction.add_argument("--json", action="store_true", help="print one JSON document instead of a table")


def run(args: argparse.Namespace) -> int:
    """`barnabas log dump|verify|compaction`."""
    if args.verb == "verify":
        from barnabas.cli.log.verify import verify

        return verify(args)
    if args.verb == "compaction":
        from barnabas.cli.log.compaction import compaction

        return compaction(args)
    from barnabas.cli.log.dump import Decoder, Dumper, decode_coordinator, decode_metadata, decode_plain
    from barnabas.errors import ConfigError
    from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

    decode: Decoder | None = decode_plain if args.print_data_log else None
    if args.cluster_metadata_decoder:
        decode = decode_metadata
    elif args.offsets_decoder:
        decode = decode_coordinator(OFFSETS_TOPIC)
    elif args.transaction_log_decoder:
        decode = decode_coordinator(TRANSACTIONS_TOPIC)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    dumper = Dumper(
        sys.stdout,
        sys.stderr,
        records=args.deep_iteration,
        decode=decode,
        skip_metadata=args.skip_record_metadata,
        max_bytes=args.max_bytes,
    )
    if not args.files and not args.named:
        raise ConfigError("log dump needs a FILE", next_step="give a .log, an index or a .checkpoint")
    for path in (path for group in (*args.files, *args.named) for path in group.split(",") if path):
        dumper.dump(path)
    return 0
