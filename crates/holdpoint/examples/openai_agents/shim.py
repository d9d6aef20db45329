"""Serves an agent of the OpenAI Agents SDK over HTTP, for the provider in main.rs.

    python shim.py FOLDER MODEL_URL SENT_FILE     # prints its address; SHIM_TOKEN is the token of its caller

A conversation is one file in FOLDER: the messages of the SDK, the run state of a turn that waits for approvals, and the
attempts with their outcomes. An attempt is executed once: a request with a known id returns the state of the attempt.

    PUT    /conversations/ID/attempts/ATTEMPT    {"input": TEXT} or {"answers": {"i0": {"decision": …}}}
    GET    /conversations/ID/attempts/ATTEMPT    waits a moment for the outcome
    POST   /conversations/ID/cancel
    DELETE /conversations/ID
"""

import asyncio
import json
import os
import socket
import sys

import uvicorn
from agents import (Agent, AsyncOpenAI, OpenAIChatCompletionsModel, RunConfig, Runner, RunState, function_tool,
                    set_tracing_disabled)
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

FOLDER, MODEL_URL, SENT = sys.argv[1:4]
TOKEN = os.environ["SHIM_TOKEN"]
WAIT_SECONDS = 10
MODEL_RETRIES = 0

set_tracing_disabled(True)


@function_tool(needs_approval=True)
def publish(text: str) -> str:
    """Publishes a text."""
    with open(SENT, "a") as sent:
        sent.write(text + "\n")
    return "IT-IS-SENT"


MODEL = OpenAIChatCompletionsModel(
    model="stand-in", openai_client=AsyncOpenAI(base_url=MODEL_URL, api_key="none", max_retries=MODEL_RETRIES))
AGENT = Agent(name="publisher", instructions="Publish what the user asks for.", model=MODEL, tools=[publish])


class Conversation:
    """The stored state of one conversation. The caller sends one attempt at a time."""

    def __init__(self, name):
        self.path = os.path.join(FOLDER, name + ".json")
        if os.path.exists(self.path):
            with open(self.path) as file:
                stored = json.load(file)
        else:
            stored = {"items": [], "state": None, "attempts": {}}
        self.items, self.state, self.attempts = stored["items"], stored["state"], stored["attempts"]
        # This process has just started: it executes no attempt.
        for attempt, found in self.attempts.items():
            if found is None:
                self.attempts[attempt] = {"error": "crashed", "message": "the process ended during the attempt"}
        self.deleted = False
        self.task = None

    def store(self):
        if self.deleted:
            return
        with open(self.path + ".new", "w") as file:
            json.dump({"items": self.items, "state": self.state, "attempts": self.attempts}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.path + ".new", self.path)

    def begin(self, attempt, request):
        self.attempts[attempt] = None
        self.store()
        self.task = asyncio.create_task(self.execute(attempt, request))

    async def execute(self, attempt, request):
        try:
            outcome = await self.run(request)
        except asyncio.CancelledError:
            outcome = {"cancelled": True}
        except Exception as error:
            outcome = {"error": "failed", "message": type(error).__name__}
        self.attempts[attempt] = outcome
        self.store()

    async def run(self, request):
        if "input" in request:
            # A turn that was cancelled left calls without results; the model gets the messages before them.
            self.state = None
            given = self.items + [{"role": "user", "content": request["input"]}]
        else:
            given = await self.decided_state(request["answers"])
        result = await Runner.run(AGENT, given, run_config=RunConfig(tracing_disabled=True))
        if result.interruptions:
            state = result.to_state()
            self.state = state.to_json()
            calls = [{"tool": call.tool_name, "input": json.loads(call.arguments or "{}")}
                     for call in state.get_interruptions()]
            return {"calls": calls}
        self.items, self.state = result.to_input_list(), None
        return {"output": {"result": result.final_output}}

    async def decided_state(self, answers):
        state = await RunState.from_json(AGENT, self.state)
        for index, call in enumerate(state.get_interruptions()):
            answer = answers.get(f"i{index}")
            if answer is None:
                continue
            if answer["decision"] == "approve":
                state.approve(call)
            else:
                state.reject(call, rejection_message=answer.get("reason") or "rejected")
        return state


CONVERSATIONS = {}


def conversation(name):
    if name not in CONVERSATIONS:
        CONVERSATIONS[name] = Conversation(name)
    return CONVERSATIONS[name]


def guarded(handler):
    async def checked(request):
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"error": "unauthorized"}, 401)
        if not all(c.isalnum() or c == "-" for c in request.path_params["name"]):
            return JSONResponse({"error": "invalid name"}, 400)
        return await handler(request)
    return checked


def shown(found, attempt):
    if attempt not in found.attempts:
        return JSONResponse({"state": "unknown", "exists": bool(found.attempts)})
    outcome = found.attempts[attempt]
    return JSONResponse({"state": "running"} if outcome is None else {"state": "settled", "outcome": outcome})


@guarded
async def put_attempt(request):
    found, attempt = conversation(request.path_params["name"]), request.path_params["attempt"]
    if attempt not in found.attempts:
        if found.task and not found.task.done():
            return JSONResponse({"error": "busy"}, 409)
        body = await request.json()
        if "answers" in body and found.state is None:
            return JSONResponse({"error": "gone"}, 410)
        if body.get("continues") and not found.attempts:
            return JSONResponse({"error": "gone"}, 410)
        found.begin(attempt, body)
    return shown(found, attempt)


@guarded
async def get_attempt(request):
    found, attempt = conversation(request.path_params["name"]), request.path_params["attempt"]
    if found.task and found.attempts.get(attempt, ...) is None:
        await asyncio.wait([found.task], timeout=WAIT_SECONDS)
    return shown(found, attempt)


@guarded
async def cancel(request):
    found = conversation(request.path_params["name"])
    if found.task and not found.task.done():
        found.task.cancel()
        await asyncio.wait([found.task])
    return JSONResponse({})


@guarded
async def delete(request):
    await cancel(request)
    found = CONVERSATIONS.pop(request.path_params["name"])
    found.deleted = True
    if os.path.exists(found.path):
        os.remove(found.path)
    return JSONResponse({})


APP = Starlette(routes=[
    Route("/conversations/{name}/attempts/{attempt}", put_attempt, methods=["PUT"]),
    Route("/conversations/{name}/attempts/{attempt}", get_attempt, methods=["GET"]),
    Route("/conversations/{name}/cancel", cancel, methods=["POST"]),
    Route("/conversations/{name}", delete, methods=["DELETE"]),
])


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server = uvicorn.Server(uvicorn.Config(APP, log_level="warning"))
    asyncio.run(server.serve(sockets=[listener]))


main()
