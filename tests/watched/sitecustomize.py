"""Imported by every Python started with this folder on its path: no way out of the machine.

Every attempt is written to the file named by ``WATCHED``, as it may be swallowed where it is made.
"""

import os
import sys

LOOPBACK = ("127.", "::1", "localhost")
ASKING = {"socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0}
ASKING |= dict.fromkeys(("socket.gethostbyname", "socket.gethostbyaddr"), 0)


def watch(event, arguments):
    """Refuse addresses that are not of this machine."""
    if event not in ASKING:
        return
    address = arguments[ASKING[event]]
    if isinstance(address, (str, bytes)) and event in ("socket.connect", "socket.sendto"):
        return  # a socket of the file system
    host = address[0] if isinstance(address, tuple) else address
    if host is None or str(host).startswith(LOOPBACK):
        return
    with open(os.environ["WATCHED"], "a") as file:
        file.write(f"{event} {address} by {sys.argv}\n")
    raise ConnectionRefusedError(f"{event} {address}: no test asked for this")


sys.addaudithook(watch)
