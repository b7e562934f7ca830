"""POST /v1/completions: texts from the engine in OpenAI's form, whole or streamed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NoReturn

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elman.errors import VocabularyError
from elman.serve.completion_request import MAX_LOGPROBS, CompletionParams, too_many_logprobs
from elman.serve.detokenizer import token_decoder
from elman.serve.engine import BusyError, Engine
from elman.serve.errors import ApiError, busy, timed_out, unknown_token
from elman.serve.json_response import JsonResponse, dumps, to_jsonable
from elman.serve.limits import Limits
from elman.serve.registry import Registry
from elman.serve.schemas import CompletionRequest
from elman.serve.sequence_job import Delta, SequenceJob, TokenInfo
from elman.serve.stepper import Stepper
from elman.serve.streaming import EventStream, until_disconnect

LONG_PROMPT = 20_000  # characters: a longer prompt is encoded in a thread; 1 MB as subwords can take two seconds


class DeltaQueue:
    """The deltas of all texts of one request that are not sent yet."""

    def __init__(self) -> None:
        self._new: list[tuple[int, Delta]] = []
        self._event = asyncio.Event()

    def put(self, index: int, delta: Delta) -> None:
        self._new.append((index, delta))
        self._event.set()

    async def take(self) -> list[tuple[int, Delta]]:
        """All new deltas, merged to one for each text: under load several turns of the engine become one chunk."""
        await self._event.wait()
        self._event.clear()
        new, self._new = self._new, []
        merged: dict[int, Delta] = {}
        for index, delta in new:
            merged[index] = _merge(merged[index], delta) if index in merged else delta
        return list(merged.items())


def _merge(a: Delta, b: Delta) -> Delta:
    return Delta(a.text + b.text, [*a.infos, *b.infos], a.tokens + b.tokens, b.finish)


class ChoiceBuilder:
    """Turns the deltas of one text into entries of `choices`."""

    def __init__(self, index: int, stepper: Stepper, params: CompletionParams, prompt: str) -> None:
        self.index, self.logprobs, self.names = index, params.logprobs, stepper.names
        self._echo = prompt if params.request.echo else ""
        self._decode, self._offset = token_decoder(stepper.vocabulary), 0
        self.tokens = 0

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """The entry for a delta; the first entry begins with the prompt if `echo` is set."""
        text, self._echo = self._echo + delta.text, ""
        self.tokens += delta.tokens
        logprobs = self._logprobs(delta.infos) if self.logprobs is not None else None
        finish = delta.finish if delta.finish in ("length", "stop") else None  # a failure is sent as an error
        return {"index": self.index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def _logprobs(self, infos: Sequence[TokenInfo]) -> dict[str, Any]:
        assert self.logprobs is not None
        offsets = []
        for piece in self._decode([info.token for info in infos]):
            offsets.append(self._offset)
            self._offset += len(piece)
        tops = [{self.names[i]: value for i, value in info.top} if info.top else None for info in infos]
        found: dict[str, Any] = {
            "tokens": [self.names[info.token] for info in infos],
            "token_logprobs": [info.logprob for info in infos],
            "top_logprobs": tops if self.logprobs.top else None,
            "text_offset": offsets,
        }
        if self.logprobs.unit is not None:
            found["activations"] = [info.activation for info in infos]
        return to_jsonable(found)  # type: ignore[no-any-return]


def _join(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The chunks of one text as one choice."""
    last = chunks[-1]
    logprobs: dict[str, Any] | None = None
    if last["logprobs"] is not None:
        lists = {name: [chunk["logprobs"][name] for chunk in chunks] for name in last["logprobs"]}
        logprobs = {name: None if None in parts else list(chain.from_iterable(parts)) for name, parts in lists.items()}
    return {**last, "text": "".join(chunk["text"] for chunk in chunks), "logprobs": logprobs}


