"""LanguageModel: fit, complete, sample, score. The conventions of scikit-learn, without importing it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from elman.config import Config, resolve, suggestion
from elman.data import BPEVocabulary, ByteVocabulary, Vocabulary
from elman.data.words import words_of
from elman.errors import NotFittedError, RunError, UnknownNameError
from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.models import runs
from elman.models.evaluation import Evaluation, evaluate_text, token_losses
from elman.models.fitted import FittedModel
from elman.models.memorization import CopyReport, copy_report
from elman.models.sampling import Sampling, TextSampler
from elman.models.signatures import LanguageModelOptions
from elman.network import HeadNetwork, Parameters
from elman.training.events import Listener
from elman.training.progress_line import ProgressLine
from elman.training.run import Run
from elman.training.signals import raise_if_interrupted, stop_on_interrupt


class LanguageModel(LanguageModelOptions):
    """A character, byte or word language model.

        model = LanguageModel(hidden=256, epochs=15).fit(Path("novel.txt"))
        print(model.sample(prompt="It is a truth", length=300))

    The arguments are explained in `help(LanguageModel.__init__)` and docs/options.md.
    """

    run_: Run | None = None  # where it was loaded from

    # -- scikit-learn's conventions -----------------------------------------------------------------------------------

    @classmethod
    @cache
    def _defaults(cls) -> dict[str, Any]:
        return {name: each.default for name, each in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The value of every option, by name."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **options: Any) -> LanguageModel:
        """Change options; they count from the next fit on."""
        for name, value in options.items():
            if name not in self._defaults():
                near = suggestion(name, self._defaults())
                do = f"Did you mean {near}?" if near else "get_params() lists them."
                raise UnknownNameError("option", expected="an option of a language model", got=name, do=do)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        chosen = {name: value for name, value in self.get_params().items() if value != self._defaults()[name]}
        return f"LanguageModel({', '.join(f'{name}={value!r}' for name, value in chosen.items())})"

    # -- training -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        text: str | Path,
        y: None = None,
        *,
        out: str | Path | None = None,
        listeners: Sequence[Listener] | None = None,
    ) -> LanguageModel:
        """Train from the beginning on a text (a str), or on a file (a Path); with `out`, into a run folder.

        On a terminal or in a notebook a line shows how it gets on, unless there are listeners, or none: listeners=[].
        Ctrl-C ends it after the step; the model is then the best so far.
        """
        config = resolve("lm", self.get_params())
        with ProgressLine() as line:
            reading = {"progress": line.reading} if listeners is None and isinstance(text, Path) else {}
            corpus = runs.open_text(text, config, **reading)
            setup = runs.text_setup(corpus, config)
            heard = [line] if listeners is None else listeners
            with stop_on_interrupt() as stopping:
                where = Path(out) if out else None
                fitted = runs.start(setup, out=where, listeners=heard, stopping=stopping)
        self._take(fitted)
        self.corpus_, self.run_ = corpus, None
        assert fitted.finished is not None
        raise_if_interrupted(fitted.finished)
        return self

    @property
    def _fitted(self) -> FittedModel:
        if not hasattr(self, "fitted_"):
            raise NotFittedError(
                "This LanguageModel is not fitted yet", do="Call fit(text), or LanguageModel.load(path)."
            )
        return self.fitted_

    def _take(self, fitted: FittedModel) -> Self:
        self.fitted_ = fitted
        return self

    @property
    def writer(self) -> TextSampler:
        fitted = self._fitted
        return TextSampler(fitted.head_network, fitted.parameters, fitted.spec.vocabulary)

    @property
    def network_(self) -> HeadNetwork:
        return self._fitted.head_network

    @property
    def parameters_(self) -> Parameters:
        return self._fitted.parameters

    @property
    def vocabulary_(self) -> Vocabulary:
        return self._fitted.spec.vocabulary

    @property
    def config_(self) -> Config:
        """All options, as the model was trained."""
        return self._fitted.config

    # -- writing ------------------------------------------------------------------------------------------------------

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """Pieces of text as they are written: length, how (a Sampling), seed, index, stop, unknown."""
        return self.writer.stream(prompt, **options)

    def sample(
        self,
        length: int = 500,
        *,
        prompt: str = "",
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        beam: int | None = None,
        stop: str | None = None,
        seed: int = 0,
        index: int = 0,
        unknown: str = "error",
    ) -> str:
        """The prompt and `length` tokens after it; sample number `index` of those that this seed gives."""
        if beam is not None:
            return self.writer.likeliest(prompt, width=beam, length=length, stop=stop, unknown=unknown, seed=seed)
        how = Sampling(temperature, top_k, top_p)
        return self.writer.write(prompt, length=length, how=how, seed=seed, index=index, stop=stop, unknown=unknown)

    def sample_many(self, count: int, length: int = 500, *, prompt: str = "", **options: Any) -> list[str]:
        """The samples with index 0 to count - 1, written side by side: how (a Sampling), seed, stop, unknown."""
        return self.writer.write_many(prompt, count=count, length=length, **options)

    def complete(self, prompt: str, length: int = 40, *, stop: str | None = None) -> str:
        """The prompt and what most likely follows it, letter by letter."""
        return self.sample(length, prompt=prompt, temperature=0, stop=stop)

    def next_distribution(self, prompt: str) -> dict[str, float]:
        """The probability of each token after the prompt, the likeliest first."""
        o, _ = self.writer.read(self.vocabulary_.encode(prompt))
        y_hat = softmax(o.astype(np.float64))
        return {self.vocabulary_.tokens[i]: float(y_hat[i]) for i in np.argsort(-y_hat, kind="stable")}

    def copies(self, sample: str) -> CopyReport:
        """How much of a sample stands verbatim in the training text."""
        vocabulary, corpus = self.writer.vocabulary, getattr(self, "corpus_", None)
        if corpus is None and self.run_ is not None:
            corpus = self.corpus_ = runs.read_corpus(self.run_)
        if corpus is None:
            raise RunError("The training text is not known", do="Fit the model, or load a run that has it.")
        data = self.config_
        return copy_report(sample, vocabulary, corpus.split(data.validation_fraction, data.test_fraction).train)

    # -- judging ------------------------------------------------------------------------------------------------------

    def score(self, text: str | Path, y: None = None) -> float:
        """Mean log-likelihood of a token, in nats: higher is better."""
        return -self.evaluate(text).nats_per_token

    def evaluate(self, text: str | Path, *, unknown: str = "error") -> Evaluation:
        """Nats and bits a token, bits a character, perplexity."""
        writer = self.writer
        options = {"vocabulary": self.vocabulary_, "unknown": unknown}
        corpus = runs.open_text(text, self.config_, **options)
        return evaluate_text(writer.network, writer.parameters, corpus.ids, corpus.characters)

    def surprise(self, text: str) -> Array:
        """-log probability of each character in nats; NaN for the first token, which nothing predicts.

        A byte model's character gets the sum of its bytes, a word or subword model's the even share of its token.
        """
        ids = self.writer.vocabulary.encode(text, unknown="replace" if self.vocabulary_.kind == "word" else "error")
        losses = np.concatenate([[np.nan], *token_losses(self.network_, self.parameters_, ids)])[: len(ids)]
        if self.vocabulary_.kind == "char":
            return losses
        if isinstance(self.vocabulary_, ByteVocabulary | BPEVocabulary):
            widths = [len(self.vocabulary_.pieces[i]) for i in ids]  # bytes of each token
            losses = np.repeat(losses / np.maximum(widths, 1), widths)  # of each byte
            sizes = [len(c.encode("utf-8", "surrogatepass")) for c in text]
            return np.add.reduceat(losses, np.cumsum([0, *sizes])[:-1]) if sizes else losses
        lengths = [len(word) for words in words_of([text]) for word in words]
        return np.repeat(losses / lengths, lengths)

    # -- keeping ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, force: bool = False) -> Run:
        """Write a run folder without its checkpoints: enough to load, sample, evaluate and export."""
        corpus = getattr(self, "corpus_", None)
        data = None if self.run_ is None else self.run_.config.get("data")
        if corpus is not None:
            data = runs.corpus_record(corpus)
        return runs.save(self._fitted, Path(path), data, force=force)

    @classmethod
    def load(cls, path: str | Path) -> LanguageModel:
        """The best model of a run, or a saved one."""
        run, fitted = runs.load(Path(path), "lm")
        known = cls._defaults()
        model = cls(**{name: value for name, value in fitted.config.options().items() if name in known})._take(fitted)
        model.run_ = run
        return model
