"""Shares of a key: what one tenant takes, others still have."""

import http.client

from conformance.attacks.case import attack
from conformance.attacks.peer import Peer, query_text
from conformance.attacks.world import together


def many(world, count, request):
    """Requests of Mallory on 16 connections until one is refused; how many were granted."""

    def some(thread):
        connection = http.client.HTTPConnection("127.0.0.1", world.node.port, timeout=20)
        granted = 0
        peer = Peer(world.node, world.mallory.key)
        for n in range(thread, count, 16):
            method, path, query = request(n)
            target = path + (f"?{query_text(query)}" if query else "")
            connection.request(method, target, headers=peer.signed(method, path, query) | {"content-length": "0"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                break
            granted += 1
        connection.close()
        return granted

    return sum(made for made in together(16, some) if isinstance(made, int))


@attack("15", seconds=90)
def buckets(world):
    """A tenant makes buckets until it is refused."""
    with world.watched():
        granted = many(world, 10_100, lambda n: ("PUT", f"/mallory-{n}", []))
    assert granted < 10_000, f"one key made {granted} buckets"
    world.other.make_bucket("of-another")


@attack("15", seconds=90)
def uploads(world):
    """A tenant begins uploads until it is refused."""
    with world.watched():
        granted = many(world, 10_100, lambda n: ("POST", "/mallory/k", [("uploads", "")]))
    assert granted < 10_000, f"one key began {granted} uploads"
    world.other.make_bucket("of-another")
    answer = world.other.send("POST", "of-another", "k", [("uploads", "")])
    assert answer.status == 200, f"another key cannot begin an upload: {answer.status} {answer.code}"


@attack("15")
def bytes_of_a_key(world):
    """A key whose file of rights names a bound for its bytes is held to it, by PUTs and by parts, and frees them again."""
    from conformance.attacks.node import GRANTS, MALLORY

    world.node.set_grants({**GRANTS, MALLORY: GRANTS[MALLORY] + "bytes = 1_000_000\n"})
    piece = b"x" * 300_000
    statuses = [world.mallory.send("PUT", "mallory", f"k{n}", body=piece).status for n in range(5)]
    assert statuses.count(200) in (2, 3), statuses
    world.mallory.send("DELETE", "mallory", "k0")
    assert world.mallory.send("PUT", "mallory", "again", body=piece).status == 200
