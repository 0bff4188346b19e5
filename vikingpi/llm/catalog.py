"""Well-known providers and models: data only.

The first model of a provider is its default. Windows are what a request may hold; prices are US dollars per million
tokens, zeros where the provider names the cost of each answer itself. `api` is the wire: endpoints that speak chat
completions or the messages API are spoken to directly, the others through litellm.
"""

from __future__ import annotations

from vikingpi.decode import Json
from vikingpi.llm.anthropic_body import MESSAGES
from vikingpi.llm.base import Price
from vikingpi.llm.openai_body import DIRECT
from vikingpi.values import NamedTuple

LITELLM = "litellm"

DEFAULT_WINDOW = 128_000
DEFAULT_OUTPUT = 16_384


class KnownModel(NamedTuple):
    """`flags`: R reasons, V takes images, X has the effort "xhigh", A decides itself how much it thinks, T always
    thinks."""

    id: str
    context_window: int
    max_tokens: int
    price: Price
    flags: str = ""


class KnownProvider(NamedTuple):
    """`key_variables` are tried in order; `base_variable` names a variable that replaces the base URL."""

    name: str
    base_url: str
    key_variables: tuple[str, ...]
    models: tuple[KnownModel, ...]
    api: str = DIRECT
    compat: Json = {}  # noqa: RUF012 - read only
    base_variable: str = ""


class LocalServer(NamedTuple):
    """A model server that people run on their own machine, at its usual port."""

    name: str
    port: int


LOCAL_SERVERS = (LocalServer("ollama", 11434), LocalServer("lmstudio", 1234), LocalServer("llamacpp", 8080))
LOCAL_WINDOW = 32_768

_M = KnownModel
_P = Price

