"""Reference forward pass of BERT sentence encoders with numpy, to make golden vectors and to train heads.

Needs numpy, safetensors and tokenizers. MODEL is a folder with `model.safetensors`, `tokenizer.json`
and `config.json`.
"""

import json
import math
import pathlib

import numpy
from safetensors.numpy import load_file
from tokenizers import Tokenizer


class Encoder:
    def __init__(self, folder, dtype=numpy.float64, max_tokens=256):
        folder = pathlib.Path(folder)
        config = json.loads((folder / "config.json").read_text())
        self.heads = config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        self.dtype = dtype
        weights = load_file(folder / "model.safetensors")
        self.weights = {k: v.astype(dtype) for k, v in weights.items() if v.dtype == numpy.float32}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)

    def tokens(self, text):
        return self.tokenizer.encode(text).ids

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def encode_same_length(self, rows):
        """Unit vectors of token rows of one length."""
        ids = numpy.asarray(rows)
        count, length = ids.shape
        table = self.weights
        x = table["embeddings.word_embeddings.weight"][ids]
        x = x + table["embeddings.position_embeddings.weight"][:length]
        x = x + table["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        width = x.shape[-1] // self.heads
        for layer in range(self.layers):
            at = f"encoder.layer.{layer}"

            def split(name):
                y = self.linear(x, f"{at}.attention.self.{name}")
                return y.reshape(count, length, self.heads, width).transpose(0, 2, 1, 3)

            q, k, v = split("query"), split("key"), split("value")
            scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width)
            scores = numpy.exp(scores - scores.max(-1, keepdims=True))
            scores = scores / scores.sum(-1, keepdims=True)
            mixed = (scores @ v).transpose(0, 2, 1, 3).reshape(count, length, -1)
            mixed = self.linear(mixed, f"{at}.attention.output.dense")
            x = self.norm(x + mixed, f"{at}.attention.output.LayerNorm")
            wide = self.linear(x, f"{at}.intermediate.dense")
            wide = wide * 0.5 * (1 + ERF(wide / math.sqrt(2)))
            narrow = self.linear(wide.astype(self.dtype), f"{at}.output.dense")
            x = self.norm(x + narrow, f"{at}.output.LayerNorm")
        pooled = x.mean(1)
        return pooled / numpy.linalg.norm(pooled, axis=-1, keepdims=True)

    def encode(self, texts, batch=64):
        rows = [self.tokens(text) for text in texts]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        vectors = [None] * len(rows)
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and end - start < batch and len(rows[order[end]]) == len(rows[order[start]]):
                end += 1
            chosen = order[start:end]
            for at, vector in zip(chosen, self.encode_same_length([rows[i] for i in chosen])):
                vectors[at] = vector
            start = end
        return numpy.stack(vectors)


from scipy.special import erf as ERF  # noqa: E402
