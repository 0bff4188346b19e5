"""What a response cost, from its tokens and the model's price."""

from __future__ import annotations

from vikingpi.llm.base import Price
from vikingpi.messages import Cost, Usage


def priced(usage: Usage, price: Price) -> Usage:
    """Return the usage with its cost in US dollars."""
    cost = Cost(
        usage.input * price.input / 1e6,
        usage.output * price.output / 1e6,
        usage.cache_read * price.cache_read / 1e6,
        usage.cache_write * price.cache_write / 1e6,
    )
    return usage._replace(cost=cost)
