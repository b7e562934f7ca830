"""Runs, their metrics as events, trainings, analyses, and predictions."""

from __future__ import annotations

import json
import math
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_tools import TEXT, Client, Server

from elman.look.units import read_text
from elman.models import LanguageModel
from elman.serve import metrics_stream as events_module
from elman.serve.metrics_stream import MetricsFollower, is_training
from elman.training.run import Run


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        found += [(lines.get("event", "message"), json.loads(lines["data"]))] if "data" in lines else []
    return found


def rows_of(seen: list[tuple[str, Any]]) -> list[dict]:
    return [row for kind, rows in seen if kind == "rows" for row in rows]


def test_runs_are_described_without_paths(server, runs):
    result = {run["name"]: run for run in server.http.get("/v1/elman/runs").json()["data"]}
    assert list(result) == ["char", "byte", "word", "names"]
    char = server.http.get("/v1/elman/runs/char").json()
    assert char == result["char"]
    assert (char["task"], char["ready"], char["training"], char["steps"]) == ("lm", True, False, 60)
    assert char["config"]["hidden"] == 16
    assert result["names"]["task"] == "classify"
    assert str(runs) not in json.dumps(result)  # no paths of this machine


def test_the_rows_of_a_run_come_as_events(server, runs):
    answer = server.http.get("/v1/elman/runs/char/events", params={"follow": "false"})
    result = events(answer.text)
    rows = Run(runs / "char").metrics()
    assert result == [("rows", rows), ("state", {"training": False})]
    assert server.http.get("/v1/elman/runs/char/events", params={"follow": "perhaps"}).status_code == 400


def read(follower: MetricsFollower) -> list[tuple[str, Any]]:
    return [(kind, json.loads(value)) for kind, value in follower.events()]


def test_a_file_is_followed_when_it_grows_is_truncated_or_replaced(tmp_path):
    path = tmp_path / "metrics.jsonl"
    follower = MetricsFollower(path)
    assert read(follower) == []
    path.write_text('{"step": 1}\n{"st')
    assert read(follower) == [("rows", [{"step": 1}])]
    assert read(follower) == []
    with path.open("a") as file:
        file.write('ep": 2}\nnonsense\n{"step": NaN}\n[]\n{"step": 3}\n')
    assert read(follower) == [("rows", [{"step": 2}, {"step": 3}])]
    path.write_text('{"step": 1}\n')  # as a resumed run does
    assert read(follower) == [("reset", {}), ("rows", [{"step": 1}])]
    new = tmp_path / "new"
    new.write_text('{"step": 5}\n{"step": 6}\n')
    new.replace(path)
    assert read(follower) == [("reset", {}), ("rows", [{"step": 5}, {"step": 6}])]


def test_a_text_in_a_number_column_becomes_null(tmp_path):
    row = {"step": 1, "loss": "<b>x", "epoch": [1], "seconds": True, "sample": 5, "gradient_norms": {"W_hh": 2.0}}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n" + '{"step": 2, "loss": 1.5, "sample": "abc"}\n')
    nothing = dict.fromkeys(["loss", "epoch", "seconds", "sample"])
    assert read(MetricsFollower(tmp_path / "metrics.jsonl")) == [
        ("rows", [{**row, **nothing}, {"step": 2, "loss": 1.5, "sample": "abc"}])
    ]


def test_a_long_file_is_read_in_chunks(tmp_path):
    path, follower, rows = tmp_path / "metrics.jsonl", MetricsFollower(tmp_path / "metrics.jsonl"), []
    lines = [json.dumps({"step": step, "sample": "x" * 1000}) for step in range(3000)]
    path.write_text("\n".join([*lines[:10], "y" * 600_000, *lines[10:], '{"step": 9']))
    for _ in range(20):
        new = follower.events()
        assert sum(len(value) for _, value in new) <= events_module.CHUNK
        rows += [row["step"] for kind, value in new for row in json.loads(value)]
        if not follower.more:
            break
    assert rows == list(range(3000))
    assert follower.events() == []


