"""elman train --task …, predict and eval: as a person types them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

QUICK = ["--hidden", "16", "--epochs", "4", "--learning-rate", "0.02", "--warmup", "5"]
NAMES = "".join(f"{'ab' * (1 + i % 3)}{i % 7}\tA\n{'ba' * (1 + i % 3)}{i % 7}\tB\n" for i in range(40))
TAGGED = "".join(f"the\tDET\ndog{i}\tNOUN\n\na\tDET\ncat{i}\tNOUN\nsleeps\tVERB\n\n" for i in range(20))
PAIRS = "".join(f"word {i}\tmot {i}\n" for i in range(60))


def elman(*words, cwd, text=None, rc=0):
    done = subprocess.run(
        [sys.executable, "-m", "elman", *map(str, words)],
        check=False,
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == rc, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done.stdout if rc == 0 else done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each task, made as the README says."""
    folder = tmp_path_factory.mktemp("sequences")
    for name, text in (("names", NAMES), ("tagged", TAGGED), ("pairs", PAIRS)):
        (folder / f"{name}.tsv").write_text(text)
    said = {
        "classify": elman("train", "names.tsv", "--out", "classify", *QUICK, cwd=folder),
        "tag": elman("train", "tagged.tsv", "--out", "tag", *QUICK, cwd=folder),
        "translate": elman("train", "pairs.tsv", "--out", "translate", *QUICK, cwd=folder),
        "generate": elman("train", "names.tsv", "--task", "generate", "--out", "generate", *QUICK, cwd=folder),
    }
    return folder, said


def test_training_guesses_the_task_and_ends_with_the_next_command(runs):
    folder, said = runs
    for task, text in said.items():
        assert f"examples to {task}" in text
        assert text.splitlines()[-1] == f"elman predict {task}"
        assert json.loads((folder / task / "config.json").read_text())["task"] == task


def test_predict_classifies_lines(runs):
    folder, _ = runs
    assert elman("predict", "classify", cwd=folder, text="abab3\nbaba3\n").split() == ["A", "B"]
    shares = elman("predict", "classify", "--proba", cwd=folder, text="abab3\n").strip().split("\t")
    assert shares[0].startswith("A 0.")
    facts = json.loads(elman("predict", "classify", "--json", "--proba", cwd=folder, text="abab3\tignored\n"))
    assert facts["input"] == "abab3"
    assert facts["prediction"] == "A"
    assert sum(facts["proba"].values()) == pytest.approx(1)


def test_predict_reads_a_file_and_an_empty_one_gives_nothing(runs):
    folder, _ = runs
    (folder / "new.txt").write_text("abab1\n\nbaba1")
    assert len(elman("predict", "classify", "new.txt", cwd=folder).splitlines()) == 3
    assert elman("predict", "classify", cwd=folder, text="") == ""


def test_predict_tags_tokens(runs):
    folder, _ = runs
    said = elman("predict", "tag", cwd=folder, text="the\ncat1\n\na\ndog2\n")
    blocks = [[line.split("\t") for line in block.splitlines()] for block in said.strip().split("\n\n")]
    assert [[token for token, _ in block] for block in blocks] == [["the", "cat1"], ["a", "dog2"]]
    assert all(block[0][1] == "DET" for block in blocks)
    facts = [
        json.loads(line) for line in elman("predict", "tag", "--json", cwd=folder, text="the\ncat1\n").splitlines()
    ]
    assert facts == [{"input": ["the", "cat1"], "prediction": facts[0]["prediction"]}]


@pytest.mark.parametrize(
    ("task", "text", "note"),
    [
        ("classify", "漢字\nabab1\nb字\n", "2 of 3 inputs have tokens that the model has never seen: '漢', '字'."),
        ("classify", "abab1\n", ""),
        ("translate", "word 漢\n", "1 of 1 inputs have tokens that the model has never seen: '漢'."),
        ("generate", "A\n", ""),
        ("tag", "the\nyak\n", "1 of 1 inputs have tokens that the model has never seen: 'yak'."),
        ("tag", "yak\nthe dog1\n", "never seen: 'the dog1'. A tagger reads one token a line, and a blank line after"),
    ],
)
def test_predict_says_what_it_has_never_seen(elman, runs, task, text, note):
    folder, _ = runs
    status, out, err = elman("predict", folder / task, "--json", stdin=text.encode())
    assert status == 0
    assert len(err.splitlines()) == bool(note)
    assert note in err
    assert all("prediction" in json.loads(line) for line in out.splitlines())


