"""Reading back what a test's processes recorded."""

from __future__ import annotations

from typing import TypeVar

from wcache.core.model.events import Event
from wcache.core.settings import Settings
from wcache.ledger.store import Ledger
from wcache.loader.attach import settle_reports

E = TypeVar("E", bound=Event)


class Record:
    """The ledger of some settings, opened anew for every look."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.ledger

    def all(self) -> list[Event]:
        settle_reports()
        with Ledger.open(self._path, read_only=True) as ledger:
            return [stored.event for stored in ledger.events()]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.all() if isinstance(event, kind)]

    def last(self, kind: type[E]) -> E:
        return self.of(kind)[-1]
