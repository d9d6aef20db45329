"""Tests of `wop-client`, the client of the former name of the protocol."""

import wop_client

from stories import CommonTests
from world import KEY, ServerTestCase


class WopClient(CommonTests, ServerTestCase):
    package = wop_client

    def setUp(self):
        self.client = wop_client.WopClient(self.url, KEY)

    def test_the_client_has_the_pinned_version(self):
        self.assertEqual(wop_client.__version__, "1.0.0")
