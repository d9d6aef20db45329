"""Tests of `openwop-client`, the client of the current name of the protocol, with its newer features."""

import json

import openwop_client
from openwop_client.webhook_helpers import read_webhook_headers, verify_webhook_signature

from stories import CommonTests
from world import KEY, Receiver, ServerTestCase


class OpenwopClient(CommonTests, ServerTestCase):
    package = openwop_client

    def setUp(self):
        self.client = openwop_client.OpenwopClient(self.url, KEY)

    def test_a_pause_drains_the_current_node_and_a_resume_continues(self):
        run = self.start("nap")
        pausing = self.client.runs_pause(run, openwop_client.PauseRunRequest(drainPolicy="drain-current-node"))
        self.assertEqual(pausing.status, "paused")
        seen = self.wait_for(self.client, run, "run.paused")
        self.assertLess(seen.index("node.completed"), seen.index("run.paused"))
        self.assertEqual(self.client.runs_get(run).status, "paused")
        with self.assertRaises(openwop_client.WopError) as again:
            self.client.runs_pause(run, openwop_client.PauseRunRequest())
        self.assertEqual(again.exception.status, 409)
        self.assertEqual(self.client.runs_resume(run).status, "running")
        self.wait_for(self.client, run, "run.completed")

    def test_an_immediate_pause_does_not_wait(self):
        run = self.start("gated")
        paused = self.client.runs_pause(run, openwop_client.PauseRunRequest(reason="x", drainPolicy="immediate"))
        self.assertIsNotNone(paused.pausedAt)
        self.client.runs_resume(run)
        self.client.interrupts_resolve_by_run(run, "gate", self.accept())
        self.wait_for(self.client, run, "run.completed")

    def test_several_runs_are_cancelled_in_one_request(self):
        runs = [self.start("gated"), self.start("gated")]
        body = openwop_client.BulkCancelRunsRequest(runIds=[*runs, "no-such-run"])
        results = self.client.runs_bulk_cancel(body).results
        self.assertEqual([one.ok for one in results], [True, True, False])

    def test_a_debug_bundle_has_at_most_the_requested_number_of_events(self):
        run = self.start("gated")
        whole = self.client.runs_debug_bundle(run)
        few = self.client.runs_debug_bundle(run, max_events=2)
        self.assertGreater(len(whole.events), 2)
        self.assertEqual((len(few.events), few.truncated), (2, True))

    def test_a_webhook_receives_signed_deliveries_and_is_unregistered_once(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        request = openwop_client.RegisterWebhookRequest(url=receiver.url, events=["run.completed"])
        made = self.client.webhooks_register(request)
        self.assertEqual((made.url, made.eventTypes), (receiver.url, ["run.completed"]))
        run = self.start("gated")
        self.client.interrupts_resolve_by_run(run, "gate", self.accept())
        headers, body = receiver.next_delivery()
        signature, timestamp, _ = read_webhook_headers(headers)
        self.assertTrue(verify_webhook_signature(made.secret, signature, timestamp, body).valid)
        changed = body.replace(b"run.completed", b"run.cancelled")
        self.assertFalse(verify_webhook_signature(made.secret, signature, timestamp, changed).valid)
        delivered = json.loads(body)
        self.assertEqual((delivered["runId"], delivered["event"]["type"]), (run, "run.completed"))
        self.client.webhooks_unregister(made.subscriptionId, tenant_id="default")
        with self.assertRaises(openwop_client.WopError) as gone:
            self.client.webhooks_unregister(made.subscriptionId, tenant_id="default")
        self.assertEqual(gone.exception.envelope.error, "subscription_not_found")
