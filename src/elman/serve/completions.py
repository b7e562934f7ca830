"""POST /v1/completions: texts from the engine in OpenAI's form, whole or streamed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elman.errors import VocabularyError
from elman.serve.asking import MOST_LOGPROBS, Ask, count_logprobs, encode, new_writing, read_ask, too_many_logprobs
from elman.serve.engine import BusyError, Engine
from elman.serve.fields import read_fields
from elman.serve.limits import Limits
from elman.serve.plain import Json, dumps, plain
from elman.serve.problems import ApiError, busy, timed_out, unknown_token
from elman.serve.registry import Registry
from elman.serve.stepper import Stepper
from elman.serve.streaming import Events, while_there
from elman.serve.transcript import pieces
from elman.serve.writing import Delta, Note, Writing


class Inbox:
    """What the engine has written since somebody last looked, for all texts of one request."""

    def __init__(self) -> None:
        self._new: list[tuple[int, Delta]] = []
        self._event = asyncio.Event()

    def put(self, index: int, delta: Delta) -> None:
        self._new.append((index, delta))
        self._event.set()

    async def take(self) -> list[tuple[int, Delta]]:
        """All there is, one entry for each text: under load several turns become one chunk."""
        await self._event.wait()
        self._event.clear()
        new, self._new = self._new, []
        merged: dict[int, Delta] = {}
        for index, delta in new:
            merged[index] = _joined(merged[index], delta) if index in merged else delta
        return list(merged.items())


def _joined(a: Delta, b: Delta) -> Delta:
    return Delta(a.text + b.text, [*a.notes, *b.notes], a.tokens + b.tokens, b.finish)


class Choice:
    """One text of the answer."""

    def __init__(self, index: int, stepper: Stepper, ask: Ask, echo: str) -> None:
        self.index, self.ask, self.names = index, ask, stepper.names
        self._echo = echo if ask.echo else ""
        self._pieces, self._offset = pieces(stepper.vocabulary), 0
        self.tokens = 0

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """What a delta adds, as an entry of `choices`; the echo comes with the first."""
        text, self._echo = self._echo + delta.text, ""
        self.tokens += delta.tokens
        logprobs = self._logprobs(delta.notes) if self.ask.wanted is not None else None
        finish = delta.finish if delta.finish in ("length", "stop") else None  # a failure is told as an error
        return {"index": self.index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def _logprobs(self, notes: Sequence[Note]) -> dict[str, Any]:
        assert self.ask.wanted is not None
        offsets = []
        for piece in self._pieces([note.token for note in notes]):
            offsets.append(self._offset)
            self._offset += len(piece)
        tops = [{self.names[i]: value for i, value in note.top} if note.top else None for note in notes]
        told: dict[str, Any] = {
            "tokens": [self.names[note.token] for note in notes],
            "token_logprobs": [note.logprob for note in notes],
            "top_logprobs": tops if self.ask.wanted.top else None,
            "text_offset": offsets,
        }
        if self.ask.wanted.unit is not None:
            told["activations"] = [note.activation for note in notes]
        return plain(told)  # type: ignore[no-any-return]


def _whole(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The chunks of one choice as one."""
    last = chunks[-1]
    logprobs: dict[str, Any] | None = None
    if last["logprobs"] is not None:
        lists = {name: [chunk["logprobs"][name] for chunk in chunks] for name in last["logprobs"]}
        logprobs = {name: None if None in parts else list(chain.from_iterable(parts)) for name, parts in lists.items()}
    return {**last, "text": "".join(chunk["text"] for chunk in chunks), "logprobs": logprobs}


