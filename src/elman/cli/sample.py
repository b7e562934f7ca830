"""elman sample: generate text with a trained model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elman.cli.compile_notice import print_compile_notice
from elman.cli.console import console, write
from elman.cli.flags import argument, flag
from elman.errors import ArgumentError, RangeError


@dataclass(frozen=True)
class Sample:
    """Generate text with a trained model. A single sample is printed token by token; with --count or --beam, texts are
    printed when they are complete.

    For instance:
        elman sample runs/pride-and-prejudice --prompt "It is a truth" --length 300 --temperature 0.7
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    prompt: str = flag("", "text to continue")
    length: int = flag(500, "tokens to generate")
    temperature: float = flag(0.8, "below 1 more predictable, above 1 more random, 0 takes the most probable token")
    top_k: int | None = flag(None, "sample from the k most probable tokens only")
    top_p: float | None = flag(None, "sample from the most probable tokens that together have this probability")
    beam: int | None = flag(None, "search for the most probable text with a beam of this width, instead of sampling")
    stop: str | None = flag(None, "stop before this text; \\n is a newline, \\t a tab")
    seed: int = flag(0, "seed of the random numbers")
    count: int = flag(1, "number of samples")
    unknown: Literal["error", "skip", "replace"] = flag(
        "error",
        "what to do with tokens of the prompt that are not in the vocabulary: stop with an error, skip them, or "
        "replace them with <unk> (word models only)",
    )
    copies: bool = flag(
        False,
        "print how much of the sample, without the prompt, is copied from the training text; if the model was trained "
        "on sequences, whether the whole one is new or in the data",
    )

    def run(self) -> int:
        from elman.models import LanguageModel, Sampling
        from elman.models.sampling import check_request

        if self.count < 1:
            raise RangeError("--count", expected="1 or more", got=self.count)
        if self.beam is not None and self.count > 1:
            raise ArgumentError(
                "--beam searches for one text, the most probable one", do="Leave out --count or --beam."
            )
        sampling: dict[str, Any] = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        Sampling(**sampling).check()
        stop = None if self.stop is None else unescaped(self.stop)
        check_request(self.length, stop, self.seed)
        model = LanguageModel.load(self.run_folder)
        prompt = self.prompt
        if self.unknown == "skip":  # skipped characters are not printed either
            prompt = model.vocabulary_.decode(model.vocabulary_.encode(prompt, unknown="skip"))
        print_compile_notice("sample")
        options: dict[str, Any] = {"stop": stop, "seed": self.seed, "unknown": self.unknown}
        samples = []
        if self.count > 1:
            samples = model.sample_many(self.count, self.length, prompt=prompt, **sampling, **options)
        for index in range(self.count):
            if samples:
                if model.vocabulary_.end is None:
                    console.rich.rule(f"{index + 1} of {self.count}")
                text = samples[index]
                write(text)
            elif self.beam is not None:
                text = model.sample(self.length, prompt=prompt, beam=self.beam, **options)
                write(text)
            else:
                # stream itself checks the prompt, before anything is printed
                pieces = model.stream(self.length, prompt=prompt, **sampling, **options)
                text = prompt
                write(text)
                for piece in pieces:
                    write(piece)
                    text += piece
            if self.copies and model.vocabulary_.end is not None:
                write(f"\t{'in the data' if model.copies(text).share else 'new'}")
            write("\n")
            if self.copies and model.vocabulary_.end is None:
                console.print(f"Copied: {model.copies(text.removeprefix(prompt))}", markup=False)
        return 0


def unescaped(text: str) -> str:
    r"""The text with its escapes replaced: \n is a newline, \t a tab, \\ a backslash."""
    return re.sub(r"\\([nt\\])", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)
