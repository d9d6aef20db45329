"""The client of the protocol's present name, `openwop-client`: the same, and what came later."""

import json

import openwop_client
from openwop_client.webhook_helpers import read_webhook_headers, verify_webhook_signature

from stories import Stories
from world import KEY, Receiver, Served


class OpenwopClient(Stories, Served):
    package = openwop_client

    def setUp(self):
        self.client = openwop_client.OpenwopClient(self.url, KEY)

    def test_pause_drains_and_resume_goes_on(self):
        run = self.start("nap")
        asked = self.client.runs_pause(run, openwop_client.PauseRunRequest(drainPolicy="drain-current-node"))
        self.assertEqual(asked.status, "paused")
        seen = self.wait_for(self.client, run, "run.paused")
        self.assertLess(seen.index("node.completed"), seen.index("run.paused"))
        self.assertEqual(self.client.runs_get(run).status, "paused")
        with self.assertRaises(openwop_client.WopError) as again:
            self.client.runs_pause(run, openwop_client.PauseRunRequest())
        self.assertEqual(again.exception.status, 409)
        self.assertEqual(self.client.runs_resume(run).status, "running")
        self.wait_for(self.client, run, "run.completed")

    def test_pause_is_immediate_where_it_is_asked_for(self):
        run = self.start("gated")
        paused = self.client.runs_pause(run, openwop_client.PauseRunRequest(reason="x", drainPolicy="immediate"))
        self.assertIsNotNone(paused.pausedAt)
        self.client.runs_resume(run)
        self.client.interrupts_resolve_by_run(run, "gate", self.accept())
        self.wait_for(self.client, run, "run.completed")

    def test_many_are_cancelled_at_once(self):
        runs = [self.start("gated"), self.start("gated")]
        body = openwop_client.BulkCancelRunsRequest(runIds=[*runs, "no-such-run"])
        results = self.client.runs_bulk_cancel(body).results
        self.assertEqual([one.ok for one in results], [True, True, False])

    def test_debug_bundle(self):
        run = self.start("gated")
        whole = self.client.runs_debug_bundle(run)
        few = self.client.runs_debug_bundle(run, max_events=2)
        self.assertGreater(len(whole.events), 2)
        self.assertEqual((len(few.events), few.truncated), (2, True))

    def test_webhooks(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        wanted = openwop_client.RegisterWebhookRequest(url=receiver.url, events=["run.completed"])
        made = self.client.webhooks_register(wanted)
        self.assertEqual((made.url, made.eventTypes), (receiver.url, ["run.completed"]))
        run = self.start("gated")
        self.client.interrupts_resolve_by_run(run, "gate", self.accept())
        headers, body = receiver.take()
        signature, timestamp, _ = read_webhook_headers(headers)
        self.assertTrue(verify_webhook_signature(made.secret, signature, timestamp, body).valid)
        changed = body.replace(b"run.completed", b"run.cancelled")
        self.assertFalse(verify_webhook_signature(made.secret, signature, timestamp, changed).valid)
        said = json.loads(body)
        self.assertEqual((said["runId"], said["event"]["type"]), (run, "run.completed"))
        self.client.webhooks_unregister(made.subscriptionId, tenant_id="default")
        with self.assertRaises(openwop_client.WopError) as gone:
            self.client.webhooks_unregister(made.subscriptionId, tenant_id="default")
        self.assertEqual(gone.exception.envelope.error, "subscription_not_found")
