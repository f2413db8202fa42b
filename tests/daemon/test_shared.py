"""D6, shared mode: members of a group get what they can prove to be able to read, and nothing else; who is refused is on record."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.corpus import make_checkpoint
from support.daemon import DaemonProcess, wait_until
from support.others import OTHER_UID, SHARED_GID, Other, as_user, needs_root

from wcache.core.checkpoint.identity import filesystem_kind, pinnable
from wcache.core.model.errors import WcacheError
from wcache.core.model.events import AttachDecided, FingerprintRecorded, LeaseEnded, MapCompleted, PeerRefused
from wcache.core.model.vocabulary import Outcome, Reason, Tier
from wcache.daemon.descriptors import why_not_touched
from wcache.daemon.door import CONNECTIONS_MAX_OF_ONE, OBSERVED_MAX

pytestmark = needs_root


@pytest.fixture(scope="module")
def public() -> Iterator[Path]:
    """A directory that every user may enter, on a file system whose pins hold."""
    for parent in (Path("/var/tmp"), Path(__file__).parent):
        if pinnable(filesystem_kind(parent))[0]:
            break
    else:
        pytest.skip("no file system whose pins hold")
    scratch = Path(tempfile.mkdtemp(prefix=".wc-shared-", dir=parent))
    scratch.chmod(0o755)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def open_to_all(folder: Path) -> Path:
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder


@pytest.fixture(scope="module")
def readable(public: Path) -> Path:
    return open_to_all(make_checkpoint(public / "readable", shards=3))


@pytest.fixture(scope="module")
def copy(public: Path) -> Path:
    """The bytes of `readable` in other files, which nobody has hashed."""
    return open_to_all(make_checkpoint(public / "copy", shards=3))


@pytest.fixture(scope="module")
def twin(public: Path) -> Path:
    return open_to_all(make_checkpoint(public / "twin", shards=3, seed=1))


@pytest.fixture(scope="module")
def secret(public: Path) -> Path:
    """Entered and listed by everybody, its files read by root only."""
    folder = open_to_all(make_checkpoint(public / "secret", shards=3, seed=2))
    for file in folder.glob("*.safetensors"):
        file.chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def daemon(public: Path, readable: Path, secret: Path) -> Iterator[DaemonProcess]:
    """Root's, shared with a group that only its number names."""
    process = DaemonProcess(environ={"WCACHE_SHARED_GROUP": str(SHARED_GID)})
    try:
        process.base.chmod(0o755)
        process.start()
        process.load(readable)
        process.load(secret)
        yield process
    finally:
        process.cleanup()


@pytest.fixture
def member(daemon: DaemonProcess, public: Path) -> Other:
    return Other(public / "home", daemon.settings.runtime_dir, (SHARED_GID,), daemon_uid=0, wait_s=5)


def last_decision(daemon: DaemonProcess) -> AttachDecided:
    found = daemon.events("attach.decided")[-1]
    assert isinstance(found, AttachDecided)
    return found


def refusals(daemon: DaemonProcess) -> list[str]:
    return [event.why for event in daemon.events("peer.refused") if isinstance(event, PeerRefused)]


_ATTACH = """
found = loader_attach({path!r}, settings=settings, **{policy!r})
if found.hit:
    total = sum(len(os.pread(one.descriptor, one.size_bytes, 0)) for one in found.segments.values())
    found.report_mapped(1.0)
else:
    total = 0
    found.fell_back(1, 0.1)
tell(hit=found.hit, reason=found.decision.reason, tier=found.decision.tier, total=total, detail=found.decision.detail, seq=found.seq)
"""


def attach_as(user: Other, path: Path, **policy: object) -> tuple[dict[str, object], str]:
    return user.run(_ATTACH.format(path=str(path), policy=policy))


def test_directory_and_socket_belong_to_the_group(daemon: DaemonProcess) -> None:
    place, socket = daemon.settings.runtime_dir.stat(), daemon.settings.socket_path.stat()
    assert (stat.S_IMODE(place.st_mode), place.st_gid) == (0o750, SHARED_GID)
    assert (stat.S_IMODE(socket.st_mode), socket.st_gid) == (0o660, SHARED_GID)
    assert stat.S_IMODE((daemon.settings.runtime_dir / "daemon.lock").stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.settings.ledger.stat().st_mode) & 0o077 == 0


