"""What secrets look like: shapes as data, and the blocks of private keys. Nothing is compiled before it is needed."""

from __future__ import annotations

import functools
import re

from vikingpi.values import NamedTuple

_regex = functools.cache(re.compile)


class Shape(NamedTuple):
    """`hints`: one of them (lower case) is in every text that can match; `group` is the part that is secret.

    `escaped` finds it behind an escape sequence, as its group 1. `check` names what a value must be, the kind's own
    rule where it is "".
    """

    kind: str
    hints: tuple[str, ...]
    pattern: str
    group: int
    escaped: str = ""
    check: str = ""


@functools.cache
def shapes() -> tuple[Shape, ...]:
    """Return all shapes in the order in which they are to be tried."""
    tokens = (
        Shape(
            kind,
            tuple(hints.split()),
            rf"(?<![A-Za-z0-9])(?:{token})(?![A-Za-z0-9])",
            0,
            rf"{_ESCAPE}({token})(?![A-Za-z0-9])",
        )
        for kind, hints, token in _TOKENS
    )
    places = (Shape(kind, tuple(hints.split()), pattern, group) for kind, hints, pattern, group in _PLACES)
    words = (Shape("password", hints, pattern, 1, check=check) for hints, check, pattern in _WORDS)
    return (*tokens, *places, *words)


@functools.cache
def shape_hints() -> tuple[str, ...]:
    """Return each hint once: most texts have none, and looking for them is all that those take."""
    return tuple(dict.fromkeys(hint for shape in shapes() for hint in shape.hints))


def whole_blocks(text: str) -> list[tuple[int, int]]:
    """Give where the blocks are whose beginning is there."""
    spans: list[tuple[int, int]] = []
    at = 0
    while begin := _regex(_BEGIN).search(text, at):
        at = _end_of(text, begin.end())
        spans.append((begin.start(), at))
    return spans


def cut_blocks(text: str) -> list[tuple[int, int]]:
    """Give where the ends of blocks are, with their last lines, whose beginning is not there."""
    spans: list[tuple[int, int]] = []
    at = 0
    while end := _regex(_END).search(text, at):
        start = _start_of(text, max(at, end.start() - _MOST), end.start())
        if start is not None:
            spans.append((start, end.end()))
        at = end.end()
    return spans


def _end_of(text: str, at: int) -> int:
    again = _regex(_BEGIN).search(text, at, at + _MOST)
    end = _regex(_END).search(text, at, again.start() if again is not None else at + _MOST)
    if end is not None:
        return end.end()
    body = _regex(_BODY).match(text, at)
    stop = body.end() if body is not None else at
    while stop - at < _MOST and stop < len(text) and (line := _regex(_PREFIXED).match(text, stop)):
        stop = line.end()
    return stop


def _start_of(text: str, low: int, high: int) -> int | None:
    """Find where the lines of base64 that end at `high` begin; the last two may be shorter."""
    start: int | None = None
    for index, line in enumerate(reversed(list(_regex(_LINE).finditer(text, low, high)))):
        at: int | None = None
        for word in reversed(list(_regex(_WORD).finditer(text, *line.span()))):
            if _regex(_KEY_TEXT).fullmatch(word.group()) is None:
                break
            at = word.start()
        if at is None and index > 1 and line.group().strip():
            break
        start = at if at is not None else start
    return start


