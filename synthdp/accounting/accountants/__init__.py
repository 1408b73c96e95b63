"""One file per accountant; the file's name is the accountant's. A new one is a file, and its name in `CLAIMING` or
`COMPARED` of `synthdp.accounting`.

A file offers `epsilon(charges, delta) -> float` (an upper bound; raises `Unproven` for what it has no theorem for) and
`provenance() -> dict`. Rules per event are dispatched by the event's type: `rule.register(MyEvent)` teaches an accountant a
plug-in's event.
"""