def test_a_member_maps_what_it_may_read(daemon: DaemonProcess, member: Other, readable: Path) -> None:
    """By a pin that the server took itself, from descriptors; everything is in the daemon's ledger, with the member's uid."""
    found, log = attach_as(member, readable)
    assert (found["hit"], found["tier"]) == (True, "pinned"), (found, log)
    assert found["total"] == sum(file.stat().st_size for file in readable.glob("*.safetensors"))
    decided = last_decision(daemon)
    assert (decided.peer.uid, decided.outcome, decided.decided_by) == (OTHER_UID, Outcome.HIT, "server")
    assert decided.asked.spelling == str(readable)
    wait_until(lambda: any(isinstance(one, LeaseEnded) and one.attach == decided.attach for one in daemon.events("lease.ended")))
    assert any(isinstance(one, MapCompleted) and one.attach == decided.attach for one in daemon.events("map.completed"))
    own = [event for event in daemon.events("fingerprint.recorded") if isinstance(event, FingerprintRecorded) and event.uid == OTHER_UID]
    assert own and {event.by for event in own} == {"server"}
    assert not (member.home / "state" / "ledger.sqlite").exists()


def test_a_copy_is_hashed_by_the_server_through_the_members_descriptors(daemon: DaemonProcess, member: Other, copy: Path) -> None:
    first, log = attach_as(member, copy)
    assert (first["hit"], first["tier"]) == (True, "content"), (first, log)
    again, log = attach_as(member, copy)
    assert (again["hit"], again["tier"]) == (True, "pinned"), (again, log)


def test_a_twin_is_refused_by_its_content(daemon: DaemonProcess, member: Other, twin: Path) -> None:
    for policy in ({}, {"accept": "header"}, {"accept": "sampled"}):
        found, log = attach_as(member, twin, **policy)
        assert (found["hit"], found["reason"]) == (False, "content_mismatch"), (found, log)


def test_files_that_the_member_may_not_read_are_not_mapped_and_that_is_on_record(
    daemon: DaemonProcess, member: Other, secret: Path
) -> None:
    found, log = attach_as(member, secret)
    assert (found["hit"], found["reason"]) == (False, "peer_not_allowed"), (found, log)
    assert last_decision(daemon).reason is Reason.PEER_NOT_ALLOWED
    wait_until(lambda: any("did not prove" in why for why in refusals(daemon)))


_CLAIMS = """
channel = Channel.connect(settings.socket_path, daemon_uid=0)
def answer(message, fds=()):
    try:
        return channel.call(message, fds, timeout_s=60)
    except WcacheError as error:
        return error
names = sorted(os.listdir({secret!r}))
def identity(name):
    found = os.stat(os.path.join({secret!r}, name))
    return FileIdentity(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
shards = [name for name in names if name.endswith(".safetensors")]
index = next((name for name in names if name.endswith("index.json")), None)
location = Location({secret!r}, tuple(map(identity, shards)), identity(index) if index else None, identity("."), "ext4")
wanted = [*shards, *([index] if index else [])]
asked = Identity({secret!r}, {secret!r}, key=location.key())
"""


def test_no_claim_gets_weights(daemon: DaemonProcess, member: Other, secret: Path) -> None:
    """Every identity is true and the evidence would be enough for the daemon's own user; nothing was proved."""
    loaded = next(one.view for one in daemon.status().residencies if one.view.served.root == str(secret))
    known = [
        event.evidence
        for event in daemon.events("fingerprint.recorded")
        if isinstance(event, FingerprintRecorded) and event.evidence.weights_digest == loaded.weights_digest
    ]
    claims = [msgspec.structs.replace(known[0], tier=tier, reuses=known[0].id()) for tier in (Tier.PINNED, Tier.CONTENT)] + known
    code = (
        _CLAIMS.format(secret=str(secret))
        + f"""
evidence = msgspec.json.decode({msgspec.json.encode(claims).decode()!r}, type=tuple[Fingerprint, ...])
offer = begin(channel, asked, Policy(accept="header", trusted="honour", attested="honour"))
told = dict(offered=len(offer.residencies), grants=len(offer.grants), known=len(offer.known))
hit = Decision(outcome=Outcome.HIT, reason=None, detail="", residency={loaded.residency!r})
reply = answer(Decide(attach=offer.attach, request=Request(asked=asked), decision=hit, evidence=evidence))
tell(**told, outcome=reply.decision.outcome, reason=reply.decision.reason, segments=len(reply.segments),
     served=reply.decision.served, status=len(answer(StatusRequest()).residencies))
"""
    )
    told, _ = member.run("import msgspec\n" + code)
    assert told == {
        "offered": 0, "grants": 0, "known": 0, "outcome": "fallback", "reason": "peer_not_allowed", "segments": 0, "served": None,
        "status": 0,
    }  # fmt: skip


