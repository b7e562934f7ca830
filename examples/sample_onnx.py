"""Sample text from a model that elman export wrote, with onnxruntime and NumPy only: the file has all that is needed.

elman export runs/pride-and-prejudice --to onnx
python examples/sample_onnx.py pride-and-prejudice.onnx "It is a truth" 300 0.7
"""

import codecs
import json
import re
import sys

import numpy as np

try:
    import onnxruntime
except ImportError:
    sys.exit("onnxruntime is missing: pip install onnxruntime")

if len(sys.argv) < 2:
    sys.exit(__doc__)
path = sys.argv[1]
length = int(sys.argv[3]) if len(sys.argv) > 3 else 300
temperature = float(sys.argv[4]) if len(sys.argv) > 4 else 0.8  # 0: the likeliest token

try:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    vocabulary = json.loads(session.get_modelmeta().custom_metadata_map["elman"])["vocabulary"]
except Exception as error:  # onnxruntime raises many classes of errors
    sys.exit(f"{path} cannot be read as a model that elman export wrote: {error!r}")
if "kind" not in vocabulary:
    sys.exit(f"{path} is not a language model")
if vocabulary["kind"] == "bpe":
    sys.exit(f"{path} has subwords as tokens; this example supports only characters, bytes and words")
kind, tokens = vocabulary["kind"], vocabulary.get("tokens", range(256))
end = (
    len(tokens) if vocabulary.get("end") else None
)  # a model of sequences: what is before the first and after the last
prompt = sys.argv[2] if len(sys.argv) > 2 else "\n" if end is None else ""
if kind == "byte":
    ids = list(prompt.encode())
else:
    pieces = re.findall(r" ?\w{1,64}| ?[^\w\s]|\s", prompt) if kind == "word" else list(prompt)
    if unknown := set(pieces) - set(tokens):
        sys.exit(f"{sorted(unknown)} are not in the vocabulary of the model: remove them from the prompt")
    ids = [tokens.index(piece) for piece in pieces]

if end is not None:
    ids.insert(0, end)

decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may have several bytes
rng = np.random.default_rng(0)
state = {part.name: np.zeros((part.shape[0], 1, part.shape[2]), np.float32) for part in session.get_inputs()[1:]}
x = np.array(ids)[:, np.newaxis]  # (T, B): first the whole prompt, then one token at a time

sys.stdout.write(prompt)
for _ in range(length):
    logits, *after = session.run(None, {"x": x, **state})
    state = dict(zip(state, after, strict=True))  # h, and c of an LSTM
    o = logits[-1, 0].astype(np.float64)
    if kind == "word":
        o[0] = -np.inf  # <unk> is never sampled
    if temperature:
        o = (o - o.max()) / temperature
        token = int(rng.choice(len(o), p=np.exp(o) / np.exp(o).sum()))
    else:
        token = int(o.argmax())
    if token == end:
        break
    sys.stdout.write(decoder.decode(bytes([token])) if kind == "byte" else tokens[token])
    x = np.array([[token]])
print()
