"""Makes a list of artifacts fit a token budget.

Every strategy works on *units*: an artifact, or the artifacts that merge into one. A unit knows
its *forms* from the richest to the poorest, and no form is larger than what it stands for. Packing
picks one form per unit, or none. So two promises hold for every strategy by construction:
- the output is never larger than the input;
- the output never exceeds `max_tokens`; what does not fit is shortened, stubbed or dropped.

The same input gives the same bytes in every process: no set is iterated, ties go to the earlier.
"""

import json
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, NamedTuple, Optional

Artifact = Dict[str, Any]

DEFAULT_PRESERVE_FIELDS = ["id", "type", "created_at", "provenance_refs"]
# What an artifact says, in the order in which a reader misses it.
PRIORITY_FIELDS = "summary text claim_text verdict confidence tags source title key_points".split()
IMPORTANT_TYPES = ("claim_verification", "code_patch")

CHARACTERS_PER_TOKEN = 4
# How long a text may be in a summary: as asked for first, then shorter and shorter.
TEXT_LIMITS = (200, 100, 50)
# Of lists and objects a summary shows this many entries, to this depth.
SHOWN_ENTRIES = 5
SHOWN_DEPTH = 3
ELLIPSIS = "..."

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Entry(NamedTuple):
    """One artifact of the output; `source` is the input artifact it stands for, if it is just one."""

    artifact: Artifact
    source: Optional[str]


class Unit(NamedTuple):
    """What is packed as a whole."""

    position: int  # In the input; the order of the output where the strategy has no other.
    newest: float  # Seconds since the epoch, minus infinity without a date.
    forms: List[List[Entry]]  # From the richest to the poorest, none larger than the input.


def compact_memory(
    artifacts: List[Artifact],
    strategy: str = "summarize",
    max_tokens: int = 2000,
    preserve_fields: Optional[List[str]] = None,
) -> Dict[str, Any]:
    """The skill: see `schema.json` for arguments and result."""
    preserve = DEFAULT_PRESERVE_FIELDS if preserve_fields is None else preserve_fields
    entries = STRATEGIES[strategy](artifacts, character_budget(max_tokens), preserve)
    compacted = [entry.artifact for entry in entries]
    before, after = estimate_tokens(artifacts), estimate_tokens(compacted)
    return {
        "compacted_artifacts": compacted,
        "original_count": len(artifacts),
        "compacted_count": len(compacted),
        "original_tokens_estimate": before,
        "compacted_tokens_estimate": after,
        "compression_ratio": round(after / max(before, 1), 3),
        "strategy_used": strategy,
        "preserved_artifact_ids": [entry.source for entry in entries if entry.source is not None],
    }


# Measuring.


def size(value: Any) -> int:
    """Characters of the JSON text, which is what the estimate is made of."""
    return len(json.dumps(value))


def estimate_tokens(artifacts: List[Artifact]) -> int:
    """About four characters of JSON text make a token."""
    return size(artifacts) // CHARACTERS_PER_TOKEN


def character_budget(max_tokens: int) -> int:
    """The longest JSON text whose estimate is still `max_tokens`."""
    return max_tokens * CHARACTERS_PER_TOKEN + CHARACTERS_PER_TOKEN - 1


def cost(form: List[Entry]) -> int:
    """What a form adds to the JSON text of a list: its entries, each with two for separators.

    A list of n entries has n - 1 separators and two brackets, so the sum of costs is its exact size.
    """
    return sum(size(entry.artifact) + 2 for entry in form)


# Strategies.


def by_summarizing(artifacts: List[Artifact], budget: int, preserve: List[str]) -> List[Entry]:
    """Shortens every artifact alike, and gives detail back to the newest while there is room."""
    units = [
        unit_of(position, one, summaries(one, preserve) + [stub(one, preserve)])
        for position, one in enumerate(artifacts)
    ]
    return pack_evenly(units, budget)


def by_truncating(artifacts: List[Artifact], budget: int, preserve: List[str]) -> List[Entry]:
    """Keeps the newest artifacts whole; those that do not fit become stubs. Newest first."""
    units = [unit_of(position, one, [one, stub(one, preserve)]) for position, one in enumerate(artifacts)]
    return pack_in_order([units[index] for index in newest_first(units)], budget)


def by_merging(artifacts: List[Artifact], budget: int, preserve: List[str]) -> List[Entry]:
    """Makes one artifact of all that share a type, unless they are smaller on their own."""
    groups: Dict[str, List[int]] = {}
    for position, artifact in enumerate(artifacts):
        groups.setdefault(artifact["type"], []).append(position)
    units = [merged_unit(positions, artifacts, preserve) for positions in groups.values()]
    return pack_evenly(units, budget)


