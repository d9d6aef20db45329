"""One approval cycle and one hold through the generated Python client. Its models reject a response without a required
member."""

import importlib
import os
import pkgutil
import unittest
from typing import TypeVar

import httpx

import holdpoint_client
from holdpoint_client import AuthenticatedClient
from holdpoint_client.api.default import (
    create_hold,
    create_run,
    get_hold,
    get_run,
    list_pending,
    poll_events,
    put_workflow,
    resolve_interrupt,
)
from holdpoint_client.models import (
    AnswerOutcome,
    CreateHold,
    CreateRun,
    Error,
    EventPage,
    Hold,
    HoldStatus,
    InterruptKind,
    InterruptResolved,
    NodeStatus,
    OpenInterrupt,
    PendingInterrupt,
    PendingInterrupts,
    ResolveInterrupt,
    RunCreated,
    RunSnapshot,
    RunStatus,
    WorkflowDefinition,
    WorkflowDefinitionEdgesItem,
    WorkflowDefinitionMetadata,
    WorkflowDefinitionNodesItem,
    WorkflowDefinitionSettings,
    WorkflowRegistered,
)
from holdpoint_client.types import Unset

Model = TypeVar("Model")


def node(name: str, type_id: str, config: dict[str, object]) -> WorkflowDefinitionNodesItem:
    return WorkflowDefinitionNodesItem.from_dict(
        {"id": name, "typeId": type_id, "name": name, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}}
    )


WORKFLOW = WorkflowDefinition(
    id="gated-python",
    name="Gated",
    version="1",
    nodes=[
        node("gate", "core.approvalGate", {"title": "Publish?", "actions": ["accept", "reject"]}),
        node("after", "core.noop", {}),
    ],
    edges=[WorkflowDefinitionEdgesItem.from_dict({"id": "e", "sourceNodeId": "gate", "targetNodeId": "after"})],
    triggers=[],
    variables=[],
    metadata=WorkflowDefinitionMetadata(),
    settings=WorkflowDefinitionSettings(),
)


class ApprovalCycle(unittest.TestCase):
    def setUp(self) -> None:
        url, key = os.environ["GENERATED_CLIENTS_URL"], os.environ["GENERATED_CLIENTS_KEY"]
        self.client = self.enterContext(AuthenticatedClient(base_url=url, token=key, timeout=httpx.Timeout(60)))

    def test_a_run_waits_for_an_approval_completes_after_it_and_rejects_a_second_answer(self) -> None:
        registered = put_workflow.sync(WORKFLOW.id, client=self.client, body=WORKFLOW)
        self.assertEqual(self.parsed(registered, WorkflowRegistered).id, WORKFLOW.id)

        created = self.parsed(
            create_run.sync(client=self.client, body=CreateRun(workflow_id=WORKFLOW.id)), RunCreated
        )
        waiting = self.run_with_status(created.run_id, RunStatus.WAITING_APPROVAL)
        self.assertEqual(self.parsed(waiting.interrupt, OpenInterrupt).node_id, "gate")
        self.assertEqual(waiting.node_states["after"].status, NodeStatus.PENDING)

        pending = self.only_pending(created.run_id)
        self.assertEqual(
            (pending.kind, pending.title, pending.workflow_id), (InterruptKind.APPROVAL, "Publish?", WORKFLOW.id)
        )

        answer = ResolveInterrupt(
            resume_value={"action": "accept"}, interrupt_id=pending.interrupt_id, digest=pending.digest
        )
        resolved = self.answer(pending, answer)
        self.assertEqual((resolved.outcome, resolved.interrupt_id), (AnswerOutcome.RESOLVED, pending.interrupt_id))

        completed = self.run_with_status(created.run_id, RunStatus.COMPLETED)
        self.assertIsInstance(completed.interrupt, Unset)
        self.assertEqual(completed.node_states["after"].status, NodeStatus.COMPLETED)
        self.assertEqual(self.pending_of(created.run_id), [])

        page = self.parsed(poll_events.sync(created.run_id, client=self.client, timeout=1), EventPage)
        order = ["run.started", "interrupt.requested", "interrupt.resolved", "run.completed"]
        self.assertEqual([event.type_ for event in page.events if event.type_ in order], order)

        second = resolve_interrupt.sync_detailed(pending.run_id, pending.node_id, client=self.client, body=answer)
        self.assertEqual(second.status_code, 409)
        error = self.parsed(second.parsed, Error)
        self.assertEqual(error.error, "interrupt_already_resolved")
        self.assertTrue(error.message)

    def test_a_hold_has_its_outcome_after_the_answer(self) -> None:
        body = CreateHold(title="Deploy?", requester_may_not_approve=False)
        hold = self.parsed(create_hold.sync(client=self.client, body=body), Hold)
        self.assertEqual(hold.status, HoldStatus.WAITING)
        self.assertIsInstance(hold.answer, Unset)

        resolved = self.answer(self.only_pending(hold.hold_id), ResolveInterrupt(resume_value={"action": "accept"}))
        self.assertEqual(resolved.outcome, AnswerOutcome.RESOLVED)

        answered = self.parsed(get_hold.sync(hold.hold_id, client=self.client, wait=30), Hold)
        self.assertEqual(answered.status, HoldStatus.APPROVED)
        self.assertNotIsInstance(answered.answered_at, Unset)
        self.assertEqual(answered.grant_id, resolved.grant_id)

    def test_every_generated_module_can_be_imported(self) -> None:
        for module in pkgutil.walk_packages(holdpoint_client.__path__, "holdpoint_client."):
            importlib.import_module(module.name)

    def answer(self, pending: PendingInterrupt, body: ResolveInterrupt) -> InterruptResolved:
        result = resolve_interrupt.sync(pending.run_id, pending.node_id, client=self.client, body=body)
        return self.parsed(result, InterruptResolved)

    def pending_of(self, run_id: str) -> list[PendingInterrupt]:
        listed = self.parsed(list_pending.sync(client=self.client), PendingInterrupts)
        return [interrupt for interrupt in listed.interrupts if interrupt.run_id == run_id]

    def only_pending(self, run_id: str) -> PendingInterrupt:
        pending = self.pending_of(run_id)
        self.assertEqual(len(pending), 1)
        return pending[0]

    def run_with_status(self, run_id: str, status: RunStatus) -> RunSnapshot:
        """Follows the events of a run until its snapshot has the status."""
        last = -1
        while True:
            run = self.parsed(get_run.sync(run_id, client=self.client), RunSnapshot)
            if run.status == status:
                return run
            page = poll_events.sync(run_id, client=self.client, last_sequence=last, timeout=30)
            events = self.parsed(page, EventPage).events
            self.assertTrue(events, f"run {run_id} is {run.status} and has no new event, instead of {status}")
            last = events[-1].sequence

    def parsed(self, value: object, model: type[Model]) -> Model:
        assert isinstance(value, model), f"expected {model.__name__}, received {value!r}"
        return value