class Completions:
    def __init__(
        self, engine: Engine, registry: Registry, limits: Limits, first_token: Callable[[float], None]
    ) -> None:
        self.engine, self.registry, self.limits, self.first_token = engine, registry, limits, first_token

    async def __call__(self, request: Request) -> Response:
        began = time.monotonic()
        ask = read_ask(await read_fields(request, self.limits.max_seconds), self.limits)
        _, stepper = await self.registry.language_model(ask.model)
        inbox, prompt_tokens, logprobs = Inbox(), 0, 0
        writings: list[Writing] = []
        choices: list[Choice] = []
        try:
            for prompt in ask.prompts:
                ids, text = encode(prompt, stepper, ask, self.limits)
                prompt_tokens += len(ids)
                logprobs += count_logprobs(ask, len(ids))
                if logprobs > MOST_LOGPROBS:
                    raise too_many_logprobs()
                for number in range(ask.n):
                    receive, deadline = partial(inbox.put, len(writings)), began + self.limits.max_seconds
                    choices.append(Choice(len(writings), stepper, ask, text))
                    writings.append(new_writing(ids, number, stepper, ask, receive, deadline))
        except VocabularyError as error:
            raise unknown_token("prompt", error) from None
        try:
            self.engine.submit(writings)
        except BusyError:
            raise busy(f"{self.engine.limit} texts are being written already. Try again in a moment.") from None
        answer = Answer(self, ask, inbox, writings, choices, prompt_tokens, began)
        return Streamed(answer, self.limits.max_seconds) if ask.stream else await answer.whole(request)


class Answer:
    def __init__(
        self,
        service: Completions,
        ask: Ask,
        inbox: Inbox,
        writings: list[Writing],
        choices: list[Choice],
        prompt_tokens: int,
        began: float,
    ) -> None:
        self.service, self.ask, self.inbox, self.writings, self.choices = service, ask, inbox, writings, choices
        self.prompt_tokens, self.began, self.left = prompt_tokens, began, len(writings)
        self.head = {
            "id": f"cmpl-{random.getrandbits(96):024x}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": ask.model or service.registry.get(None).name,
        }

    async def chunks(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Entries of `choices`, as many as there are at a time, until none of the texts is left."""
        waiting = True
        while self.left:
            new, failure = [], None
            for index, delta in await self.inbox.take():
                if delta.finish == "timeout":
                    failure = timed_out(self.service.limits.max_seconds)
                if delta.finish == "error":
                    failure = ApiError(500, "The engine failed at this text.", code="internal_error")
                if waiting and delta.tokens:
                    self.service.first_token(time.monotonic() - self.began)
                    waiting = False
                new.append(self.choices[index].chunk(delta))
                self.left -= new[-1]["finish_reason"] is not None
            yield new
            if failure is not None:  # after all that was written before
                raise failure

    def leave(self) -> None:
        """Nobody listens any more: what is not written yet sets its places free."""
        self.service.engine.cancel(self.writings)

    def usage(self) -> dict[str, int]:
        written = sum(choice.tokens for choice in self.choices)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": self.prompt_tokens + written,
        }

    async def whole(self, request: Request) -> Response:
        try:
            found = await while_there(request.receive, self._all())
        finally:
            self.leave()
        if found is None:
            return Response(status_code=400)  # which nobody reads
        if self.ask.wanted is None:
            return self._told(found)
        return await asyncio.to_thread(self._told, found)  # it may be long

    def _told(self, found: list[list[dict[str, Any]]]) -> Response:
        choices = [_whole(chunks) for chunks in found]
        return Json({**self.head, "choices": choices, "usage": self.usage()})

    async def _all(self) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = [[] for _ in self.choices]
        async for new in self.chunks():
            for chunk in new:
                found[chunk["index"]].append(chunk)
        return found

    async def events(self) -> AsyncIterator[bytes]:
        usage, told = {"usage": None} if self.ask.usage else {}, b""
        try:
            async for new in self.chunks():
                shown = [chunk for chunk in new if chunk["text"] or chunk["finish_reason"] or chunk["logprobs"]]
                told = b"".join(self._event({**self.head, "choices": [chunk], **usage}) for chunk in shown)
                if told and self.left:
                    yield told
        except ApiError as error:
            yield self._event(error.body())
            return
        if self.ask.usage:
            told += self._event({**self.head, "choices": [], "usage": self.usage()})
        yield told + b"data: [DONE]\n\n"  # what comes last is sent as one

    @staticmethod
    def _event(value: dict[str, Any]) -> bytes:
        return f"data: {dumps(value)}\n\n".encode()


class Streamed(Events):
    def __init__(self, answer: Answer, seconds: float) -> None:
        super().__init__(answer.events(), 2 * seconds)  # to write it, and to send what a slow client has not taken
        self.answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.answer.leave()
