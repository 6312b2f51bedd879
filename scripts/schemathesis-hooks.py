"""Hooks of scripts/schemathesis."""

import schemathesis

# Longest wait for changes in milliseconds: a permitted wait of up to a minute would take the time of many calls.
LONGEST_WAIT = 5
# Bound of the field. Longer waits are refused at once, so they stay as they are.
BOUND = 60_000


@schemathesis.hook
def before_call(context, case, kwargs):
    """Shortens the time for which a call waits for changes."""
    body = case.body
    wait = body.get("wait_ms") if isinstance(body, dict) else None
    if type(wait) is int and LONGEST_WAIT < wait <= BOUND:
        body["wait_ms"] = LONGEST_WAIT
