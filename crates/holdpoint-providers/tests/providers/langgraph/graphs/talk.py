"""An agent of LangChain below a graph, with its middleware for human review. The model streams tokens, and stops before
its last token until the test has seen the first."""

import asyncio

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

CALL_ID = "call_CanaryOfTheModel"


async def wait_for_test(port: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    writer.write(b"here 0\n")
    await writer.drain()
    await reader.readline()
    writer.close()


class Model(BaseChatModel):
    """Requests a call, and then ends. The first message of the user is the port of the test."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("not streamed"))])

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        spoken = any(message.type == "ai" for message in messages)
        tokens = ["It ", "is ", "sent."] if spoken else ["I ", "will ", "send it."]
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        for token in tokens[:-1]:
            yield ChatGenerationChunk(message=AIMessageChunk(token))
        if not spoken:
            await wait_for_test(messages[0].content)
        calls = [] if spoken else [{"name": "send", "args": '{"to": "bob"}', "id": CALL_ID, "index": 0}]
        last = AIMessageChunk(tokens[-1], tool_call_chunks=calls, usage_metadata=usage)
        yield ChatGenerationChunk(message=last)


@tool
async def send(to: str) -> str:
    """Sends a letter."""
    return "sent to " + to


def build_talk():
    review = HumanInTheLoopMiddleware(interrupt_on={"send": True}, description_prefix="Review")
    agent = create_agent(Model(), [send], middleware=[review])
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    return graph.compile()


talk = build_talk()
