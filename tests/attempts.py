"""Attempts to get a planted secret out of the session: what is told to vpi, and the traces a secret would leave."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

from vpi_lab import MODEL_KEY, Lab

MIXED = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
SERVICE = "zq81plainvalue77without00shape"
HALVED = "Qw7Er5Ty3Ui1Op9As8Df6Gh4Jk2Lz0Xc1Vb3"
SERVER_KEY = "ov-user-5577aa0311ccee"
PEM_BODY = "MIIEpAIBAAKCAQEA7bq2x0Yk3sQ8vJv0Zs8d2l4Fh6T1uWcX"
PEM = "\n".join(
    ["-----BEGIN RSA PRIVATE KEY-----", *(f"{PEM_BODY[:-2]}{n:02}" for n in range(8)), "-----END RSA PRIVATE KEY-----"]
)


class Attempt(NamedTuple):
    """A line for the model to obey, the file it needs and what must not get out."""

    line: str
    secret: str
    file: tuple[str, str] = ("", "")


def say(text: str) -> str:
    return f"RUN: printf '%s\\n' '{text}' >/dev/null"


def call(tool: str, **arguments: object) -> str:
    return f"CALL: {tool} {json.dumps(arguments)}"


ATTEMPTS = {
    "in the prompt": Attempt("my key is sk-proj-inPromptAb3dEf5hIj7lMn9p", "inPromptAb3dEf5"),
    "in a command": Attempt("RUN: curl -s -u admin:cmdS3cr3tpw http://127.0.0.1:9/ || true", "cmdS3cr3tpw"),
    "in a header of a command": Attempt(say("Authorization: Bearer hdr0123456789abcdef"), "hdr0123456789"),
    "in output": Attempt("RUN: cat a1", f"ghp_o{MIXED}", ("a1", f"token: ghp_o{MIXED}\n")),
    "in output of a command that fails": Attempt(
        "RUN: cat a2 >&2; exit 3", "errS3cr3t99", ("a2", "API_TOKEN=errS3cr3t99\n")
    ),
    "an environment variable by name": Attempt("RUN: env | sort", SERVICE),
    "an environment variable by value": Attempt("RUN: printenv MY_SERVICE_TOKEN", SERVICE),
    "an environment variable as base64": Attempt(
        "RUN: printenv MY_SERVICE_TOKEN | base64", base64.b64encode(SERVICE.encode()).decode()[:30]
    ),
    "the key of the server": Attempt("RUN: echo x$OPENVIKING_API_KEY", SERVER_KEY),
    "the key of the model in its file": Attempt('RUN: cat "$VPI_HOME/models.json"', MODEL_KEY),
    "the key of the model alone": Attempt('RUN: grep -o \'model-key[^"]*\' "$VPI_HOME/models.json"', MODEL_KEY),
    "the key inside of base64": Attempt(
        'RUN: cat "$VPI_HOME/models.json" | base64 -w0', base64.b64encode(b"\0" + MODEL_KEY.encode()).decode()[4:-6]
    ),
    "the key as in a URL": Attempt("RUN: cat a3", "my%2Fkey%2Bwith%3Dsigns", ("a3", "q=my%2Fkey%2Bwith%3Dsigns\n")),
    "an .env file": Attempt("RUN: cat .env", "dotenvS3cret", (".env", "STRIPE_SECRET=dotenvS3cret\nDEBUG=1\n")),
    "a private key": Attempt("RUN: cat id_rsa", PEM_BODY[:40], ("id_rsa", PEM + "\n")),
    "the beginning of a private key": Attempt("RUN: head -4 id_rsa", PEM_BODY[:40]),
    "the end of a private key": Attempt("RUN: tail -4 id_rsa", PEM_BODY[:40]),
    "a private key on one line": Attempt(
        "RUN: cat a4", "bq2x0Yk3sQ8vJv0Zs8d2", ("a4", json.dumps({"private_key": PEM}) + "\n")
    ),
    "a file that is written": Attempt(call("write", path="b1", content="DB_PASSWORD=wr1tt3n\n"), "wr1tt3n"),
    "a file that is edited": Attempt(
        call("edit", path="b1", edits=[{"oldText": "DB_PASSWORD=wr1tt3n", "newText": "DB_PASSWORD=3dit3dPw"}]),
        "3dit3dPw",
        ("b1", ""),
    ),
    "a file that is read": Attempt(
        call("read", path="a5"), "nest3dPw", ("a5", json.dumps({"db": {"password": "nest3dPw"}}, indent=1))
    ),
    "JSON inside of JSON": Attempt(
        "RUN: cat a6", "escap3dPw", ("a6", json.dumps({"body": json.dumps({"client_secret": "escap3dPw"})}))
    ),
    "an argument under a telling name": Attempt(call("read", path="a5", password="argum3ntPw"), "argum3ntPw"),
    "a name of an argument": Attempt(call("read", path="a5", **{f"ghp_n{MIXED}": 1}), f"ghp_n{MIXED}"),
    "a URL of a remote": Attempt(
        "RUN: cat a7", "r3m0tePw", ("a7", "origin\thttps://me:r3m0tePw@git.test/a.git (fetch)\n")
    ),
    "a file's name": Attempt(f"RUN: touch glpat-{MIXED[:20]} && ls", MIXED[:20]),
    "colours inside": Attempt(
        "RUN: cat a8 && true", "c0lour5678901234", ("a8", "sk-ant-api03-c0lour\x1b[31m5678901234567\x1b[0m89abcd\n")
    ),
    "invisible characters inside": Attempt(
        call("read", path="a9"), "inv1s\u200bible", ("a9", "sk-ant-api03-inv1s\u200bible5678901234567\n")
    ),
    "far behind the limit": Attempt(
        "RUN: cat c1", "t00farawayPw", ("c1", ("word " * 9 + "\n") * 900 + "password = 't00farawayPw'\n")
    ),
    "across the limit": Attempt("RUN: cat c2", MIXED[:24], ("c2", "w" * 988 + f" ghp_{MIXED}{MIXED} " + "tail " * 100)),
    "across the beginning of what is shown of a long line": Attempt(
        "RUN: cat d1", HALVED[16:], ("d1", f"{'w ' * 100}token ghp_{HALVED}{' w' * 25590}")
    ),
    "a header across the beginning": Attempt(
        "RUN: cat d2", "behindTheCut12", ("d2", f"{'w ' * 100}Authorization: Bearer behindTheCut12{' w' * 25590}")
    ),
    "a private key as grep shows it": Attempt("RUN: grep -n . id_rsa /dev/null", PEM_BODY[:40]),
    "the middle of a private key in quotes": Attempt("RUN: sed 's/^/> /' id_rsa | head -5", PEM_BODY[:40]),
    "a piece of a key": Attempt("RUN: printenv MY_SERVICE_TOKEN | cut -c 3-22", SERVICE[2:22]),
    "a key broken over lines": Attempt("RUN: printenv MY_SERVICE_TOKEN | fold -w 11", SERVICE[:11]),
    "a key broken over lines of base64": Attempt(
        "RUN: printenv MY_SERVICE_TOKEN | base64 -w 20", base64.b64encode(SERVICE.encode()).decode()[:20]
    ),
    "the first half of a key": Attempt("RUN: head -c 24 a1", f"ghp_o{MIXED[:10]}"),
    "behind a line end in JSON": Attempt(
        "RUN: cat d3", f"ghp_j{MIXED}", ("d3", json.dumps({"text": f"a\nghp_j{MIXED}"}))
    ),
    "the environment of the process": Attempt("RUN: cat /proc/self/environ", SERVICE),
    "a variable without a long value": Attempt(
        "RUN: PGPASSWORD=sh0rtPw cat /proc/self/environ | tr '\\0' ' '", "sh0rtPw"
    ),
    "what a shell declares": Attempt("RUN: export DB_PASSWORD=d3claredPw; export -p", "d3claredPw"),
    "what a shell traces": Attempt("RUN: set -x; true --api-key tr4cedVal99", "tr4cedVal99"),
    "a remote that git names": Attempt(
        "RUN: git init -q g && git -C g remote add o https://x:g1tremotePw@git.test/a && git -C g remote -v",
        "g1tremotePw",
    ),
    "the text for an image": Attempt(say(f"![token ghp_i{MIXED}](a.png)"), f"ghp_i{MIXED}"),
    "in an image": Attempt(call("read", path="e1.png"), "ex1fC0mment99", ("e1.png", "")),
    "in the path of a file": Attempt(call("read", path=f"/tmp/ghp_p{MIXED}/x"), f"ghp_p{MIXED}"),
    "in an argument that no tool has": Attempt(call("nosuchtool", deep=[{"token": "n0suchT00l"}]), "n0suchT00l"),
    "logins of docker": Attempt(
        "RUN: cat e2",
        base64.b64encode(b"joe:d0ckerPw").decode()[4:],
        ("e2", json.dumps({"auths": {"a.test": {"auth": base64.b64encode(b"joe:d0ckerPw").decode()}}})),
    ),
    "an argument of mysql": Attempt("RUN: echo mysql -u root -pmysqlS3cret shop", "mysqlS3cret"),
    "a password on a pipe": Attempt("RUN: true; echo 'p1pedPw9' | sudo -S true", "p1pedPw9"),
    "a sentence": Attempt("my password is s3ntencePw1", "s3ntencePw1"),
    "a table": Attempt("RUN: cat e3", "t4bledPw12", ("e3", "| DB_PASSWORD | t4bledPw12 |\n")),
    "a rule of the user's own": Attempt("RUN: cat c3", "ACME-778899", ("c3", "badge ACME-778899\n")),
    "a cookie": Attempt("RUN: cat c4", "c00kie0123456789", ("c4", "Cookie: a=1; sid=c00kie0123456789\n")),
    "a signed URL": Attempt(
        "RUN: cat c5", "s1gnature0123456789", ("c5", "https://b.test/f?sig=s1gnature0123456789%3D&x=1\n")
    ),
    "a list of names and values": Attempt(
        "RUN: cat c6", "k8sS3cret", ("c6", "env:\n- name: DB_PASSWORD\n  value: k8sS3cret\n")
    ),
    "a netrc": Attempt("RUN: cat c7", "n3trcPw", ("c7", "machine a.test login joe password n3trcPw\n")),
    "a hash of a password": Attempt(
        "RUN: cat c8", "Zk3dPq9sLm2nVb7x", ("c8", "root:$6$saltsalt$Zk3dPq9sLm2nVb7xZk3dPq9sLm2nVb7x:1::\n")
    ),
}

LOOK_ALIKES = {
    "a commit": "3f2a9c1be04d5876a1b2c3d4e5f60718293a4b5c",
    "a UUID": "01a22c67-1fc6-700f-adf9-0442da382106",
    "a setting": "max_tokens: 4096, token_threshold = 30000",
    "code": "api_key = os.environ['API_KEY']",
}


def tell(runs: Lab, url: str) -> None:
    """Make all attempts in one session: told while the server is away, delivered, archived and put into an overview."""
    runs.config(captureMaxLength=1000, captureToolMaxChars=1000, redact={"rules": [r"ACME-\d+"]})
    runs.env.update(MY_SERVICE_TOKEN=SERVICE, OPENVIKING_API_KEY=SERVER_KEY, OTHER_API_KEY="my/key+with=signs")
    runs.env["OV_DEBUG_LOG"] = str(runs.home / "debug.log")
    for name, content in (each.file for each in ATTEMPTS.values() if each.file[0]):
        (runs.work / name).write_text(content)
    (runs.work / "e1.png").write_bytes(image_with("Comment", ATTEMPTS["in an image"].secret))
    lines = [*(each.line for each in ATTEMPTS.values()), *(say(text) for text in LOOK_ALIKES.values())]
    away = runs.run("-p", "\n".join(lines), OPENVIKING_URL="http://127.0.0.1:9")
    assert away.returncode == 0, away.stderr
    for text in ("codename is ALPHA", "port is P7071"):
        done = runs.run("-p", "-c", text, OPENVIKING_URL=url)
        assert done.returncode == 0, done.stderr


def image_with(keyword: str, text: str) -> bytes:
    """A PNG image of one pixel with a text in its metadata."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    body = chunk(b"tEXt", f"{keyword}\0{text}".encode()) + chunk(b"IDAT", zlib.compress(b"\0\0"))
    return b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b"")


def traces(secret: str) -> Iterator[bytes]:
    """Give what a secret can be found by: itself, its pieces of 12 characters, escaped, and inside of base64."""
    pieces = {secret[at : at + 12] for at in range(0, max(1, len(secret) - 11), 4)}
    for text in (secret, *sorted(pieces)):
        for form in (text, json.dumps(text)[1:-1], quote(text, safe="")):
            yield form.encode()
    for before in range(3):
        yield base64.b64encode(b"\0" * before + secret.encode())[(0, 2, 3)[before] : -4]