def by_importance(artifacts: List[Artifact], budget: int, preserve: List[str]) -> List[Entry]:
    """Keeps the most important artifacts whole, then shortened, then as stubs. Most important first."""
    units = [
        unit_of(position, one, [one] + summaries(one, preserve) + [stub(one, preserve)])
        for position, one in enumerate(artifacts)
    ]
    ranked = sorted(units, key=lambda unit: (-importance(artifacts[unit.position]), unit.position))
    return pack_in_order(ranked, budget)


STRATEGIES: Dict[str, Callable[[List[Artifact], int, List[str]], List[Entry]]] = {
    "summarize": by_summarizing,
    "truncate": by_truncating,
    "merge": by_merging,
    "intelligent": by_importance,
}


# Packing.


def pack_in_order(units: List[Unit], budget: int) -> List[Entry]:
    """First come, first served: each unit gets the richest form that still fits, or is dropped."""
    entries: List[Entry] = []
    for unit in units:
        form = next((form for form in unit.forms if cost(form) <= budget), [])
        budget -= cost(form)
        entries.extend(form)
    return entries


def pack_evenly(units: List[Unit], budget: int) -> List[Entry]:
    """All units suffer alike: the richest level at which everything fits.

    Then the newest get richer forms from what is left. If not even the poorest forms fit together,
    the oldest units are dropped.
    """
    costs = [[cost(form) for form in unit.forms] for unit in units]
    chosen = choose_levels(costs, newest_first(units), fitting_level(costs, budget), budget)
    entries: List[Entry] = []
    for index in sorted(chosen):
        entries.extend(units[index].forms[chosen[index]])
    return entries


def fitting_level(costs: List[List[int]], budget: int) -> int:
    """The first level at which all units fit together, or one behind the last."""
    depth = max(map(len, costs))
    for level in range(depth):
        if sum(each[min(level, len(each) - 1)] for each in costs) <= budget:
            return level
    return depth


def choose_levels(costs: List[List[int]], order: List[int], level: int, budget: int) -> Dict[int, int]:
    """The form of each unit that stays: first everyone's share, then the extra for the newest."""
    chosen: Dict[int, int] = {}
    for index in order:
        share = min(level, len(costs[index]) - 1)
        if costs[index][share] <= budget:
            chosen[index] = share
            budget -= costs[index][share]
    for index, share in chosen.items():
        room = budget + costs[index][share]
        richer = next(each for each in range(share + 1) if costs[index][each] <= room)
        chosen[index] = richer
        budget = room - costs[index][richer]
    return chosen


def newest_first(units: List[Unit]) -> List[int]:
    """Indices of the units, the newest first; undated ones last, equals as they came."""
    return sorted(range(len(units)), key=lambda index: (-units[index].newest, index))


# Forms of one artifact.


def unit_of(position: int, artifact: Artifact, forms: List[Artifact]) -> Unit:
    """A unit of one artifact; a form that is not smaller gives way to the artifact itself."""
    original = [Entry(artifact, artifact["id"])]
    made = [[Entry(form, artifact["id"])] for form in forms]
    return Unit(position, created_at(artifact), without_growth(made, original))


def without_growth(forms: List[List[Entry]], original: List[Entry]) -> List[List[Entry]]:
    """Replaces forms that save nothing; what they leave out would be lost for no gain."""
    limit = cost(original)
    return [form if cost(form) < limit else original for form in forms]


def preserved(artifact: Artifact, preserve: List[str]) -> Artifact:
    """The fields that must stay as they are."""
    return {field: artifact[field] for field in preserve if field in artifact}


def stub(artifact: Artifact, preserve: List[str]) -> Artifact:
    """What remains of an artifact when there is no room for its content."""
    kept = preserved(artifact, preserve)
    return {**kept, "truncated": kept.get("truncated", True)}


def summaries(artifact: Artifact, preserve: List[str]) -> List[Artifact]:
    """Shorter and shorter summaries."""
    return [summary(artifact, preserve, limit) for limit in TEXT_LIMITS]


def summary(artifact: Artifact, preserve: List[str], limit: int) -> Artifact:
    """Preserved fields, the telling part of the content, and how large it was."""
    kept = preserved(artifact, preserve)
    marks = {"compacted": True, "original_size": size(artifact)}
    if "content" not in kept:
        marks = {"content_summary": content_summary(artifact["content"], limit), **marks}
    # Named twice: the first gives the place, the second lets a preserved field win over our mark.
    return {**kept, **marks, **kept}


