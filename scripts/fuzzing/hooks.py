"""Adjusts generated requests to this server: protects the key of the fuzzer, shortens waits, and inserts ids and values
that cannot be generated from the document."""

import copy
import json
import os
import pathlib
import random

import schemathesis

import checks  # noqa: F401, registers the checks
from checks import operation_id

FOLDER = pathlib.Path(os.environ["FUZZ_FOLDER"])
WORLD = json.loads((FOLDER / "world.json").read_text())


@schemathesis.hook
def before_call(ctx, case, kwargs):
    # Most requests leave out the interrupt id, because no interrupt has a generated id.
    rng = case_random(case, "interrupt")
    if case.query and "interruptId" in case.query and (rng is None or rng.random() < 0.9):
        del case.query["interruptId"]
    change = CHANGES.get(operation_id(case))
    if not use_prepared_request(case) and change is not None:
        change(case)


def use_prepared_request(case):
    """Replaces half of the valid requests with requests for objects that only this operation uses, so that answers,
    cancellations and revocations of other operations do not affect them. Returns True if it replaced the request."""
    rng = case_random(case, "spend")
    prepared = WORLD["preparedRequests"].get(operation_id(case))
    if prepared is None or rng is None or rng.random() > 0.5:
        return False
    one = rng.choice(prepared)
    case.path_parameters.update(one["path"])
    if one["body"] is not None:
        case.body = copy.deepcopy(one["body"])
    if operation_id(case) == "consumeGrant":
        case.headers = {**(case.headers or {}), "Idempotency-Key": one["path"]["grantId"]}
    return True


def protect_own_key(case):
    if case.path_parameters.get("keyId") == WORLD["ownKey"]:
        case.path_parameters["keyId"] = "key_unknown"


def shorten_poll(case):
    """Shortens the timeout of a poll, which waits if there are no new events. Invalid values stay."""
    query = case.query
    if not isinstance(query, dict):
        return
    if number(query.get("timeout", 30)) in range(1, 61):
        query["timeout"] = 1
    if (number(query.get("lastSequence")) or 0) > 2:
        query["lastSequence"] = 2


def shorten_hold_wait(case):
    """Shortens the wait for the answer of a hold. Invalid values stay."""
    if isinstance(case.query, dict) and number(case.query.get("wait")) in range(1, 61):
        case.query["wait"] = 1 if one_in_three(case) else 0


def shorten_pending_stream(case):
    """Shortens a stream of pending interrupts, which ends only after its time. Most requests have the invalid time 0,
    because one second is long for the fuzzer."""
    if isinstance(case.query, dict) and number(case.query.get("seconds", 600)) in range(1, 601):
        case.query["seconds"] = 1 if one_in_three(case) else 0


def one_in_three(case):
    return random.Random(f"{case.path_parameters}{case.query}").random() < 0.35


def drop_exclusive_members(case):
    """Removes members that are not valid together with others from most holds."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3 or not isinstance(case.body, dict):
        return
    for member in ("choices", "schema", "approvers"):
        case.body.pop(member, None)


def sign_in_with_key(case):
    """Inserts the key of the fuzzer: keys and sign-in links cannot be generated."""
    rng = case_random(case)
    if rng is not None and rng.random() < 0.8:
        case.body = {"key": os.environ["FUZZ_KEY"]}


def choose_session(case):
    rng = case_random(case)
    if rng is not None and rng.random() < 0.7:
        case.path_parameters["sessionId"] = rng.choice(WORLD["sessions"])


def choose_hold(case):
    rng = case_random(case)
    if rng is not None and rng.random() < 0.7:
        case.path_parameters["holdId"] = rng.choice(WORLD["holds"])
    if case.method == "GET":
        shorten_hold_wait(case)


def number(value):
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def accept_json(case):
    """Requests JSON instead of a stream half of the time. OpenAPI ignores parameters for the header Accept."""
    if random.Random(f"{case.path_parameters}{case.query}").random() < 0.5:
        case.headers["Accept"] = "application/json"


def choose_run_of_artifact(case):
    """Inserts the run that created the artifact."""
    run, colon, _ = str(case.path_parameters.get("artifactId", "")).partition(":")
    if colon and run in WORLD["runs"]:
        case.path_parameters["runId"] = run


def choose_open_interrupt(case):
    """Sends most valid requests to a node with an open interrupt, and half of these with a valid answer."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3 or not isinstance(case.body, dict):
        return
    run, node, answer = rng.choice(WORLD["openInterrupts"])
    case.path_parameters.update(runId=run, nodeId=node)
    if rng.random() < 0.5:
        case.body["resumeValue"] = answer