def test_only_a_descriptor_for_reading_is_a_proof(daemon: DaemonProcess, member: Other, secret: Path, readable: Path) -> None:
    """O_PATH needs no permission on the file and has the access mode of O_RDONLY; other files are not those that were named."""
    code = (
        _CLAIMS.format(secret=str(secret))
        + f"""
paths = [os.open(os.path.join({str(secret)!r}, name), os.O_PATH) for name in wanted]
by_path = answer(Prove(spelling={str(secret)!r}, location=location), paths)
hashed = answer(HashRequest(spelling={str(secret)!r}, location=location), paths)
others = sorted(os.listdir({str(readable)!r}))
theirs = [os.open(os.path.join({str(readable)!r}, name), os.O_RDONLY) for name in
          [*(one for one in others if one.endswith(".safetensors")), *(one for one in others if one.endswith("index.json"))]]
swapped = answer(Prove(spelling={str(secret)!r}, location=location), theirs)
mine = os.open(os.path.join(HOME, "file"), os.O_RDWR | os.O_CREAT)
writable = answer(Prove(spelling="x", location=Location("x", (FileIdentity("a", 1, 1, 1, 1, 1),), None, None, "ext4")), [mine])
few = answer(Prove(spelling="x", location=location), theirs[:1])
tell(by_path=by_path.detail, hashed=hashed.detail, swapped=swapped.detail, writable=writable.detail, few=few.code,
     offered=len(begin(channel, asked).residencies))
"""
    )
    told, _ = member.run(code)
    assert told == {
        "by_path": "not_proved", "hashed": "not_proved", "swapped": "not_proved", "writable": "not_proved", "few": "protocol_error",
        "offered": 0,
    }  # fmt: skip
    wait_until(lambda: any("O_PATH" in why for why in refusals(daemon)) and any("not the files" in why for why in refusals(daemon)))


_HIDDEN_MOUNT = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x20000) == 0  # CLONE_NEWNS
assert libc.mount(b"none", b"/", None, 0x44000, None) == 0  # MS_REC | MS_PRIVATE
assert libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None) == 0
os.close(os.open("/mnt/file", os.O_CREAT | os.O_WRONLY, 0o644))
hidden = os.open("/mnt/file", os.O_RDONLY)
"""


def test_a_descriptor_of_a_file_system_that_the_daemon_cannot_see_is_not_touched(daemon: DaemonProcess, member: Other) -> None:
    """It could be the peer's own FUSE, on which even close(2) may hang for ever: the connection ends, and the daemon goes on."""
    code = """
seen = []
for number in (1, 40):  # as many as allowed, and more than fit
    channel = None
    while channel is None:
        try:
            channel = Channel.connect(settings.socket_path, daemon_uid=0)
        except DaemonUnreachable:
            pass  # nobody of this user is let in until the last descriptors are closed
    body = encode(Prove(spelling="x", location=Location("x", (FileIdentity("a", 1, 1, 1, 1, 1),), None, None, "ext4")))
    import array, socket, struct
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [hidden] * number))]
    channel._sock.sendmsg([struct.pack(">I", len(body)) + body], rights)
    try:
        seen.append(type(channel.receive()[0]).__name__)
    except DaemonUnreachable as error:
        seen.append(error.reason)
tell(seen=seen)
"""
    before = daemon.fd_count()
    told, _ = member.run(code, as_root=_HIDDEN_MOUNT)
    assert told == {"seen": ["daemon_closed", "daemon_closed"]}
    wait_until(lambda: any("not mounted where the daemon runs" in why for why in refusals(daemon)))
    wait_until(lambda: daemon.fd_count() <= before)


