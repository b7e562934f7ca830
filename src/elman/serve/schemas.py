"""Requests and responses as pydantic models, which are both the validation and the OpenAPI schema.

Types are strict: "5" is not a number and true is not 1; 5.0 is an integer, as in JSON Schema. null means the default.
Unknown fields are refused, and so are values of OpenAI's fields that would change the text and are not supported.
Analyses are described by their outer fields only; `elman.look` defines the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, PydanticUseDefault, ValidationError, core_schema

from elman.serve.limits import Limits

T = TypeVar("T")
MAX_STOPS, MAX_TOP_LOGPROBS, MAX_SEED, MAX_N = 4, 20, 2**63 - 1, 128
MAX_INPUTS, MAX_BEAM, MAX_OUTPUT = 256, 32, 1000
STATES = ("h", "c")  # state parts, in the order of the state array
FLOW_STEPS, MAX_FLOW_STEPS = 96, 256  # time steps through which a gradient is followed: by default, at most
SHOWN_ENTRIES, MAX_SHOWN_ENTRIES = 12, 64  # entries of each axis in the step-by-step view: by default, at most


class _NullIsDefault:
    """Accepts null, which means the default of the field."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    @staticmethod
    def _check(value: Any) -> Any:
        if value is None:
            raise PydanticUseDefault
        return value

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _expected(expected: str, code: str = "invalid_value") -> WrapValidator:
    """One message instead of one for each member of a union."""

    def check(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(f"elman_{code}", "expected {expected}", {"expected": expected}) from None

    return WrapValidator(check)


def _only(neutral: object) -> WrapValidator:
    """For a field of OpenAI that Elman does not support: accepts only the value that has no effect."""
    return _expected(f"{json.dumps(neutral)}: Elman does not support other values", "unsupported_value")


Nullable = Annotated[T, _NullIsDefault()]
INTEGRAL = BeforeValidator(_integral)  # must be the last annotation: only constraints before it are in the JSON schema
Number = Annotated[int, Field(gt=-(2**53), lt=2**53)] | Annotated[float, Field(gt=-(2**53), lt=2**53)]
Index = Annotated[int, Field(ge=0, le=2**31), INTEGRAL]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED), INTEGRAL]
ModelName = Annotated[str, Field(max_length=1000)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0), INTEGRAL]], Field(min_length=1)]
Prompt = Annotated[
    str | Annotated[list[str], Field(min_length=1)] | TokenIds | Annotated[list[TokenIds], Field(min_length=1)],
    _expected("a text, a list of texts, a list of token ids or a list of such lists, none of them empty"),
]
StopText = Annotated[str, Field(min_length=1, max_length=1000)]
Stop = Annotated[
    StopText | Annotated[list[StopText], Field(max_length=MAX_STOPS)],
    _expected(f"a text that is not empty, or a list of up to {MAX_STOPS}"),
]
Row = Annotated[list[Number], Field(min_length=1)]
Sequence = Annotated[
    str | Number | Annotated[list[str], Field(min_length=1)] | Row | Annotated[list[Row], Field(min_length=1)],
    _expected("a text, a list of tokens, a number, a list of numbers or a list of rows of numbers"),
]


