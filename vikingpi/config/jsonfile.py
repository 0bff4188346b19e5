"""Read JSON files that people write, and say where they are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from vikingpi.decode import Json
from vikingpi.errors import ConfigError


def read_object(path: Path) -> Json | None:
    """Return the JSON object in `path`, None if there is no file.

    ConfigError names file, line and column of what is no JSON, or says why the file cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror or error}", hint="make the file readable or move it away"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})", hint="save the file as UTF-8") from error
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}:{error.lineno}:{error.colno}: {error.msg}", hint="correct the JSON there, or move the file away"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}:1:1: {error}", hint="correct the JSON, or move the file away") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}:1:1: the file must hold one JSON object", hint='begin it with "{"')
    return cast(Json, value)
