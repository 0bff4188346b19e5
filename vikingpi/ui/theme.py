"""Colours: the terminal's own sixteen, so that they suit a dark and a light background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from vikingpi.safetext import literal
from vikingpi.values import NamedTuple

Depth = Literal["none", "16", "256", "true"]


class Glyphs(NamedTuple):
    """Signs beyond letters; `marks` are for yes, no and not yet."""

    rule: str
    spinner: str
    marks: tuple[str, str, str]
    tokens: tuple[str, str]


UNICODE = Glyphs("─", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", ("✓", "✗", "…"), ("↑", "↓"))
ASCII = Glyphs("-", "|/-\\", ("ok", "down", "..."), ("in ", "out "))

_CODES = {
    "plain": "",
    "dim": "2",
    "bold": "1",
    "user": "1;36",
    "tool": "1",
    "info": "2",
    "warning": "33",
    "error": "31",
    "added": "32",
    "removed": "31",
    "fence": "2",
    "shell": "1;35",
    "thought": "2;3",
}
_FEW_GLYPHS = {"linux", "vt100", "vt102", "vt220", "cons25"}
_ON_LIGHT = {"user": "1;34"}
_WITHOUT_COLOUR = {"user": "1", "shell": "1", "warning": "1", "error": "1", "added": "", "removed": ""}

BAR_STYLES = {
    "rule": "ansibrightblack",
    "status": "ansibrightblack",
    "status.warning": "ansiyellow noreverse",
    "status.error": "ansired noreverse",
    "menu": "fg:default bg:default",  # the library has a grey one
    "menu.selected": "bold",
    "menu.about": "ansibrightblack",
    "queued": "ansibrightblack",
    "shell": "ansimagenta bold",
}


class Theme(NamedTuple):
    """`code` names the theme for highlighted code; `depth` is what the terminal can show."""

    depth: Depth
    code: str
    glyphs: Glyphs = UNICODE

    @property
    def light(self) -> bool:
        """Whether the background is light."""
        return self.code == "ansi_light"

    def paint(self, text: str, style: str) -> str:
        """Wrap one line in the codes of a style, which are its only control sequences."""
        text, codes = literal(text), _CODES[style]
        if self.depth == "none":
            codes = _WITHOUT_COLOUR.get(style, codes)
        elif self.light:
            codes = _ON_LIGHT.get(style, codes)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def choose_theme(setting: str, env: Mapping[str, str], coding: str = "utf-8") -> Theme:
    """Choose by the setting (auto, dark, light), what the environment says of the terminal, and its coding."""
    plain = env.get("TERM", "") in _FEW_GLYPHS or not coding.lower().replace("-", "").startswith("utf")
    code = "ansi_light" if _is_light(setting, env) else "ansi_dark"
    return Theme(_depth(env), code, ASCII if plain else UNICODE)


def _depth(env: Mapping[str, str]) -> Depth:
    if env.get("NO_COLOR"):
        return "none"
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "true"
    return "256" if "256" in env.get("TERM", "") else "16"


def _is_light(setting: str, env: Mapping[str, str]) -> bool:
    if setting in ("dark", "light"):
        return setting == "light"
    background = env.get("COLORFGBG", "").rpartition(";")[2]
    return background in ("7", "15")