def choose_open_approval(case):
    """Sends most valid requests of the older path, on which the answer is the body, to an open approval."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3 or not isinstance(case.body, dict):
        return
    approvals = [one for one in WORLD["openInterrupts"] if "action" in one[2]]
    run, node, answer = rng.choice(approvals)
    case.path_parameters.update(runId=run, nodeId=node)
    if rng.random() < 0.7:
        case.body = dict(answer)


def choose_side_question(case):
    """Inserts the number of a side question and its interrupt."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3:
        return
    run, node, ask = rng.choice(WORLD["sideQuestions"])
    case.path_parameters.update(runId=run, nodeId=node, askId=str(ask))


def choose_link(case):
    """Inserts the token of a signed link, which cannot be generated, and a valid answer half of the time."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3 or not isinstance(case.body, dict):
        return
    token, answer = rng.choice(WORLD["links"])
    case.path_parameters["token"] = token
    if rng.random() < 0.5:
        case.body["resumeValue"] = answer
        case.body.pop("digest", None)


def choose_interrupt_for_link(case):
    """Inserts an open interrupt, which a link needs, and limits the lifetime of the link to seven days."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3:
        return
    run, node, _ = rng.choice(WORLD["openInterrupts"])
    case.path_parameters.update(runId=run, nodeId=node)
    if isinstance(case.body, dict) and (number(case.body.get("expiresInSeconds")) or 0) > 604_800:
        case.body["expiresInSeconds"] = 604_800


def keep_old_links(case):
    """Prevents a rotation from revoking the links in WORLD. Invalid values stay."""
    if isinstance(case.body, dict) and case.body.get("revokeOld") is True:
        case.body["revokeOld"] = False


def choose_run_in(statuses):
    """Returns a function that sends most valid requests to a run that had one of these statuses at the start."""

    def change(case):
        rng = case_random(case)
        if rng is not None and rng.random() < 0.7:
            case.path_parameters["runId"] = rng.choice([run for one in statuses for run in WORLD["runsByStatus"][one]])

    return change


def lower_fork_point(case):
    """Lowers most fork points: most logs are short, and most generated numbers are large."""
    rng = case_random(case)
    if rng is None or not isinstance(case.body, dict):
        return
    if rng.random() < 0.7 and (number(case.body.get("fromSeq")) or 0) > 8:
        case.body["fromSeq"] = rng.randrange(8)
    if rng.random() < 0.5:
        case.body.pop("runOptionsOverlay", None)


def mutate_workflow(case):
    """Sends a valid definition in which up to three parts are removed, repeated or replaced by generated values."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.2 or not isinstance(case.body, dict):
        return
    pieces = list(parts(case.body))
    definition = copy.deepcopy(rng.choice(WORLD["workflows"]))
    definition["id"] = f"fuzz-made-{rng.randrange(20)}"
    case.path_parameters["workflowId"] = definition["id"]
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        holder, key = rng.choice(list(places(definition)))
        replaced = copy.deepcopy(rng.choice(pieces)[1])
        if isinstance(holder, list) and rng.random() < 0.3:
            holder.append(copy.deepcopy(holder[key]))
        elif rng.random() < 0.3:
            del holder[key]
        else:
            holder[key] = replaced
    case.body = definition


def mutate_agent(case):
    """Sends a valid agent with at most one generated member: generated definitions are almost never valid."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3 or not isinstance(case.body, dict):
        return
    definition = copy.deepcopy(WORLD["agent"])
    definition["agentId"] = f"fuzz-made-{rng.randrange(20)}"
    case.path_parameters["agentId"] = definition["agentId"]
    for member in rng.sample(sorted(case.body), rng.choice([0, 0, 1]) if case.body else 0):
        if member != "agentId":
            definition[member] = case.body[member]
    case.body = definition


def choose_waiting_call(case):
    """Inserts a tool call that waits for a decision, in a run of an agent."""
    choose_thread(case)
    if isinstance(case.body, dict) and case_random(case) is not None:
        case.body = {**case.body, "toolCallId": "c1"}
        case.body.pop("ticketId", None)


def choose_thread(case, threads="openThreads"):
    """Inserts a thread with an open run, which most operations on a thread need."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.2:
        return
    thread, run = rng.choice(WORLD[threads])
    case.path_parameters.update({name: of for name, of in [("threadId", thread), ("runId", run)] if name in case.path_parameters})


def continue_thread(case):
    """Continues an existing thread and resumes its interrupt, as a front end does."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.3 or not isinstance(case.body, dict):
        return
    thread, run = rng.choice(WORLD["openThreads"])
    case.path_parameters["agentId"] = WORLD["agent"]["agentId"]
    case.body["threadId"] = thread
    case.body.pop("resume", None)
    if rng.random() < 0.7:
        status = rng.choice(["resolved", "resolved", "cancelled"])
        entry = {"interruptId": f"{run}:i1", "status": status, "payload": {"approved": rng.random() < 0.5}}
        case.body["resume"] = [entry]


