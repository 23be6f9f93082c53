"""To which connections the client entrusts its token.

Plan: an address with TLS has a connection with TLS, or is refused, however it is written.
"""

import http.client
import unittest

from harness import tenure
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


if __name__ == "__main__":
    unittest.main()