def test_following_a_long_run_takes_little_memory(runs, tmp_path):
    shutil.copytree(runs / "char", tmp_path / "long")
    row = (tmp_path / "long" / "metrics.jsonl").read_bytes().splitlines(keepends=True)[0]
    (tmp_path / "long" / "metrics.jsonl").write_bytes(row * (16_000_000 // len(row)))
    server = Server(tmp_path / "long")
    try:
        before = server.memory()
        with server.http.stream("GET", "/v1/elman/runs/long/events?follow=false") as answer:
            peak = max(server.memory() for _ in answer.iter_raw(1 << 20))
    finally:
        server.stop()
    assert peak - before < 40e6


def test_a_run_in_training_is_recognized_by_its_lock(runs, tmp_path):
    shutil.copytree(runs / "char", tmp_path / "run")
    run = Run(tmp_path / "run")
    assert not is_training(run.path)
    with run.lock():
        assert is_training(run.path)
    assert not is_training(run.path)
    with run.lock():  # the check has left no lock behind
        pass


def test_a_training_is_started_followed_and_stopped(server: Server, tmp_path):
    answer = server.post("/v1/elman/trainings", text=TEXT, name="mine", options={
        "hidden": 12, "steps": 100_000, "batch_size": 4, "window": 16, "log_every": 5, "save_every": 50,
        "validate_every": 50, "sample_every": 50,
    })  # fmt: skip
    assert answer.status_code == 201, answer.text
    assert answer.json() == {"object": "training", "name": "mine", "state": "running", "message": None}
    try:
        second = server.post("/v1/elman/trainings", text=TEXT)
        assert (second.status_code, second.json()["error"]["code"]) == (409, "training_in_progress")
        seen: list[tuple[str, Any]] = []
        with server.http.stream("GET", "/v1/elman/runs/mine/events") as stream:
            text = ""
            for piece in stream.iter_text():
                text += piece
                seen = events(text[: text.rfind("\n\n") + 2]) if "\n\n" in text else []
                if sum("sample" in row for row in rows_of(seen)) >= 2:
                    break
        assert ("state", {"training": True}) in seen
        steps = [row["step"] for row in rows_of(seen)]
        assert steps == sorted(set(steps))
        until = time.monotonic() + 20
        while not server.http.get("/v1/elman/runs/mine").json()["ready"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert server.complete(model="mine", prompt="The", max_tokens=5)  # the model so far
    finally:
        stopped = server.http.delete("/v1/elman/trainings/mine")
    assert stopped.json()["state"] == "stopped"
    assert not server.http.get("/v1/elman/runs/mine").json()["training"]
    assert [t["name"] for t in server.http.get("/v1/elman/trainings").json()["data"]] == ["mine"]


@pytest.mark.parametrize(("body", "param"), [
    ({}, "text"), ({"text": "a", "corpus": "python-docs"}, "text"), ({"corpus": "/etc/passwd"}, "corpus"),
    ({"corpus": "../runs/char/config.json"}, "corpus"), ({"text": TEXT, "name": "../up"}, "name"),
    ({"text": " \n"}, "text"), ({"text": TEXT, "name": ".hidden"}, "name"), ({"text": TEXT, "name": "a/b"}, "name"),
    ({"text": TEXT, "options": {"hidden": 5000}}, "options"), ({"text": TEXT, "options": {"seconds": 1e6}}, "options"),
    ({"text": TEXT, "options": {"hidden": "--out=x"}}, "options"), ({"text": TEXT, "options": {"out": "x"}}, "options"),
    ({"text": TEXT, "options": {"self": 1}}, "options"), ({"text": TEXT, "options": {"accumulate": 10**6}}, "options"),
    ({"text": TEXT, "options": {"encoding": "x"}}, "options"), ({"text": TEXT, "path": "/etc/passwd"}, None),
])  # fmt: skip
def test_a_training_accepts_no_paths_and_no_invalid_options(server, body, param):
    answer = server.http.post("/v1/elman/trainings", json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


def test_a_text_that_is_too_short_is_refused_with_the_message_of_the_training(server):
    answer = server.post("/v1/elman/trainings", text="x")
    assert answer.status_code == 400
    assert "at least two tokens" in answer.json()["error"]["message"]
    assert "standard input" not in answer.json()["error"]["message"]
    assert server.http.delete("/v1/elman/trainings/pasted").status_code == 404


def test_corpora_are_listed(server):
    assert "pride-and-prejudice" in [row["name"] for row in server.http.get("/v1/elman/corpora").json()["data"]]


# -- looks -------------------------------------------------------------------------------------------------------------


def test_flow_equals_elman_look(server, char_model):
    from elman.look.flow import gradient_flow

    text = "The cat sat on the mat"
    result = server.post("/v1/elman/look/flow", model="char", text=text).json()
    ids = char_model.vocabulary_.encode(text)
    wanted = gradient_flow(char_model.network_, char_model.parameters_, ids[:-1], ids[1:])
    assert result["tokens"] == list(text)
    found = np.array(result["layers"][0]["map"], float)  # null becomes NaN
    np.testing.assert_allclose(found, wanted.d_h[0], rtol=1e-4)
    assert result["layers"][0]["by_lag"] == pytest.approx(wanted.by_lag(0).tolist())
    assert result["verdicts"][0]["words"]


def test_spectra_equal_elman_look(server, char_model):
    result = server.post("/v1/elman/look/spectra", model="char", text="The cat sat").json()["layers"][0]
    W_hh = char_model.parameters_["layers.0.W_hh"].astype(np.float64)
    recurrent = result["recurrent"]["W_hh"]
    assert recurrent["singular"] == pytest.approx(np.linalg.svd(W_hh, compute_uv=False).tolist(), rel=1e-4)
    assert math.hypot(*recurrent["eigenvalues"][0]) == pytest.approx(recurrent["radius"], rel=1e-4)
    assert 0 <= result["saturation"]["h"]["share"] <= 1
    assert len(result["lyapunov"]) == 16


def test_units_and_read_analyze_a_text(server, char_model):
    result = server.post("/v1/elman/look/units", model="char", text=TEXT[:2000], count=3).json()
    assert all(len(feature["units"]) == 3 for feature in result["features"])
    assert "inside a word" in [feature["feature"] for feature in result["features"]]
    read = server.post("/v1/elman/look/read", model="char", text="The cat", unit=2, alternatives=4).json()
    assert read["surprise"][0] is None
    assert read["surprise"][1:] == pytest.approx(char_model.surprise("The cat")[1:].tolist(), rel=1e-3)
    assert len(read["activation"]) == len(read["tokens"]) == 7
    assert [len(row) for row in read["alternatives"]] == [0, *[4] * 6]


def test_steps_with_a_small_network_and_with_a_run(server):
    small = server.post("/v1/elman/steps", input="hell", target="ello").json()
    assert small["network"]["hidden"] == 3
    own = server.post("/v1/elman/steps", input="cat", target="at ", model="char", shown=4).json()
    assert own["network"]["hidden"] == 16
    assert own["axes"]["H"]["size"] == 16
    assert {step["phase"] for step in own["steps"]} >= {"forward", "backward"}


@pytest.mark.parametrize(("path", "body"), [
    ("look/flow", {"model": "char", "text": ""}), ("look/flow", {"model": "char", "text": "T"}),
    ("look/flow", {"model": "char", "text": "日本"}), ("look/flow", {"model": "char"}), ("look/flow", {"text": 5}),
    ("look/flow", {"model": "names", "text": "anna"}), ("look/flow", {"model": "char", "text": "The", "steps": 999}),
    ("look/read", {"model": "char", "text": "The", "unit": 16}), ("look/units", {"model": "char", "text": "The"}),
    ("steps", {"input": "ab", "target": "a"}), ("steps", {"input": "", "target": ""}),
    ("steps", {"input": "x" * 900, "target": "x" * 900}), ("predict", {"model": "names", "inputs": []}),
    ("predict", {"model": "names", "inputs": ["a", 1]}), ("predict", {"model": "char", "inputs": ["a"]}),
    ("predict", {"model": "names", "inputs": [[1.5, 2.5]]}), ("predict", {"model": "names", "inputs": "anna"}),
    ("predict", {"model": "names"}),
])  # fmt: skip
def test_analyses_and_predictions_refuse_invalid_requests(server, path, body):
    answer = server.post(f"/v1/elman/{path}", **body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]


def test_attributions_equal_elman_look(server, runs):
    from elman.look import attribution
    from elman.models import load_model

    result = server.post("/v1/elman/look/attribution", model="names", input="anna").json()
    wanted = attribution(load_model(runs / "names"), "anna")
    assert (result["tokens"], result["targets"]) == (list("anna"), list(wanted.targets))
    np.testing.assert_allclose(result["left_out"], wanted.left_out, rtol=1e-4)
    np.testing.assert_allclose(result["gradient"], wanted.gradient, rtol=1e-4)
    assert server.post("/v1/elman/look/attribution", model="char", input="anna").status_code == 400
    answer = server.post("/v1/elman/look/attribution", model="names", input="a" * 40_000)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")


def test_gated_and_vanilla_cells_are_served_together(runs, more_runs):
    from elman.serve.app import new_service
    from elman.serve.guard import AccessPolicy
    from elman.serve.server import listen, serving

    paths = [runs / "char", more_runs / "gru", more_runs / "lstm"]
    where = {path.name: path for path in paths}
    with serving(new_service(paths, AccessPolicy("127.0.0.1")), listen("127.0.0.1", 0)) as url:
        client = Client(url)
        with ThreadPoolExecutor(9) as pool:
            names = ["char", "gru", "lstm"] * 3
            bodies = [{"model": name, "prompt": "The", "seed": i, "max_tokens": 50} for i, name in enumerate(names)]
            texts = list(pool.map(lambda body: client.complete(temperature=0.8, **body), bodies))
        for body, text in zip(bodies, texts, strict=True):
            model = LanguageModel.load(where[body["model"]])
            assert "The" + text == model.sample(50, prompt="The", seed=body["seed"], temperature=0.8)
        read = client.post("/v1/elman/look/read", model="lstm", text="The cat", unit=3, layer=1, state="c").json()
        wanted = read_text(LanguageModel.load(where["lstm"]), "The cat").s[1, 1, :, 3]
        np.testing.assert_allclose(read["activation"], wanted, rtol=1e-4)
        scored = client.post("/v1/completions", model="lstm", prompt="The cat", max_tokens=0, echo=True, logprobs=0,
                           unit=3, layer=1, state="c").json()  # fmt: skip
        np.testing.assert_allclose(scored["choices"][0]["logprobs"]["activations"], wanted, rtol=1e-4)
        refused = client.post("/v1/elman/look/read", model="gru", text="The cat", unit=3, state="c")
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "state")
        gates = client.post("/v1/elman/look/spectra", model="gru", text="The cat").json()["layers"][1]["gates"]
        assert list(gates) == ["r", "z", "n"]
        paths = client.post("/v1/elman/look/flow", model="lstm", text="The cat").json()["layers"][0]["paths"]
        assert list(paths) == ["carry", "recurrent"]
        client.http.close()


def test_predictions_are_those_of_the_model(server, runs):
    from elman.models import load_model

    result = server.post("/v1/elman/predict", model="names", inputs=["anna", "zzx"]).json()
    model = load_model(runs / "names")
    assert result["task"] == "classify"
    assert [row["output"] for row in result["outputs"]] == model.predict(["anna", "zzx"]).tolist()
    wanted = model.predict_proba(["anna", "zzx"])
    for row, y_hat in zip(result["outputs"], wanted, strict=True):
        assert row["probabilities"] == pytest.approx(dict(zip(model.classes_.tolist(), y_hat, strict=True)))


def test_predictions_of_every_task_have_the_same_form(tmp_path):
    from starlette.testclient import TestClient

    from elman.models import Seq2Seq, SequenceGenerator, SequenceRegressor, SequenceTagger
    from elman.serve.app import new_service
    from elman.serve.guard import AccessPolicy

    tiny = {"hidden": 6, "epochs": 1, "random_state": 0}
    words = ["abc", "bca", "cab", "aab"] * 4
    SequenceTagger(**tiny).fit(words, [list("XYZ")] * 16).save(tmp_path / "tag")
    SequenceGenerator(**tiny).fit(["l", "r"] * 8, words).save(tmp_path / "generate")
    Seq2Seq(**tiny).fit(words, words).save(tmp_path / "translate")
    SequenceRegressor(**tiny).fit(words, [1.0, 2.0, 3.0, 4.0] * 4).save(tmp_path / "regress")
    paths = [tmp_path / name for name in ("tag", "generate", "translate", "regress")]
    with TestClient(new_service(paths, AccessPolicy("127.0.0.1")), base_url="http://localhost") as client:

        def ask(model: str, inputs: list, **options) -> list:
            answer = client.post("/v1/elman/predict", json={"model": model, "inputs": inputs, **options})
            assert answer.status_code == 200, answer.text
            assert answer.json()["task"] == model
            return [row["output"] for row in answer.json()["outputs"]]

        assert [len(tags) for tags in ask("tag", ["ab", "abc"])] == [2, 3]
        assert all(isinstance(text, str) for text in ask("generate", ["l", "r"], beam=2))
        assert ask("generate", ["l"], temperature=1, seed=4) == ask("generate", ["l"], temperature=1, seed=4)
        assert all(isinstance(text, str) for text in ask("translate", ["ab"], limit=5))
        assert all(isinstance(number, float) for number in ask("regress", ["ab", "c"]))
        answer = client.post("/v1/elman/predict", json={"model": "generate", "inputs": ["unheard of"]})
        assert answer.status_code == 400
        asked = {"model": "translate", "inputs": ["ab", "c"], "alternatives": 3, "limit": 5}
        for row in client.post("/v1/elman/predict", json=asked).json()["outputs"]:
            assert row["output"] == row["alternatives"][0]["output"]
            scores = [one["score"] for one in row["alternatives"]]
            assert len(scores) == 3
            assert scores == sorted(scores, reverse=True)
        asked = {"model": "translate", "input": "ab", "target": "ca"}
        found = client.post("/v1/elman/look/attention", json=asked).json()
        assert (found["source"], found["target"]) == (["a", "b"], ["c", "a", "(end)"])
        assert [sum(row) for row in found["alpha"]] == pytest.approx([1] * 3, abs=1e-4)
        for body in ({"model": "tag", "input": "ab"}, {"model": "translate", "input": ""}):
            assert client.post("/v1/elman/look/attention", json=body).status_code == 400


def test_a_run_without_a_model_is_served_once_it_has_one(runs, tmp_path):
    from starlette.testclient import TestClient

    from elman.serve.app import new_service
    from elman.serve.guard import AccessPolicy
    from elman.serve.registry import RECHECK_SECONDS

    shutil.copytree(runs / "char", tmp_path / "new", ignore=shutil.ignore_patterns("model.safetensors"))
    with TestClient(new_service([tmp_path / "new"], AccessPolicy("127.0.0.1")), base_url="http://localhost") as client:
        until = time.monotonic() + 10
        while client.get("/health").status_code == 503:
            assert time.monotonic() < until
        assert client.get("/v1/models").json()["data"] == []
        answer = client.post("/v1/completions", json={"max_tokens": 3, "seed": 1})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "model_not_ready")
        assert "still in training" not in answer.text
        with Run(tmp_path / "new").lock():
            assert "still in training" in client.post("/v1/completions", json={"max_tokens": 3}).text
        (tmp_path / "new" / "model.safetensors").write_bytes(b"nonsense")
        answer = client.post("/v1/completions", json={"max_tokens": 3})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "model_not_ready")
        assert str(tmp_path) not in answer.text
        shutil.copy(runs / "char" / "model.safetensors", tmp_path / "new")
        first = client.post("/v1/completions", json={"max_tokens": 9, "seed": 1, "temperature": 0})
        assert first.status_code == 200
        assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["new"]
        shutil.rmtree(tmp_path / "new")
        time.sleep(RECHECK_SECONDS)
        answer = client.post("/v1/completions", json={"max_tokens": 3})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert "deleted" in answer.text


def test_a_new_model_replaces_the_old_one(runs, tmp_path):
    from elman.models import LanguageModel
    from elman.serve.registry import ServedRun

    shutil.copytree(runs / "char", tmp_path / "run")
    served = ServedRun("run", tmp_path / "run")
    old = served.load()
    assert served.load() is old
    assert served.recent is old
    better = LanguageModel.load(runs / "char")
    better.parameters_.buffer[:] *= 0.5
    served.run.write_model(better.parameters_)
    new = served.load()
    assert new.model.sample(20, seed=1) == better.sample(20, seed=1) != old.model.sample(20, seed=1)


def test_two_runs_with_the_same_name_get_different_names(runs, tmp_path: Path):
    from elman.serve.registry import Registry

    shutil.copytree(runs / "word", tmp_path / "char")
    registry = Registry([runs / "char", tmp_path / "char"])
    assert [served.name for served in registry] == ["char", "char-2"]
    assert registry.get("char-2").path == tmp_path / "char"


def test_computations_are_queued_and_refused_when_the_queue_is_full():
    import asyncio

    from elman.serve.errors import ApiError
    from elman.serve.worker import QUEUED, Worker

    async def crowd() -> list:
        work, gate = Worker(5.0), threading.Event()
        asked = [asyncio.create_task(work.run(gate.wait, 5)) for _ in range(QUEUED)]
        await asyncio.sleep(0.01)
        with pytest.raises(ApiError) as caught:
            await work.run(int)
        assert caught.value.status_code == 429
        gate.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(crowd()) == [True] * 8
