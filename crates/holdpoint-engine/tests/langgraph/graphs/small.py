"""Graphs with one thing each that a test wants to see."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel, field_validator


class Votes(TypedDict, total=False):
    members: list[str]
    votes: Annotated[list[list[Any]], operator.add]


async def vote(member: dict) -> dict:
    said = interrupt({"kind": "vote", "data": {"member": member["name"]}})
    return {"votes": [[member["name"], said]]}


def every_member(state: Votes) -> list[Send]:
    return [Send("vote", {"name": name}) for name in state["members"]]


def build_panel():
    """All members are asked at once."""
    graph = StateGraph(Votes)
    graph.add_node("vote", vote)
    graph.add_conditional_edges(START, every_member, ["vote"])
    graph.add_edge("vote", END)
    return graph.compile()


class Stop(TypedDict, total=False):
    name: str
    round: int
    votes: Annotated[list[list[Any]], operator.add]


async def visit(stop: Stop) -> dict:
    round = stop.get("round", 1)
    said = interrupt({"kind": "stop", "data": {"name": stop["name"], "round": round}})
    return {"round": round + 1, "votes": [[stop["name"], said]]}


def again(stop: Stop) -> str:
    return "visit" if stop["votes"][-1][1] == "again" else END


def every_stop(state: Votes) -> list[Send]:
    return [Send("stop", {"name": name}) for name in state["members"]]


def build_tour():
    """Every stop is a graph of its own that asks until it is told to go on."""
    stop = StateGraph(Stop)
    stop.add_node("visit", visit)
    stop.add_edge(START, "visit")
    stop.add_conditional_edges("visit", again, ["visit", END])
    graph = StateGraph(Votes)
    graph.add_node("stop", stop.compile())
    graph.add_conditional_edges(START, every_stop, ["stop"])
    graph.add_edge("stop", END)
    return graph.compile()


class Anything(TypedDict, total=False):
    seconds: float
    answer: Any


class Paint(BaseModel):
    colour: str

    @field_validator("colour")
    @classmethod
    def is_in_stock(cls, colour: str) -> str:
        if colour == "plaid":
            raise ValueError("there is no such paint")
        return colour


COLOUR = {"type": "object", "required": ["colour"], "properties": {"colour": {"type": "string"}}}


async def plain(state: Anything) -> dict:
    return {"answer": interrupt("Which colour?")}


async def schema(state: Anything) -> dict:
    return {"answer": interrupt({"kind": "colour", "data": {"of": "door"}}, response_schema=COLOUR)}


async def strict(state: Anything) -> dict:
    return {"answer": interrupt({"kind": "colour", "data": {"of": "car"}}, response_schema=Paint).model_dump()}


async def sleepy(state: Anything) -> dict:
    await asyncio.sleep(state.get("seconds", 30))
    return {"answer": "awake"}


async def broken(state: Anything) -> dict:
    raise ValueError("the printer at http://10.1.2.3:9/job is on fire")


async def broken_later(state: Anything) -> dict:
    interrupt({"kind": "go_on", "data": {}})
    raise ValueError("out of paper")


async def huge(state: Anything) -> dict:
    return {"answer": interrupt({"kind": "book", "data": {"text": "x" * 300_000}})}


def alone(node):
    graph = StateGraph(Anything)
    graph.add_node("only", node)
    graph.add_edge(START, "only")
    graph.add_edge("only", END)
    return graph.compile()


panel = build_panel()
tour = build_tour()
plain_question = alone(plain)
schema_question = alone(schema)
strict_question = alone(strict)
nap = alone(sleepy)
fire = alone(broken)
paper = alone(broken_later)
book = alone(huge)
