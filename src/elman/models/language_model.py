"""LanguageModel: it follows the conventions of scikit-learn without importing it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from elman.config import Config, resolve, suggestion
from elman.data import Corpus, Vocabulary
from elman.data.vocabulary import Unknown
from elman.data.words import words_of
from elman.errors import NotFittedError, RunError, UnknownNameError
from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.models import fine_tuning, runs
from elman.models.evaluation import Evaluation, evaluate_dynamically, evaluate_text, token_losses
from elman.models.fine_tuning import MAX_OLD_TOKENS
from elman.models.fitted import FittedModel
from elman.models.memorization import CopyReport, copy_report, whole_sequence
from elman.models.options import Options, takes_options
from elman.models.sampling import Sampling, TextSampler
from elman.models.task_spec import TaskSpec
from elman.network import HeadNetwork, Parameters
from elman.training.events import Listener
from elman.training.progress_line import ProgressLine
from elman.training.run import Run
from elman.training.signals import raise_if_interrupted, stop_on_interrupt


@takes_options("lm", "preset")
class LanguageModel(Options):
    """A language model of characters, bytes, words or subwords.

    The arguments are the options of a language model: `help(LanguageModel.__init__)` and docs/options.md explain them.

    Attributes
    ----------
    history_ : list of dict
        Rows of metrics: step, epoch, loss, validation_loss and so on; losses in nats per token.
    summary_ : str
        One line about the training.
    vocabulary_ : Vocabulary
        The tokens.
    config_ : Config
        All options of the training.

    Examples
    --------
    >>> from elman import LanguageModel
    >>> model = LanguageModel(hidden=16, steps=60, window=16, batch_size=4).fit("hello world\\n" * 60, listeners=[])
    >>> text = model.sample(20, prompt="hello", seed=1)
    >>> len(text)
    25
    >>> round(sum(model.next_distribution("hell").values()), 6)
    1.0
    """

    run_: Run | None = None  # where it was loaded from
    fitted_: FittedModel
    corpus_: Corpus

    # -- scikit-learn's conventions -----------------------------------------------------------------------------------

    @classmethod
    @cache
    def _defaults(cls) -> dict[str, Any]:
        return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The value of every option, by name.

        Parameters
        ----------
        deep : bool
            Ignored; scikit-learn passes it.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **options: Any) -> Self:
        """Change options; they apply from the next fit on.

        Parameters
        ----------
        **options
            Options by name.

        Returns
        -------
        LanguageModel
            The model itself.
        """
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
        text: str | Path | Sequence[str],
        y: None = None,
        *,
        start: LanguageModel | str | Path | None = None,
        drop_unused: bool = False,
        out: str | Path | None = None,
        force: bool = False,
        listeners: Sequence[Listener] | None = None,
    ) -> Self:
        """Train from the beginning, or from a trained model.

        On a terminal or in a notebook one line shows the progress and, at the end, a summary. Ctrl-C ends the training
        after the current step and raises KeyboardInterrupt; the model is then fitted, with the best parameters so far.

        Parameters
        ----------
        text : str, Path or list of str
            The text itself (a str), a file (a Path), or separate sequences, each learned from its beginning to its end.
        y : None
            Ignored; scikit-learn passes it.
        start : LanguageModel or path, optional
            A trained model, or its run folder, whose weights training starts from. The options of its network are kept,
            its vocabulary gets the new tokens of this text, and the learning rate is a quarter of its learning rate
            unless given.
        drop_unused : bool
            With `start`: remove the tokens of its vocabulary that this text does not have.
        out : str or Path, optional
            A run folder to write, which `elman train --resume` can continue.
        force : bool
            Replace a run that exists at `out`.
        listeners : sequence of callables, optional
            Called with every event of the training (elman.training) instead of showing progress; `[]` shows nothing.

        Returns
        -------
        LanguageModel
            The model itself.

        Raises
        ------
        DataError
            If the text is too short or cannot be read.
        DivergenceError
            If the loss diverges although the learning rate was lowered several times.
        """
        text = list(text) if isinstance(text, Iterator) else text  # it is read twice
        origin = self.load(start) if isinstance(start, str | Path) else start
        given = self.get_params()
        preset, defaults = given.pop("preset"), self._defaults()
        if origin is not None or preset is not None:  # arguments with their default values override nothing
            given = {name: value for name, value in given.items() if value != defaults[name]}
        if origin is not None:
            fine_tuning.check_start(origin, LanguageModel, self)
            given = fine_tuning.options_of(origin._fitted, "lm", given, preset)
        config = resolve("lm", given, preset=preset)
        with ProgressLine() as line:
            reading = {"progress": line.reading} if listeners is None and isinstance(text, Path) else {}
            corpus = runs.open_text(text, config, **reading)
            config = resolve("lm", given, form=runs.text_form(corpus, config), preset=preset)
            if origin is None:
                setup = runs.text_setup(corpus, config)
            else:
                again = partial(runs.open_text, text, config)
                setup = origin.continued(corpus, config, again, drop_unused=drop_unused)
            corpus = setup.corpus
            with stop_on_interrupt() as stopping:
                where = Path(out) if out else None
                called = [line] if listeners is None else listeners
                fitted = runs.start(setup, out=where, force=force, listeners=called, stopping=stopping)
            self._set_fitted(fitted)
            if listeners is None:
                line.end(self.summary_)
        self.corpus_, self.run_ = corpus, None
        assert fitted.finished is not None
        raise_if_interrupted(fitted.finished)
        return self

    def continued(
        self, corpus: Corpus, config: Config, reopen: Callable[..., Corpus], *, drop_unused: bool = False
    ) -> runs.TextSetup:
        """The setup of a training that starts from this model and continues with another text.

        Parameters
        ----------
        corpus : Corpus
            The text, in its own vocabulary.
        config : Config
            All options.
        reopen : callable
            reopen(vocabulary=...) reads the text again with another vocabulary.
        drop_unused : bool
            Leave out tokens that the text does not have.

        Returns
        -------
        TextSetup
            For elman.models.runs.start.
        """
        merged = fine_tuning.merge_specs(
            self._fitted.spec, TaskSpec.language_model(corpus.vocabulary), drop_unused=drop_unused
        )
        corpus = fine_tuning.merge_corpus(corpus, merged.spec.vocabulary, lambda known: reopen(vocabulary=known))
        setup, old, name = runs.text_setup(corpus, config), None, ""
        if self.run_ is not None:
            old, name = runs.old_data(self.run_.path), str(self.run_.path)
        elif hasattr(self, "corpus_"):
            known = self.config_
            old = runs.split_corpus(self.corpus_, known).validation[:MAX_OLD_TOKENS]
        return setup.started_from(fine_tuning.Origin(self._fitted, merged, old, name))

    @property
    def _fitted(self) -> FittedModel:
        if not hasattr(self, "fitted_"):
            raise NotFittedError(
                "This LanguageModel is not fitted yet", do="Call fit(text), or LanguageModel.load(path)."
            )
        return self.fitted_

    def _set_fitted(self, fitted: FittedModel) -> Self:
        self.fitted_ = fitted
        return self

    @property
    def text_sampler(self) -> TextSampler:
        """Generates text with this model."""
        fitted = self._fitted
        return TextSampler(fitted.head_network, fitted.parameters, fitted.spec.vocabulary)

    @property
    def history_(self) -> list[dict[str, Any]]:
        """Rows of metrics; a loaded model has those of its run."""
        return self._fitted.history

    @property
    def summary_(self) -> str:
        """One line about the training."""
        return self._fitted.summary()

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
        """All options of the training."""
        return self._fitted.config

    # -- sampling -----------------------------------------------------------------------------------------------------

    def stream(
        self,
        length: int = 500,
        *,
        prompt: str = "",
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: str | None = None,
        seed: int = 0,
        index: int = 0,
        unknown: Unknown = "error",
    ) -> Iterator[str]:
        """Sample a text piece by piece.

        Parameters
        ----------
        length : int
            The number of tokens after the prompt.
        prompt : str
            What the text begins with.
        temperature : float
            Below 1 likely tokens become likelier, above 1 less likely; 0 takes the likeliest token each time.
        top_k : int, optional
            Sample among the k likeliest tokens only.
        top_p : float, optional
            Sample among the likeliest tokens that together have this probability.
        stop : str, optional
            End before this text.
        seed : int
            The same seed gives the same text.
        index : int
            The number of the sample among those of this seed.
        unknown : {"error", "skip", "replace"}
            What to do with tokens of the prompt that are not in the vocabulary; "replace" reads a word as <unk>.

        Returns
        -------
        iterator of str
            The pieces that sample() joins, without the prompt.
        """
        how = Sampling(temperature, top_k, top_p)
        return self.text_sampler.stream(
            prompt, length=length, how=how, seed=seed, index=index, stop=stop, unknown=unknown
        )

    def sample(
        self,
        length: int = 500,
        *,
        prompt: str = "",
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: str | None = None,
        seed: int = 0,
        index: int = 0,
        unknown: Unknown = "error",
        beam: int | None = None,
    ) -> str:
        """Sample a text.

        Parameters
        ----------
        length : int
            The number of tokens after the prompt.
        prompt : str
            What the text begins with.
        temperature : float
            Below 1 likely tokens become likelier, above 1 less likely; 0 takes the likeliest token each time.
        top_k : int, optional
            Sample among the k likeliest tokens only.
        top_p : float, optional
            Sample among the likeliest tokens that together have this probability.
        stop : str, optional
            End before this text.
        seed : int
            The same seed gives the same text.
        index : int
            The number of the sample among those of this seed: sample_many(n)[i] is sample(index=i).
        unknown : {"error", "skip", "replace"}
            What to do with tokens of the prompt that are not in the vocabulary; "replace" reads a word as <unk>.
        beam : int, optional
            Search for the likeliest text with a beam of this width instead of sampling.

        Returns
        -------
        str
            The prompt and what follows it.
        """
        if beam is not None:
            return self.text_sampler.likeliest(prompt, width=beam, length=length, stop=stop, unknown=unknown, seed=seed)
        how = Sampling(temperature, top_k, top_p)
        return self.text_sampler.write(
            prompt, length=length, how=how, seed=seed, index=index, stop=stop, unknown=unknown
        )

    def sample_many(
        self,
        count: int,
        length: int = 500,
        *,
        prompt: str = "",
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: str | None = None,
        seed: int = 0,
        unknown: Unknown = "error",
    ) -> list[str]:
        """Sample several texts as one batch; each is the same as if it were sampled alone.

        Parameters
        ----------
        count : int
            The number of texts.
        length : int
            The number of tokens after the prompt.
        prompt : str
            What the text begins with.
        temperature : float
            Below 1 likely tokens become likelier, above 1 less likely; 0 takes the likeliest token each time.
        top_k : int, optional
            Sample among the k likeliest tokens only.
        top_p : float, optional
            Sample among the likeliest tokens that together have this probability.
        stop : str, optional
            End before this text.
        seed : int
            The same seed gives the same text.
        unknown : {"error", "skip", "replace"}
            What to do with tokens of the prompt that are not in the vocabulary; "replace" reads a word as <unk>.

        Returns
        -------
        list of str
            The samples with index 0 to count − 1.
        """
        how = Sampling(temperature, top_k, top_p)
        return self.text_sampler.write_many(
            prompt, count=count, length=length, how=how, seed=seed, stop=stop, unknown=unknown
        )

    def complete(self, prompt: str, length: int = 40, *, stop: str | None = None, unknown: Unknown = "error") -> str:
        """Continue a prompt with the likeliest token each time.

        Parameters
        ----------
        prompt : str
            What the text begins with.
        length : int
            The number of tokens after the prompt.
        stop : str, optional
            End before this text.
        unknown : {"error", "skip", "replace"}
            What to do with tokens of the prompt that are not in the vocabulary; "replace" reads a word as <unk>.

        Returns
        -------
        str
            The prompt and what follows it.
        """
        return self.sample(length, prompt=prompt, temperature=0, stop=stop, unknown=unknown)

    def next_distribution(self, prompt: str, *, unknown: Unknown = "error") -> dict[str, float]:
        """The probability of each token after a prompt.

        Parameters
        ----------
        prompt : str
            What has been read.
        unknown : {"error", "skip", "replace"}
            What to do with tokens of the prompt that are not in the vocabulary; "replace" reads a word as <unk>.

        Returns
        -------
        dict of str to float
            Token to probability, the likeliest first.
        """
        o, _ = self.text_sampler.read(self.vocabulary_.read(prompt, unknown=unknown))
        y_hat = softmax(o.astype(np.float64))
        return {self.vocabulary_.tokens[i]: float(y_hat[i]) for i in np.argsort(-y_hat, kind="stable")}

    def copies(self, sample: str) -> CopyReport:
        """How much of a sample occurs verbatim in the training text.

        Parameters
        ----------
        sample : str
            A text, usually one that this model has generated.

        Returns
        -------
        CopyReport
            The longest copied substring, and the share of all substrings of 12 characters that are copied. For a model
            of sequences the sample is one sequence, and the share is 1 if the data have it, else 0.
        """
        vocabulary, corpus = self.text_sampler.vocabulary, getattr(self, "corpus_", None)
        if corpus is None and self.run_ is not None:
            corpus = self.corpus_ = runs.read_corpus(self.run_)
        if corpus is None:
            raise RunError("The training text is not known", do="Fit the model, or load a run that has it.")
        config = self.config_
        if vocabulary.end is not None:
            known = whole_sequence(vocabulary.read(sample, whole=True), corpus.ids)
            return CopyReport(sample if known else "", float(known), 1)
        return copy_report(sample, vocabulary, runs.split_corpus(corpus, config).train)

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def score(self, text: str | Path | Sequence[str], y: None = None) -> float:
        """The mean log-likelihood of a text in nats per token: higher is better.

        Parameters
        ----------
        text : str, Path or list of str
            As in evaluate.
        y : None
            Ignored; scikit-learn passes it.

        Returns
        -------
        float
        """
        return -self.evaluate(text).nats_per_token

    def evaluate(
        self, text: str | Path | Sequence[str], *, unknown: Unknown = "error", dynamic: bool = False
    ) -> Evaluation:
        """How well the model predicts a text that it reads from a zero state.

        Parameters
        ----------
        text : str, Path or list of str
            The text itself (a str), a file (a Path), or sequences. A model of sequences reads a str as one sequence
            (with sequences="lines" as one each line), and a file as one each line; it predicts their ends too.
        unknown : {"error", "skip", "replace"}
            What to do with tokens of the text that are not in the vocabulary; "replace" reads a word as <unk>.
        dynamic : bool
            Train a copy of the model on each piece of the text after predicting it (dynamic evaluation).

        Returns
        -------
        Evaluation
            Nats and bits per token, bits per character, perplexity, and the number of predicted tokens.
        """
        text_sampler = self.text_sampler
        options = {"vocabulary": self.vocabulary_, "unknown": unknown}
        corpus = runs.open_text(text, self.config_, **options)
        evaluate = evaluate_dynamically if dynamic else evaluate_text
        return evaluate(text_sampler.network, text_sampler.parameters, corpus.ids, corpus.characters)

    def surprise(self, text: str, *, unknown: Unknown | None = None) -> Array:
        """The negative log probability of each character, given those before it.

        The losses of the bytes of a character are summed. The characters of a word, and the bytes of a subword, share
        the loss of their token evenly.

        Parameters
        ----------
        text : str
            The text; one sequence, if the model was trained on sequences.
        unknown : {"error", "skip", "replace"}, optional
            What to do with tokens that are not in the vocabulary: "replace" reads a word as <unk> (the default for
            words), "skip" leaves the token out, and its characters get NaN. The default for characters is "error".

        Returns
        -------
        array of shape (len(text),)
            Nats; NaN for the first token, which nothing predicts. A model of sequences predicts the first token too;
            there the shape is (len(text) + 1,), and the last number is the surprise of the end.
        """
        vocabulary = self._fitted.spec.vocabulary
        unknown = unknown or ("replace" if vocabulary.kind == "word" else "error")
        ids = vocabulary.read(text, unknown=unknown, whole=True)
        losses = np.concatenate([[np.nan], *token_losses(self.network_, self.parameters_, ids)])[: len(ids)]
        if vocabulary.end is not None:
            each, last = self._by_character(text, ids[1:-1], losses[1:-1], unknown), losses[-1:]
            return np.concatenate([each, last])
        return self._by_character(text, ids, losses, unknown)

    def _by_character(self, text: str, ids: Array, losses: Array, unknown: str) -> Array:
        """The loss of each character, from those of the tokens."""
        vocabulary = self.vocabulary_
        if vocabulary.pieces:
            widths = [len(vocabulary.pieces[i]) for i in ids]  # bytes of each token
            losses = np.repeat(losses / np.maximum(widths, 1), widths)  # of each byte
            sizes = [len(c.encode("utf-8", "surrogatepass")) for c in text]
            return np.add.reduceat(losses, np.cumsum([0, *sizes])[:-1]) if sizes else losses
        tokens = list(text) if vocabulary.kind == "char" else [word for words in words_of([text]) for word in words]
        lengths = np.array([len(token) for token in tokens], np.int64)
        if unknown == "skip":
            known = set(vocabulary.tokens)
            read = np.array([token in known for token in tokens], bool)
            losses, found = np.full(len(tokens), np.nan), losses
            losses[read] = found
        return np.repeat(losses / lengths, lengths)

    # -- saving -------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write a run folder without checkpoints: enough to load, sample, evaluate and export.

        Parameters
        ----------
        path : str or Path
            The folder.
        force : bool
            Replace a run that exists there.

        Returns
        -------
        Path
            The folder.
        """
        corpus = getattr(self, "corpus_", None)
        data = None if self.run_ is None else self.run_.config.get("data")
        if corpus is not None:
            data = runs.corpus_record(corpus)
        return runs.save(self._fitted, Path(path), data, force=force).path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the best model of a run, or a saved model.

        Parameters
        ----------
        path : str or Path
            The run folder.

        Returns
        -------
        LanguageModel

        Raises
        ------
        RunError
            If there is no run, or one of another task.
        CheckpointError
            If a file of the run is damaged.
        """
        run, fitted = runs.load(Path(path), "lm")
        known = cls._defaults()
        model = cls(**{name: value for name, value in fitted.config.options().items() if name in known})
        model.run_ = run
        return model._set_fitted(fitted)
