"""A board that lies, and members that post contradictions: noticed, and nothing is revealed."""

import shutil

import numpy as np
import pytest
from federation import Crash, double, make_cohort, posts_of, run_scripted, split
from keyed_sites import byte_p_value

from percdl.exceptions import FederationError
from percdl.federated.board import Board, WaitedError
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.messages import Post, read_post, write_post

RUN = "run"


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


def prepare(cohort, folder, model=None):
    """Return three sites, and the manifest of a short run."""
    sites = make_sites(split(cohort), folder)
    model = model or double("PopCDL", population_rounds=1, personal_rounds=1)
    return sites, FederatedPerCDL(model).propose(RUN, sites)


def test_all_sites_have_the_same_dictionary_bit_for_bit(cohort, tmp_path):
    models, errors, board = run_scripted(*prepare(cohort, tmp_path))
    assert not errors
    dictionaries = [model.dictionary_ for model in models.values()]
    assert all(np.array_equal(dictionaries[0], other) for other in dictionaries)
    assert board.is_over
    kinds = [post.head.kind for site, post in posts_of(board) if site == "nord"]
    assert kinds == ["join", *["population"] * 3, "finish"]


def test_nothing_but_masked_sums_is_posted(cohort, tmp_path):
    """No dictionary, no roster, no question: there is nothing that a server could choose."""
    _, _, board = run_scripted(*prepare(cohort, tmp_path, double()))
    for site, post in posts_of(board):
        if post.head.kind == "join":
            assert set(post.head.facts) == {"holdings", "public", "dataset"}
        else:
            assert not post.head.facts, (site, post.head.kind)
    for site in board.manifest.sites:
        sent = [post.numbers for who, post in posts_of(board) if who == site]
        assert byte_p_value(np.frombuffer(b"".join(sent), np.uint64)) > 1e-6
    everything = b"".join(c for slot in range(9) for c in (board.look(slot) or {}).values())
    assert not any(subject.encode() in everything for subject in ("Patient", "subject"))


def first_change(errors):
    """Return the message of the site that noticed first."""
    return next(str(e) for e in errors.values() if not isinstance(e, WaitedError))


def change(posts, site, how, slot_now):
    content = posts[site]
    if how == "bits":
        return {**posts, site: content[:-1] + bytes([content[-1] ^ 1])}
    if how == "left out":
        return {name: post for name, post in posts.items() if name != site}
    return {**posts, site: posts[{"nord": "sud", "sud": "nord", "ouest": "nord"}[site]]}


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("bits", "signature of site nord in run run is not valid"),
        ("left out", "the members are nord, ouest, sud"),
        ("swapped", "handed out a post of site sud"),
    ],
)
def test_a_board_that_changes_posts_is_found_out(cohort, tmp_path, how, why):
    def on_read(site, slot, posts):
        return change(posts, "nord", how, slot) if (site, slot) == ("sud", 1) else posts

    _, errors, _ = run_scripted(*prepare(cohort, tmp_path), on_read=on_read)
    assert why in first_change(errors)


def test_a_board_that_hands_out_old_posts_is_found_out(cohort, tmp_path):
    seen = {}

    def on_read(site, slot, posts):
        seen[slot] = posts
        return seen[1] if (site, slot) == ("sud", 2) else posts

    _, errors, _ = run_scripted(*prepare(cohort, tmp_path), on_read=on_read)
    assert "slot 1 as that of site nord in slot 2" in first_change(errors)


def test_two_stories_are_noticed_in_the_next_slot(cohort, tmp_path):
    """A member in league with the board signs two posts of one slot; others see one each."""
    sites, manifest = prepare(cohort, tmp_path)
    liar = sites[1].identity

    def on_read(site, slot, posts):
        if (site, slot) != ("sud", 1):
            return posts
        head, numbers = read_post(posts["ouest"], manifest.verify)
        other = (np.frombuffer(numbers, np.uint64) + np.uint64(2**40)).tobytes()
        return {**posts, "ouest": write_post(Post(head, other), liar.sign)}

    _, errors, _ = run_scripted(sites, manifest, on_read=on_read)
    assert "another history of run run" in first_change(errors)
    assert "different messages of ouest, signed twice" in first_change(errors)


def test_a_second_post_in_a_slot_is_refused(cohort, tmp_path):
    """Attack 3: one sum per slot, over all members; there is no other roster to ask for."""
    sites, manifest = prepare(cohort, tmp_path)
    _, _, board = run_scripted(sites, manifest)
    head, numbers = next(post for site, post in posts_of(board, "population") if site == "nord")
    other = write_post(Post(head, numbers[::-1]), sites[0].identity.sign)
    with pytest.raises(FederationError, match="Site nord has posted another message in slot 1"):
        board.post(other)
    board.post(write_post(Post(head, numbers), sites[0].identity.sign))  # the same is no harm


def test_a_stranger_cannot_post(cohort, tmp_path):
    sites, manifest = prepare(cohort, tmp_path)
    _, _, board = run_scripted(sites, manifest)
    (_, post), *_ = posts_of(board, "join")
    stranger = make_sites({"nord": cohort[:1]}, tmp_path / "else")[0].identity
    with pytest.raises(FederationError, match="signature of site nord"):
        board.post(write_post(post, stranger.sign))
    foreign = Post(post.head.model_copy(update={"site": "est"}), b"")
    with pytest.raises(FederationError, match="'est' is not a member"):
        board.post(write_post(foreign, stranger.sign))