def test_predict_translates_and_generates(runs):
    folder, _ = runs
    facts = json.loads(elman("predict", "translate", "--beam", "3", "--json", cwd=folder, text="word 3\n"))
    assert set(facts) == {"input", "prediction"}
    drawn = elman("predict", "generate", "--temperature", "1", "--seed", "3", cwd=folder, text="A\nB\nA\n")
    assert len(drawn.splitlines()) == 3
    assert drawn == elman("predict", "generate", "--temperature", "1", "--seed", "3", cwd=folder, text="A\nB\nA\n")


def test_eval_gives_the_figures_that_people_expect(runs):
    folder, _ = runs
    text = elman("eval", "classify", "names.tsv", cwd=folder)
    assert "accuracy" in text
    assert "macro F1" in text
    assert "said →" in text
    facts = json.loads(elman("eval", "classify", "names.tsv", "--json", cwd=folder))
    assert facts["accuracy"] > 0.9
    assert sum(map(sum, facts["confusion"])) == facts["examples"] == 80
    assert json.loads(elman("eval", "tag", "tagged.tsv", "--json", cwd=folder))["examples"] == 100
    told = json.loads(elman("eval", "translate", "pairs.tsv", "--json", cwd=folder))
    assert set(told) == {"examples", "exact_match", "token_accuracy", "edit_distance"}
    assert json.loads(elman("eval", "generate", "names.tsv", "--json", cwd=folder))["perplexity"] > 1


def test_show_tells_of_any_run(runs):
    folder, _ = runs
    for task in ("classify", "tag", "generate", "translate"):
        assert f"{task}: " in elman("show", task, cwd=folder)


def test_classes_and_tags_are_judged_by_accuracy_as_they_are_learned(runs):
    folder, said = runs
    for task, text in said.items():
        rows = [json.loads(line) for line in (folder / task / "metrics.jsonl").read_text().splitlines()]
        held = [row for row in rows if row["validation_loss"] is not None]
        shown = [line for line in text.splitlines() if "  validation " in line]
        best = min(held, key=lambda row: row["validation_loss"])
        assert len(held) == len(shown) > 1
        for row, line in zip(held, shown, strict=True):
            accuracy = f"  accuracy {row['validation_accuracy']:.4f}" if task in ("classify", "tag") else ""
            assert f"  validation {row['validation_loss']:.4f}{accuracy}" in line
        assert text.count("accuracy") == len(held) * (task in ("classify", "tag"))
        assert sum("validation_accuracy" in row for row in rows) == text.count("accuracy")
        right = f", accuracy {best['validation_accuracy']:.4f}" if task in ("classify", "tag") else ""
        found = f"{best['validation_loss']:.4f} nats{right} on validation, at step {best['step']}\n"
        assert found in elman("show", task, cwd=folder)


