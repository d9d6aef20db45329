"""What the fuzzer must know of this server: the key that it needs itself, that a poll waits, and some requests that
nobody would guess from the document alone."""

import copy
import json
import os
import pathlib
import random

import schemathesis

import checks  # noqa: F401, registers them
from checks import name_of

FOLDER = pathlib.Path(os.environ["FUZZ_FOLDER"])
WORLD = json.loads((FOLDER / "world.json").read_text())


@schemathesis.hook
def before_call(ctx, case, kwargs):
    # Most requests leave out the interrupt id, because no interrupt has a generated id.
    dice = dice_of(case, "interrupt")
    if case.query and "interruptId" in case.query and (dice is None or dice.random() < 0.9):
        del case.query["interruptId"]
    change = CHANGES.get(name_of(case))
    if not spend(case) and change is not None:
        change(case)


def spend(case):
    """Half of what could be meant well goes to something that was made for this operation alone: what others have
    answered, cancelled or revoked meanwhile does not matter to it."""
    dice = dice_of(case, "spend")
    kept = WORLD["kept"].get(name_of(case))
    if kept is None or dice is None or dice.random() > 0.5:
        return False
    one = dice.choice(kept)
    case.path_parameters.update(one["path"])
    if one["body"] is not None:
        case.body = copy.deepcopy(one["body"])
    if name_of(case) == "consumeGrant":
        case.headers = {**(case.headers or {}), "Idempotency-Key": one["path"]["grantId"]}
    return True


def keep_own_key(case):
    if case.path_parameters.get("keyId") == WORLD["ownKey"]:
        case.path_parameters["keyId"] = "key_of_nobody"


def wait_briefly(case):
    """A poll that has nothing to tell waits as long as it is told to. What is wrong stays wrong."""
    query = case.query
    if not isinstance(query, dict):
        return
    if number(query.get("timeout", 30)) in range(1, 61):
        query["timeout"] = 1
    if (number(query.get("lastSequence")) or 0) > 2:
        query["lastSequence"] = 2


def wait_for_hold(case):
    """The same for whoever waits for a hold."""
    if isinstance(case.query, dict) and number(case.query.get("wait")) in range(1, 61):
        case.query["wait"] = 1 if seldom(case) else 0


def stream_briefly(case):
    """A stream of what waits has no other end than its time, and a second is long: most are refused."""
    if isinstance(case.query, dict) and number(case.query.get("seconds", 600)) in range(1, 601):
        case.query["seconds"] = 1 if seldom(case) else 0


def seldom(case):
    return random.Random(f"{case.path_parameters}{case.query}").random() < 0.35


def ask_plainly(case):
    """Some members of a hold go with no others."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3 or not isinstance(case.body, dict):
        return
    for member in ("choices", "schema", "approvers"):
        case.body.pop(member, None)


def sign_in(case):
    """Nobody guesses a key, or a link that signs in."""
    dice = dice_of(case)
    if dice is not None and dice.random() < 0.8:
        case.body = {"key": os.environ["FUZZ_KEY"]}


def name_the_session(case):
    dice = dice_of(case)
    if dice is not None and dice.random() < 0.7:
        case.path_parameters["sessionId"] = dice.choice(WORLD["sessions"])


def name_the_hold(case):
    dice = dice_of(case)
    if dice is not None and dice.random() < 0.7:
        case.path_parameters["holdId"] = dice.choice(WORLD["holds"])
    if case.method == "GET":
        wait_for_hold(case)


def number(value):
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def prefer_a_list(case):
    """Half of the readers want no stream. The document has no parameter for this: OpenAPI keeps Accept to itself."""
    if random.Random(f"{case.path_parameters}{case.query}").random() < 0.5:
        case.headers["Accept"] = "application/json"


def name_the_run(case):
    """An artifact is found in the run that made it."""
    run, colon, _ = str(case.path_parameters.get("artifactId", "")).partition(":")
    if colon and run in WORLD["runs"]:
        case.path_parameters["runId"] = run


def ask_who_waits(case):
    """Of the answers that could be meant well, some go to a node that asks, and some of these are what it wants."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3 or not isinstance(case.body, dict):
        return
    run, node, answer = dice.choice(WORLD["questions"])
    case.path_parameters.update(runId=run, nodeId=node)
    if dice.random() < 0.5:
        case.body["resumeValue"] = answer


