"""The commands of the metadata shell over a tree of directories and files: text in, lines out.

`MetadataShell(root).run(["ls", "/image"])` gives what Apache Kafka's MetadataShell prints for it.  No terminal
and no file is touched here; `metadata.py` reads lines from a person and prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from barnabas.cli.metadata.tree import Directory, Node

__all__ = ["COMMANDS", "Command", "MetadataShell", "Output"]


class Command(NamedTuple):
    """A command: its arguments, what it does, how many arguments it takes at least and at most."""

    arguments: str
    about: str
    fewest: int
    most: int | None


COMMANDS: dict[str, Command] = {
    "cat": Command("FILE...", "print files", 1, None),
    "cd": Command("[DIRECTORY]", "go to a directory (without one: to /)", 0, 1),
    "exit": Command("", "leave the shell", 0, 0),
    "find": Command("[PATH...]", "list everything below", 0, None),
    "help": Command("", "list the commands", 0, 0),
    "history": Command("[N]", "the last N commands, or all", 0, 1),
    "ls": Command("[PATH...]", "list directories and files", 0, None),
    "man": Command("COMMAND", "how a command is used", 1, 1),
    "pwd": Command("", "where you are", 0, 0),
    "tree": Command("PATH...", "print directories with all that is in their files", 1, None),
}


class Output(NamedTuple):
    """What a command printed; `found` is false where it named something that is not there or cannot be."""

    lines: list[str]
    found: bool = True


class _Place(NamedTuple):
    """A file or directory, and its absolute path in parts."""

    path: tuple[str, ...]
    node: Node

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else "/"


class MetadataShell:
    """Where a reader stands in the tree, and what has been asked.

    `width` is that of the terminal; None lists one name a line, as into a pipe.
    """

    def __init__(self, root: Directory, *, width: int | None = None) -> None:
        self.root = root
        self.width = width
        self.history: list[str] = []
        self.ended = False
        self._here: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<MetadataShell at {self.here} after {len(self.history)} commands>"

    @property
    def here(self) -> str:
        """The absolute path of the current directory."""
        return "/" + "/".join(self._here)

    def run(self, words: Sequence[str]) -> Output:
        """`run(["cat", "/image/provenance"])`: what one command prints.  No words: nothing."""
        if not words:
            return Output([])
        name, *arguments = words
        command = COMMANDS.get(name)
        if command is None:
            return Output([f"{name}: there is no such command; `help` lists them."], found=False)
        count = len(arguments)
        if count < command.fewest or (command.most is not None and count > command.most):
            return Output([f"usage: {_usage(name)}"], found=False)
        action: Callable[[list[str]], Output] = getattr(self, f"_{name}")
        return action(arguments)

    def document(self, words: Sequence[str]) -> dict[str, Node]:
        """The directories and files that `cat` or `tree` would print, by absolute path."""
        places = [place for word in words for place in self._places(word)]
        return {"/" + "/".join(place.path): place.node for place in places}

    def completions(self, word: str) -> list[str]:
        """Paths that begin with `word`; directories end with a slash."""
        folder, slash, start = word.rpartition("/")
        found = self._find_one(folder + slash or ".")
        if found is None or isinstance(found.node, str):
            return []
        return [
            folder + slash + name + ("" if isinstance(found.node[name], str) else "/")
            for name in sorted(found.node)
            if name.startswith(start)
        ]

    # Paths.

    def _places(self, path: str) -> list[_Place]:
        """What a path, perhaps with `*`, `?` and `{a,b}` in it, names; sorted."""
        start: tuple[str, ...] = () if path.startswith("/") else self._here
        places = [_Place(start, self._node(start))]
        for part in path.split("/"):
            if part in ("", "."):
                continue
            if part == "..":
                places = [_Place(p.path[:-1], self._node(p.path[:-1])) for p in places]
            else:
                places = [child for place in places for child in _children(place, part)]
        return places

    def _find_one(self, path: str) -> _Place | None:
        places = self._places(path)
        return places[0] if places else None

    def _node(self, path: tuple[str, ...]) -> Node:
        node: Node = self.root
        for part in path:
            assert isinstance(node, dict)
            node = node[part]
        return node

    # Commands, each under its name.

    def _pwd(self, _: list[str]) -> Output:
        return Output([self.here])

    def _exit(self, _: list[str]) -> Output:
        self.ended = True
        return Output([])

    def _help(self, _: list[str]) -> Output:
        width = max(len(_usage(name)) for name in COMMANDS)
        return Output([f"  {_usage(name):<{width}}  {command.about}" for name, command in COMMANDS.items()])

    def _man(self, words: list[str]) -> Output:
        command = COMMANDS.get(words[0])
        if command is None:
            return Output([f"man: there is no command {words[0]}; `help` lists them."], found=False)
        return Output([f"{words[0]}: {command.about}", "", f"usage: {_usage(words[0])}"])

    def _history(self, words: list[str]) -> Output:
        count = len(self.history)
        if words:
            if not words[0].isdecimal():
                return Output([f"history: {words[0]} is not a number of commands."], found=False)
            count = int(words[0])
        first = max(len(self.history) - count, 0)
        return Output([f"{n:>5}  {line}" for n, line in enumerate(self.history[first:], first)])

    def _cd(self, words: list[str]) -> Output:
        target = words[0] if words else "/"
        place = self._find_one(target)
        if place is None:
            return Output([f"cd: {target}: no such directory."], found=False)
        if isinstance(place.node, str):
            return Output([f"cd: {target}: not a directory."], found=False)
        self._here = place.path
        return Output([])

    def _cat(self, words: list[str]) -> Output:
        lines, found = [], True
        for word in words:
            places = self._places(word)
            if not places:
                lines.append(f"cat: {word}: No such file or directory.")
            for place in places:
                is_file = isinstance(place.node, str)
                lines.append(str(place.node) if is_file else f"cat: {word}: Is a directory")
                found = found and is_file
            found = found and bool(places)
        return Output(lines, found)

    def _tree(self, words: list[str]) -> Output:
        lines, found = [], True
        for word in words:
            places = self._places(word)
            if not places:
                lines.append(f"tree: {word}: No such file or directory.")
                found = False
            for place in places:
                lines += _tree(place.node, "")
        return Output(lines, found)

    def _find(self, words: list[str]) -> Output:
        lines, found = [], True
        for word in words or ["."]:
            places = self._places(word)
            if not places:
                lines.append(f"find: {word}: no such file or directory.")
                found = False
            for place in places:
                whole = len(places) == 1 and not _is_pattern(word)
                lines += _walk(word if whole else "/" + "/".join(place.path), place.node)
        return Output(lines, found)

    def _ls(self, words: list[str]) -> Output:
        errors: list[str] = []
        files: list[str] = []
        directories: list[tuple[str, list[str]]] = []
        for word in words or ["."]:
            places = self._places(word)
            if not places:
                errors.append(f"ls: {word}: no such file or directory.")
            for place in places:
                if isinstance(place.node, str):
                    files.append(place.name)
                else:
                    directories.append((place.name, sorted(place.node)))
        if files or len(directories) > 1:
            directories = [(name, children) for name, children in directories if children]
            headers = True
        else:
            headers = False
        blocks = [_columns(sorted(files), self.width)] if files else []
        for name, children in directories:
            blocks.append([*([f"{name}:"] if headers else []), *_columns(children, self.width)])
        lines = [*errors]
        for number, block in enumerate(blocks):
            lines += [*([""] if number else []), *block]
        return Output(lines, found=not errors)


def _usage(name: str) -> str:
    return f"{name} {COMMANDS[name].arguments}".rstrip()


def _children(place: _Place, part: str) -> list[_Place]:
    """The children of a directory that one part of a path names."""
    if isinstance(place.node, str):
        return []
    if part in place.node:
        return [_Place((*place.path, part), place.node[part])]
    if not _is_pattern(part):
        return []
    pattern = re.compile(_expression(part), re.DOTALL)
    return [
        _Place((*place.path, name), place.node[name])
        for name in sorted(place.node)
        if pattern.fullmatch(name)
    ]


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?{\\")


def _expression(part: str) -> str:
    """A regular expression for a part of a path: `*`, `?`, `{a,b}`; a backslash takes a letter as it is."""
    text, depth = "", 0
    letters: Iterator[str] = iter(part)
    for letter in letters:
        if letter == "\\":
            text += re.escape(next(letters, "\\"))
        elif letter == "{":
            text, depth = text + "(?:", depth + 1
        elif letter == "}" and depth:
            text, depth = text + ")", depth - 1
        elif letter == "," and depth:
            text += "|"
        else:
            text += {"*": ".*", "?": "."}.get(letter, re.escape(letter))
    return text if not depth else re.escape(part)


def _tree(node: Node, indent: str) -> list[str]:
    if isinstance(node, str):
        return [indent + node]
    lines: list[str] = []
    for name in sorted(node):
        lines += [f"{indent}{name}:", *_tree(node[name], indent + "  ")]
    return lines


def _walk(path: str, node: Node) -> list[str]:
    lines = [path]
    if isinstance(node, dict):
        for name in sorted(node):
            lines += _walk(f"{path.rstrip('/')}/{name}", node[name])
    return lines


def _columns(names: list[str], width: int | None) -> list[str]:
    """Names in as many columns as fit, down first and then to the right."""
    if width is None or not names:
        return names
    for rows in range(1, len(names) + 1):
        columns = [names[start : start + rows] for start in range(0, len(names), rows)]
        widths = [max(map(len, column)) + 2 for column in columns]
        if sum(widths) - 2 <= width or rows == len(names):
            break
    lines = []
    for row in range(rows):
        cells = [
            f"{column[row]:<{size}}"
            for column, size in zip(columns, widths, strict=True)
            if row < len(column)
        ]
        lines.append("".join(cells).rstrip())
    return lines
