"""What a user may say about values: their format, their schema, and what becomes of those that cannot be read."""

from __future__ import annotations

import json
from dataclasses import dataclass

from barnabas.errors import BarnabasError, ConfigError
from barnabas.pipeline.option_words import OptionWords
from barnabas.pipeline.values.registry_options import (
    REGISTRY_NAMES,
    REGISTRY_SINK_NAMES,
    RegistryOptions,
)

__all__ = ["CONFLUENT", "SINK_NAMES", "SOURCE_NAMES", "BadValueError", "ValueOptions"]

CONFLUENT = "confluent-avro"
FORMATS = ("json", "csv", "avro", CONFLUENT)
FAIL, COLUMN, TOPIC = "fail", "column", "topic"
_SPARKS_WORDS = {"failfast": FAIL, "permissive": COLUMN}
_SCHEMA = "valueSchema"
_CORRUPT = "_corrupt_record"

SOURCE_NAMES: dict[str, str] = {
    "valueFormat": "json, csv, avro or confluent-avro: the column value becomes a struct; else it is binary",
    "valueSchema": "columns of the struct, as DDL (a INT, b STRING) or Spark's JSON; with avro: an Avro schema; "
    "with confluent-avro: the same, or the subject's newest",
    "badRecords": "values that cannot be read: fail (default; or FAILFAST), column (or PERMISSIVE), or "
    "topic:NAME, which gets them as they are",
    "columnNameOfCorruptRecord": "with badRecords=column: the column that gets their bytes, _corrupt_record",
    **REGISTRY_NAMES,
}
SINK_NAMES: dict[str, str] = {
    "valueFormat": "json, csv, avro or confluent-avro: how the struct in the column value is written; "
    "without it, bytes",
    "valueSchema": "with avro and confluent-avro: the Avro schema to write with; else it is made from the struct",
    **REGISTRY_NAMES,
    **REGISTRY_SINK_NAMES,
}


_REGISTRYS = (*REGISTRY_NAMES, *REGISTRY_SINK_NAMES)


class BadValueError(BarnabasError):
    """One value that is not what its format and schema say.  Its words hold nothing of the value."""


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """The options about values, checked.  `type_json`: the struct in Spark's JSON, once Spark read it.

    `topic`: the only one that is read, or that all rows go to.  `schema_id`: of the sink's schema in a registry.
    """

    format: str
    schema: str = ""
    bad: str = FAIL
    dead_letters: str = ""
    column: str = ""
    type_json: str = ""
    registry: RegistryOptions | None = None
    topic: str | None = None
    schema_id: int | None = None

    @property
    def corrupt_column(self) -> str | None:
        """The column for values that cannot be read; None: there is none."""
        return self.column if self.bad == COLUMN else None

    @classmethod
    def of_source(cls, words: OptionWords) -> ValueOptions | None:
        """None: values stay bytes.  Raises ConfigError."""
        format_ = _format(words, SOURCE_NAMES)
        if format_ is None:
            return None
        schema = words.text(_SCHEMA, "")
        registry = RegistryOptions.parse(words) if format_ == CONFLUENT else None
        if not schema and registry is None:
            form = "an Avro schema" if format_ == "avro" else "columns as DDL: a INT, b STRING"
            raise ConfigError(f"valueFormat={format_} needs valueSchema", next_step=f"give {form}")
        bad, dead_letters = _policy(words.text("badRecords", FAIL))
        column = words.text("columnNameOfCorruptRecord", "")
        if column and bad != COLUMN:
            raise ConfigError("columnNameOfCorruptRecord has no effect without badRecords=column")
        corrupt = (column or _CORRUPT) if bad == COLUMN else ""
        return cls(format_, schema, bad, dead_letters, corrupt, registry=registry, topic=_only_topic(words))

    @classmethod
    def of_sink(cls, words: OptionWords) -> ValueOptions | None:
        """None: values are bytes already.  Raises ConfigError."""
        format_ = _format(words, SINK_NAMES)
        if format_ is None:
            return None
        schema = words.text(_SCHEMA, "")
        if schema and format_ not in ("avro", CONFLUENT):
            raise ConfigError(
                f"valueSchema has no effect on a sink with valueFormat={format_}",
                next_step="the struct says which fields there are: cast them in the query",
            )
        registry = RegistryOptions.parse(words) if format_ == CONFLUENT else None
        if schema and registry is not None and registry.latest:
            raise ConfigError(
                "valueSchema and use.latest.version contradict each other", next_step="leave one out"
            )
        return cls(format_, schema, registry=registry, topic=words.text("topic", "") or None)


def _only_topic(words: OptionWords) -> str | None:
    """The topic that is read, if it is one."""
    names = {name.strip() for name in words.text("subscribe", "").split(",") if name.strip()}
    try:
        names |= set(json.loads(words.text("assign", "{}")))
    except (ValueError, TypeError):
        return None  # (said elsewhere)
    return names.pop() if len(names) == 1 else None


def _format(words: OptionWords, names: dict[str, str]) -> str | None:
    format_ = words.text("valueFormat", "").lower()
    if not format_:
        if given := [name for name in names if name in words.values]:
            raise ConfigError(f"{given[0]} has no effect without valueFormat")
        return None
    if format_ not in FORMATS:
        raise ConfigError(f"valueFormat={format_[:50]}: it is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if format_ != CONFLUENT and (given := [name for name in _REGISTRYS if name in words.values]):
        raise ConfigError(f"{given[0]} has no effect without valueFormat={CONFLUENT}")
    return format_


def _policy(text: str) -> tuple[str, str]:
    word = text.lower()
    word = _SPARKS_WORDS.get(word, word)
    if word in (FAIL, COLUMN):
        return word, ""
    if word.startswith("topic:") and (name := text[len("topic:") :].strip()):
        return TOPIC, name
    if word == "dropmalformed":
        raise ConfigError(
            "badRecords=DROPMALFORMED: records are never dropped silently",
            next_step="badRecords=topic:NAME keeps them elsewhere; or take column and filter",
        )
    raise ConfigError(f"badRecords={text[:50]}: it is fail, column or topic:NAME")