class _Request(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Response(BaseModel):
    model_config = ConfigDict(extra="allow")


class Error(_Response):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(_Response):
    error: Error


class Health(_Response):
    status: Literal["ok", "loading", "failed"]


# -- completions -------------------------------------------------------------------------------------------------------


class StreamOptions(_Request):
    include_usage: Nullable[bool] = Field(False, description="Send a last chunk with the token counts.")
    include_obfuscation: Nullable[bool] = Field(False, description="Ignored: Elman adds no padding.")


class CompletionRequest(_Request):
    model: ModelName | None = Field(None, description="The name of a run; the first one by default.")
    prompt: Nullable[Prompt] = Field("", description="A text, texts, token ids, or lists of token ids.")
    max_tokens: Nullable[Annotated[int, Field(ge=0), INTEGRAL]] = Field(
        16, description=f"Tokens to generate, up to elman serve --max-tokens ({Limits.max_tokens} by default)."
    )
    temperature: Nullable[Annotated[float, Field(ge=0, le=2)]] = Field(
        1.0, description="Below 1 is more predictable, above 1 more diverse, 0 takes the most probable token."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Sample from the most probable tokens that together have this probability."
    )
    top_k: Annotated[int, Field(ge=1, le=2**31), INTEGRAL] | None = Field(
        None, description="Elman extension: sample from the k most probable tokens."
    )
    n: Nullable[Annotated[int, Field(ge=1, le=MAX_N), INTEGRAL]] = Field(1, description="Texts for each prompt.")
    stop: Stop | None = Field(None, description="End before any of these texts.")
    seed: Seed | None = Field(
        None, description="The same seed gives the same text as elman sample --seed; n gives the same texts as --count."
    )
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS), INTEGRAL] | None = Field(
        None, description="Return the log-probability of each token and of this many of the most probable tokens."
    )
    echo: Nullable[bool] = Field(False, description="Return the prompt too, as the model has read it: see unknown.")
    stream: Nullable[bool] = Field(False, description="Answer with server-sent events; the last one is [DONE].")
    stream_options: StreamOptions | None = Field(None, description="Only with stream.")
    unknown: Nullable[Literal["error", "skip", "replace"]] = Field(
        "error",
        description="Elman extension: what to do with tokens of the prompt that are not in the vocabulary: refuse the "
        "request, skip them, or replace them with <unk> (word models only).",
    )
    unit: Index | None = Field(
        None, description="Elman extension: with logprobs, also return the activation of this unit after each token."
    )
    layer: Nullable[Index] = Field(0, description="Elman extension: the layer of the unit.")
    state: Nullable[Literal["h", "c"]] = Field("h", description="Elman extension: h, or the cell state c of an LSTM.")
    user: Annotated[str, Field(max_length=10_000)] | None = Field(None, description="Ignored.")
    best_of: Annotated[int, Field(ge=1, le=MAX_N), INTEGRAL] | None = Field(
        None, description="Must equal n: Elman does not choose the best of several texts."
    )
    presence_penalty: Nullable[Annotated[float, Field(ge=0, le=0), _only(0)]] = 0.0
    frequency_penalty: Nullable[Annotated[float, Field(ge=0, le=0), _only(0)]] = 0.0
    suffix: Nullable[Annotated[str, Field(max_length=0), _only("")]] = ""
    logit_bias: Annotated[dict[str, Any], Field(max_length=0), _only({})] | None = None


class Logprobs(_Response):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]
    activations: list[float | None] = Field([], description="Only with unit.")


class Choice(_Response):
    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: Literal["length", "stop"] | None


class Usage(_Response):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(_Response):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage


# -- runs and trainings ------------------------------------------------------------------------------------------------


class Model(_Response):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(_Response):
    object: Literal["list"]
    data: list[Model]


class RunInputs(_Response):
    kind: Literal["char", "byte", "word", "bpe", "list", "numbers", "vector", "label"]
    labels: list[Any] | None


class Run(_Response):
    object: Literal["run"]
    name: str
    task: str
    loss_unit: str = Field(description="Unit of the losses of the run.")
    ready: bool = Field(description="Whether there is a model that can be used.")
    training: bool = Field(description="Whether a process is training the run.")
    steps: int | None
    batch_size: int | None
    corpus: str | None
    tokens: int | None
    vocabulary: int | None
    inputs: RunInputs | None = Field(description="What predict takes; null for a language model.")
    config: dict[str, Any] | None


class RunList(_Response):
    object: Literal["list"]
    data: list[Run]


class Corpus(_Response):
    name: str
    description: str
    bytes: int


class CorpusList(_Response):
    object: Literal["list"]
    data: list[Corpus]


