"""What the fuzzer holds every answer to: the one envelope of errors, and that every operation was reached."""

import json

import schemathesis


def name_of(case):
    return case.operation.definition.raw.get("operationId")


@schemathesis.check
def envelope(ctx, response, case):
    """Whatever is not a success is `{error, message, details?}` and nothing else."""
    if response.status_code < 300 or case.method == "HEAD" or case.formatted_path.startswith("/v1/packs"):
        return
    try:
        body = json.loads(response.content)
    except ValueError:
        raise AssertionError(f"not JSON: {response.content[:200]!r}") from None
    assert isinstance(body, dict), f"not an object: {body}"
    members = set(body)
    assert {"error", "message"} <= members <= {"error", "message", "details"}, f"members are {sorted(members)}"
    assert isinstance(body["error"], str) and body["error"], f"error is {body['error']!r}"
    assert isinstance(body["message"], str) and body["message"], f"message is {body['message']!r}"
    assert isinstance(body.get("details", {}), dict), f"details is {body['details']!r}"


@schemathesis.check
class Reached:
    """A fuzzer that never gets past the door finds nothing: every operation must have succeeded at least once."""

    def __init__(self, never=()):
        self.never = set(never)
        self.tested = set()
        self.reached = set()

    def after_response(self, ctx, response, case):
        self.tested.add(name_of(case))
        if 200 <= response.status_code < 300:
            self.reached.add(name_of(case))

    def after_run(self, ctx):
        missing = self.tested - self.reached - self.never
        assert not missing, "never succeeded: " + ", ".join(sorted(missing))
