"""Tests of the features that both published clients have."""

import uuid


class CommonTests:
    """A mixin for a test case with `client` (a client of the package) and `package` (its module)."""

    def start(self, workflow, **options):
        made = self.client.runs_create(self.package.CreateRunRequest(workflowId=workflow, **options))
        return made.runId

    def accept(self):
        return self.package.ResolveInterruptRequest(resumeValue={"action": "accept"})

    def token_of(self, run):
        """Returns the token of the snapshot, which the types of the clients leave out."""
        return self.client._request_json("GET", f"/v1/runs/{run}")["interrupt"]["interruptToken"]

    def test_the_server_describes_its_capabilities_paths_and_workflows(self):
        found = self.client.discovery_capabilities()
        self.assertTrue(found.protocolVersion.startswith("1."))
        self.assertIn("clarification.request", found.supportedEnvelopes)
        document = self.client.discovery_openapi()
        self.assertIn("/v1/runs", document["paths"])
        self.assertEqual(self.client.workflows_get("gated")["id"], "gated")

    def test_a_run_completes_after_the_answer_and_its_events_are_streamed_and_polled(self):
        run = self.start("gated", inputs={"title": "Hello"}, tags=["eu"])
        self.wait_for(self.client, run, "interrupt.requested")
        self.assertEqual(self.client.runs_get(run).status, "waiting-approval")
        answered = self.client.interrupts_resolve_by_run(run, "gate", self.accept())
        self.assertEqual((answered.runId, answered.nodeId), (run, "gate"))
        streamed = [event.type for event in self.client.runs_events(run)]
        self.assertEqual((streamed[0], streamed[-1]), ("run.started", "run.completed"))
        buffered = [event.type for event in self.client.runs_events(run, buffer_ms=100)]
        self.assertEqual(buffered, streamed)
        page = self.client.runs_poll_events(run, timeout_seconds=1)
        self.assertTrue(page.isComplete)
        self.assertEqual([event.sequence for event in page.events], list(range(len(page.events))))
        with self.assertRaises(self.package.WopError) as late:
            self.client.interrupts_resolve_by_run(run, "gate", self.accept())
        self.assertEqual((late.exception.status, late.exception.envelope.error), (409, "interrupt_already_resolved"))

    def test_a_run_is_forked_as_a_replay_and_as_a_branch(self):
        run = self.start("gated")
        self.client.interrupts_resolve_by_run(run, "gate", self.accept())
        replay = self.client.runs_fork(run, self.package.ForkRunRequest(fromSeq=0, mode="replay"))
        self.assertEqual((replay.sourceRunId, replay.mode), (run, "replay"))
        branch = self.client.runs_fork(run, self.package.ForkRunRequest(fromSeq=1, mode="branch"))
        self.wait_for(self.client, branch.runId, "interrupt.requested")
        with self.assertRaises(self.package.WopError) as beyond:
            self.client.runs_fork(run, self.package.ForkRunRequest(fromSeq=100_000, mode="branch"))
        self.assertEqual(beyond.exception.status, 422)

    def test_a_token_answers_its_interrupt_once_and_a_forged_token_is_rejected(self):
        run = self.start("gated")
        token = self.token_of(run)
        shown = self.client.interrupts_inspect_by_token(token)
        self.assertEqual((shown.kind, shown.data["title"]), ("approval", "Go on?"))
        answered = self.client.interrupts_resolve_by_token(token, self.accept())
        self.assertEqual(answered["runId"], run)
        with self.assertRaises(self.package.WopError) as used:
            self.client.interrupts_inspect_by_token(token)
        self.assertEqual(used.exception.status, 409)
        with self.assertRaises(self.package.WopError) as forged:
            self.client.interrupts_inspect_by_token(token[:-4] + "AAAA")
        self.assertEqual((forged.exception.status, forged.exception.envelope.error), (404, "interrupt_not_found"))

    def test_an_idempotency_key_creates_one_run_and_a_run_is_cancelled(self):
        key = str(uuid.uuid4())
        body = self.package.CreateRunRequest(workflowId="gated")
        first = self.client.runs_create(body, idempotency_key=key)
        again = self.client.runs_create(body, idempotency_key=key)
        self.assertEqual(first.runId, again.runId)
        cancelled = self.client.runs_cancel(first.runId, self.package.CancelRunRequest(reason="enough"))
        self.assertEqual(cancelled.status, "cancelled")
        self.assertEqual(self.client.runs_get(first.runId).status, "cancelled")

    def test_unknown_runs_and_unknown_keys_are_rejected(self):
        with self.assertRaises(self.package.WopError) as unknown:
            self.client.runs_get("no-such-run")
        self.assertEqual((unknown.exception.status, unknown.exception.envelope.error), (404, "not_found"))
        unknown_key = type(self.client)(self.url, "no-key-of-ours")
        with self.assertRaises(self.package.WopError) as refused:
            unknown_key.runs_get("no-such-run")
        self.assertEqual((refused.exception.status, refused.exception.envelope.error), (401, "unauthenticated"))