def answer_in_older_words(case):
    """The same on the older path, where the answer is the body."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3 or not isinstance(case.body, dict):
        return
    approvals = [one for one in WORLD["questions"] if "action" in one[2]]
    run, node, answer = dice.choice(approvals)
    case.path_parameters.update(runId=run, nodeId=node)
    if dice.random() < 0.7:
        case.body = dict(answer)


def answer_what_was_asked(case):
    """Questions of approvers have numbers in their interrupt."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3:
        return
    run, node, ask = dice.choice(WORLD["asks"])
    case.path_parameters.update(runId=run, nodeId=node, askId=str(ask))


def answer_a_link(case):
    """The same over links, which nobody can guess."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3 or not isinstance(case.body, dict):
        return
    token, answer = dice.choice(WORLD["links"])
    case.path_parameters["token"] = token
    if dice.random() < 0.5:
        case.body["resumeValue"] = answer
        case.body.pop("digest", None)


def link_to_who_waits(case):
    """A link can only be made to what is asked, and lives no longer than the operator allows."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3:
        return
    run, node, _ = dice.choice(WORLD["questions"])
    case.path_parameters.update(runId=run, nodeId=node)
    if isinstance(case.body, dict) and (number(case.body.get("expiresInSeconds")) or 0) > 604_800:
        case.body["expiresInSeconds"] = 604_800


def keep_links(case):
    """Or the links of this world would all be none. What is wrong stays wrong."""
    if isinstance(case.body, dict) and case.body.get("revokeOld") is True:
        case.body["revokeOld"] = False


def aim(states):
    """Where only some states admit a change, most of what could be meant well goes to a run that was in one of them."""

    def change(case):
        dice = dice_of(case)
        if dice is not None and dice.random() < 0.7:
            case.path_parameters["runId"] = dice.choice([run for state in states for run in WORLD["states"][state]])

    return change


def fork_early(case):
    """Most logs are short, and most numbers are not."""
    dice = dice_of(case)
    if dice is None or not isinstance(case.body, dict):
        return
    if dice.random() < 0.7 and (number(case.body.get("fromSeq")) or 0) > 8:
        case.body["fromSeq"] = dice.randrange(8)
    if dice.random() < 0.5:
        case.body.pop("runOptionsOverlay", None)


def graft(case):
    """Definitions that are nearly right: one that is, with something in it gone, repeated or replaced by what was
    generated."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.2 or not isinstance(case.body, dict):
        return
    pieces = list(parts(case.body))
    definition = copy.deepcopy(dice.choice(WORLD["workflows"]))
    definition["id"] = f"fuzz-made-{dice.randrange(20)}"
    case.path_parameters["workflowId"] = definition["id"]
    for _ in range(dice.choice([0, 0, 1, 1, 2, 3])):
        holder, key = dice.choice(list(places(definition)))
        replaced = copy.deepcopy(dice.choice(pieces)[1])
        if isinstance(holder, list) and dice.random() < 0.3:
            holder.append(copy.deepcopy(holder[key]))
        elif dice.random() < 0.3:
            del holder[key]
        else:
            holder[key] = replaced
    case.body = definition


def name_the_agent(case):
    """The same for agents: most members of a definition are optional, and nearly none is right by chance."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3 or not isinstance(case.body, dict):
        return
    definition = copy.deepcopy(WORLD["agent"])
    definition["agentId"] = f"fuzz-made-{dice.randrange(20)}"
    case.path_parameters["agentId"] = definition["agentId"]
    for member in dice.sample(sorted(case.body), dice.choice([0, 0, 1]) if case.body else 0):
        if member != "agentId":
            definition[member] = case.body[member]
    case.body = definition


def decide_a_call(case):
    """A decision is about a call that waits, in a run of an agent."""
    talk_on(case)
    if isinstance(case.body, dict) and dice_of(case) is not None:
        case.body = {**case.body, "toolCallId": "c1"}
        case.body.pop("ticketId", None)


