"""elman look: analyze a model while it reads a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elman.cli.compile_notice import print_compile_notice
from elman.cli.console import console
from elman.cli.flags import argument, flag
from elman.cli.progress import reading
from elman.errors import ArgumentError


@dataclass(frozen=True)
class Look:
    """Analyze a model while it reads a text: how far back its gradient reaches, or which tokens its
    prediction depends on.

    Prints a verdict and writes a report, one HTML file that opens offline. For a language model: the gradient of every
    loss with respect to every state, gates, eigenvalues and singular values of W_hh and of the Jacobians, Lyapunov
    exponents, saturation, surprise, and what single units track. For a classifier, regressor or tagger: what each token
    contributes to the prediction.

    For instance:
        elman look runs/pride-and-prejudice --text "It is a truth universally acknowledged"
        elman look runs/pride-and-prejudice --file chapter.txt --out report.html
        elman look runs/names --text Bianchi
    """

    run_folder: Path = argument("RUN", "a run made by elman train")
    text: str | None = flag(None, "text to read")
    file: str | None = flag(
        None, "lm: text to read instead of --text: a file, - for standard input, or a name listed by elman data list"
    )
    out: Path | None = flag(None, "file of the report (default: look.html in the run folder, replaced if it exists)")
    force: bool = flag(False, "replace the file of --out, if it is a page that Elman wrote")
    encoding: str | None = flag(None, "encoding of --file (default: as in training)")
    unknown: Literal["error", "skip"] | None = flag(
        None,
        "lm: stop with an error at a character outside the vocabulary, or skip it (default: error); "
        "words outside it are read as <unk> unless skipped",
    )

    def run(self) -> int:
        if (self.text is None) == (self.file is None):
            what = "The text to read is missing" if self.text is None else "Two texts to read are given"
            raise ArgumentError(what, do="Give either --text TEXT or --file FILE.")
        if self.text == "":
            raise ArgumentError("--text", expected="at least two characters", got="none")
        if self.file is None and self.encoding is not None:
            raise ArgumentError("--encoding", expected="--file, whose encoding it is", got="--text", do="Leave it out.")
        from elman.data import corpus_from_text, open_corpus
        from elman.look.analysis import examine
        from elman.look.html_report import Report, place
        from elman.models import LanguageModel
        from elman.models.loading import load_predictor

        model = load_predictor(self.run_folder)
        out = self._report_path()
        if not isinstance(model, LanguageModel):
            return self._attribution(model, out)
        print_compile_notice("backward")
        data = model.config_
        options: dict[str, Any] = {"vocabulary": model.vocabulary_, "unknown": self.unknown or "error"}
        with reading() as progress:
            if self.text is not None:
                corpus = corpus_from_text(self.text, keep_boilerplate=True, **options)
            else:
                corpus = open_corpus(
                    self.file or "",
                    encoding=self.encoding or data.encoding,
                    keep_boilerplate=data.keep_boilerplate,
                    progress=progress,
                    **options,
                )
            words = self.text if model.vocabulary_.kind == "word" else None  # to show words that are read as <unk>
            seen = examine(model, corpus.ids, words=words, progress=progress)
            Report(seen).save(out)
        for note in corpus.notes:
            console.print(note, markup=False)
        if seen.unread:
            console.print(f"The gradients are those of the first {seen.flow.steps} steps of the text.")
        for verdict in reversed(seen.verdicts):
            layer = f"Layer {verdict.layer}: " if len(seen.verdicts) > 1 else ""
            console.print(f"{layer}{verdict} {place(verdict, seen)}".rstrip(), markup=False)
        console.print(f"Report (open it in a browser): {out}", markup=False)
        return 0

    def _attribution(self, model: Any, out: Path) -> int:
        """What each token contributes to the prediction of a classifier, regressor or tagger."""
        from elman.data.inputs import TokenInputs
        from elman.look.html_report import report

        if self.text is None:
            raise ArgumentError(
                "--file",
                expected="a language model",
                got=f"a run with --task {model.task}",
                do="Give --text TEXT instead.",
            )
        if self.unknown is not None:
            do = "Leave it out: the other tasks read unknown tokens as <unk>."
            raise ArgumentError("--unknown", expected="a language model", got=f"a run with --task {model.task}", do=do)
        inputs = model.fitted_.spec.inputs
        if not isinstance(inputs, TokenInputs):
            raise ArgumentError(
                f"{self.run_folder} reads numbers, not text", do="Use elman.look.attribution in Python."
            )
        found = report(model, self.text.split() if inputs.symbols.kind == "list" else self.text)
        found.save(out)
        console.print(f"{getattr(found.analysis, 'words', '')}.", markup=False)
        console.print(f"Report (open it in a browser): {out}", markup=False)
        return 0

    def _report_path(self) -> Path:
        """The path of the report, checked before the model is analyzed."""
        from elman.look.page_marker import check_replaceable

        out = self.out or self.run_folder / "look.html"
        if not out.parent.is_dir():
            raise ArgumentError(f"{out.parent} is not a folder", do="Make it, or choose another --out.")
        check_replaceable(out, "a report of elman look", force=self.force or self.out is None)
        return out
