"""elman train --task …, predict and eval, as users type them."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from elman.cli import main
from elman.kernels import KERNELS
from elman.kernels.compile import FOLDER

QUICK = ["--hidden", "16", "--epochs", "4", "--learning-rate", "0.02", "--warmup-steps", "5"]
NAMES = "".join(f"{'ab' * (1 + i % 3)}{i % 7}\tA\n{'ba' * (1 + i % 3)}{i % 7}\tB\n" for i in range(40))
TAGGED = "".join(f"the\tDET\ndog{i}\tNOUN\n\na\tDET\ncat{i}\tNOUN\nsleeps\tVERB\n\n" for i in range(20))
PAIRS = "".join(f"word {i}\tmot {i}\n" for i in range(60))


def trained(*words):
    """The output of a training; for a fixture, which cannot use capsys."""
    with redirect_stdout(io.StringIO()) as said, pytest.raises(SystemExit) as caught:
        main(["train", *words])
    assert caught.value.code == 0
    return said.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each task, made as the README says."""
    folder = tmp_path_factory.mktemp("sequences")
    for name, text in (("names", NAMES), ("tagged", TAGGED), ("pairs", PAIRS)):
        (folder / f"{name}.tsv").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ELMAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("COLUMNS", "100")  # of a console that later tests use, too
        said = {
            "classify": trained("names.tsv", "--out", "classify", *QUICK),
            "tag": trained("tagged.tsv", "--out", "tag", *QUICK),
            "translate": trained("pairs.tsv", "--out", "translate", *QUICK),
            "generate": trained("names.tsv", "--task", "generate", "--out", "generate", *QUICK),
        }
    return folder, said


@pytest.fixture
def folder(runs, alone, monkeypatch):
    """The folder of the runs, as working folder."""
    monkeypatch.chdir(runs[0])
    return runs[0]


@pytest.fixture
def told(elman):
    """The output of a command that must succeed."""

    def run(*words, text=""):
        status, out, err = elman(*words, stdin=text.encode())
        assert status == 0, err + out
        return out

    return run


