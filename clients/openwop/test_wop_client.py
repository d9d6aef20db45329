"""The client of the protocol's former name, `wop-client`."""

import wop_client

from stories import Stories
from world import KEY, Served


class WopClient(Stories, Served):
    package = wop_client

    def setUp(self):
        self.client = wop_client.WopClient(self.url, KEY)

    def test_version(self):
        self.assertEqual(wop_client.__version__, "1.0.0")
