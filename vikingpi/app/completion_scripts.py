"""Completion scripts for bash, zsh and fish, filled with the options and subcommands of the program."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from vikingpi.app.arguments import Subcommand
from vikingpi.values import NamedTuple

Takes = Literal["nothing", "words", "models", "providers", "sessions", "files", "folders", "list", "text"]
ASKED = ("models", "providers", "sessions")


class Completed(NamedTuple):
    """An option with its names, and what its value is: one of `words`, a `list` of them with commas, or of a kind."""

    names: tuple[str, ...]
    help: str
    takes: Takes = "nothing"
    words: tuple[str, ...] = ()
    repeats: bool = False


Subcommands = Mapping[str, Subcommand]

_BASH = """\
# bash completion for vpi, made by `vpi completion bash`

_vpi_offer() {
    local word
    while IFS= read -r word; do
        if [[ $word == "$1"* || ( -n $1 && ${word##*/} == "$1"* ) ]]; then COMPREPLY+=("$word"); fi
    done
}

_vpi() {
    local vpi=$1 line=${COMP_LINE:0:COMP_POINT} cur prev= head at
    local -a before
    cur=${line##*[[:blank:]]}
    IFS=$' \\t' read -ra before <<< "${line%"$cur"}"
    local count=${#before[@]}
    if ((count > 1)); then prev=${before[count-1]}; fi
    COMPREPLY=()
    case $cur in
        --*=*) prev=${cur%%=*} cur=${cur#*=} ;;
        @*)
            while IFS= read -r head; do
                if [[ -d $head ]]; then head+=/; compopt -o nospace 2>/dev/null; fi
                COMPREPLY+=("@$head")
            done < <(compgen -f -- "${cur#@}")
            return
            ;;
    esac
    head=${cur%"${cur##*,}"}
    case $prev in
@VALUES@
    esac
    if ((count == 2)); then
        case ${before[1]} in
@WORDS@
        esac
    fi
    if ((${#COMPREPLY[@]} == 0)) && [[ $cur == -* ]]; then
        _vpi_offer "$cur" <<< @OPTIONS@
    elif ((${#COMPREPLY[@]} == 0 && count == 1)); then
        _vpi_offer "$cur" <<< @SUBCOMMANDS@
    fi
    # Bash replaces only what follows the last colon.
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        head=${cur%"${cur##*:}"}
        for at in "${!COMPREPLY[@]}"; do COMPREPLY[at]=${COMPREPLY[at]#"$head"}; done
    fi
}

complete -o default -F _vpi vpi
"""
_ZSH = """\
#compdef vpi
# zsh completion for vpi, made by `vpi completion zsh`

_vpi_values() {
    local line
    local -a found
    for line in ${(f)"$(${(Q)words[1]} completion $1 2>/dev/null)"}; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    _describe -V -t $1 $1 found
}

_vpi_words() {
    if [[ $PREFIX == @* ]]; then compset -P '@'; fi
    _files
}

_vpi_first() {
    local -a found
    found=(
@SUBCOMMANDS@
    )
    if [[ $PREFIX == @* ]]; then _vpi_words; else _describe -t commands subcommand found || _files; fi
}

_vpi() {
    if ((CURRENT == 3)); then
        case $words[2] in
@WORDS@
        esac
    fi
    _arguments -S \\
@OPTIONS@
        '1:word:_vpi_first' \\
        '*:word:_vpi_words'
}

if [[ $funcstack[1] == _vpi ]]; then _vpi "$@"; else compdef _vpi vpi; fi
"""
_FISH = """\
# fish completion for vpi, made by `vpi completion fish`

function __vpi_values
    set -l words (commandline -opc)
    command $words[1] completion $argv[1] 2>/dev/null
end

function __vpi_first
    test (count (commandline -opc)) -eq 1
end

function __vpi_after
    set -l words (commandline -opc)
    test (count $words) -eq 2; and test $words[2] = $argv[1]
end

function __vpi_files
    for path in (__fish_complete_path (string sub -s 2 -- (commandline -ct)))
        echo "@$path"
    end
end

complete -c vpi -n 'string match -q -- "@*" (commandline -ct)' -f -a '(__vpi_files)'
@LINES@
"""


def bash(options: Sequence[Completed], subcommands: Subcommands) -> str:
    """Write the script for bash 3.2 and newer. File names come from bash itself, as for any other word."""

    def values() -> Iterator[str]:
        for option in options:
            source = {
                "words": f"<<< {_lines(option.words)}",
                "list": f'< <(printf "$head%s\\n" {" ".join(option.words)})',
                "folders": '< <(compgen -d -- "$cur")',
                **{kind: f'< <("$vpi" completion {kind} 2>/dev/null | cut -f1)' for kind in ASKED},
            }.get(option.takes)
            if source is not None:
                yield f'        {"|".join(option.names)}) _vpi_offer "$cur" {source} ;;'

    parts = {
        "VALUES": values(),
        "WORDS": (
            f'            {name}) _vpi_offer "$cur" <<< {_lines(words)} ;;' for name, words in _followed(subcommands)
        ),
        "OPTIONS": [_lines([name for option in options for name in option.names if name.startswith("--")])],
        "SUBCOMMANDS": [_lines(subcommands)],
    }
    return _filled(_BASH, parts)


def zsh(options: Sequence[Completed], subcommands: Subcommands) -> str:
    """Write the script for zsh 5."""

    def specs() -> Iterator[str]:
        for option in options:
            help = option.help.replace("[", "\\[").replace("]", "\\]")
            action = {
                "nothing": "",
                "words": f":value:({' '.join(option.words)})",
                "list": f":value:_values -s , value {' '.join(option.words)}",
                "files": ":file:_files",
                "folders": ":folder:_files -/",
                "text": ":text: ",
                **{kind: f":{kind}: _vpi_values {kind}" for kind in ASKED},
            }[option.takes]
            others = f"({' '.join(option.names)})" if not option.repeats else "*"
            for name in option.names:
                sign = "=" if action and name.startswith("--") else ""
                yield f"        {shlex.quote(f'{others}{name}{sign}[{help}]{action}')} \\"

    parts = {
        "OPTIONS": specs(),
        "WORDS": (
            f"            {name}) compadd -- {' '.join(words)}; return ;;" for name, words in _followed(subcommands)
        ),
        "SUBCOMMANDS": (f"        {shlex.quote(f'{name}:{one.about}')}" for name, one in subcommands.items()),
    }
    return _filled(_ZSH, parts)


def fish(options: Sequence[Completed], subcommands: Subcommands) -> str:
    """Write the script for fish 3."""

    def lines() -> Iterator[str]:
        for name, one in subcommands.items():
            yield f"complete -c vpi -n __vpi_first -a {name} -d {_fish_quoted(one.about)}"
        for name, words in _followed(subcommands):
            yield f"complete -c vpi -n '__vpi_after {name}' -f -a {_fish_quoted(' '.join(words))}"
        for option in options:
            given = " ".join(option.words)
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = {
                "nothing": "",
                "words": f" -x -a {_fish_quoted(given)}",
                "list": f" -x -a '(__fish_append , {given})'",
                "files": " -r -F",
                "folders": " -x -a '(__fish_complete_directories)'",
                "text": " -x",
                **{kind: f" -x -k -a '(__vpi_values {kind})'" for kind in ASKED},
            }[option.takes]
            yield f"complete -c vpi {names}{value} -d {_fish_quoted(option.help)}"

    return _filled(_FISH, {"LINES": lines()})


SCRIPTS: dict[str, Callable[[Sequence[Completed], Subcommands], str]] = {"bash": bash, "fish": fish, "zsh": zsh}


def _followed(subcommands: Subcommands) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, one.words) for name, one in subcommands.items() if one.words]


def _filled(script: str, parts: Mapping[str, Iterable[str]]) -> str:
    for name, lines in parts.items():
        script = script.replace(f"@{name}@", "\n".join(lines))
    return script


def _lines(words: Iterable[str]) -> str:
    return shlex.quote("\n".join(words))


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
