"""A site of a federation in a process of its own that doubles what it is given."""

import os
import subprocess
import sys
from contextlib import contextmanager

SITE = """
import sys
from pathlib import Path
from percdl.runtimes.flower.connection import Joining, running_node
from percdl.runtimes.messages import Reply

def answer(asked):
    doubled = {name: 2 * array for name, array in asked.arrays.items()}
    return Reply("lyon", asked.kind, asked.run, asked.round, asked.attempt, {}, doubled)

server, folder = sys.argv[1], Path(sys.argv[2])
keys = folder / "keys"
with running_node(Joining(server, keys / "ca.crt", keys / sys.argv[3]), folder) as node:
    node.serve(answer, done=(folder / "enough").exists)
"""


@contextmanager
def connected(folder, server, key):
    """Run the site, with a key of the folder ``keys``; a file ``enough`` there ends it."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(os.path.isdir, sys.path))}
    command = [sys.executable, "-c", SITE, server, str(folder), key]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.terminate()
