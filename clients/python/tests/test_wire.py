"""To which connections the client entrusts its token, and which tokens there are.

Plan: an address with TLS has a connection with TLS, or is refused, however it is written. A token as it stands in a file is sent without its newline; what is no token
is refused, and not shown.
"""

import http.client
import os
import unittest
import unittest.mock

from harness import FakeAgent, tenure
from tenure._wire import Wire


class Connections(unittest.TestCase):
    def test_an_address_with_tls_has_a_connection_with_tls_however_it_is_written(self):
        addresses = ["https://agent:7070", "HTTPS://agent:7070", "Https://agent:7070", " https://agent:7070", "\thttps://agent:7070", "ht\ntps://agent:7070"]
        for address in addresses:
            with self.subTest(address):
                try:
                    client = tenure.Client(address, token="0123456789abcdef")
                except ValueError:
                    continue
                self.assertIsInstance(client._wire(None)._connection, http.client.HTTPSConnection)
        self.assertIsInstance(tenure.Client("HTTP://localhost:7070")._wire(None)._connection, http.client.HTTPConnection)
        # Plain text to other hosts is refused in all its spellings, too.
        for address in ["HTTP://agent:7070", " http://agent:7070", "agent:7070", "http://localhost@agent:7070"]:
            with self.subTest(address), self.assertRaises(ValueError) as refused:
                tenure.Client(address, token="0123456789abcdef")
            self.assertIn("plain text", str(refused.exception))

    def test_no_connection_with_tls_is_made_that_believes_nobody(self):
        with self.assertRaises(ValueError):
            Wire("https://agent:7070", "0123456789abcdef", None)


class Tokens(unittest.TestCase):
    TOKEN = "0123456789abcdef"

    def test_a_token_is_sent_without_the_newline_of_its_file(self):
        with FakeAgent(lambda method, path, body: {"leases": []}) as agent:
            for token in [self.TOKEN, f"{self.TOKEN}\n", f" {self.TOKEN}\r\n"]:
                list(tenure.Client(agent.address, token=token).list())
                with unittest.mock.patch.dict(os.environ, {"TENURE_TOKEN": token}):
                    list(tenure.Client(agent.address).list())
            # Whoever names none has none.
            list(tenure.Client(agent.address, token="").list())
            sent = [headers["Authorization"] for headers in agent.headers]
            self.assertEqual(sent, [f"Bearer {self.TOKEN}"] * 6 + [None])

    def test_what_is_no_token_is_refused_and_not_shown(self):
        for wrong in [f"{self.TOKEN}\n{self.TOKEN}", f"{self.TOKEN} x", f"{self.TOKEN}\0", f"{self.TOKEN}ä"]:
            for made in (tenure.Client, tenure.AsyncClient):
                with self.subTest(repr(wrong)):
                    with self.assertRaises(ValueError) as refused:
                        made("http://localhost:1", token=wrong)
                    self.assertIn("token", str(refused.exception))
                    self.assertNotIn(self.TOKEN, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
