from __future__ import annotations

import asyncio

import pytest

from vikingpi.agent.operation import Operation


def test_an_abort_from_within_the_task_does_not_hit_what_comes_after_the_operation() -> None:
    async def run() -> str:
        operation = Operation()
        operation.abort()
        with pytest.raises(asyncio.CancelledError):
            await operation.check()
        assert operation.absorb()
        await operation.close()
        await asyncio.sleep(0)
        return "went on"

    assert asyncio.run(run()) == "went on"
