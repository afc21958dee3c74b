"""Complete nouns, verbs and flags with the Tab key.

barnabas completion bash >> ~/.bashrc
barnabas completion zsh >> ~/.zshrc
barnabas completion fish > ~/.config/fish/completions/barnabas.fish
"""

from __future__ import annotations

import argparse
from importlib import import_module

__all__ = ["add_arguments", "run", "words"]

_BASH = """\
_barnabas() {{
    local words
    words="$(barnabas completion words -- "${{COMP_WORDS[@]:1:COMP_CWORD-1}}" 2>/dev/null)"
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
    [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -F _barnabas barnabas
"""
_ZSH = "autoload -Uz bashcompinit && bashcompinit\n" + _BASH
_FISH = """\
complete -c barnabas -f -a '(barnabas completion words -- (commandline -opc)[2..-1] 2>/dev/null)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas completion`."""
    parser.add_argument("shell", choices=[*_SCRIPTS, "words"], help="the shell; words: what may come next")
    parser.add_argument("typed", nargs="*", metavar="WORD", help="for words: what is typed so far")


def run(args: argparse.Namespace) -> int:
    """`barnabas completion bash|zsh|fish`."""
    if args.shell == "words":
        print("\n".join(words(args.typed)))
    else:
        print(_SCRIPTS[args.shell].format(), end="")
    return 0


def words(typed: list[str]) -> list[str]:
    """`words(["topics"])` -> its verbs and flags; `words([])` -> the nouns."""
    from barnabas.cli.main import NOUNS, find_noun

    if not typed:
        return list(NOUNS)
    noun = find_noun(typed[0])
    if noun is None:
        return []
    parser = argparse.ArgumentParser(add_help=True)
    import_module(NOUNS[noun][0]).add_arguments(parser)
    for word in [*typed[1:], ""]:
        verbs = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
        if verbs is None or word not in verbs.choices:
            continue
        parser = verbs.choices[word]
    verbs = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
    found = [] if verbs is None else list(verbs.choices)
    return [*found, *sorted(flag for flag in parser._option_string_actions if flag.startswith("--"))]
