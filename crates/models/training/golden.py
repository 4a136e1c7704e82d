"""Writes golden vectors: golden.py MODEL GOLDEN

GOLDEN has one object per line: the text, its token ids and its unit vector. Its texts are kept, the rest is
written again.
"""

import json
import sys

from reference import Encoder

encoder = Encoder(sys.argv[1])
texts = [json.loads(line)["text"] for line in open(sys.argv[2])]
with open(sys.argv[2], "w") as out:
    for text, vector in zip(texts, encoder.encode(texts)):
        row = {"text": text, "ids": encoder.tokens(text), "vector": [round(float(v), 7) for v in vector]}
        out.write(json.dumps(row, ensure_ascii=True) + "\n")