def talk_on(case, talks="talks"):
    """Most of what can be done to a thread needs a run that is open in it."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.2:
        return
    thread, run = dice.choice(WORLD[talks])
    case.path_parameters.update({name: of for name, of in [("threadId", thread), ("runId", run)] if name in case.path_parameters})


def run_in_a_thread(case):
    """A front end goes on in a thread that is there, and answers what that waits for."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.3 or not isinstance(case.body, dict):
        return
    thread, run = dice.choice(WORLD["talks"])
    case.path_parameters["agentId"] = WORLD["agent"]["agentId"]
    case.body["threadId"] = thread
    case.body.pop("resume", None)
    if dice.random() < 0.7:
        status = dice.choice(["resolved", "resolved", "cancelled"])
        entry = {"interruptId": f"{run}:i1", "status": status, "payload": {"approved": dice.random() < 0.5}}
        case.body["resume"] = [entry]


def chat_on(case):
    """Most go on with a graph that is there; a start must name one, and wait for nothing."""
    dice = dice_of(case)
    if dice is None or not isinstance(case.body, dict):
        return
    case.body["waitMs"] = 0
    if dice.random() < 0.3:
        return
    if dice.random() < 0.3:
        for member in ("resumeValue", "resumeId", "interrupt", "messages"):
            case.body.pop(member, None)
        case.body.update(graph="native:fuzz-waits", input={})
        return
    for member in ("graph", "input", "messages", "interrupt"):
        case.body.pop(member, None)
    answer = {"action": dice.choice(["accept", "reject"])}
    case.body.update(stateKey=dice.choice(WORLD["chats"]), resumeId=f"r{dice.randrange(9)}", resumeValue=answer)


def look_at_a_thread(case):
    """A thread belongs to an agent."""
    talk_on(case, "looks")
    if dice_of(case) is not None:
        case.path_parameters["agentId"] = WORLD["agent"]["agentId"]


def read_on(case):
    """Places in a thread are those of its events, and nobody guesses one. Some readers begin at the beginning."""
    dice = dice_of(case)
    if dice is None or dice.random() < 0.2:
        return
    thread, run = dice.choice(WORLD["looks"])
    case.path_parameters["threadId"] = thread
    for name in ("after", "cursor"):
        case.query.pop(name, None)
    for name in [name for name in case.headers or {} if name.lower() == "last-event-id"]:
        del case.headers[name]
    if dice.random() < 0.7:
        case.query["after"] = f"{run}.{dice.randrange(4)}"


def replay_what_was_told(case):
    """A delivery belongs to its webhook."""
    dice = dice_of(case)
    if dice is not None and dice.random() < 0.7:
        webhook, delivery = dice.choice(WORLD["deliveries"])
        case.path_parameters.update(webhookId=webhook, deliveryId=delivery)


def dice_of(case, salt=""):
    """Fall the same way for the same case, so that a seed repeats everything. None where the case is wrong on purpose:
    it would not be wrong any more."""
    if case.meta is None or case.meta.generation.mode.is_negative:
        return None
    headers = sorted((case.headers or {}).items())
    return random.Random(f"{salt}{case.path_parameters}{case.query}{case.body}{headers}")


def parts(value):
    yield None, value
    for holder, key in places(value):
        yield key, holder[key]


def places(value):
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from places(value[key])


CHANGES = {
    "revokeKey": keep_own_key,
    "pollEvents": wait_briefly,
    "streamEvents": prefer_a_list,
    "getArtifact": name_the_run,
    "resolveInterrupt": ask_who_waits,
    "resolveApproval": answer_in_older_words,
    "answerAsk": answer_what_was_asked,
    "resolveByToken": answer_a_link,
    "mintToken": link_to_who_waits,
    "rotateSecrets": keep_links,
    "putWorkflow": graft,
    "putAgent": name_the_agent,
    "replayDelivery": replay_what_was_told,
    "tellRun": talk_on,
    "getActiveRun": lambda case: talk_on(case, "looks"),
    "listThreadEvents": read_on,
    "getWaiting": lambda case: talk_on(case, "looks"),
    "cancelThread": talk_on,
    "runAgent": run_in_a_thread,
    "chat": chat_on,
    "getAgUiThread": look_at_a_thread,
    "streamAgUiThread": look_at_a_thread,
    "decideCall": decide_a_call,
    "decideInThread": decide_a_call,
    "pauseRun": aim(["waiting-approval", "waiting-input", "running"]),
    "resumeRun": aim(["paused"]),
    "forkRun": fork_early,
    "createSession": sign_in,
    "revokeSession": name_the_session,
    "createHold": ask_plainly,
    "getHold": name_the_hold,
    "cancelHold": name_the_hold,
    "streamPending": stream_briefly,
}
