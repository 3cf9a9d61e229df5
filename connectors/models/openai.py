"""The provider `openai`: a server with the HTTP interface of OpenAI, for chat completions and embeddings.

    WITH ('provider' = 'openai', 'endpoint' = 'https://host/v1/embeddings', 'api-key' = '..', 'model' = '..')

The last part of the endpoint says which of the two it is. Embeddings are asked for many texts in one request; completions
are asked for one by one, some side by side.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa

from connectors.options import TableOptions
from runtime.core.cancellation import look
from runtime.core.errors import ConnectorError, OptionError
from runtime.core.options import Option, duration_option, float_option, int_option, text_option
from runtime.core.secrets import masked_text
from runtime.core.types import TypeRoot
from runtime.spi.model import ModelProvider, ModelRequest

__all__ = ["OPENAI"]

ENDPOINT = text_option("endpoint", "", "the address, such as 'https://api.openai.com/v1/chat/completions'")
API_KEY = text_option("api-key", "", "the key that the server asks for")
MODEL = text_option("model", "", "the name of the model there")
SYSTEM_PROMPT = text_option("system-prompt", "You are a helpful assistant.", "what the model is told before each text")
TEMPERATURE = float_option("temperature", 1.0, "how much chance there is in a completion, from 0 on")
TOP_P = float_option("top-p", 1.0, "the share of the most likely words that are chosen from")
STOP = text_option("stop", "", "texts, with commas between, before which a completion ends")
MAX_TOKENS = int_option("max-tokens", 0, "the most tokens of a completion")
SEED = int_option("seed", 0, "the same seed asks for the same completions")
DIMENSION = int_option("dimension", 0, "the length of an embedding")
N = int_option("n", 1, "how many completions there are for a text; only 1")
PRESENCE_PENALTY = float_option("presence-penalty", 0.0, "how much words that were there are avoided, from -2 to 2")
RESPONSE_FORMAT = text_option("response-format", "text", "'text' or 'json_object'", ("text", "json_object"))
MAX_CONTEXT = int_option(
    "max-context-size", 0, "the most tokens of a text; not followed: the server says what it takes"
)
OVERFLOW = text_option("context-overflow-action", "", "what follows for longer ones; not followed")
ON_ERROR = text_option(
    "error-handling-strategy",
    "retry",
    "what follows when a request fails: 'retry' sends it again, 'failover' fails the query, 'ignore' gives NULL",
    ("retry", "failover", "ignore"),
)
RETRIES = int_option("retry-num", 3, "how often a failed request is sent again")
AFTER_RETRIES = text_option(
    "retry-fallback-strategy",
    "failover",
    "what follows after that: 'failover' fails the query, 'ignore' gives NULL",
    ("failover", "ignore"),
)
RETRY_DELAY = duration_option("retry-delay", 1000, "how long the first wait before that is; each is twice as long")
TIMEOUT = duration_option("timeout", 60_000, "how long the server may take to answer")
PARALLEL = int_option("max-concurrent-operations", 10, "how many requests wait for an answer at a time")
BATCH = int_option("batch-size", 256, "how many texts one request for embeddings has")
_OPTIONS = (
    ENDPOINT, API_KEY, MODEL, SYSTEM_PROMPT, TEMPERATURE, TOP_P, STOP, MAX_TOKENS, SEED, N, PRESENCE_PENALTY,
    RESPONSE_FORMAT, MAX_CONTEXT, OVERFLOW, DIMENSION, ON_ERROR, RETRIES, AFTER_RETRIES, RETRY_DELAY, TIMEOUT, PARALLEL,
    BATCH,
)  # fmt: skip
_BODY: tuple[tuple[Option[Any], str], ...] = (
    (TEMPERATURE, "temperature"), (TOP_P, "top_p"), (MAX_TOKENS, "max_tokens"), (SEED, "seed"),
    (PRESENCE_PENALTY, "presence_penalty"),
)  # fmt: skip
_CHAT, _EMBEDDINGS = "chat/completions", "embeddings"
_AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504})
"""Answers of a server that may be others a moment later."""


class ServerModel:
    """A model on a server. One STRING goes in; out come a STRING, or an ARRAY of FLOAT or DOUBLE."""

    def __init__(self, request: ModelRequest) -> None:
        self._options = options = _checked(request)
        self._endpoint = options.required(ENDPOINT)
        self._embeds = self._endpoint.rstrip("/").endswith(_EMBEDDINGS)
        self._type = request.outputs[0].type.arrow
        strategy = options.get(ON_ERROR).lower()
        self._retries = max(0, options.get(RETRIES)) if strategy == "retry" else 0
        self._ignores = (options.get(AFTER_RETRIES) if strategy == "retry" else strategy).lower() == "ignore"
        self._waiting = threading.Event()

    def predict(self, features: pa.RecordBatch) -> Sequence[pa.Array]:
        texts: list[str] = features.column(0).to_pylist()
        size = max(1, self._options.get(BATCH)) if self._embeds else 1
        parts = [texts[at : at + size] for at in range(0, len(texts), size)]
        ask: Callable[[list[str]], list[Any]] = self._embedded if self._embeds else self._completed
        with ThreadPoolExecutor(max(1, min(self._options.get(PARALLEL), len(parts) or 1))) as pool:
            answers = [value for answer in pool.map(ask, parts) for value in answer]
        look()
        return [pa.array(answers, self._type)]

    def _completed(self, texts: list[str]) -> list[str | None]:
        options = self._options
        body: dict[str, Any] = {
            "model": options.required(MODEL),
            "messages": [
                {"role": "system", "content": options.get(SYSTEM_PROMPT)},
                {"role": "user", "content": texts[0]},
            ],
        }
        for option, name in _BODY:
            if options.has(option):
                body[name] = options.get(option)
        if options.has(STOP):
            body["stop"] = options.get(STOP).split(",")
        if options.has(RESPONSE_FORMAT):
            body["response_format"] = {"type": options.get(RESPONSE_FORMAT)}
        answer = self._asked(body, lambda found: str(found["choices"][0]["message"]["content"]))
        return [answer]

    def _embedded(self, texts: list[str]) -> list[list[float] | None]:
        body: dict[str, Any] = {"model": self._options.required(MODEL), "input": texts}
        if self._options.has(DIMENSION):
            body["dimensions"] = self._options.get(DIMENSION)

        def vectors(found: Any) -> list[list[float]]:
            by_place = {int(item["index"]): item["embedding"] for item in found["data"]}
            return [by_place[i] for i in range(len(texts))]

        return self._asked(body, vectors) or [None] * len(texts)

    def _asked(self, body: dict[str, Any], read: Callable[[Any], Any]) -> Any:
        """What `read` finds in the answer of the server; None for one that failed, if that is to be ignored."""
        delay, failure = self._options.get(RETRY_DELAY) / 1000, ""
        for attempt in range(self._retries + 1):
            if attempt:
                self._waiting.wait(delay * 2 ** (attempt - 1))
            try:
                return read(self._sent(body))
            except urllib.error.HTTPError as error:
                failure = f"HTTP {error.code} {masked_text(error.read(500).decode('utf-8', 'replace').strip())}"
                if error.code not in _AGAIN:
                    break
            except (OSError, TimeoutError) as error:
                failure = str(getattr(error, "reason", error))
            except (ValueError, KeyError, IndexError, TypeError) as error:
                failure = f"an answer that is not understood ({type(error).__name__}: {error})"
        if self._ignores:
            return None
        raise ConnectorError(
            f"the model at {masked_text(self._endpoint)} cannot be asked: {failure}",
            code="E3143",
            hint="check 'endpoint', 'api-key' and 'model'; 'retry-fallback-strategy' = 'ignore' gives NULL instead",
        )

    def _sent(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._options.has(API_KEY):
            headers["Authorization"] = f"Bearer {self._options.get(API_KEY)}"
        request = urllib.request.Request(self._endpoint, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=self._options.get(TIMEOUT) / 1000) as response:
            return json.load(response)


def _checked(request: ModelRequest) -> TableOptions:
    """The options, and that inputs and outputs are what such a model has."""
    options = TableOptions(request.options, "model provider 'openai'", _OPTIONS)
    endpoint = options.required(ENDPOINT)
    options.required(MODEL)
    if urlparse(endpoint).scheme not in ("http", "https") or not endpoint.rstrip("/").endswith((_CHAT, _EMBEDDINGS)):
        raise OptionError(
            f"option 'endpoint' cannot be '{masked_text(endpoint)}'",
            hint=f"an address that begins with https:// and ends with /{_CHAT} or /{_EMBEDDINGS}",
        )
    for option in (MAX_CONTEXT, OVERFLOW):
        if options.has(option):
            raise OptionError(
                f"option '{option.key}' is not followed",
                code="E1503",
                hint="leave it out, and cut texts in the query: LEFT(text, 8000)",
            )
    if options.get(N) != 1:
        raise OptionError("option 'n' can only be 1: a text has one row", hint="leave it out")
    embeds = endpoint.rstrip("/").endswith(_EMBEDDINGS)
    if len(request.inputs) != 1 or not request.inputs[0].type.is_character:
        raise OptionError(
            "a model of provider 'openai' takes one text", code="E1451", hint="declare INPUT (text STRING)"
        )
    wanted = "ARRAY<FLOAT>" if embeds else "STRING"
    output = request.outputs[0].type if len(request.outputs) == 1 else None
    fits = output is not None and (
        (output.root is TypeRoot.ARRAY and output.children[0].root in (TypeRoot.FLOAT, TypeRoot.DOUBLE))
        if embeds
        else output.is_character
    )
    if not fits:
        raise OptionError(
            f"a model of provider 'openai' at /{_EMBEDDINGS if embeds else _CHAT} gives one {wanted}",
            code="E1451",
            hint=f"declare OUTPUT (answer {wanted})",
        )
    return options


OPENAI = ModelProvider(
    name="openai",
    document="a server with the HTTP interface of OpenAI",
    create=ServerModel,
    options=_OPTIONS,
)