def continue_chat(case):
    """Continues an existing graph or starts one. The response is not delayed: `waitMs` is 0."""
    rng = case_random(case)
    if rng is None or not isinstance(case.body, dict):
        return
    case.body["waitMs"] = 0
    if rng.random() < 0.3:
        return
    if rng.random() < 0.3:
        for member in ("resumeValue", "resumeId", "interrupt", "messages"):
            case.body.pop(member, None)
        case.body.update(graph="native:fuzz-waits", input={})
        return
    for member in ("graph", "input", "messages", "interrupt"):
        case.body.pop(member, None)
    answer = {"action": rng.choice(["accept", "reject"])}
    case.body.update(stateKey=rng.choice(WORLD["chats"]), resumeId=f"r{rng.randrange(9)}", resumeValue=answer)


def choose_thread_to_read(case):
    """Inserts a thread and the agent to which it belongs."""
    choose_thread(case, "readOnlyThreads")
    if case_random(case) is not None:
        case.path_parameters["agentId"] = WORLD["agent"]["agentId"]


def choose_read_position(case):
    """Inserts the position of an event in a thread, which cannot be generated. Some requests start at the beginning."""
    rng = case_random(case)
    if rng is None or rng.random() < 0.2:
        return
    thread, run = rng.choice(WORLD["readOnlyThreads"])
    case.path_parameters["threadId"] = thread
    for name in ("after", "cursor"):
        case.query.pop(name, None)
    for name in [name for name in case.headers or {} if name.lower() == "last-event-id"]:
        del case.headers[name]
    if rng.random() < 0.7:
        case.query["after"] = f"{run}.{rng.randrange(4)}"


def choose_delivery(case):
    """Inserts a delivery and the webhook to which it belongs."""
    rng = case_random(case)
    if rng is not None and rng.random() < 0.7:
        webhook, delivery = rng.choice(WORLD["deliveries"])
        case.path_parameters.update(webhookId=webhook, deliveryId=delivery)


def case_random(case, salt=""):
    """Returns a generator of random numbers that depends only on the case, so that a seed repeats all requests. Returns
    None for a case that is invalid on purpose, because a change could make it valid."""
    if case.meta is None or case.meta.generation.mode.is_negative:
        return None
    headers = sorted((case.headers or {}).items())
    return random.Random(f"{salt}{case.path_parameters}{case.query}{case.body}{headers}")


def parts(value):
    """Yields a value and all values in it, each with its key."""
    yield None, value
    for holder, key in places(value):
        yield key, holder[key]


def places(value):
    """Yields each container in a value with each of its keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from places(value[key])


CHANGES = {
    "revokeKey": protect_own_key,
    "pollEvents": shorten_poll,
    "streamEvents": accept_json,
    "getArtifact": choose_run_of_artifact,
    "resolveInterrupt": choose_open_interrupt,
    "resolveApproval": choose_open_approval,
    "answerAsk": choose_side_question,
    "resolveByToken": choose_link,
    "mintToken": choose_interrupt_for_link,
    "rotateSecrets": keep_old_links,
    "putWorkflow": mutate_workflow,
    "putAgent": mutate_agent,
    "replayDelivery": choose_delivery,
    "tellRun": choose_thread,
    "getActiveRun": lambda case: choose_thread(case, "readOnlyThreads"),
    "listThreadEvents": choose_read_position,
    "getWaiting": lambda case: choose_thread(case, "readOnlyThreads"),
    "cancelThread": choose_thread,
    "runAgent": continue_thread,
    "chat": continue_chat,
    "getAgUiThread": choose_thread_to_read,
    "streamAgUiThread": choose_thread_to_read,
    "decideCall": choose_waiting_call,
    "decideInThread": choose_waiting_call,
    "pauseRun": choose_run_in(["waiting-approval", "waiting-input", "running"]),
    "resumeRun": choose_run_in(["paused"]),
    "forkRun": lower_fork_point,
    "createSession": sign_in_with_key,
    "revokeSession": choose_session,
    "createHold": drop_exclusive_members,
    "getHold": choose_hold,
    "cancelHold": choose_hold,
    "streamPending": shorten_pending_stream,
}