ANTHROPIC = (
    _M("claude-sonnet-5-5", 1_000_000, 128_000, _P(2, 10, 0.1, 2.5), "RVAXT"),
    _M("claude-opus-5-5", 1_000_000, 128_000, _P(4, 20, 0.2, 5), "RVAXT"),
    _M("claude-haiku-5-5", 1_000_000, 128_000, _P(0.1, 0.5, 0.01, 0.125), "RVAX"),
    _M("claude-fable-5-1", 1_000_000, 128_000, _P(10, 50, 0.25, 12.5), "RVAXT"),
    _M("claude-sonnet-5", 1_000_000, 128_000, _P(2, 10, 0.2, 2.5), "RVAX"),
    _M("claude-opus-5", 1_000_000, 128_000, _P(5, 25, 0.5, 6.25), "RVAX"),
    _M("claude-opus-4-8", 1_000_000, 128_000, _P(5, 25, 0.5, 6.25), "RVAX"),
    _M("claude-sonnet-4-6", 1_000_000, 128_000, _P(3, 15, 0.3, 3.75), "RVA"),
    _M("claude-haiku-4-5", 200_000, 64_000, _P(1, 5, 0.1, 1.25), "RV"),
)
OPENAI = (
    _M("gpt-6.1-sol", 922_000, 128_000, _P(2, 10, 0.1, 2.5), "RVX"),
    _M("gpt-6.1-terra", 922_000, 128_000, _P(1, 5, 0.05, 1.25), "RVX"),
    _M("gpt-6-astra", 922_000, 128_000, _P(10, 50, 1, 12.5), "RVX"),
    _M("gpt-6-luna", 922_000, 128_000, _P(0.1, 0.5, 0.01, 0.125), "RVX"),
    _M("gpt-5.6", 922_000, 128_000, _P(4, 20, 0.4, 5), "RVX"),
    _M("gpt-5.5", 922_000, 128_000, _P(5, 30, 0.5), "RVX"),
    _M("gpt-5.4", 922_000, 128_000, _P(2.5, 15, 0.25), "RVX"),
    _M("gpt-5.4-mini", 272_000, 128_000, _P(0.75, 4.5, 0.075), "RVX"),
    _M("gpt-5.4-nano", 272_000, 128_000, _P(0.2, 1.25, 0.02), "RVX"),
    _M("gpt-5.2", 272_000, 128_000, _P(1.75, 14, 0.175), "RVX"),
    _M("gpt-5.1", 272_000, 128_000, _P(1.25, 10, 0.125), "RV"),
    _M("gpt-4.1", 1_047_576, 32_768, _P(2, 8, 0.5), "V"),
    _M("gpt-4.1-mini", 1_047_576, 32_768, _P(0.4, 1.6, 0.1), "V"),
    _M("gpt-4o", 128_000, 16_384, _P(2.5, 10, 1.25), "V"),
    _M("gpt-4o-mini", 128_000, 16_384, _P(0.15, 0.6, 0.075), "V"),
)
OPENROUTER = (
    _M("openrouter/auto", 200_000, 32_768, _P(), "RV"),
    _M("anthropic/claude-sonnet-4.6", 1_000_000, 64_000, _P(), "RV"),
    _M("anthropic/claude-haiku-4.5", 200_000, 64_000, _P(), "RV"),
    _M("openai/gpt-5.4", 922_000, 128_000, _P(), "RV"),
    _M("openai/gpt-5.4-mini", 272_000, 128_000, _P(), "RV"),
    _M("google/gemini-3-flash-preview", 1_048_576, 65_536, _P(), "RV"),
    _M("deepseek/deepseek-v3.2", 163_840, 65_536, _P(), "R"),
    _M("moonshotai/kimi-k2.6", 262_144, 65_536, _P(), "RV"),
    _M("openai/gpt-oss-120b", 131_072, 32_768, _P(), "R"),
)
DEEPSEEK = (
    _M("deepseek-v4-pro", 1_000_000, 393_216, _P(1.32, 3.96, 0.044), "R"),
    _M("deepseek-v4-flash", 1_000_000, 393_216, _P(0.3, 1.2, 0.006), "RV"),
)
GOOGLE = (
    _M("gemini-4-hydrogen", 1_048_576, 65_536, _P(1.5, 7.5, 0.075), "RV"),
    _M("gemini-4-argon", 1_048_576, 65_536, _P(2, 10, 0.1), "RV"),
    _M("gemini-3.8-flash", 1_048_576, 65_536, _P(0.75, 3.75, 0.075), "RV"),
    _M("gemini-3.5-flash-lite", 1_048_576, 65_536, _P(0.3, 2.5, 0.03), "RV"),
    _M("gemini-3.1-pro-preview", 1_048_576, 65_536, _P(2, 12, 0.2), "RV"),
    _M("gemini-2.5-flash-lite", 1_048_576, 65_536, _P(0.1, 0.4, 0.01), "RV"),
)
GROQ = (
    _M("openai/gpt-oss-120b", 131_072, 65_536, _P(0.15, 0.6, 0.075), "R"),
    _M("openai/gpt-oss-20b", 131_072, 65_536, _P(0.075, 0.3, 0.0375), "R"),
    _M("qwen/qwen3.8-27b", 131_072, 16_384, _P(0.8, 4), "RV"),
)
MISTRAL = (
    _M("mistral-medium-latest", 262_144, 32_768, _P(1.5, 7.5, 0.15), "RV"),
    _M("mistral-large-latest", 262_144, 32_768, _P(0.5, 1.5, 0.05), "V"),
    _M("mistral-large-4", 1_048_576, 65_536, _P(0.7, 2.1, 0.07), "RV"),
    _M("mistral-small-latest", 262_144, 32_768, _P(0.15, 0.6, 0.015), "RV"),
    _M("devstral-latest", 256_000, 32_768, _P(0.4, 2, 0.04), "R"),
    _M("devstral-small-latest", 256_000, 32_768, _P(0.1, 0.3, 0.01), "R"),
    _M("codestral-latest", 128_000, 32_768, _P(0.3, 0.9, 0.03)),
)
XAI = (
    _M("grok-4.7", 500_000, 65_536, _P(2, 6, 0.5), "RV"),
    _M("grok-4.5", 500_000, 65_536, _P(2, 6, 0.3), "RV"),
    _M("grok-4.3", 1_000_000, 65_536, _P(1.25, 2.5, 0.2), "RV"),
    _M("grok-build-0.1", 256_000, 65_536, _P(1, 2, 0.2), "RV"),
)
CEREBRAS = (
    _M("gpt-oss-120b", 131_072, 32_768, _P(0.35, 0.75), "R"),
    _M("gemma-4-31b", 131_072, 40_960, _P(0.99, 1.49), "RV"),
)
MOONSHOT = (
    _M("kimi-k3.1-pro", 1_048_576, 131_072, _P(2, 10, 0.2, 2), "RV"),
    _M("kimi-k2.7-code", 262_144, 65_536, _P(0.95, 4, 0.19), "RV"),
    _M("kimi-k2.6", 262_144, 65_536, _P(0.95, 4, 0.16), "RV"),
)
ZAI = (
    _M("glm-5.3", 1_000_000, 128_000, _P(1.4, 4.4, 0.26), "R"),
    _M("glm-5.3-flash", 1_048_576, 128_000, _P(0.15, 0.5, 0.03), "RV"),
    _M("glm-4.7", 200_000, 128_000, _P(0.6, 2.2, 0.11), "R"),
)

_NO_EFFORT: Json = {"supportsReasoningEffort": False}
_SWITCH: Json = {"thinkingFormat": "switch"}

PROVIDERS: tuple[KnownProvider, ...] = (
    KnownProvider(
        "anthropic",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        ANTHROPIC,
        MESSAGES,
        base_variable="ANTHROPIC_BASE_URL",
    ),
    KnownProvider(
        "openai",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        OPENAI,
        compat={"maxTokensField": "max_completion_tokens", "promptCacheKey": True},
        base_variable="OPENAI_BASE_URL",
    ),
    KnownProvider(
        "openrouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        OPENROUTER,
        compat={"thinkingFormat": "openrouter"},
    ),
    KnownProvider("deepseek", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",), DEEPSEEK, compat=_SWITCH),
    KnownProvider(
        "google",
        "",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        GOOGLE,
        LITELLM,
        compat={"litellmProvider": "gemini"},
    ),
    KnownProvider("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), GROQ),
    KnownProvider(
        "mistral",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        MISTRAL,
        compat={**_NO_EFFORT, "supportsUsage": False, "callIdLength": 9},
    ),
    KnownProvider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",), XAI, compat=_NO_EFFORT),
    KnownProvider("cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), CEREBRAS),
    KnownProvider("moonshot", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), MOONSHOT, compat=_SWITCH),
    KnownProvider("zai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY", "ZHIPU_API_KEY"), ZAI, compat=_SWITCH),
    KnownProvider("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",), ()),
    KnownProvider("fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",), ()),
    KnownProvider("litellm", "", (), (), LITELLM),
)
