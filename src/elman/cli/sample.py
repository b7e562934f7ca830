"""elman sample: write with a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elman.cli.compile_notice import say_if_compiling
from elman.cli.console import console, write
from elman.cli.flags import argument, flag
from elman.errors import ArgumentError, RangeError


@dataclass(frozen=True)
class Sample:
    """Write with a trained model, character by character as it comes.

    For instance:
        elman sample runs/pride-and-prejudice --prompt "It is a truth" --length 300 --temperature 0.7
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    prompt: str = flag("", "what the text begins with")
    length: int = flag(500, "tokens to write")
    temperature: float = flag(0.8, "below 1 is safer, above 1 is wilder, 0 takes the likeliest")
    top_k: int | None = flag(None, "choose among the k likeliest only")
    top_p: float | None = flag(None, "choose among the likeliest that together have this probability")
    beam: int | None = flag(None, "search for the likeliest text with so many candidates, instead of drawing")
    stop: str | None = flag(None, "end before this text")
    seed: int = flag(0, "the same seed writes the same text")
    count: int = flag(1, "how many samples")
    unknown: Literal["error", "skip", "replace"] = flag("error", "what the model does not know of the prompt")
    copies: bool = flag(False, "tell how much of it stands verbatim in the training text")

    def run(self) -> int:
        from elman.models import LanguageModel, Sampling
        from elman.models.sampling import check_request

        if self.count < 1:
            raise RangeError("--count", expected="1 or more", got=self.count)
        if self.beam is not None and self.count > 1:
            raise ArgumentError("--beam finds one text, the likeliest", do="Leave --count out, or --beam.")
        how = Sampling(self.temperature, self.top_k, self.top_p).check()
        check_request(self.length, self.stop, self.seed)
        model = LanguageModel.load(self.run_folder)
        say_if_compiling("sample")
        options: dict[str, Any] = {"stop": self.stop, "seed": self.seed, "unknown": self.unknown}
        several = []
        if self.count > 1:
            several = model.sample_many(self.count, self.length, prompt=self.prompt, how=how, **options)
        for index in range(self.count):
            if several:
                console.rich.rule(f"{index + 1} of {self.count}")
                text = several[index]
                write(text)
            elif self.beam is not None:
                text = model.sample(self.length, prompt=self.prompt, beam=self.beam, **options)
                write(text)
            else:
                pieces = model.stream(self.prompt, length=self.length, how=how, **options)  # refuses a prompt now
                text = self.prompt
                write(text)
                for piece in pieces:
                    write(piece)
                    text += piece
            write("\n")
            if self.copies:
                console.print(f"Copied: {model.copies(text)}", markup=False)
        return 0