def process(*words, **options):
    command = [sys.executable, "-m", "elman", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done.stdout


def test_training_guesses_the_task_and_ends_with_the_next_command(runs):
    folder, said = runs
    for task, text in said.items():
        assert f"examples to {task}" in text
        assert text.splitlines()[-1] == f"elman predict {task}"
        assert json.loads((folder / task / "config.json").read_text())["task"] == task


def test_predict_classifies_lines(folder, told):
    assert told("predict", "classify", text="abab3\nbaba3\n").split() == ["A", "B"]
    shares = told("predict", "classify", "--proba", text="abab3\n").strip().split("\t")
    assert shares[0].startswith("A 0.")
    facts = json.loads(told("predict", "classify", "--json", "--proba", text="abab3\tignored\n"))
    assert facts["input"] == "abab3"
    assert facts["prediction"] == "A"
    assert sum(facts["proba"].values()) == pytest.approx(1)


def test_predict_reads_a_file(folder, told):
    (folder / "new.txt").write_text("abab1\n\nbaba1")
    assert len(told("predict", "classify", "new.txt").splitlines()) == 3


@pytest.mark.parametrize(("name", "text", "words"), [
    ("new.csv", "id,text\n1,abab3\n2,baba3\n", []),
    ("new.csv", "text,label\nabab3,B\nbaba3,A\n", []),
    ("new.csv", 'mark;"what, I say"\n1;abab3\n2;baba3\n', ["--text-column", "2"]),
    ("new.tsv", "text\tlabel\nabab3\tB\nbaba3\tA\n", []),
    ("new.tsv", "n\tword\tlabel\n1\tabab3\tB\n2\tbaba3\tA\n", ["--text-column", "word"]),
])  # fmt: skip
def test_predict_reads_the_texts_of_a_table(folder, elman, name, text, words):
    Path(name).write_text(text)
    status, out, err = elman("predict", "classify", name, *words)
    assert (status, out.split()) == (0, ["A", "B"])
    assert words == ["--text-column", "2"] or "is read as the text." in err


def test_predict_names_the_flag_for_the_column_of_a_table(folder, elman):
    Path("new.csv").write_text("left,middle,right\n1,abab3,x\n2,baba3,y\n")
    status, _, err = elman("predict", "classify", "new.csv")
    assert status == 2
    assert "--text-column" in err
    assert elman("predict", "classify", "new.csv", "--text-column", "above").status == 2
    assert "--text-column: expected a run with --task" in elman("predict", "tag", "new.csv", "--text-column", "1").err


def test_predict_tags_tokens(folder, told):
    said = told("predict", "tag", text="the\ncat1\n\na\ndog2\n")
    blocks = [[line.split("\t") for line in block.splitlines()] for block in said.strip().split("\n\n")]
    assert [[token for token, _ in block] for block in blocks] == [["the", "cat1"], ["a", "dog2"]]
    assert all(block[0][1] == "DET" for block in blocks)
    facts = [json.loads(line) for line in told("predict", "tag", "--json", text="the\ncat1\n").splitlines()]
    assert facts == [{"input": ["the", "cat1"], "prediction": facts[0]["prediction"]}]


def test_predict_splits_a_plain_line_at_spaces(folder, told):
    one_a_line = told("predict", "tag", text="the\ncat1\nsleeps\n\na\ndog2\n\na\n")
    assert told("predict", "tag", text="the cat1 sleeps\na dog2\na\n") == one_a_line
    assert told("predict", "tag", text="the cat1\tX\n").startswith("the cat1\t")  # a tab ends a token


def test_predict_keeps_the_spaces_of_tokens_that_have_some(elman):
    Path("places.tsv").write_text("in\tO\nNew York\tLOC\n\n" * 20)
    elman("train", "places.tsv", "--task", "tag", "--out", "r", *QUICK)
    assert [line.split("\t")[0] for line in elman("predict", "r", stdin=b"in\nNew York\n").out.split("\n")[:2]] == [
        "in", "New York",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "text", "note"),
    [
        ("classify", "漢字\nabab1\nb字\n", "2 of 3 inputs have tokens that are not in the vocabulary: '漢', '字'."),
        ("classify", "abab1\n", ""),
        ("translate", "word 漢\n", "1 of 1 inputs have tokens that are not in the vocabulary: '漢'."),
        ("generate", "A\n", ""),
        ("tag", "the\nyak\n", "1 of 1 inputs have tokens that are not in the vocabulary: 'yak'."),
        ("tag", "the yak\n", "1 of 1 inputs have tokens that are not in the vocabulary: 'yak'."),
    ],
)
def test_predict_reports_unknown_tokens(elman, runs, task, text, note):
    folder, _ = runs
    status, out, err = elman("predict", folder / task, "--json", stdin=text.encode())
    assert status == 0
    assert len(err.splitlines()) == bool(note)
    assert note in err
    assert all("prediction" in json.loads(line) for line in out.splitlines())


def test_predict_translates_and_generates(folder, told):
    facts = json.loads(told("predict", "translate", "--beam", "3", "--json", text="word 3\n"))
    assert set(facts) == {"input", "prediction"}
    drawn = told("predict", "generate", "--temperature", "1", "--seed", "3", text="A\nB\nA\n")
    assert len(drawn.splitlines()) == 3
    assert drawn == told("predict", "generate", "--temperature", "1", "--seed", "3", text="A\nB\nA\n")


def test_eval_prints_the_usual_figures_of_each_task(folder, told):
    text = told("eval", "classify", "names.tsv")
    assert "accuracy" in text
    assert "macro F1" in text
    assert "predicted →" in text
    facts = json.loads(told("eval", "classify", "names.tsv", "--json"))
    assert facts["accuracy"] > 0.9
    assert sum(map(sum, facts["confusion"])) == facts["examples"] == 80
    assert json.loads(told("eval", "tag", "tagged.tsv", "--json"))["examples"] == 100
    facts = json.loads(told("eval", "translate", "pairs.tsv", "--json"))
    assert {"exact_match", "token_accuracy", "edit_distance", "words_right", "bleu", "chrf"} < set(facts)
    assert json.loads(told("eval", "generate", "names.tsv", "--json"))["perplexity"] > 1


