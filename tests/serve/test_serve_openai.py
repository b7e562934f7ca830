"""OpenAI's own client with the service; completions equal LanguageModel.sample."""

from __future__ import annotations

from itertools import chain, pairwise

import openai
import pytest
from serve_tools import KEY

from elman.models import LanguageModel


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def test_models_are_listed_and_found(client):
    # another test may have trained one more
    assert [model.id for model in client.models.list()][:4] == ["char", "byte", "word", "names"]
    assert client.models.retrieve("byte").owned_by == "elman"


@pytest.mark.parametrize("name", ["char", "byte", "word"])
@pytest.mark.parametrize("options", [
    {"temperature": 0.8}, {"temperature": 1.3, "top_p": 0.7}, {"temperature": 0}, {"temperature": 0.9, "top_k": 5},
])  # fmt: skip
def test_a_seeded_completion_is_the_sample_with_that_seed(client, runs, name, options):
    model = LanguageModel.load(runs / name)
    own = {"extra_body": {"top_k": options["top_k"]}} if "top_k" in options else {}
    usual = {key: value for key, value in options.items() if key != "top_k"}
    prompt = "The" if name == "word" else "Who sat"
    result = client.completions.create(model=name, prompt=prompt, max_tokens=70, n=3, seed=5, **usual, **own)
    wanted = [model.sample(70, prompt=prompt, seed=5, index=i, **options) for i in range(3)]
    assert [prompt + choice.text for choice in result.choices] == wanted
    assert [choice.finish_reason for choice in result.choices] == ["length"] * 3


def test_without_a_prompt_a_completion_starts_like_a_sample(client, char_model):
    result = client.completions.create(model="char", prompt="", max_tokens=30, seed=2, temperature=0.8)
    assert result.choices[0].text == char_model.sample(30, seed=2)
    assert result.usage.prompt_tokens == 0


def test_without_a_seed_texts_differ(client):
    texts = {client.completions.create(model="char", prompt="The", max_tokens=60).choices[0].text for _ in range(3)}
    assert len(texts) == 3


def test_several_prompts_are_completed_as_each_would_be_alone(client, char_model):
    result = client.completions.create(
        model="char", prompt=["The cat", "Who"], n=2, max_tokens=20, seed=3, temperature=0.8
    )
    assert [choice.index for choice in result.choices] == [0, 1, 2, 3]
    wanted = [char_model.sample(20, prompt=prompt, seed=3, index=i) for prompt in ("The cat", "Who") for i in (0, 1)]
    assert [p + c.text for p, c in zip(["The cat"] * 2 + ["Who"] * 2, result.choices, strict=True)] == wanted
    assert (result.usage.prompt_tokens, result.usage.completion_tokens, result.usage.total_tokens) == (10, 80, 90)


def test_token_ids_are_a_prompt_too(client, byte_model):
    ids = list("à la".encode())
    result = client.completions.create(model="byte", prompt=ids, max_tokens=20, seed=1, temperature=0.8, echo=True)
    assert result.choices[0].text == byte_model.sample(20, prompt="à la", seed=1)
    two = client.completions.create(model="byte", prompt=[ids, ids], max_tokens=20, seed=1, temperature=0.8)
    assert [choice.text for choice in two.choices] == [result.choices[0].text.removeprefix("à la")] * 2


