"""The function that the skill runs, in a fresh sandbox for each call."""


def run(text: str) -> dict:
    """Arguments come by name, as schema.json has them; the result is JSON."""
    return {"words": len(text.split())}