def test_predict_and_eval_work_in_a_pipe(folder):
    assert process("predict", "classify", input="abab3\nbaba3\n").split() == ["A", "B"]
    assert json.loads(process("eval", "classify", "names.tsv", "--json"))["examples"] == 80


def test_show_describes_a_run_of_any_task(folder, told):
    for task in ("classify", "tag", "generate", "translate"):
        assert f"{task}: " in told("show", task)


def test_a_confusion_matrix_has_the_classes_that_occur(folder, told):
    Path("one.tsv").write_text("abab1\tA\n")
    lines = told("eval", "classify", "one.tsv").splitlines()
    assert [line.split() for line in lines[-2:]] == [["true", "↓", "predicted", "→", "A"], ["A", "1"]]


def test_few_examples_print_few_lines_and_few_steps_still_print_their_loss(folder, told):
    Path("few.tsv").write_text("ab\tA\nba\tB\n" * 10)
    said = told("train", "few.tsv", "--hidden", 4, "--steps", 300, "--validate-every", 1)
    lines = [line for line in said.splitlines() if line.startswith("step ")]
    assert 1 < len(lines) < 150
    assert lines[-1].split()[1] == "300"
    short = told("train", "few.tsv", "--hidden", 4, "--steps", 3, "--validation-fraction", 0)
    assert [line.split()[:2] for line in short.splitlines() if line.startswith("step ")] == [["step", "3"]]


def test_classifiers_and_taggers_print_their_validation_accuracy(runs, folder, told):
    for task, text in runs[1].items():
        rows = [json.loads(line) for line in (folder / task / "metrics.jsonl").read_text().splitlines()]
        held = [row for row in rows if row["validation_loss"] is not None]
        shown = [line for line in text.splitlines() if "  validation " in line]
        best = min(held, key=lambda row: row["validation_loss"])
        by_step = {row["step"]: row for row in held}
        steps = [int(line.split()[1]) for line in shown]
        assert steps[-1] == held[-1]["step"]
        for step, line in zip(steps, shown, strict=True):
            row = by_step[step]
            accuracy = f"  accuracy {row['validation_accuracy']:.4f}" if task in ("classify", "tag") else ""
            assert f"  validation {row['validation_loss']:.4f}{accuracy}" in line
        assert text.count("accuracy") == len(shown) * (task in ("classify", "tag"))
        assert sum("validation_accuracy" in row for row in rows) == len(held) * (task in ("classify", "tag"))
        right = f", accuracy {best['validation_accuracy']:.4f}" if task in ("classify", "tag") else ""
        found = f"{best['validation_loss']:.4f} nats{right} on validation, at step {best['step']}\n"
        assert found in told("show", task)


