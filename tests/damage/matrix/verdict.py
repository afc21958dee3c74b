"""The verdict of a run: one word, by what was lost, served, healed and told."""

from __future__ import annotations

from typing import Any

__all__ = ["AGAIN", "BAD", "GOOD", "HEALED_S", "judge"]

HEALED_S = 30.0
MOST_LOAD = 2.0
"""Waiting processes for each core."""
GOOD = {
    "well": "nothing is lost, the damage was told by name and healed",
    "harmless": "nothing is lost or damaged, and there was nothing to tell",
    "told": "on fewer than three nodes: what is not there was told",
    "refused": "on fewer than three nodes: a node does not start, and says what to do",
}
AGAIN = {
    "busy": "the machine had more than twice as much to do as it has cores, which makes everything late",
    "harness": "the run itself failed, which says nothing of the nodes",
}
"""Runs that say nothing: they are taken again."""
BAD = {
    "lost": "something acknowledged is not there",
    "served": "damaged bytes were served after somebody had met them",
    "twice": "a record is there twice",
    "ended": "a node ended, or does not start, where others have what it lacks",
    "late": f"not all in sync again within {HEALED_S:.0f} s",
    "rotten": "damage, or replicas that differ, are on a disk at the end",
    "silent": "the damage stays and nobody was told",
    **AGAIN,
}


def judge(run: dict[str, Any]) -> str:
    """Return the word for the facts of a run; the worst that applies."""
    few, told = run["nodes"] < 3, bool(run["told"])
    if run.get("failed"):
        return "harness"
    if run["refused"] or run["gone"]:
        return "refused" if few and run["refused"] and "next" in run["refused"] else "ended"
    if run["lost"]:
        return "told" if few and told else "lost"
    if run["served_after"]:
        return "served"
    if run["twice"]:
        return "twice"
    if run["healed_s"] is None or run["healed_s"] > HEALED_S:
        if run["nodes"] == 1 and told:
            return "told"
        return "busy" if run["load"] > MOST_LOAD else "late"
    if run["rotten"]:
        return "told" if few and told else "rotten"
    if told:
        return "well"
    return "harmless" if run["gone_by_itself"] else "silent"