# Names that mean a secret, without what stands before them.
NAMES = (
    r"pass(?:word|wd|phrase|code)?|pwd|(?<![A-Za-z])pw|passwort|secret|token|api[_-]?key|app[_-]?key|access[_-]?key|auth[_-]?key"
    r"|(?:private|account|shared|master|signing|encryption|service|license|subscription|client)[_-]?key(?:[_-]data)?"
    r"|credentials?|kennwort|contrase(?:\u00f1|n)a|mot[ _-]?de[ _-]?passe|senha|wachtwoord|l\u00f6senord|has\u0142o"
    r"|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6[\u7801\u78bc]|\u53e3\u4ee4|\u30d1\u30b9\u30ef\u30fc\u30c9|\ube44\ubc00\ubc88\ud638"
)
# What all of these begin with, and one of which is in each, in lower case.
BEGINNINGS = (
    r"p(?:ass|wd|w)|secret|token|(?:api|app|access|auth|private|account|shared|master|signing|encryption|service|license"
    r"|subscription|client)[_-]?key|credential|kennwort|contrase|mot[ _-]?de|senha|wachtwoord|l\u00f6sen|has\u0142o"
    r"|\u043f\u0430\u0440\u043e|\u5bc6|\u53e3\u4ee4|\u30d1\u30b9|\ube44\ubc00"
)
HINTS = (
    *("pass", "pwd", "pw", "secret", "token", "key", "credential", "kennwort", "contrase", "senha", "wachtwoord"),
    *(
        "l\u00f6sen",
        "has\u0142o",
        "\u043f\u0430\u0440\u043e\u043b\u044c",
        "\u5bc6",
        "\u53e3\u4ee4",
        "\u30d1\u30b9\u30ef",
        "\ube44\ubc00\ubc88",
    ),
)
SUFFIX = (
    r"(?:[_-]?(?:key|token|value|base|string|access[_-]?key|prod|production|dev|test|staging|live|[0-9]{1,3})){0,3}"
)
NAMED = rf"(?:{NAMES}){SUFFIX}(?![A-Za-z0-9])"

# What an escape sequence ends with is no part of a word: \n, \x3d, \u003d, %3D.
_ESCAPE = r"(?:\\(?:[nrtbfv0]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2})"