class Completions:
    def __init__(
        self, engine: Engine, registry: Registry, limits: Limits, on_first_token: Callable[[float], None]
    ) -> None:
        self.engine, self.registry, self.limits, self.on_first_token = engine, registry, limits, on_first_token

    async def complete(self, request: Request, body: CompletionRequest) -> Response:
        """Generate the continuation of a prompt."""
        start = time.monotonic()
        params = CompletionParams(body, self.limits)
        _, stepper = await self.registry.language_model(body.model)
        queue, prompt_tokens, logprobs = DeltaQueue(), 0, 0
        jobs: list[SequenceJob] = []
        choices: list[ChoiceBuilder] = []
        try:
            for prompt in params.prompts:
                if len(prompt) > LONG_PROMPT:
                    ids, text = await asyncio.to_thread(params.encode, prompt, stepper)
                else:
                    ids, text = params.encode(prompt, stepper)
                prompt_tokens += len(ids)
                logprobs += params.count_logprobs(len(ids))
                if logprobs > MAX_LOGPROBS:
                    raise too_many_logprobs()
                for index in range(body.n):
                    on_delta, deadline = partial(queue.put, len(jobs)), start + self.limits.max_seconds
                    choices.append(ChoiceBuilder(len(jobs), stepper, params, text))
                    jobs.append(params.new_job(ids, index, stepper, on_delta, deadline))
        except VocabularyError as error:
            raise unknown_token("prompt", error) from None
        try:
            self.engine.submit(jobs)
        except BusyError as error:
            raise busy(f"{error}. Try again in a moment.") from None
        completion = CompletionTask(self, params, queue, jobs, choices, prompt_tokens, start)
        if body.stream:
            return StreamedCompletion(completion, self.limits.max_seconds)
        return await completion.response(request)

    @staticmethod
    async def chat() -> NoReturn:
        """Not supported: these models are not trained on conversations."""
        raise ApiError(
            404,
            "Elman serves text models, not chat models. Use POST /v1/completions with a prompt instead.",
            code="chat_not_supported",
            param="model",
        )


class CompletionTask:
    """A request that the engine is working on."""

    def __init__(
        self,
        service: Completions,
        params: CompletionParams,
        queue: DeltaQueue,
        jobs: list[SequenceJob],
        choices: list[ChoiceBuilder],
        prompt_tokens: int,
        start: float,
    ) -> None:
        self.service, self.params, self.queue, self.jobs, self.choices = service, params, queue, jobs, choices
        self.prompt_tokens, self.start, self.unfinished = prompt_tokens, start, len(jobs)
        self.head = {
            "id": f"cmpl-{random.getrandbits(96):024x}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": params.request.model or service.registry.get(None).name,
        }

    async def chunks(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Yields lists of entries of `choices`, as they become available, until every text is finished."""
        first = True
        while self.unfinished:
            new, failure = [], None
            for index, delta in await self.queue.take():
                if delta.finish == "timeout":
                    failure = timed_out(self.service.limits.max_seconds)
                if delta.finish == "error":
                    failure = ApiError(500, "The engine failed at this text.", code="internal_error")
                if first and delta.tokens:
                    self.service.on_first_token(time.monotonic() - self.start)
                    first = False
                new.append(self.choices[index].chunk(delta))
                self.unfinished -= new[-1]["finish_reason"] is not None
            yield new
            if failure is not None:  # after everything that was generated before it
                raise failure

    def cancel(self) -> None:
        """Stop the jobs that are not finished; finished ones ignore it."""
        self.service.engine.cancel(self.jobs)

    def usage(self) -> dict[str, int]:
        generated = sum(choice.tokens for choice in self.choices)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": self.prompt_tokens + generated,
        }

    async def response(self, request: Request) -> Response:
        try:
            chunks = await until_disconnect(request.receive, self._all())
        finally:
            self.cancel()
        if chunks is None:
            return Response(status_code=400)  # the client is gone and does not read it
        if self.params.logprobs is None:
            return self._render(chunks)
        return await asyncio.to_thread(self._render, chunks)  # the response can be large

    def _render(self, chunks: list[list[dict[str, Any]]]) -> Response:
        return JsonResponse({**self.head, "choices": [_join(own) for own in chunks], "usage": self.usage()})

    async def _all(self) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = [[] for _ in self.choices]
        async for new in self.chunks():
            for chunk in new:
                found[chunk["index"]].append(chunk)
        return found

    async def events(self) -> AsyncIterator[bytes]:
        usage, data = {"usage": None} if self.params.include_usage else {}, b""
        try:
            async for new in self.chunks():
                shown = [chunk for chunk in new if chunk["text"] or chunk["finish_reason"] or chunk["logprobs"]]
                data = b"".join(_event({**self.head, "choices": [chunk], **usage}) for chunk in shown)
                if data and self.unfinished:
                    yield data
        except ApiError as error:
            yield _event(error.body())
            return
        if self.params.include_usage:
            data += _event({**self.head, "choices": [], "usage": self.usage()})
        yield data + b"data: [DONE]\n\n"  # the last events are sent as one


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {dumps(value)}\n\n".encode()


class StreamedCompletion(EventStream):
    def __init__(self, completion: CompletionTask, seconds: float) -> None:
        super().__init__(completion.events(), 2 * seconds)  # to generate it, and to send it to a slow client
        self.completion = completion

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.completion.cancel()
