"""Checks of the fuzzer beyond the OpenAPI document: the envelope of errors, and a success of every operation."""

import json

import schemathesis


def operation_id(case):
    return case.operation.definition.raw.get("operationId")


@schemathesis.check
def error_envelope(ctx, response, case):
    """Checks that every response without success has the body `{error, message, details?}`."""
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
class OperationCoverage:
    """Checks that every operation succeeded at least once. Otherwise the fuzzer tests only its rejections."""

    def __init__(self, exempt=()):
        self.exempt = set(exempt)
        self.tested = set()
        self.succeeded = set()

    def after_response(self, ctx, response, case):
        self.tested.add(operation_id(case))
        if 200 <= response.status_code < 300:
            self.succeeded.add(operation_id(case))

    def after_run(self, ctx):
        missing = self.tested - self.succeeded - self.exempt
        assert not missing, "never succeeded: " + ", ".join(sorted(missing))