@pytest.mark.parametrize("junk", [b"", b"x" * 63, b"x" * 200, b"\0" * 64 + b"{}\n", b"[]" * 99])
def test_junk_is_refused(cohort, tmp_path, junk):
    _, manifest = prepare(cohort, tmp_path)
    with pytest.raises(FederationError, match="cannot be read"):
        Board(manifest).post(junk)


@pytest.fixture(scope="module")
def whole(cohort, tmp_path_factory):
    model = double(population_rounds=1, personal_rounds=1)
    return run_scripted(*prepare(cohort, tmp_path_factory.mktemp("whole"), model))[0]


@pytest.mark.parametrize("slot", range(5))
@pytest.mark.parametrize("when", ["post", "read"])
def test_a_run_goes_on_after_a_crash_at_any_place(cohort, whole, tmp_path, slot, when):
    """Attack 11: to the same end, bit for bit."""
    model = double(population_rounds=1, personal_rounds=1)
    crashed = []

    def on_post(site, content):
        now = read_post(content, manifest.verify).head.slot
        if when == "post" and (site, now) == ("sud", slot) and not crashed:
            crashed.append(1)
            raise Crash
        return content

    def on_read(site, now, posts):
        if when == "read" and (site, now) == ("sud", slot) and not crashed:
            crashed.append(1)
            raise Crash
        return posts

    sites, manifest = prepare(cohort, tmp_path, model)
    _, errors, _ = run_scripted(sites, manifest, on_post, on_read, tmp_path / "board")
    assert isinstance(errors["sud"], Crash)
    sites = make_sites(split(cohort), tmp_path)
    models, errors, _ = run_scripted(sites, manifest, folder=tmp_path / "board")
    assert not errors
    for site, model in models.items():
        np.testing.assert_array_equal(model.dictionary_, whole[site].dictionary_)
        np.testing.assert_array_equal(model.params_, whole[site].params_)


@pytest.mark.parametrize("last", [0, 1, None])
def test_a_run_whose_folder_is_gone_is_not_joined_again(cohort, tmp_path, last):
    """After a crash or at the end: the ledger knows that its questions were answered."""

    def on_read(site, slot, posts):
        if slot == last:
            raise Crash
        return posts

    sites, manifest = prepare(cohort, tmp_path)
    run_scripted(sites, manifest, on_read=on_read)
    shutil.rmtree(tmp_path / "sud" / RUN)
    again = make_sites(split(cohort), tmp_path)[2]
    board = Board(manifest)  # an honest one would refuse another first post
    board.end("nobody else is there")
    with pytest.raises(FederationError, match="answer the same questions again"):
        again.take_part(manifest, board)
    assert board.look(0) is None
    assert board.missing(0) == manifest.sites


def test_recordings_that_change_during_a_run(cohort, tmp_path):
    def on_read(site, slot, posts):
        if slot == 2:
            raise Crash
        return posts

    sites, manifest = prepare(cohort, tmp_path)
    run_scripted(sites, manifest, on_read=on_read, folder=tmp_path / "board")
    parts = split(cohort)
    changed = make_sites({**parts, "sud": parts["sud"][:5]}, tmp_path)
    _, errors, _ = run_scripted(changed, manifest, folder=tmp_path / "board")
    assert "had other recordings then" in str(errors["sud"])


def test_a_site_that_refuses_tells_the_others_why(cohort, tmp_path, monkeypatch):
    from percdl.federated.layout import Layout

    before = Layout.pack
    monkeypatch.setattr(Layout, "pack", lambda self, sums: before(self, sums) * np.nan)
    _, errors, board = run_scripted(*prepare(cohort, tmp_path))
    assert "The sum `objective` is not finite" in first_change(errors)
    assert board.is_over


def test_errors_that_name_subjects_stay_at_the_site(cohort, tmp_path, monkeypatch):
    from percdl.exceptions import InvalidRecordingError
    from percdl.federated.rounds import OwnRounds

    def fail(self, kind, broadcast):
        raise InvalidRecordingError("The recording of Mr Smith is odd.")

    monkeypatch.setattr(OwnRounds, "run_round", fail)
    _, _, board = run_scripted(*prepare(cohort, tmp_path))
    refusals = [str(post.head.facts["why"]) for _, post in posts_of_any(board)]
    assert any("InvalidRecordingError" in why for why in refusals)
    assert not any("Smith" in why for why in refusals)
    # A site that first hears of another's refusal has nothing to log.
    logs = [path.read_text() for path in tmp_path.glob(f"*/{RUN}/log.jsonl")]
    assert any("Smith" in log for log in logs)


def posts_of_any(board):
    """Return all posts, of incomplete slots too."""
    contents = [(s, c) for posts in board._posts.values() for s, c in posts.items()]
    posts = [(site, read_post(content, board.manifest.verify)) for site, content in contents]
    return [(site, post) for site, post in posts if post.head.kind == "refusal"]