@pytest.mark.parametrize(
    ("words", "text", "says"),
    [
        (["train", "bad.tsv", "--task", "classify"], None, "bad.tsv, line 2: expected a tab"),
        (["train", "names.tsv", "--task", "juggle"], None, "one of lm, classify, tag, generate, translate"),
        (["train", "names.tsv", "--task", "classify", "--window", "3"], None, "for language models only"),
        (["train", "missing.tsv", "--task", "tag"], None, "there is no file 'missing.tsv'"),
        (["train", "--task", "tag"], None, "SOURCE is missing"),
        (["train", "names.tsv", "--out", "classify"], None, "exists already"),
        (["eval", "classify", "strange.tsv"], None, "strange.tsv, line 1: expected a label that was seen"),
        (["eval", "tag", "strange.tsv"], None, "expected a tag that was seen in training, got 'C'"),
        (
            ["eval", "tag", "tagged.tsv", "--unknown", "skip"],
            None,
            "--unknown: expected a language model, got a run to tag",
        ),
        (["eval", "classify", "names.tsv", "--unknown=error"], None, "--unknown: expected a language model"),
        (["predict", "translate", "--proba"], "x\n", "--proba: expected a run to classify or tag"),
        (["predict", "generate"], "C\n", "label: expected one of"),
        (["eval", "classify", "near.tsv"], None, "got 'AA'. Did you mean A?"),
        (["sample", "classify"], None, "expected a language model, got 'classify'. elman predict uses it."),
        (["predict", "nowhere"], "x\n", "There is no run at nowhere"),
        (["train", "tagged.tsv", "--pooling", "mean"], None, "--pooling means nothing for --task tag. It is for class"),
        (["train", "tagged.tsv", "--task=tag", "--pooling=mean"], None, "--pooling means nothing for --task tag"),
        (["train", "tagged.tsv", "--task", "tag", "--tokens", "char"], None, "--tokens means nothing for --task tag"),
        (["train", "tagged.tsv", "--target-tokens", "char"], None, "--target-tokens means nothing for --task tag"),
        (["train", "tagged.tsv", "--sample-every", "5"], None, "--sample-every means nothing for --task tag"),
        (["train", "names.tsv", "--sample-every", "5"], None, "--sample-every means nothing for --task classify"),
        (["train", "names.tsv", "--no-reverse-source"], None, "--no-reverse-source means nothing for --task classify"),
        (["train", "names.tsv", "--no-scale"], None, "--no-scale means nothing for --task classify. It is for numbers"),
        (["train", "names.tsv", "--task", "generate", "--both-ways"], None, "--both-ways means nothing for --task gen"),
        (["train", "names.tsv", "--task", "generate", "--rare", "1"], None, "--rare means nothing for --task generate"),
        (["train", "pairs.tsv", "--pooling", "max"], None, "--pooling means nothing for --task translate"),
        (["train", "pairs.tsv", "--window", "9"], None, "for language models only"),
        (["train", "tabs.tsv", "--task", "classify"], None, "tabs.tsv, line 2: expected lines of text, a tab, a label"),
        (["predict", "classify", "--beam", "3"], "x\n", "--beam: expected a run to translate or generate"),
        (["predict", "classify", "--seed", "3"], "x\n", "--seed: expected a run to generate"),
        (["predict", "generate", "--beam", "3", "--temperature", "1"], "A\n", "Choose one"),
        (["predict", "tag"], "the\n\tX\n", "-, line 2: expected a token, got none before the tab"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_half_done(runs, words, text, says):
    folder, _ = runs
    (folder / "bad.tsv").write_text("good\tpos\nno tab\n")
    (folder / "strange.tsv").write_text("x\tC\n")
    (folder / "near.tsv").write_text("x\tAA\n")
    (folder / "tabs.tsv").write_text("x\tC\n\t\ny\tD\n")
    before = sorted(path.name for path in folder.iterdir())
    assert says in elman(*words, cwd=folder, text=text, rc=2)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """$ELMAN_DATA with a file of each form and a folder; what is asked for is not here."""
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
def test_what_is_found_in_the_data_folder_is_the_same_task(elman, mine, source, task):
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


def test_one_bad_line_makes_no_language_model_of_a_labelled_file(elman):
    Path("slip.tsv").write_text(f"{NAMES}no tab\n")
    words = ("train", "slip.tsv", "--steps", "1", "--hidden", "4", "--out", "slip")
    status, out, err = elman(*words)
    assert (status, out) == (2, "")
    assert "slip.tsv, line 81: expected one tab, as in 80 of 81 lines, got 'no tab'" in err
    assert "--task classify, as it seems, or --task lm if it is a text" in err
    assert not Path("slip").exists()
    assert elman(*words, "--task", "lm", "--batch", "2", "--window", "8").status == 0


def test_a_folder_that_may_be_either_is_asked_about(elman):
    Path("either").mkdir()
    for label in ("a", "b"):
        Path(f"either/{label}.txt").write_text(f"{'a line of many words ' * 4}{label}\n" * 30)
    words = ("train", "either", "--steps", "1", "--hidden", "4", "--batch", "2", "--out", "run")
    status, out, err = elman(*words)
    assert (status, out) == (2, "")
    assert "a.txt has lines of 85 characters. Say which: --task classify if" in err
    assert not Path("run").exists()
    assert "60 examples to classify" in elman(*words, "--task", "classify").out
    assert elman(*words, "--task", "lm", "--window", "8", "--force").status == 0


def test_a_flags_value_is_no_source(runs):
    folder, _ = runs
    words = ("train", "names.tsv", "--out", "twice", "--steps", "2", "--hidden", "8")
    elman(*words, cwd=folder)
    assert "examples to classify" in elman(*words, "--force", cwd=folder)


def test_a_generator_in_training_shows_what_it_would_write(runs):
    folder, _ = runs
    words = ("train", "names.tsv", "--task", "generate", *QUICK, "--sample-every", "3", "--out")
    said = elman(*words, "shown", cwd=folder)
    assert sum(line.startswith(("A: ", "B: ")) for line in said.splitlines()) >= 4
    rows = [json.loads(line) for line in (folder / "shown" / "metrics.jsonl").read_text().splitlines()]
    samples = [(row["step"], row["sample"]) for row in rows if "sample" in row]
    assert [step for step, _ in samples][:3] == [3, 6, 9]
    assert all({line[:3] for line in sample.splitlines()} == {"A: ", "B: "} for _, sample in samples)
    assert len({sample for _, sample in samples}) > 1
    elman(*words, "shown", "--force", cwd=folder)
    again = [json.loads(line) for line in (folder / "shown" / "metrics.jsonl").read_text().splitlines()]
    assert [row.get("sample") for row in again] == [row.get("sample") for row in rows]


def test_the_loss_of_a_regressor_is_not_called_nats(tmp_path):
    from elman import SequenceRegressor

    stops = iter([False] * 5 + [True] * 100)
    X = [[float(i), 1.0] for i in range(40)]
    model = SequenceRegressor(hidden=8, steps=12, validation=0.2, validate_every=4)
    model.fit(X, list(range(40)), out=tmp_path / "run", stopping=lambda: next(stops))
    for said in (elman("train", "--resume", "run", cwd=tmp_path), elman("show", "run", cwd=tmp_path)):
        assert "nats" not in said
        assert "mean squared error" in said


def test_a_smaller_budget_than_was_spent_changes_nothing(elman, runs):
    run = runs[0] / "classify"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for words, asked in ((("--epochs", 1), "1 epoch ("), (("--steps", 3), "3 steps")):
        status, out, _ = elman("train", "--resume", run, *words)
        assert status == 0
        assert f"more than {asked}" in out
        assert "A larger --steps or --epochs goes on." in out
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_knows_its_seed_when_it_comes_back(runs):
    from elman import load_model

    folder, _ = runs
    elman("train", "names.tsv", "--out", "seeded", "--steps", "3", "--hidden", "8", "--seed", "5", cwd=folder)
    model = load_model(folder / "seeded")
    assert (model.random_state, model.n_iter_, model.class_weight) == (5, 3, None)


def test_tokens_of_the_examples_that_judge_are_not_learned(runs):
    folder, _ = runs
    letters = "abcdefghijklmnopqrstuvwxyz"
    (folder / "letters.tsv").write_text("".join(f"{letter}\t{'AB'[i % 2]}\n" for i, letter in enumerate(letters)))
    words = ("--task", "classify", "--steps", "2", "--hidden", "8", "--validation", "0.5", "--out", "letters")
    elman("train", "letters.tsv", *words, cwd=folder)
    kept = json.loads((folder / "letters" / "vocabulary.json").read_text())
    assert len(kept["inputs"]["symbols"]["tokens"]) == 13


def test_the_help_says_what_a_flag_turns_off(tmp_path):
    said = elman("train", "--task", "tag", "--help", cwd=tmp_path)
    assert "--no-scale" not in said  # no file holds numbers
    assert "read from both ends (on; this turns it off)" in " ".join(said.split())
    assert "default: True" not in said


def test_too_few_examples_are_refused(runs):
    folder, _ = runs
    (folder / "two.tsv").write_text("a\tb\nc\td\n")
    says = elman("train", "two.tsv", "--task", "translate", "--validation", "0.9", cwd=folder, rc=2)
    assert "at least one example that counts" in says


def test_an_interrupted_run_goes_on_to_the_same_model(runs):
    folder, _ = runs
    words = [
        sys.executable,
        "-m",
        "elman",
        "train",
        "names.tsv",
        "--hidden",
        "16",
        "--steps",
        "2500",
        "--save-every",
        "50",
    ]
    subprocess.run([*words, "--out", "whole"], cwd=folder, check=True, capture_output=True, timeout=120)
    process = subprocess.Popen([*words, "--out", "parts"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not list(folder.glob("parts/checkpoints/step-*")) and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in (130, 0)
    elman("train", "--resume", "parts", cwd=folder)
    assert (folder / "parts/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes()