# Kind, hints, and the token itself.
_TOKENS = (
    ("anthropic", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    ("openrouter", "sk-or-", r"sk-or-(?:v1-)?[A-Za-z0-9_-]{16,}"),
    ("openai", "sk-", r"sk-(?:proj|svcacct|admin|None|service|lf|kimi|litellm)-[A-Za-z0-9_-]{16,}"),
    ("openai", "sk-", r"sk-(?=[A-Za-z]{0,48}[0-9])[A-Za-z0-9]{20,}"),
    ("google", "aiza", r"AIza[A-Za-z0-9_-]{30,}"),
    ("google", "ya29. gocspx- 1//0", r"ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}"),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    ("github", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    (
        "gitlab",
        "glpat- glptt- gldt- glrt- glcbt- glsoat- glagent- gloas- glft- glimt- glffct-",
        r"gl(?:pat|ptt|dt|rt|cbt|soat|agent|oas|ft|imt|ffct)-[A-Za-z0-9_.-]{16,}",
    ),
    ("slack", "xox xapp-", r"xox[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{16,}"),
    ("discord", "discord bot", r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"),
    ("huggingface", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    ("aws", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{30,}"),
    ("pypi", "pypi-age", r"pypi-AgE[A-Za-z0-9_-]{16,}"),
    ("stripe", "k_live_ k_test_ whsec_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{20,}={0,2}"),
    ("sendgrid", "sg.", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("twilio", "sk", r"SK[0-9a-f]{32}"),
    ("mailgun", "key-", r"key-[0-9a-f]{32}"),
    ("mailchimp", "-us", r"[0-9a-f]{32}-us[0-9]{1,2}"),
    ("digitalocean", "_v1_", r"do[opr]_v1_[a-f0-9]{32,}"),
    ("shopify", "shp", r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    ("square", "sq0", r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}"),
    ("telegram", ":aa", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,35}"),
    ("azure", "8q~", r"[A-Za-z0-9_.~-]{3}8Q~[A-Za-z0-9_.~-]{31,34}"),
    ("databricks", "dapi", r"dapi[a-f0-9]{32}(?:-[0-9])?"),
    ("grafana", "glsa_ glc_", r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,}={0,2}"),
    ("linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    ("notion", "ntn_ secret_", r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}"),
    ("newrelic", "nra", r"NRA[KAL]-[A-Z0-9]{20,}"),
    ("vault", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),
    ("doppler", "dp.", r"dp\.(?:pt|st|sa|ct|scim|audit)\.[A-Za-z0-9_.-]{20,}"),
    ("terraform", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}"),
    ("pulumi", "pul-", r"pul-[a-f0-9]{40}"),
    ("age", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("groq", "gsk_", r"gsk_[A-Za-z0-9]{20,}"),
    ("xai", "xai-", r"xai-[A-Za-z0-9]{20,}"),
    ("replicate", "r8_", r"r8_[A-Za-z0-9]{30,}"),
    ("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{20,}"),
    ("nvidia", "nvapi-", r"nvapi-[A-Za-z0-9_-]{20,}"),
    ("tavily", "tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}"),
    ("together", "tgp_v1_", r"tgp_v1_[A-Za-z0-9_-]{20,}"),
    ("jina", "jina_", r"jina_[A-Za-z0-9]{40,}"),
    ("planetscale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}"),
    ("supabase", "sbp_ sb_secret_", r"sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,}"),
    ("docker", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    ("atlassian", "atatt3 atctt3", r"AT[AC]TT3[A-Za-z0-9_=-]{50,}"),
    ("figma", "figd_", r"figd_[A-Za-z0-9_-]{20,}"),
    ("postman", "pmak-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    ("sentry", "sntry", r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    ("fly", "fm2_ fo1_", r"fm2_[A-Za-z0-9+/=_-]{40,}|fo1_[A-Za-z0-9_-]{40,}"),
    ("langsmith", "lsv2_", r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}"),
    ("tailscale", "tskey-", r"tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9-]{16,}"),
    ("posthog", "phx_", r"phx_[A-Za-z0-9]{20,}"),
    ("cerebras", "csk-", r"csk-(?=[a-z]{0,48}[0-9])[a-z0-9]{24,}"),
    ("firecrawl", "fc-", r"fc-[a-f0-9]{32}"),
    ("resend", "re_", r"re_(?=[A-Za-z_]{0,40}[0-9])(?=[a-z0-9_]{0,40}[A-Z])[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,}"),
    ("onepassword", "ops_", r"ops_(?=[A-Za-z_-]{0,40}[0-9])(?=[a-z0-9_-]{0,40}[A-Z])[A-Za-z0-9+/_-]{40,}={0,2}"),
    ("wallet", "prv", r"[xyzt]prv[1-9A-HJ-NP-Za-km-z]{100,112}"),
    ("nostr", "nsec1", r"nsec1[02-9ac-hj-np-z]{58}"),
    ("jwt", "eyj", r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}"),
    # The beginning of one that was cut off.
    (
        "part",
        "sk- aiza gh github_pat_ gl xox hf_ akia asia npm_ pypi-age k_live_ k_test_ whsec_ dop_v1_ shp hvs. gsk_ xai-"
        " pplx- nvapi- dckr_ atatt3 figd_ eyj",
        r"(?:sk-(?:ant|or|proj|svcacct|admin)-|AIza|gh[pousr]_|github_pat_|gl(?:pat|rt|dt|ptt|soat)-|xox[abcdeoprs]-|hf_"
        r"|A[KS]IA|npm_|pypi-AgE|[sr]k_(?:live|test)_|whsec_|dop_v1_|shp(?:at|ca|pa|ss)_|hvs\.|gsk_|xai-|pplx-|nvapi-"
        r"|dckr_(?:pat|oat)_|AT[AC]TT3|figd_|eyJ[A-Za-z0-9_-]{8,2000}\.)"
        r"(?=[A-Za-z]{0,7}[0-9])(?=[0-9]{0,7}[A-Za-z])[A-Za-z0-9_-]{8,}",
    ),
)

# Kind, hints, pattern, and the group that is secret.
_PLACES = (
    ("telegram", "/bot", r"/bot([0-9]{6,12}:[A-Za-z0-9_-]{30,64})", 1),
    (
        "aws",
        "secret access key",
        r"""(?i)secret access key[^\r\n]{0,200}\r?\n[^\r\n]{0,300}?,["']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])""",
        1,
    ),
    (
        "vault",
        "vault_token vault-token vaulttoken",
        r"""(?i)vault[_-]?token(?:\\{0,3}["'])?\s{0,4}[:=]\s{0,4}(?:\\{0,3}["'])?([sbr]\.[A-Za-z0-9]{16,128})""",
        1,
    ),
    ("slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_]{20,})", 1),
    ("discord", "/webhooks/", r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{5,25}/([A-Za-z0-9_-]{30,})", 1),
    (
        "hash",
        "$",
        r"(?<![\w$])\$(?:[1256y]|apr1|2[abxy]|argon2(?:id?|d))\$[A-Za-z0-9./,=+-]{1,40}\$[A-Za-z0-9./+$]{20,200}",
        0,
    ),
    ("hash", "$2", r"(?<![\w$])\$2[abxy]\$[0-9]{2}\$[A-Za-z0-9./]{53}", 0),
    (
        "header",
        "authorization",
        r"""(?i)authorization(?:\\{0,3}["'])?\s{0,4}[:=,]\s{0,4}(?:\\{0,3}["'])?(?:[A-Za-z][A-Za-z0-9-]{2,20}\s{1,4})?"""
        r"""([A-Za-z0-9._~+/=:-]{8,4096})""",
        1,
    ),
    ("bearer", "bearer", r"(?i)\bbearer\s{1,4}(?=[A-Za-z._~+/=-]{0,200}[0-9])([A-Za-z0-9._~+/=-]{16,4096})", 1),
    # The last @ is the one before the host: passwords have some of their own.
    ("url", "://", r"""://[^\s/@:"'<>`\[]{0,128}:([^\s/"'<>`]{1,256})@(?!sha\d)""", 1),
    # A password in a URL that was cut off, which is no port, no name of one and no version of an image.
    (
        "url",
        "://",
        r"""://(?<!docker://)(?<!oci://)(?:(?<!http://)(?<!https://)(?<!grpc://)(?<!tcp://)"""
        r"""|(?![^\s/@:"'<>`\[]{0,128}:[a-z-]{1,24}[.,;!?)]?\Z))[^\s/@:"'<>`\[]{0,128}:(?!\d{1,5}(?![\w~%!$&+-]))([^\s/@"'<>`\[\]]{3,256}?)"""
        r"(?=\.{3}|\u2026|\Z)",
        1,
    ),
    ("url", "://", r"://(?=[A-Za-z_-]{0,100}[0-9])([A-Za-z0-9_-]{20,128})@", 1),
    ("azure", "key= sig=", r"(?i)(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{20,256}={0,2})", 1),
    ("signature", "sig", r"(?i)[?&;](?:sig|x-(?:amz|goog)-signature)=([A-Za-z0-9%+/=_-]{20,1024})", 1),
    ("pem", "private-lines", r"Private-Lines: \d{1,3}\r?\n((?:[A-Za-z0-9+/=]{4,80}(?:\r?\n|\Z)){1,200})", 1),
    ("key", '"kty"', r"""["'](?:d|p|q|dp|dq|qi|k)["']\s{0,3}:\s{0,3}["']([A-Za-z0-9_-]{20,4096})["']""", 1),
    ("password", "login password", r"\blogin\s{1,9}\S{1,128}\s{1,9}password\s{1,9}(\S{1,256})", 1),
    ("password", "curl", r"""\bcurl\s[^\n|;]{0,300}?(?:-u|--user)[ =]?["']?[^\s:"']{1,64}:([^\s"']{3,256})""", 1),
    ("password", "sshpass", r"""\bsshpass\s{1,4}-p\s{0,4}["']?([^\s"']{3,256})""", 1),
)

_VALUE = r"""["'`]?([^\s"'`|]{3,128})"""
_CALLED = rf"[\w.-]{{0,48}}?{NAMED}"

_BLANKS = r"[ \t]{1,8}"
_IN_QUOTES = r"""\\{0,3}["']([^"'\\\r\n]{3,128})\\{0,3}["']"""
# Keys of tables, caches and signatures are no secrets.
_OPEN_KEYS = (
    "gpg pgp cache public pub sort primary foreign partition host storage group order row map object item dedup hash"
    " idempotency i18n lookup registry query layout event content etag"
)
_NOT_OPEN = "".join(rf"(?<!{word}_)" for word in _OPEN_KEYS.split())

# Hints, what the value must be, and a pattern whose group 1 it is: arguments of programs and functions, and sentences.
_WORDS = (
    (("mysql",), "", r"\bmysql\w{0,8}\b[^\n|;]{0,200}?\s-p([^\s\"']{4,128})"),
    (("redis-cli",), "", rf"\bredis-cli\b[^\n|;]{{0,200}}?\s(?:-a|--pass)[ =]{_VALUE}"),
    (("ldap",), "", rf"\bldap\w{{3,10}}\b[^\n|;]{{0,300}}?\s-w\s{{0,3}}{_VALUE}"),
    (("login",), "", rf"\b(?:docker|podman|nerdctl|buildah|oras)\s+login\b[^\n|;]{{0,200}}?\s-p[ =]?{_VALUE}"),
    (
        ("htpasswd",),
        "",
        rf"\bhtpasswd\s{{1,3}}-[a-zA-Z]*b[a-zA-Z]*\s{{1,3}}\S{{1,200}}\s{{1,3}}\S{{1,64}}\s{{1,3}}{_VALUE}",
    ),
    (("smbclient",), "", rf"\bsmbclient\b[^\n|;]{{0,200}}?\s-U\s{{0,3}}[\"']?[^\s%\"']{{1,64}}%{_VALUE}"),
    (("openssl",), "", rf"\bopenssl\b[^\n|;]{{0,200}}?\s-[kK]\s{{1,3}}{_VALUE}"),
    (
        ("sudo", "password-stdin", "chpasswd"),
        "",
        r"""\becho\s{1,4}(?:-n\s{1,4})?["']?([^\s"'|$]{4,128})["']?\s{0,4}\|\s{0,4}"""
        r"(?:sudo\s(?:-\S{1,8}\s{1,4}){0,3}-S|sudo\s-S|(?:sudo\s)?chpasswd|[^\n|;]{0,200}--password-stdin)",
    ),
    (
        ("auth(", "auth=(", "auth = (", "login("),
        "",
        r"""(?i)(?:\bauth\s{0,3}=\s{0,3}|(?:basic|digest)_?auth|\.login)\(\s{0,3}["'][^"'\s]{1,64}["']\s{0,3},\s{0,3}"""
        r"""["']([^"'\r\n]{3,128})["']""",
    ),
    (
        ('auth"', "auth'", "auth=", "auth:", "auth ="),
        "basic",
        r"""(?i)\b_?auth["']?\s{0,4}[:=]\s{0,4}["']?([A-Za-z0-9+/]{8,1024}={0,2})(?![A-Za-z0-9+/=])""",
    ),
    (("key=",), "", rf"""(?i)\bkey=["']{_CALLED}["'][^<>\n]{{0,60}}>([^<>\s]{{4,256}})</"""),
    (
        ("env ", "arg ", "env\t", "git config"),
        "",
        rf"(?im)^[ \t>+$]{{0,8}}(?:(?-i:ENV|ARG|setenv)|git\sconfig(?:\s--\w+)?)"
        rf"[ \t]{{1,4}}{_CALLED}[ \t]{{1,4}}{_VALUE}",
    ),
    (
        ("configure set", "config set"),
        "",
        rf"(?i)\bconfig(?:ure)?{_BLANKS}set{_BLANKS}[\w./:-]{{0,64}}?{NAMED}[ \t=]{{1,8}}{_VALUE}",
    ),
    (("requirepass", "masterauth"), "said", rf"(?i)\b(?:requirepass|masterauth){_BLANKS}{_VALUE}"),
    (
        ("identified",),
        "",
        rf"(?i)\bidentified{_BLANKS}(?:with{_BLANKS}\S{{1,40}}{_BLANKS})?(?:by|as){_BLANKS}(?:password{_BLANKS})?{_IN_QUOTES}",
    ),
    (
        ("password '", "password  '", 'password "', "password \\"),
        "",
        rf"(?i)\b(?:with|encrypted|login|(?:user|role){_BLANKS}\S{{1,64}}){_BLANKS}password{_BLANKS}{_IN_QUOTES}",
    ),
    (
        ("get(", "env(", "fetch("),
        "quoted",
        rf"(?i)\((?:(?<=get\()|(?<=env\()|(?<=fetch\())\s{{0,4}}\\{{0,3}}[\"']{_CALLED}\\{{0,3}}[\"']\s{{0,4}},\s{{0,8}}"
        rf"(?:default\s{{0,3}}=\s{{0,3}})?{_IN_QUOTES}",
    ),
    (("||", "??"), "quoted", rf"(?i)\benv\.{_CALLED}\s{{0,4}}(?:\|\||\?\?)\s{{0,4}}{_IN_QUOTES}"),
    (("${",), "said", rf"(?i)\$\{{{_CALLED}:?[-=]([^\s{{}}$\"']{{3,128}})\}}"),
    (
        ("password for ",),
        "",
        r"(?im)\bpassword for [^\r\n:]{1,64}(?::[^\s:]{1,64}(?=:))?:[ \t]{1,4}(\S{3,128})[ \t]{0,8}$",
    ),
    (
        ("_key", "_pat"),
        "random",
        rf"(?i)_{_NOT_OPEN}(?:key|pat)(?:\\{{0,3}}[\"'])?\]?"
        r"[ \t]{0,4}(?:=|:)[ \t]{0,4}(?:\\{0,3}[\"'])?([A-Za-z0-9+/]{20,128})={0,2}(?![A-Za-z0-9_.(\[+/-])",
    ),
    (("|",), "said", rf"(?i)\|[ \t]{{0,40}}`?{_CALLED}`?[ \t]{{0,40}}\|[ \t]{{0,40}}{_VALUE}[ \t]{{0,40}}\|"),
    (("\t",), "said", rf"(?im)^{_CALLED}\t{{1,4}}{_VALUE}[ \t]{{0,8}}$"),
    (
        ("pass", "pwd", "secret", "token", "key", "credential"),
        "said",
        r"(?i)\b(?:pass(?:word|phrase|code)?|pwd|passwort|secret|(?:api|access|secret)[ _-]?key|token|credentials?)"
        rf"(?:\s(?:for|of|to)\s[^\s:=]{{1,40}}){{0,2}}\s(?:is|was|ist|will\sbe):?\s{_VALUE}",
    ),
)

# Private key blocks in PEM, whole or cut, and with something in front of each line: a number, a name, a quote.
_MOST = 20_000
_BEGIN = r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_BODY = r"(?:[A-Za-z0-9+/=\s:,.]|\\[nr]|-(?!----)){0,20000}"
_KEY_LINE = r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40,200}+={0,2}+"
_PREFIXED = rf"(?:[\"',;|) \t]{{1,8}}\r?\n)?[^\r\n]{{0,200}}?{_KEY_LINE}[\"'\\,;|) \t]{{0,8}}(?:\r?\n|\Z)"
_LINE = r"(?:(?!\\[nr])[^\r\n])+"
_WORD = r"[^\s\\]+"
_KEY_TEXT = rf"[A-Za-z0-9+/=]{{16,}}|[^\s\\]{{0,200}}?{_KEY_LINE}[\"',;|)]{{0,4}}"