def test_file_systems_of_other_users_are_told_from_roots(tmp_path: Path) -> None:
    """mountinfo as proc(5) describes it; FUSE says who mounted it."""
    file = tmp_path / "file"
    file.touch()
    device = file.stat().st_dev
    place = f"{os.major(device)}:{os.minor(device)}"
    mountinfo = tmp_path / "mountinfo"

    def why(line: str) -> str:
        mountinfo.write_text(line)
        with file.open() as opened:
            return why_not_touched(opened.fileno(), mountinfo)

    assert why(f"9999999 1 {place} / / rw - ext4 /dev/x rw\n") == ""
    assert why(f"9999999 1 {place} / /m rw shared:1 - fuse.s3 s3 rw,user_id=0,group_id=0\n") == ""
    assert "uid 1000 mounted" in why(f"9999999 1 {place} / /m rw - fuse.sshfs x rw,user_id=1000,group_id=1000\n")
    assert "not mounted" in why("9999999 1 0:999 / / rw - ext4 /dev/x rw\n")


def test_what_is_the_daemons_users_alone(daemon: DaemonProcess, member: Other, readable: Path) -> None:
    """Load, publish, shutdown, look-ups, force, and the release of what was not proved are refused, on record, and change nothing."""
    resident = next(one.view.residency for one in daemon.status().residencies if one.view.served.root == str(readable))
    code = f"""
channel = Channel.connect(settings.socket_path, daemon_uid=0)
requests = dict(
    load=LoadRequest(spelling={str(readable)!r}), stop=ShutdownRequest(), kill=ShutdownRequest(force=True), lookup=Lookup(root="/"),
    publish=PublishBegin(asked=Identity("/m"), device="cpu", config=dict(), size_bytes=1, tensors=1, engine=Engine("e"), ranks=Ranks()),
    release=ReleaseRequest(residency={resident!r}), force=ReleaseRequest(residency={resident!r}, force=True),
)
told = dict()
for name, request in requests.items():
    try:
        told[name] = type(channel.call(request)).__name__
    except WcacheError as error:
        told[name] = type(error).__name__ + ":" + error.detail
tell(**told)
"""
    told, _ = member.run(code)
    own = "RequestRefused:not_owner"
    assert told == {
        "load": own,
        "stop": own,
        "kill": own,
        "lookup": own,
        "publish": own,
        "release": "RequestRefused:not_proved",
        "force": own,
    }
    assert any(one.view.residency == resident for one in daemon.status().residencies)
    wait_until(lambda: any("ShutdownRequest" in why for why in refusals(daemon)))


def test_a_member_gives_back_what_it_proved_unless_another_has_it_mapped(
    daemon: DaemonProcess, member: Other, public: Path, readable: Path
) -> None:
    spare = open_to_all(make_checkpoint(public / "spare", shards=1, seed=7))
    resident = daemon.load(spare).residency.residency
    code = f"""
from wcache.loader.session import Session
def release(path, residency):
    session = Session(settings.socket_path, 0)
    with checkpoint.hold_checkpoint(path) as held:
        session.prove(path, held.checkpoint.location, [file.descriptor for file in held.files.values()])
    try:
        return type(session._channel.call(ReleaseRequest(residency=residency))).__name__
    except WcacheError as error:
        return error.detail
input()
first = release({str(spare)!r}, {resident!r})
tell(first=first)
input()
tell(second=release({str(spare)!r}, {resident!r}))
"""
    from support.attaching import attach

    mapped = attach(daemon.settings.socket_path, spare)
    process = member.start(code)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"first": "leased"}
        mapped.close()
        wait_until(lambda: not daemon.status().leases)
        out, err = process.communicate("\n", timeout=60)
        assert json.loads(out.splitlines()[-1]) == {"second": "Done"}, err
    finally:
        process.kill()


def test_a_check_tells_a_member_what_an_attach_would(daemon: DaemonProcess, member: Other, readable: Path, twin: Path) -> None:
    code = """
from wcache.loader.check import check
found = [check(path, settings) for path in (GOOD, TWIN)]
channel = Channel.connect(settings.socket_path, daemon_uid=0)
resident = len(channel.call(StatusRequest()).residencies)
tell(decisions=[one.decision for one in found], price=found[1].cost.would_read_bytes, resident=resident)
"""
    told, _ = member.run(f"GOOD, TWIN = {str(readable)!r}, {str(twin)!r}\n" + code)
    assert told["decisions"] == ["hit", "fallback"]
    assert told["price"] in (None, sum(file.stat().st_size for file in twin.glob("*.safetensors")))
    assert told["resident"] == 0


