"""Values in the format of Confluent's Avro serializer, as JSON: what `consume --avro URL` prints."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from barnabas.errors import BarnabasError, ConfigError
from barnabas.extras import to_install

__all__ = ["with_avro_values"]


def with_avro_values(url: str) -> Callable[[Any], Any]:
    """Return what gives a message its value as JSON, by the schema of a registry that the value names.

    Raises ConfigError for a wrong address, and where the packages are not installed.  What is returned raises
    BarnabasError, which names the record, for a value that is not such a one.
    """
    if find_spec("pyspark") is None or find_spec("fastavro") is None:
        raise ConfigError("--avro needs the packages of the pipeline", next_step=to_install("spark"))
    from barnabas.pipeline.option_words import OptionWords
    from barnabas.pipeline.values.confluent import own_schema_reader
    from barnabas.pipeline.values.registry import registry_of
    from barnabas.pipeline.values.registry_options import REGISTRY_NAMES, RegistryOptions

    words = OptionWords({"schema.registry.url": url}, REGISTRY_NAMES, (), {})
    read = own_schema_reader(registry_of(RegistryOptions.parse(words)))

    def decoded(message: Any) -> Any:
        if message.value is None:
            return message
        try:
            value = read(message.value)
        except BarnabasError as error:
            raise BarnabasError(
                f"{message.topic}-{message.partition} offset {message.offset}: no Avro value: {error.message}",
                next_step="leave --avro out to see its bytes, or begin after it with --offset",
            ) from error
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_text)
        return message._replace(value=text.encode())

    return decoded


def _text(value: Any) -> Any:
    """Return what JSON has no word for: bytes in base64, times and decimals as they are written."""
    return (
        {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes | bytearray) else str(value)
    )