def content_summary(content: Dict[str, Any], limit: int) -> Dict[str, Any]:
    """The priority fields; if there are none, the first fields by name rather than nothing."""
    fields = [field for field in PRIORITY_FIELDS if field in content]
    fields = fields or sorted(content)[:SHOWN_ENTRIES]
    short = {field: shorten(content[field], limit, SHOWN_DEPTH) for field in fields}
    return {**short, "_original_fields": len(content)}


def shorten(value: Any, limit: int, depth: int) -> Any:
    """Cuts long texts, long lists, large objects and deep nesting; numbers stay."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit] + ELLIPSIS
    if isinstance(value, (list, dict)) and not depth:
        return ELLIPSIS
    if isinstance(value, list):
        return [shorten(one, limit, depth - 1) for one in value[:SHOWN_ENTRIES]]
    if isinstance(value, dict):
        return {key: shorten(value[key], limit, depth - 1) for key in sorted(value)[:SHOWN_ENTRIES]}
    return value


# Forms of several artifacts.


def merged_unit(positions: List[int], artifacts: List[Artifact], preserve: List[str]) -> Unit:
    """A unit of all artifacts of one type; one alone is shortened, for there is nothing to merge."""
    group = [artifacts[position] for position in positions]
    if len(group) == 1:
        only = group[0]
        return unit_of(positions[0], only, [only] + summaries(only, preserve) + [stub(only, preserve)])
    frame = merged_frame(group, preserve)
    contents = [aggregate(group, limit) for limit in TEXT_LIMITS] + [aggregate(group, None)]
    merged = [{**frame, "aggregated_content": content, "compacted": True} for content in contents]
    count_only = {"id": frame["id"], "type": frame["type"], "merged_count": len(group), "truncated": True}
    forms = [[Entry(form, None)] for form in merged + [count_only]]
    original = [Entry(one, one["id"]) for one in group]
    return Unit(positions[0], max(map(created_at, group)), without_growth(forms, original))


def merged_frame(group: List[Artifact], preserve: List[str]) -> Artifact:
    """Who was merged, and the preserved fields of all of them."""
    kind = group[0]["type"]
    frame: Artifact = {"id": f"merged_{kind}", "type": kind, "merged_count": len(group)}
    frame["merged_from"] = [artifact["id"] for artifact in group]
    for field in preserve:
        if field not in frame:
            values = [artifact[field] for artifact in by_age(group) if field in artifact]
            frame.update({field: joined(values)} if values else {})
    return frame


def by_age(group: List[Artifact]) -> List[Artifact]:
    """The newest first."""
    return sorted(group, key=lambda artifact: -created_at(artifact))


def joined(values: List[Any]) -> Any:
    """One value for several: lists are united, of anything else the newest stands for all."""
    if not all(isinstance(value, list) for value in values):
        return values[0]
    return distinct([one for value in values for one in value])


def distinct(values: List[Any]) -> List[Any]:
    """Each value once, where it came first; JSON text is compared because objects cannot be hashed."""
    return list({json.dumps(one, sort_keys=True): one for one in values}.values())


def aggregate(group: List[Artifact], limit: Optional[int]) -> Dict[str, Any]:
    """What the contents have in common and, within a text limit, what each different one says."""
    contents = [artifact["content"] for artifact in group]
    common = [field for field in sorted(contents[0]) if all(field in content for content in contents)]
    aggregated: Dict[str, Any] = {
        "count": len(contents),
        "types": sorted({type(content).__name__ for content in contents}),
        "common_fields": common,
    }
    if limit is not None:
        aggregated["summaries"] = distinct([content_summary(content, limit) for content in contents])
    return aggregated


# Judging artifacts.


def importance(artifact: Artifact) -> float:
    """Verified claims and patches count double, confidence adds up to as much, a date adds half."""
    score = 2.0 if artifact["type"] in IMPORTANT_TYPES else 1.0
    score *= 1.0 + confidence(artifact["content"])
    return score * 1.5 if "created_at" in artifact else score


def confidence(content: Dict[str, Any]) -> float:
    """A confidence between zero and one; anything else says nothing."""
    value = content.get("confidence", 0.0)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else 0.0


def created_at(artifact: Artifact) -> float:
    """When an artifact was made, comparable across time zones; minus infinity if it does not say."""
    try:
        moment = datetime.fromisoformat(artifact["created_at"].replace("Z", "+00:00").replace("z", "+00:00"))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return (moment - EPOCH).total_seconds()
    except (KeyError, AttributeError, ValueError, OverflowError):
        return float("-inf")
