"""Counts what a text is made of. The peers of the load benchmark run this very file."""


def statistics(text):
    words = text.split()
    return {
        "characters": len(text),
        "words": len(words),
        "lines": text.count("\n") + 1,
        "longest": max(words, key=len, default=""),
    }
