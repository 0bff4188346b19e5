"""Read JSON files that people write, say where they are wrong, and write them whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

from vikingpi.decode import Json
from vikingpi.errors import ConfigError
from vikingpi.private import private_dir, private_open


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


def write_object(path: Path, values: Json, *, private: bool = False) -> None:
    """Write a JSON object; a link stays one. A file that exists keeps its mode unless it is to be `private`.

    ConfigError if it cannot be written.
    """
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = (json.dumps(values, indent=2) + "\n").encode("ascii")
    place = Path(os.path.realpath(path))
    new = place.with_name(f"{place.name}.{os.getpid()}.new")
    try:
        private_dir(place.parent)
        new.unlink(missing_ok=True)
        with os.fdopen(private_open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if place.exists() and not private:
            new.chmod(place.stat().st_mode & 0o777)
        new.replace(place)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}", hint="make the folder writable") from error