@pytest.mark.parametrize(
    ("words", "text", "says"),
    [
        (["train", "bad.tsv", "--task", "classify"], None, "bad.tsv, line 2: expected a tab"),
        (["train", "names.tsv", "--task", "juggle"], None, "one of lm, classify, regress, tag, generate, translate"),
        (["train", "names.tsv", "--task", "classify", "--window", "3"], None, "It is for lm"),
        (["train", "missing.tsv", "--task", "tag"], None, "there is no file 'missing.tsv'"),
        (["train", "--task", "tag"], None, "SOURCE: expected one file"),
        (["train", "names.tsv", "--out", "classify"], None, "exists already"),
        (["eval", "classify", "strange.tsv"], None, "strange.tsv, line 1: expected a label that was seen"),
        (["eval", "tag", "strange.tsv"], None, "expected a tag that was seen in training, got 'C'"),
        (
            ["eval", "tag", "tagged.tsv", "--unknown", "skip"],
            None,
            "--unknown: expected a language model, got a run with --task tag",
        ),
        (["eval", "classify", "names.tsv", "--unknown=error"], None, "--unknown: expected a language model"),
        (["predict", "translate", "--proba"], "x\n", "--proba: expected a run with --task classify or tag"),
        (["predict", "generate"], "C\n", "label: expected one of"),
        (["eval", "classify", "near.tsv"], None, "got 'AA'. Did you mean A?"),
        (["sample", "classify"], None, "expected a language model, got a model to classify. Use elman predict."),
        (["predict", "nowhere"], "x\n", "There is no run at nowhere"),
        (["train", "tagged.tsv", "--pooling", "mean"], None, "--pooling does not apply to --task tag. It is for class"),
        (["train", "tagged.tsv", "--task=tag", "--pooling=mean"], None, "--pooling does not apply to --task tag"),
        (["train", "tagged.tsv", "--task", "tag", "--tokens", "char"], None, "--tokens does not apply to --task tag"),
        (["train", "tagged.tsv", "--target-tokens", "char"], None, "--target-tokens does not apply to --task tag"),
        (["train", "tagged.tsv", "--sample-every", "5"], None, "--sample-every does not apply to --task tag"),
        (["train", "names.tsv", "--sample-every", "5"], None, "--sample-every does not apply to --task classify"),
        (["train", "names.tsv", "--attention", "dot"], None, "--attention does not apply to --task classify"),
        (
            ["train", "names.tsv", "--no-standardize"],
            None,
            "has no flag --no-standardize",
        ),
        (
            ["train", "names.tsv", "--task", "generate", "--bidirectional"],
            None,
            "--bidirectional does not apply to --task gen",
        ),
        (
            ["train", "names.tsv", "--task", "generate", "--unk-dropout", "1"],
            None,
            "--unk-dropout does not apply to --task generate",
        ),
        (
            ["train", "names.tsv", "--task", "generate", "--input-dropout", "0.5"],
            None,
            "got 0.5. Leave it out, or set --embedding 64, for example.",
        ),
        (["train", "pairs.tsv", "--pooling", "max"], None, "--pooling does not apply to --task translate"),
        (["train", "pairs.tsv", "--window", "9"], None, "It is for lm"),
        (["train", "tabs.tsv", "--task", "classify"], None, "tabs.tsv, line 2: expected lines of text, a tab, a label"),
        (["predict", "classify", "--beam", "3"], "x\n", "--beam: expected a run with --task translate or generate"),
        (["predict", "translate", "--beam", "1" + "0" * 20], "x\n", "beam: expected a whole number from 1 to 1024"),
        (["predict", "classify", "--encoding", "undefined"], "x\n", "encoding: expected a text encoding that Python"),
        (["train", "names.tsv", "--task=classify", "--encoding", "undefined"], None, "encoding: expected a text enc"),
        (["train", "names.tsv", "--task=classify", "--encoding", "punycode"], None, "names.tsv is not punycode"),
        (["look", "classify", "--text", "ab", "--unknown", "skip"], None, "--unknown: expected a language model"),
        (["look", "classify", "--text", "ab", "--encoding", "utf-8"], None, "--encoding: expected --file"),
        (["card", "classify", "--seed", "0"], None, "--seed: expected a language model, got a run with"),
        (["card", "tag", "--length", "9"], None, "--length: expected a language model, got a run with --task tag"),
        (["card", "tag", "--temperature", "1"], None, "--temperature: expected a language model"),
        (["predict", "classify", "--seed", "3"], "x\n", "--seed: expected a run with --task generate"),
        (["predict", "generate", "--beam", "3", "--temperature", "1"], "A\n", "Choose one"),
        (["predict", "classify"], "", "standard input has no input: expected at least one line that is not blank"),
        (["predict", "tag", "empty.txt"], None, "empty.txt has no input"),
        (["export", "classify", "--to", "html"], None, "got a model to classify. Export it to onnx, torch or npz"),
        (["predict", "tag"], "the\n\tX\n", "-, line 2: expected a token, got none before the tab"),
    ],
)
def test_errors_are_reported_and_leave_nothing_behind(elman, folder, words, text, says):
    (folder / "bad.tsv").write_text("good\tpos\nno tab\n")
    (folder / "strange.tsv").write_text("x\tC\n")
    (folder / "empty.txt").touch()
    (folder / "near.tsv").write_text("x\tAA\n")
    (folder / "tabs.tsv").write_text("x\tC\n\t\ny\tD\n")
    before = sorted(path.name for path in folder.iterdir())
    status, _, err = elman(*words, stdin=(text or "").encode())
    assert status == 2
    assert says in err
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """$ELMAN_DATA with a file of each format and a folder, none of which is in the working folder."""
    mine = tmp_path / "mine"
    (mine / "people").mkdir(parents=True)
    for name, text in (("names", NAMES), ("tagged", TAGGED), ("pairs", PAIRS)):
        (mine / f"{name}.tsv").write_text(text)
    for label, text in (("a", "abab\nab\n" * 9), ("b", "baba\nba\n" * 9)):
        (mine / "people" / f"{label}.txt").write_text(text)
    monkeypatch.setenv("ELMAN_DATA", str(mine))
    return mine


