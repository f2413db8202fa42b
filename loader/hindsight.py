"""Evidence about files that an engine has read already: which content they hold now, as a publish of what was made from them needs it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wcache.core.checkpoint.reader import Reader
from wcache.core.model.errors import EvidenceUnavailable
from wcache.core.model.events import Identity
from wcache.core.model.evidence import Fingerprint
from wcache.core.model.vocabulary import Tier
from wcache.core.settings import Settings
from wcache.core.wire.messages import AttachOffer, Progress
from wcache.loader.evidence import Gathering
from wcache.loader.question import Question
from wcache.loader.session import Session


def evidence_now(
    session: Session,
    question: Question,
    settings: Settings,
    *,
    reader: Reader,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Identity, tuple[Fingerprint, ...]]:
    """The asked checkpoint as it is now, with header evidence and what says its content: pinned where it was hashed earlier, else it is
    hashed now, by the daemon.

    Raises EvidenceUnavailable where that is not to be had (`max_read_bytes`, a name that leads nowhere), CheckpointInvalid and its like
    for files that cannot be read.
    """
    gathering = _Hindsight(session, question, settings, reader, True, on_progress)
    try:
        return gathering.look()
    finally:
        gathering.close()


class _Hindsight(Gathering):
    def look(self) -> tuple[Identity, tuple[Fingerprint, ...]]:
        self.trusting = False  # a grant says nothing of what was read
        self.policy = msgspec.structs.replace(self.policy, accept="content")
        self._resolve()
        root = self.resolved.root if self.resolved is not None else None
        self.offer = AttachOffer(attach="", residencies=(), grants=(), contradictions=(), known=self.session.lookup(root=root))
        if self.request.obstacle is not None:
            raise EvidenceUnavailable(self.request.obstacle_detail, where=self.question.spelling)
        self._take_pinned(self._known_here())
        self._take_header()
        location = self._held().checkpoint.location
        if not self._content_known() and not any(self._pin(item, location) for item in self.session.lookup(key=location.key())):
            self._take_content()
        if not self._content_known():
            raise EvidenceUnavailable(f"nobody knows which weights these were made from: {self.note}", where=self.question.spelling)
        return self.request.asked, tuple(self.evidence)

    def _content_known(self) -> bool:
        return any(item.tier in (Tier.PINNED, Tier.CONTENT) for item in self.evidence)
