"""The shop: a small program of its own, outside of the product, with books of its own (a file of JSON lines).

Started as ``python -m dashboard.example.shop --port N --books FILE``; it knows nothing of the product. It deduplicates
writes by ``Idempotency-Key``, answers questions by key, and misbehaves for orders whose id says so: ``lost-…`` applies
a write and drops the connection, ``slow-…`` takes three seconds, ``closed-…`` is refused, ``busy-…`` asks to come back
later, ``small-…`` was 50.00 and pays back no more, ``tied-…`` takes no refund back for now. An
order id it never heard of is an order all the same.

Beyond that it does, call by call, what it is told at ``/control/`` (``manners.py`` says what).
"""

RECEIPT = "X-Receipt"  # the header with the number that the books have for what was done
