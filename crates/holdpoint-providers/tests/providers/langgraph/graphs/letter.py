"""A letter that is sent after an approval.

write -> read (interrupt) -> rewrite -> read ... -> send
"""

import asyncio
import operator
import os
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class Letter(TypedDict, total=False):
    topic: str
    text: str
    round: int
    wish: str
    sent: bool
    steps: Annotated[list[str], operator.add]


async def write(letter: Letter) -> dict:
    return {"text": f"Dear reader, about {letter['topic']}.", "round": 1, "steps": ["write"]}


async def read(letter: Letter) -> Command:
    shown = {"text": letter["text"], "round": letter["round"]}
    answer = interrupt({"kind": "letter_review", "data": shown})
    match answer.get("action"):
        case "approve":
            return Command(goto="send", update={"steps": ["approved"]})
        case "revise":
            return Command(goto="rewrite", update={"wish": answer.get("feedback", ""), "steps": ["revised"]})
        case _:
            return Command(goto=END, update={"sent": False, "steps": ["rejected"]})


async def rewrite(letter: Letter) -> dict:
    text = f"{letter['text']} ({letter['wish']})"
    return {"text": text, "round": letter["round"] + 1, "steps": ["rewrite"]}


def post(text: str) -> None:
    with open(os.environ["GRAPHS_SENT"], "a") as sent:
        sent.write(text + "\n")


async def send(letter: Letter) -> dict:
    await asyncio.to_thread(post, letter["text"])
    return {"sent": True, "steps": ["send"]}


def build():
    graph = StateGraph(Letter)
    graph.add_node("write", write)
    graph.add_node("read", read, destinations=("rewrite", "send", END))
    graph.add_node("rewrite", rewrite)
    graph.add_node("send", send)
    graph.add_edge(START, "write")
    graph.add_edge("write", "read")
    graph.add_edge("rewrite", "read")
    graph.add_edge("send", END)
    return graph.compile()


letter = build()