@pytest.mark.parametrize(
    ("source", "task"),
    [("names.tsv", "classify"), ("people", "classify"), ("tagged.tsv", "tag"), ("pairs.tsv", "translate")],
)
def test_a_file_in_the_data_folder_is_found_by_its_name(elman, mine, source, task):
    words = ("--steps", "1", "--hidden", "4", "--out", "run", "--force")
    for named in ([source], [source, "--task", task], [mine / source]):
        assert f"examples to {task}" in elman("train", *named, *words).out
        assert json.loads(Path("run/config.json").read_text())["data"]["source"] == str(mine / source)
    by_name = elman("eval", "run", source, "--json")
    assert by_name.status == 0
    assert by_name == elman("eval", "run", mine / source, "--json")


def test_predict_finds_its_file_in_the_data_folder(elman, mine, runs):
    folder, _ = runs
    (mine / "new.txt").write_text("abab1\nbaba1\n")
    assert elman("predict", folder / "classify", "new.txt").out.split() == ["A", "B"]


def test_one_bad_line_does_not_turn_examples_into_a_text(elman):
    Path("slip.tsv").write_text(f"{NAMES}no tab\n")
    words = ("train", "slip.tsv", "--steps", "1", "--hidden", "4", "--out", "slip")
    status, out, err = elman(*words)
    assert (status, out) == (2, "")
    assert "slip.tsv, line 81: expected one tab, as in 80 of 81 lines, got 'no tab'" in err
    assert "--task classify, which it seems to be, or --task lm if it is a text" in err
    assert not Path("slip").exists()
    assert elman(*words, "--task", "lm", "--batch-size", "2", "--window", "8").status == 0


def test_an_ambiguous_folder_is_refused(elman):
    Path("either").mkdir()
    for label in ("a", "b"):
        Path(f"either/{label}.txt").write_text(f"{'a line of many words ' * 4}{label}\n" * 30)
    words = ("train", "either", "--steps", "1", "--hidden", "4", "--batch-size", "2", "--out", "run")
    status, out, err = elman(*words)
    assert (status, out) == (2, "")
    assert "a.txt has lines of 85 characters. Choose --task classify if" in err
    assert not Path("run").exists()
    assert "60 examples to classify" in elman(*words, "--task", "classify").out
    assert elman(*words, "--task", "lm", "--window", "8", "--force").status == 0


def test_the_value_of_a_flag_is_not_taken_for_the_source(folder, told):
    words = ("train", "names.tsv", "--out", "twice", "--steps", "2", "--hidden", "8")
    told(*words)
    assert "examples to classify" in told(*words, "--force")


