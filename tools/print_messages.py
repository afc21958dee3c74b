"""Print the message classes of `barnabas.wire.schemas` from a directory of Kafka's schema files.

    python -m tools.print_messages SCHEMAS src/barnabas/wire/schemas

SCHEMAS is searched for `<Message>.json`.  Names, types, versions and defaults are facts and are taken
from there; the explanatory sentences are not, `families` holds ours.  Writes one module per family and
`apis.py`, the table of keys and versions.  What is printed is checked against kio's codec by the tests.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tools.families import FAMILIES, Family

NEWEST = 32767
TYPES = {
    "bool": "Bool",
    "bytes": "Bytes",
    "float64": "Float64",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "int8": "Int8",
    "records": "Records",
    "string": "String",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uuid": "Uuid",
}
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
_KEYWORDS = frozenset({"from", "class", "global", "is", "in", "import", "lambda", "not", "None"})
ORIGIN = "Declarations printed by tools/print_messages.py; change that, not this."
BASES = {"Message", "MetadataRecord", "MetadataStruct", "Struct"}
FUTURE = "from __future__ import annotations"

Schema = dict[str, Any]


def load(path: Path) -> Schema:
    """A schema file without its comments."""
    text = _TOKEN.sub(lambda m: m[0] if m[0].startswith('"') else "", path.read_text())
    schema: Schema = json.loads(text)
    return schema


def versions(text: str) -> tuple[int, int]:
    """`3`, `0-4`, `9+`, `none` as (first, last); none is empty."""
    if text == "none":
        return (1, 0)
    if text.endswith("+"):
        return int(text[:-1]), NEWEST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def snake(name: str) -> str:
    """`TransactionalId` as `transactional_id`."""
    made = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return made + "_" if made in _KEYWORDS else made


def natural(word: str) -> tuple[int, list[int | str]]:
    """The order in which ruff sorts names: constants, classes, functions; Int8 before Int16."""
    kind = 0 if word.isupper() else 1 if word[0].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", word)]


class Printer:
    """Prints one family; `used` collects the words it must import."""

    def __init__(self, name: str, family: Family, schemas: dict[str, Schema]) -> None:
        self.name = name
        self.family = family
        self.schemas = schemas
        self.used: set[str] = set()
        self.about = dict(family.data)
        for api, (request, response) in family.apis.items():
            self.about[f"{api}Request"] = request
            self.about[f"{api}Response"] = response
        owners: dict[str, set[str]] = {}
        for message in self.about:
            for struct in self.structs(schemas[message]):
                owners.setdefault(struct, set()).add(message)
        self.shared = {name for name, of in owners.items() if len(of) > 1 or name in self.about}
        self.classes: list[str] = []

    def structs(self, schema: Schema) -> dict[str, tuple[list[Schema], tuple[int, int]]]:
        """All structs of a message: name -> (fields, versions in which it is used), outermost first."""
        found: dict[str, tuple[list[Schema], tuple[int, int]]] = {}
        common = {s["name"]: s["fields"] for s in schema.get("commonStructs", [])}

        def walk(fields: list[Schema], valid: tuple[int, int]) -> None:
            for field in fields:
                name = field["type"].removeprefix("[]")
                inner = field.get("fields") or common.get(name)
                if name in TYPES or inner is None:
                    continue
                lives = versions(field.get("versions") or field["taggedVersions"])
                used = (max(lives[0], valid[0]), min(lives[1], valid[1]))
                if used[0] > used[1]:
                    continue
                before = found.get(name, (inner, used))[1]
                used = (min(before[0], used[0]), max(before[1], used[1]))
                found[name] = (inner, used)
                walk(inner, used)

        walk(schema.get("fields", []), versions(schema["validVersions"]))
        return found

    def struct_name(self, message: str, struct: str) -> str:
        return message + struct if struct in self.shared else struct

    def text(self) -> str:
        """The module."""
        parts = [part for message in self.about for part in self.message(message)]
        bases = sorted(self.used & BASES)
        words = ",\n    ".join(sorted(self.used - BASES, key=natural))
        names = ",\n    ".join(f'"{name}"' for name in sorted(self.classes))
        head = f'"""{self.family.about}\n\n{ORIGIN}\n"""\n\n{FUTURE}'
        return (
            f"{head}\n\nfrom barnabas.wire.codec.declaration import (\n    {words},\n)\n"
            f"from barnabas.wire.codec.message import {', '.join(bases)}\n\n"
            f"__all__ = [\n    {names},\n]\n" + "".join(f"\n\n{part}\n" for part in parts)
        )

    def message(self, name: str) -> list[str]:
        """A message and its structs."""
        schema = self.schemas[name]
        valid = versions(schema["validVersions"])
        record = schema["type"] == "metadata"
        base = "MetadataRecord" if record else "Message"
        key = f", key={schema['apiKey']}" if "apiKey" in schema else ""
        flexible = schema.get("flexibleVersions", "none")
        marks = "" if flexible == "none" else f', flexible="{flexible}"'
        head = f'class {name}({base}{key}, versions="{schema["validVersions"]}"{marks}):'
        self.used.add(base)
        parts = [self.block(head, self.about[name], schema["fields"], valid, name)]
        for struct, (fields, used) in self.structs(schema).items():
            base = "MetadataStruct" if record else "Struct"
            self.used.add(base)
            made = self.struct_name(name, struct)
            called = f', called="{struct}"' if made != struct else ""
            parts.append(self.block(f"class {made}({base}{called}):", None, fields, used, name))
        return parts

    def block(
        self, head: str, about: str | None, fields: list[Schema], valid: tuple[int, int], message: str
    ) -> str:
        """One class."""
        self.classes.append(head.split("(")[0].removeprefix("class "))
        lines = [head]
        if about:
            lines += [f'    """{about}"""', ""]
        for field in fields:
            line = self.field(field, valid, message)
            if line:
                lines.append("    " + line)
        if lines[-1] == "" or len(lines) == 1:
            lines = lines[:-1] if len(lines) > 1 else [*lines, "    pass"]
        return "\n".join(lines)

    def field(self, field: Schema, valid: tuple[int, int], message: str) -> str | None:
        """The line that declares a field; None when no valid version has it."""
        lives = versions(field.get("versions") or field["taggedVersions"])
        if max(lives[0], valid[0]) > min(lives[1], valid[1]):
            return None
        base = field["type"].removeprefix("[]")
        type_ = TYPES.get(base) or self.struct_name(message, base)
        if base in TYPES:
            self.used.add(type_)
        if base != field["type"]:
            self.used.add("Array")
            type_ = f"Array[{type_}]"
        nullable = versions(field["nullableVersions"]) if "nullableVersions" in field else (1, 0)
        extra = []
        if max(nullable[0], lives[0]) <= min(nullable[1], lives[1]):
            type_ += " | None"
            if nullable[0] > max(lives[0], valid[0]) or nullable[1] < min(lives[1], valid[1]):
                extra.append(f"nullable={nullable if nullable[1] != NEWEST else nullable[0]}")
        if "tag" in field:
            extra.append(f"tag={field['tag']}")
        until = f"until={lives[1]}" if lives[1] < valid[1] else ""
        partial = lives[0] > valid[0] or bool(until)
        if field.get("ignorable") and partial:
            extra.append("ignorable=True")
        default = self.default(field, base)
        name = snake(field["name"])
        if not partial and not extra:
            return f"{name}: {type_} = {default}"
        self.used.add("since")
        words = [str(lives[0]), f"default={default}", *([until] if until else []), *extra]
        return f"{name}: {type_} = since({', '.join(words)})"

    def default(self, field: Schema, base: str) -> str:
        """The default value as source."""
        given = field.get("default")
        # The word "null" is a default; a JSON null is none, and Kafka's own generator reads it so.
        if given == "null":
            return "None"
        if base != field["type"]:
            return "[]"
        if base == "string":
            return json.dumps(given or "")
        if base == "bool":
            return "True" if str(given).lower() == "true" else "False"
        if base == "float64":
            return repr(float(given or 0))
        if base == "records" and "nullableVersions" in field:
            return "None"
        if base in ("bytes", "records"):
            return 'b""'
        if base == "uuid":
            self.used.add("ZERO_UUID")
            return "ZERO_UUID"
        if base not in TYPES:
            self.used.add("BLANK")
            return "BLANK"
        return str(int(str(given or 0), 0))


def print_apis(schemas: dict[str, Schema]) -> str:
    """The table of APIs."""
    rows = []
    for module, family in FAMILIES.items():
        for api in family.apis:
            request = schemas[f"{api}Request"]
            first, last = versions(request["validVersions"])
            flexible = (
                versions(request["flexibleVersions"])[0] if request["flexibleVersions"] != "none" else 1 << 15
            )
            unstable = bool(request.get("latestVersionUnstable", False))
            rows.append((request["apiKey"], api, module, first, last, flexible, unstable))
    lines = "\n".join(f"    {row!r}," for row in sorted(rows)).replace("'", '"')
    return (
        '"""Every API of Apache Kafka 4.4.0, printed by tools/print_messages.py for `registry`.\n\n'
        "A row: key, name, family, first and last version, first flexible one, is the last unstable?\n"
        f'"""\n\n{FUTURE}\n\n__all__ = ["ROWS"]\n\n'
        f"ROWS: tuple[tuple[int, str, str, int, int, int, bool], ...] = (\n{lines}\n)\n"
    )


def main() -> None:
    """Write every family and the table."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    schemas = {path.stem: load(path) for path in sorted(source.rglob("*.json"))}
    for name, family in FAMILIES.items():
        (target / f"{name}.py").write_text(Printer(name, family, schemas).text())
    (target / "apis.py").write_text(print_apis(schemas))
    placed = {
        m
        for f in FAMILIES.values()
        for m in (*f.data, *(a + k for a in f.apis for k in ("Request", "Response")))
    }
    for name, schema in schemas.items():
        if name not in placed and schema["validVersions"] != "none":
            print(f"not placed: {name} ({schema['type']})")


if __name__ == "__main__":
    main()