def test_one_user_cannot_take_every_connection(daemon: DaemonProcess, member: Other) -> None:
    code = f"""
held, refused = [], ""
for _ in range({CONNECTIONS_MAX_OF_ONE} + 1):
    try:
        held.append(Channel.connect(settings.socket_path, daemon_uid=0))
    except DaemonUnreachable as error:
        refused = error.reason
tell(held=len(held), refused=refused)
"""
    told, _ = member.run(code)
    assert told == {"held": CONNECTIONS_MAX_OF_ONE, "refused": "peer_not_allowed"}
    assert daemon.status().state == "ready"
    wait_until(lambda: any("connections already" in why for why in refusals(daemon)))


def test_a_members_words_about_its_attach_are_few(daemon: DaemonProcess, member: Other, readable: Path) -> None:
    code = f"""
found = loader_attach({str(readable)!r}, settings=settings)
refused = 0
for number in range({OBSERVED_MAX} + 4):
    event = FallbackFailed(attach=found.attach, code="x", message="y", idle_bytes=0)
    try:
        found._session.observe(event, f"{{number:032x}}")
    except RequestRefused:
        refused += 1
tell(refused=refused)
"""
    told, _ = member.run(code)
    assert told == {"refused": 4}


def test_a_user_outside_of_the_group_is_kept_out_by_the_kernel(daemon: DaemonProcess, public: Path, readable: Path) -> None:
    stranger = Other(public / "stranger", daemon.settings.runtime_dir, (), uid=OTHER_UID + 1, daemon_uid=0)
    found, log = attach_as(stranger, readable)
    assert (found["hit"], found["reason"], found["seq"]) == (False, "peer_not_allowed", None)
    assert "Not recorded in the ledger" in log
    assert (stranger.home / "state" / "journal.jsonl").stat().st_size


def test_root_without_the_group_is_refused_by_the_server_and_on_record(public: Path) -> None:
    """Root gets past every permission; the server knows its groups from the kernel. With the group it is a member like any other."""
    daemon = DaemonProcess(
        prefix=as_user(OTHER_UID, SHARED_GID),
        environ={"WCACHE_SHARED_GROUP": str(SHARED_GID)},
    )
    try:
        os.chown(daemon.base, OTHER_UID, OTHER_UID)
        daemon.base.chmod(0o755)
        daemon.start()
        code = "try:\n    Channel.connect(settings.socket_path, daemon_uid=DAEMON); tell(ok=True)\n"
        code += "except DaemonUnreachable as error:\n    tell(ok=False, reason=error.reason)\n"
        found = {}
        for name, groups, uid in (("root", (), 0), ("member", (SHARED_GID,), OTHER_UID + 1), ("root in it", (SHARED_GID,), 0)):
            user = Other(public / f"home {uid}", daemon.settings.runtime_dir, groups, uid=uid)
            found[name] = user.run(f"DAEMON = {OTHER_UID}\n" + code)[0]
        assert found == {"root": {"ok": False, "reason": "peer_not_allowed"}, "member": {"ok": True}, "root in it": {"ok": True}}
        wait_until(lambda: refusals(daemon))
        assert refusals(daemon) == [f"this daemon serves uid {OTHER_UID} and group {SHARED_GID}, of which the peer is no member"]
    finally:
        daemon.cleanup()


def test_a_member_trusts_only_the_daemon_of_the_user_that_it_was_told(daemon: DaemonProcess, public: Path, readable: Path) -> None:
    """Whoever can write into the directory could plant a daemon of their own: the client looks at its uid first."""
    for uid in (None, 12345):
        doubter = Other(public / "home", daemon.settings.runtime_dir, (SHARED_GID,), daemon_uid=uid)
        found, _ = attach_as(doubter, readable)
        assert (found["hit"], found["reason"]) == (False, "peer_not_allowed")
        assert "the daemon runs as uid 0" in str(found["detail"])