def test_a_stream_adds_up_to_the_completion(client):
    options = {"model": "byte", "prompt": ["Voil", "caf"], "n": 2, "max_tokens": 120, "seed": 4, "temperature": 1.5}
    whole = client.completions.create(**options)
    texts, ends, usage = [""] * 4, [], None
    for chunk in client.completions.create(**options, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            ends += [choice.finish_reason] if choice.finish_reason else []
        usage = chunk.usage or usage
    assert texts == [choice.text for choice in whole.choices]
    assert ends == ["length"] * 4
    assert usage == whole.usage


def test_a_stream_ends_with_done(server):
    answer = server.post("/v1/completions", model="char", prompt="The", max_tokens=5, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")
    assert "usage" not in answer.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stop", [" sat", ["log", " sat", "t."], ["nowhere"], "o"])
def test_stop_ends_before_the_first_of_its_texts(client, char_model, stop, stream):
    free = char_model.sample(80, prompt="The", seed=6).removeprefix("The")
    stops = [stop] if isinstance(stop, str) else stop
    ends = [free.index(text) + len(text) for text in stops if text in free]
    cut = min(ends, default=None)
    result = client.completions.create(
        model="char", prompt="The", max_tokens=80, seed=6, temperature=0.8, stop=stop, stream=stream
    )
    chunks = list(result) if stream else [result]
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    finish = chunks[-1].choices[0].finish_reason
    if cut is None:
        assert (text, finish) == (free, "length")
    else:
        which = next(s for s in stops if free[:cut].endswith(s))
        assert (text, finish) == (free[: cut - len(which)], "stop")
        if not stream:
            assert result.usage.completion_tokens == cut  # the tokens of the stop text count


def test_logprobs_are_those_of_the_model(client, char_model):
    result = client.completions.create(
        model="char", prompt="The cat", max_tokens=50, seed=1, temperature=0.8, logprobs=3, echo=True
    )
    choice, got = result.choices[0], result.choices[0].logprobs
    assert "".join(got.tokens) == choice.text
    assert got.text_offset == list(range(len(choice.text)))
    surprise = char_model.surprise(choice.text)
    assert got.token_logprobs[0] is None
    assert got.token_logprobs[1:] == pytest.approx((-surprise[1:]).tolist(), abs=1e-5)
    wanted = char_model.next_distribution(choice.text[:9])
    likeliest = dict(list(wanted.items())[:3])
    assert list(got.top_logprobs[9]) == list(likeliest)
    assert {token: 2.718281828459045**value for token, value in got.top_logprobs[9].items()} == pytest.approx(likeliest)


def test_logprobs_in_a_stream_add_up_to_those_of_the_completion(client):
    options = {"model": "byte", "prompt": "é", "max_tokens": 60, "seed": 1, "logprobs": 2, "stop": "a", "echo": True}
    whole = client.completions.create(**options).choices[0]
    chunks = [chunk.choices[0] for chunk in client.completions.create(**options, stream=True)]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert list(chain(*(getattr(chunk.logprobs, name) for chunk in chunks))) == getattr(whole.logprobs, name)
    assert whole.logprobs.tokens[:2] == ["bytes:\\xc3", "bytes:\\xa9"]
    assert "".join(chunk.text for chunk in chunks) == whole.text


def test_a_text_can_be_scored_without_generating(client, char_model):
    result = client.completions.create(model="char", prompt="the dog", max_tokens=0, echo=True, logprobs=0)
    assert result.choices[0].text == "the dog"
    assert result.choices[0].logprobs.top_logprobs is None
    assert -sum(result.choices[0].logprobs.token_logprobs[1:]) == pytest.approx(
        char_model.surprise("the dog")[1:].sum()
    )


def test_activations_of_a_unit_are_returned_with_the_tokens(client, char_model):
    from elman.look.units import read_text

    result = client.completions.create(
        model="char", prompt="The", max_tokens=30, logprobs=0, echo=True, extra_body={"unit": 7}
    )
    choice = result.choices[0]
    wanted = read_text(char_model, choice.text).h[0, :, 7]
    assert choice.logprobs.activations == pytest.approx(wanted.tolist(), abs=1e-5)


@pytest.mark.parametrize(("error", "options", "param"), [
    (openai.NotFoundError, {"model": "../char"}, "model"),
    (openai.BadRequestError, {"prompt": "日本"}, "prompt"),
    (openai.BadRequestError, {"prompt": [99999]}, "prompt"),
    (openai.BadRequestError, {"prompt": []}, "prompt"),
    (openai.BadRequestError, {"prompt": "cat " * 9000}, "prompt"),
    (openai.BadRequestError, {"temperature": 3}, "temperature"),
    (openai.BadRequestError, {"top_p": 0}, "top_p"),
    (openai.BadRequestError, {"max_tokens": 4097}, "max_tokens"),
    (openai.BadRequestError, {"n": 33}, "n"),
    (openai.BadRequestError, {"seed": -1}, "seed"),
    (openai.BadRequestError, {"stop": ""}, "stop"),
    (openai.BadRequestError, {"logprobs": 21}, "logprobs"),
    (openai.BadRequestError, {"best_of": 4}, "best_of"),
    (openai.BadRequestError, {"presence_penalty": 0.5}, "presence_penalty"),
    (openai.BadRequestError, {"suffix": "end"}, "suffix"),
    (openai.BadRequestError, {"logit_bias": {"5": 1}}, "logit_bias"),
    (openai.BadRequestError, {"extra_body": {"unit": 99, "logprobs": 1}}, "unit"),
    (openai.BadRequestError, {"extra_body": {"tempreature": 1}}, None),
    (openai.BadRequestError, {"model": "names"}, "model"),
])  # fmt: skip
def test_errors_have_the_form_of_openai(client, error, options, param):
    with pytest.raises(error) as caught:
        client.completions.create(**{"model": "char", "prompt": "The", **options})
    assert set(caught.value.body) == {"message", "type", "param", "code"}
    assert caught.value.param == param
    assert client.completions.create(model="char", prompt="The", max_tokens=1).choices  # and it still works


def test_fields_without_effect_are_accepted(client):
    client.completions.create(
        model="char", prompt="The", user="me", best_of=1, presence_penalty=0, frequency_penalty=0, logit_bias={}
    )


@pytest.mark.parametrize(("unknown", "param", "message"), [
    ("error", "prompt", "prompt: the model does not know '日'. Remove it from the text."),
    ("replace", "unknown", "unknown: expected error or skip: a vocabulary of characters has no <unk>"),
])  # fmt: skip
def test_the_message_for_an_unknown_character_names_no_flags(server, unknown, param, message):
    answer = server.post("/v1/completions", model="char", prompt="The 日cat", unknown=unknown)
    assert answer.status_code == 400
    assert (answer.json()["error"]["param"], answer.json()["error"]["message"]) == (param, message)


def test_an_unknown_character_can_be_skipped(client, char_model):
    result = client.completions.create(
        model="char", prompt="The 日cat", max_tokens=9, seed=1, temperature=0.8, extra_body={"unknown": "skip"}
    )
    assert result.choices[0].text == char_model.sample(9, prompt="The cat", seed=1).removeprefix("The cat")
    assert result.usage.prompt_tokens == 7


@pytest.mark.parametrize(("model", "unknown", "prompt", "text"), [
    ("char", "skip", "The 日cat", "The cat"),
    ("word", "skip", "The zebra sat", "The sat"),
    ("word", "replace", "The zebra sat", "The<unk> sat"),
])  # fmt: skip
def test_an_echo_is_what_the_model_has_read(client, model, unknown, prompt, text):
    result = client.completions.create(
        model=model, prompt=prompt, max_tokens=0, echo=True, logprobs=0, extra_body={"unknown": unknown}
    )
    choice = result.choices[0]
    assert choice.text == text
    bounds = [*choice.logprobs.text_offset, len(text)]
    assert [text[start:end] for start, end in pairwise(bounds)] == choice.logprobs.tokens


@pytest.mark.parametrize(("model", "unknown", "prompt", "tokens"), [
    ("char", "skip", "~" * 170_000 + "The cat", 7),
    ("word", "replace", ("x" * 60 + " ") * 3000, 3001),
])  # fmt: skip
def test_the_length_of_a_prompt_is_counted_in_tokens(client, model, unknown, prompt, tokens):
    result = client.completions.create(model=model, prompt=prompt, max_tokens=1, extra_body={"unknown": unknown})
    assert result.usage.prompt_tokens == tokens


def test_a_layer_and_a_unit_that_do_not_exist_are_named(server):
    for wrong, message in (
        ({"layer": 1}, "layer: expected a layer from 0 to 0"),
        ({"unit": 16}, "unit: expected a unit from 0 to 15"),
    ):
        answer = server.post("/v1/completions", model="char", prompt="The", logprobs=0, **{"unit": 0} | wrong)
        assert answer.status_code == 400
        assert (answer.json()["error"]["param"], answer.json()["error"]["message"]) == (next(iter(wrong)), message)


def test_chat_is_answered_with_the_endpoint_to_use(client):
    with pytest.raises(openai.NotFoundError, match="/v1/completions") as caught:
        client.chat.completions.create(model="char", messages=[{"role": "user", "content": "Hello"}])
    assert set(caught.value.body) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(("field", "value", "message"), [
    ("max_tokens", "16", "max_tokens: expected a valid integer"),
    ("max_tokens", True, "max_tokens: expected a valid integer"),
    ("max_tokens", 1.5, "max_tokens: expected a valid integer"),
    ("temperature", "1", "temperature: expected a valid number"),
    ("n", 0, "n: expected a number greater than or equal to 1, got 0"),
    ("echo", 1, "echo: expected a valid boolean"),
    ("stream_options", {"include_usage": "yes"}, "stream_options.include_usage: expected a valid boolean"),
    ("unknown", "ignore", "unknown: expected 'error', 'skip' or 'replace'"),
])  # fmt: skip
def test_types_are_strict(server, field, value, message):
    answer = server.post("/v1/completions", model="char", **{field: value})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["message"], error["param"], error["type"]) == (message, field, "invalid_request_error")


def test_null_means_the_default_and_whole_floats_are_integers(server, char_model):
    nulls = dict.fromkeys(["temperature", "top_p", "n", "stop", "logprobs", "echo", "stream", "suffix", "logit_bias"])
    answer = server.post("/v1/completions", model="char", prompt="The", max_tokens=9.0, seed=3.0, **nulls)
    assert answer.json()["choices"][0]["text"] == char_model.sample(9, prompt="The", seed=3, temperature=1.0)[3:]