def test_a_generator_prints_samples_during_training(folder, told):
    words = ("train", "names.tsv", "--task", "generate", *QUICK, "--sample-every", "3", "--out")
    said = told(*words, "shown")
    assert sum(line.startswith(("A: ", "B: ")) for line in said.splitlines()) >= 4
    rows = [json.loads(line) for line in (folder / "shown" / "metrics.jsonl").read_text().splitlines()]
    samples = [(row["step"], row["sample"]) for row in rows if "sample" in row]
    assert [step for step, _ in samples][:3] == [3, 6, 9]
    assert all({line[:3] for line in sample.splitlines()} == {"A: ", "B: "} for _, sample in samples)
    assert len({sample for _, sample in samples}) > 1
    told(*words, "shown", "--force")
    again = [json.loads(line) for line in (folder / "shown" / "metrics.jsonl").read_text().splitlines()]
    assert [row.get("sample") for row in again] == [row.get("sample") for row in rows]


def test_the_loss_of_a_regressor_is_not_called_nats(told):
    from elman import SequenceRegressor
    from elman.models.runs import start

    stops = iter([False] * 5 + [True] * 100)
    X = [[float(i), 1.0] for i in range(40)]
    model = SequenceRegressor(hidden=8, steps=12, validation_fraction=0.2, validate_every=4)
    start(model.make_setup(X, list(range(40))), out=Path("run"), stopping=lambda: next(stops))
    for said in (told("train", "--resume", "run"), told("show", "run")):
        assert "nats" not in said
        assert "mean squared error" in said


def test_a_resumed_run_with_a_smaller_budget_does_not_train(elman, runs):
    run = runs[0] / "classify"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for words, asked in ((("--epochs", 1), "1 epoch ("), (("--steps", 3), "3 steps")):
        status, out, _ = elman("train", "--resume", run, *words)
        assert status == 0
        assert f"more than {asked}" in out
        assert "A larger --steps or --epochs, or --seconds for more time, continues the run." in out
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_loaded_run_has_its_seed(folder, told):
    from elman import load_model

    told("train", "names.tsv", "--out", "seeded", "--steps", "3", "--hidden", "8", "--seed", "5")
    model = load_model(folder / "seeded")
    assert (model.random_state, model.n_iter_, model.class_weight) == (5, 3, None)


def test_tokens_of_validation_examples_are_not_in_the_vocabulary(folder, told):
    letters = "abcdefghijklmnopqrstuvwxyz"
    (folder / "letters.tsv").write_text("".join(f"{letter}\t{'AB'[i % 2]}\n" for i, letter in enumerate(letters)))
    words = ("--task", "classify", "--steps", "2", "--hidden", "8", "--validation-fraction", "0.5", "--out", "letters")
    told("train", "letters.tsv", *words)
    kept = json.loads((folder / "letters" / "vocabulary.json").read_text())
    assert len(kept["inputs"]["symbols"]["tokens"]) == 13


def test_the_help_says_what_a_flag_turns_off(told):
    said = told("train", "--task", "tag", "--help")
    assert "--no-standardize" not in said  # no file holds numbers
    assert "read in both directions (on; this turns it off)" in " ".join(said.split())
    assert "default: True" not in said


def test_too_few_examples_are_refused(elman, folder):
    (folder / "two.tsv").write_text("a\tb\nc\td\n")
    status, _, err = elman("train", "two.tsv", "--task", "translate", "--validation-fraction", "0.9")
    assert status == 2
    assert "at least one example with a loss" in err


def test_an_interrupted_run_is_resumed_to_the_same_model(folder, told):
    words = ["train", "names.tsv", "--hidden", "16", "--steps", "150", "--save-every", "20", "--validate-every", "1"]
    told(*words, "--out", "whole")
    # the same kernels as here, which are compiled already
    kernels = {"ELMAN_KERNELS": KERNELS, "ELMAN_CACHE": str(FOLDER.parents[1]), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "elman", *words, "--out", "parts"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,  # it holds fewer lines than there are steps, so the process waits for us
        env=os.environ | kernels,
    ) as training:
        while not (line := training.stdout.readline()).startswith(b"step "):
            assert line, training.stderr.read().decode()
        training.send_signal(signal.SIGINT)
        training.communicate(timeout=60)
    assert training.returncode == 130 or sys.platform != "linux"  # elsewhere a pipe may hold it all
    assert "Continuing from step" in told("train", "--resume", "parts")
    assert (folder / "parts/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes()
