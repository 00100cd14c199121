"""A site's side of Flower: its answers, as a ClientApp."""

from __future__ import annotations

import logging

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from percdl.exceptions import PerCDLError
from percdl.runtimes.flower.records import KINDS, read_request, refusal_records, to_records
from percdl.runtimes.messages import Answer

_log = logging.getLogger(__name__)


def make_client_app(answer: Answer) -> ClientApp:
    """Return a ClientApp that answers the requests of a coordinator, and no other message.

    An error of PerCDL becomes an answer that says why. Any other error is written to the log of
    the site and crosses as "internal error" alone: its text may hold what must not leave.

    Parameters
    ----------
    answer : function
        From a `Request` to a `Reply`.
    """
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        try:
            records = to_records(answer(read_request(message.content)))
        except PerCDLError as error:
            _log.warning("refused: %s", error)
            records = refusal_records(str(error))
        except Exception:
            _log.exception("a request could not be answered")
            records = refusal_records("internal error; the log of the site has more.")
        return Message(records, reply_to=message)

    for kind in KINDS:
        app.query(kind)(handle)
    return app
