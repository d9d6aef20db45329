"""Small graphs, each for one test case."""

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
    answer = interrupt({"kind": "vote", "data": {"member": member["name"]}})
    return {"votes": [[member["name"], answer]]}


def every_member(state: Votes) -> list[Send]:
    return [Send("vote", {"name": name}) for name in state["members"]]


def build_panel():
    """Opens one interrupt for each member, all at once."""
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
    answer = interrupt({"kind": "stop", "data": {"name": stop["name"], "round": round}})
    return {"round": round + 1, "votes": [[stop["name"], answer]]}


def again(stop: Stop) -> str:
    return "visit" if stop["votes"][-1][1] == "again" else END


def every_stop(state: Votes) -> list[Send]:
    return [Send("stop", {"name": name}) for name in state["members"]]


def build_tour():
    """Each stop is a subgraph that repeats its interrupt until the answer is not "again"."""
    stop = StateGraph(Stop)
    stop.add_node("visit", visit)
    stop.add_edge(START, "visit")
    stop.add_conditional_edges("visit", again, ["visit", END])
    graph = StateGraph(Votes)
    graph.add_node("stop", stop.compile())
    graph.add_conditional_edges(START, every_stop, ["stop"])
    graph.add_edge("stop", END)
    return graph.compile()


class State(TypedDict, total=False):
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


async def plain(state: State) -> dict:
    return {"answer": interrupt("Which colour?")}


async def schema(state: State) -> dict:
    return {"answer": interrupt({"kind": "colour", "data": {"of": "door"}}, response_schema=COLOUR)}


async def strict(state: State) -> dict:
    return {"answer": interrupt({"kind": "colour", "data": {"of": "car"}}, response_schema=Paint).model_dump()}


async def sleep(state: State) -> dict:
    await asyncio.sleep(state.get("seconds", 30))
    return {"answer": "awake"}


async def broken(state: State) -> dict:
    raise ValueError("the printer at http://10.1.2.3:9/job is on fire")


async def broken_later(state: State) -> dict:
    interrupt({"kind": "go_on", "data": {}})
    raise ValueError("out of paper")


async def huge(state: State) -> dict:
    return {"answer": interrupt({"kind": "book", "data": {"text": "x" * 300_000}})}


def single_node(node):
    graph = StateGraph(State)
    graph.add_node("only", node)
    graph.add_edge(START, "only")
    graph.add_edge("only", END)
    return graph.compile()


panel = build_panel()
tour = build_tour()
plain_question = single_node(plain)
schema_question = single_node(schema)
strict_question = single_node(strict)
nap = single_node(sleep)
fire = single_node(broken)
paper = single_node(broken_later)
book = single_node(huge)
