"""Leases with fencing tokens, from the tenure agent of this host (`tenure serve`), or from `tenure hold` where there is none.

`Client` and `AsyncClient` speak to the agent, `hold` starts the program. What they give is a `Lease`: it is held until a deadline by this
process's own clock, and `Lease.held` says so without I/O.
"""

from ._aio import AsyncClient
from ._aio_work import AsyncOncePer, AsyncTick, AsyncUnit, AsyncWorker
from ._client import Client
from ._errors import AgentError, HeldByAnother, LeaseLost, Refused, Unreachable
from ._fleet import Unit, Worker
from ._hold import async_hold, hold
from ._lease import Lease, Ranges
from ._once import OncePer, Tick

__all__ = [
    "AgentError",
    "AsyncClient",
    "AsyncOncePer",
    "AsyncTick",
    "AsyncUnit",
    "AsyncWorker",
    "Client",
    "HeldByAnother",
    "Lease",
    "LeaseLost",
    "OncePer",
    "Ranges",
    "Refused",
    "Tick",
    "Unit",
    "Unreachable",
    "Worker",
    "async_hold",
    "hold",
]