class TrainingRequest(_Request):
    text: str | None = Field(None, description="The text to train on; either this or corpus.")
    corpus: Annotated[str, Field(max_length=100)] | None = Field(None, description="The name of a known corpus.")
    name: (
        Annotated[
            str,
            Field(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"),
            _expected("up to 40 letters, digits, - and _, the first a letter or digit"),
        ]
        | None
    ) = Field(None, description="The name of the run; by default that of the corpus, or pasted.")
    options: Nullable[dict[str, Any]] = Field(
        {}, description="Options of elman train by their Python names, such as hidden, layers and seconds."
    )


class Training(_Response):
    object: Literal["training"]
    name: str
    state: Literal["running", "finished", "stopped", "failed"]
    message: str | None


class TrainingList(_Response):
    object: Literal["list"]
    data: list[Training]


# -- predictions and analyses ------------------------------------------------------------------------------------------


class PredictRequest(_Request):
    model: ModelName | None = Field(None, description="The name of a run; the first one by default.")
    inputs: Annotated[list[Sequence], Field(min_length=1, max_length=MAX_INPUTS)] = Field(
        description="All of one kind: texts, lists of tokens, numbers, lists of numbers, or lists of rows of numbers, "
        "all rows of the same length."
    )
    beam: Nullable[Annotated[int, Field(ge=1, le=MAX_BEAM), INTEGRAL]] = Field(
        1, description="generate, translate: candidates that a beam search keeps."
    )
    alternatives: Nullable[Annotated[int, Field(ge=0, le=MAX_BEAM), INTEGRAL]] = Field(
        0, description="translate: return up to this many outputs of the beam with their scores, the best first."
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="generate: sample at this temperature instead of searching for the most probable sequence."
    )
    seed: Nullable[Seed] = Field(0, description="generate: seed of the samples.")
    limit: Nullable[Annotated[int, Field(ge=1, le=MAX_OUTPUT), INTEGRAL]] = Field(
        MAX_OUTPUT,
        description="generate, translate: largest number of tokens of an output, up to 10 more than twice the longest "
        "one in training.",
    )


class Alternative(_Response):
    output: Any = Field(description="A text or tokens.")
    score: float = Field(
        description="The mean log-probability of its tokens, the end included; if no output ended within the limit, "
        "the sum of the log-probabilities."
    )


class Output(_Response):
    output: Any = Field(description="A class, a list of tags, a number or numbers, a text or tokens.")
    probabilities: Any = Field(description="classify: of each class; tag: of each class at each token; else null.")
    alternatives: list[Alternative] | None = Field(description="translate: if requested; else null.")


class Prediction(_Response):
    object: Literal["prediction"]
    model: str
    task: str
    outputs: list[Output]


class TextRequest(_Request):
    model: ModelName | None = Field(None, description="The name of a run; the first one by default.")
    text: str


class FlowRequest(TextRequest):
    steps: Nullable[Annotated[int, Field(ge=1, le=MAX_FLOW_STEPS), INTEGRAL]] = Field(
        FLOW_STEPS, description="Largest number of time steps that are analyzed, from the start of the text."
    )


class UnitsRequest(TextRequest):
    count: Nullable[Annotated[int, Field(ge=1, le=50), INTEGRAL]] = Field(
        5, description="Units to return for each feature."
    )


class ReadRequest(TextRequest):
    alternatives: Nullable[Annotated[int, Field(ge=1, le=20), INTEGRAL]] = Field(
        5, description="Most probable tokens to return at each step."
    )
    layer: Nullable[Index] = 0
    state: Nullable[Literal["h", "c"]] = Field("h", description="h, or c of an LSTM.")
    unit: Index | None = Field(None, description="Return the activations of this unit.")


class AttributionRequest(_Request):
    model: ModelName | None = Field(None, description="The name of a run; the first one by default.")
    input: Sequence = Field(description="One sequence, as in the inputs of predict.")


class AttentionRequest(AttributionRequest):
    target: str | list[str] | None = Field(None, description="The output sequence; that of the model by default.")


class StepsRequest(_Request):
    model: ModelName | None = Field(None, description="null: a small network with random weights.")
    cell: Nullable[Literal["rnn", "gru", "lstm"]] = Field("rnn", description="Cell of the small network.")
    input: Annotated[str, Field(max_length=1000)]
    target: Annotated[str, Field(max_length=1000)]
    shown: Nullable[Annotated[int, Field(ge=1, le=MAX_SHOWN_ENTRIES), INTEGRAL]] = Field(
        SHOWN_ENTRIES, description="Entries of each axis to return."
    )


class Verdict(_Response):
    layer: int
    kind: Literal["vanishes", "healthy", "explodes", "silent"]
    horizon: int | None
    words: str


class Flow(_Response):
    tokens: list[str]
    losses: list[float | None]
    layers: list[dict[str, Any]]
    verdicts: list[Verdict]


class Spectra(_Response):
    tokens: list[str]
    layers: list[dict[str, Any]]


class Units(_Response):
    features: list[dict[str, Any]]
    left_out: list[str]


class Reading(_Response):
    tokens: list[str]
    surprise: list[float | None]
    alternatives: list[list[str]]
    probabilities: list[list[float | None]]
    activation: list[float | None] | None


class Attribution(_Response):
    tokens: list[str]
    targets: list[Any] = Field(description="The predicted class, or a tag for each token.")
    score: list[float | None] = Field(description="Log-odds of each target; the value of a regressor.")
    gradient: list[list[float | None]] = Field(description="Gradient times input: (targets, tokens).")
    left_out: list[list[float | None]] = Field(
        description="How much the score drops without the token: (targets, tokens)."
    )
    agreement: float | None = Field(description="Rank correlation of gradient and left_out.")


class AttentionMap(_Response):
    source: list[str] = Field(description="T input tokens.")
    target: list[str] = Field(description="S output tokens, including the end token.")
    alpha: list[list[float | None]] = Field(description="(S, T) attention weights; rows sum to 1.")


class Steps(_Response):
    input: str
    target: str
    tokens: list[list[str]]
    network: dict[str, Any]
    axes: dict[str, Any]
    steps: list[dict[str, Any]]