def test_without_the_daemon_a_member_reads_the_disk_and_says_that_it_is_not_on_record(public: Path, readable: Path) -> None:
    user = Other(public / "lonely", public / "nowhere", (SHARED_GID,), daemon_uid=0)
    found, log = attach_as(user, readable)
    assert (found["hit"], found["reason"], found["seq"]) == (False, "daemon_absent", None)
    assert "it is uid 0's" in log
    assert not (user.home / "state" / "ledger.sqlite").exists()


def test_a_members_lease_outlives_the_server(daemon: DaemonProcess, member: Other, readable: Path) -> None:
    """The next server knows it for another user's, who still may not do what is the daemon's user's alone."""
    code = f"""
found = loader_attach({str(readable)!r}, settings=settings)
found.report_mapped(1.0)
found.settle()  # answered after the server has taken the acknowledgement: from there the vault has the lease
tell(attach=found.attach)
input()
try:
    found._session._channel.call(ShutdownRequest(force=True))
    tell(answer="done")
except WcacheError as error:
    tell(answer=error.detail)
"""
    process = member.start(code)
    assert process.stdin is not None and process.stdout is not None
    try:
        attach = json.loads(process.stdout.readline())["attach"]
        before = daemon.pid
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: daemon.pid not in (0, before))
        wait_until(lambda: _answers(daemon))
        assert [lease.attach for lease in daemon.status().leases] == [attach]
        out, err = process.communicate("\n", timeout=60)
        assert json.loads(out.splitlines()[-1]) == {"answer": "not_owner"}, err
        wait_until(lambda: not daemon.status().leases)
    finally:
        process.kill()


def _answers(daemon: DaemonProcess) -> bool:
    try:
        return daemon.status().state == "ready"
    except WcacheError:
        return False


def test_the_command_shares_and_a_private_start_in_that_place_is_refused(short_path: Path, disk_path: Path) -> None:
    places = ("--runtime-dir", str(short_path / "run"), "--state-dir", str(disk_path / "state"))

    def wcache(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("WCACHE_")}
        return subprocess.run(
            [sys.executable, "-m", "wcache.cli", *arguments, *places], env=env, capture_output=True, text=True, check=False
        )

    assert wcache("daemon", "start", "--shared", str(SHARED_GID)).returncode == 0
    try:
        found = (short_path / "run").stat(), (short_path / "run" / "wcache.sock").stat()
        assert [(stat.S_IMODE(one.st_mode), one.st_gid) for one in found] == [(0o750, SHARED_GID), (0o660, SHARED_GID)]
    finally:
        assert wcache("daemon", "stop").returncode == 0
    refused = wcache("daemon", "start")
    assert (refused.returncode, "chmod 700" in refused.stderr) == (7, True), refused.stderr


def test_the_daemons_user_is_served_as_ever(daemon: DaemonProcess, readable: Path, secret: Path) -> None:
    from support.attaching import attach

    for path in (readable, secret):
        found = attach(daemon.settings.socket_path, path)
        assert found.decided.decision.outcome is Outcome.HIT
        found.close()


def test_the_ledger_is_written_by_the_daemons_user_alone(short_path: Path) -> None:
    """Trust above all: a grant of a member's would vouch for nothing."""
    places = ("--runtime-dir", str(short_path / "run"), "--state-dir", str(short_path / "state"))
    for words in (("trust", "grant", "/", "--reason", "r"), ("trust", "revoke", "g-1"), ("fingerprint", "/"), ("audit", "prove")):
        done = subprocess.run(
            [sys.executable, "-m", "wcache.cli", *words, *places],
            env={**os.environ, "WCACHE_DAEMON_UID": "12345"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "uid 12345's" in done.stderr) == (7, True), done.stderr
    assert not (short_path / "state").exists()


def test_a_group_that_keeps_nobody_out_is_no_group() -> None:
    overflow = Path("/proc/sys/kernel/overflowgid").read_text().strip()
    for group, says in ((overflow, "every unknown group"), ("no-such-group", "there is no group")):
        done = subprocess.run(
            [sys.executable, "-m", "wcache.cli", "daemon", "start", "--shared", group, "--runtime-dir", "/nonexistent/wc"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, says in done.stderr) == (2, True), done.stderr
